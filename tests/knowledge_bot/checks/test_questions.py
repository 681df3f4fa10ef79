"""What must hold of an answer, and what is said where it does not."""

import unicodedata

import pytest
from pydantic import ValidationError

from knowledge_bot import Message
from knowledge_bot._answers import Answer
from knowledge_bot.checks import Question
from knowledge_bot.testing import NOT_FOUND

HOURS = "We open on Saturday at 9:30.\n\nSources: hours.md, Prices, fees and fines.md"


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        ({"contains": "9:30"}, ""),
        ({"contains": ["9:30", "SATURDAY"]}, ""),
        ({"contains": ["9:30", "ten", "noon"]}, 'does not contain "ten" and "noon"'),
        ({"contains": "SATURDAY", "case_sensitive": True}, 'does not contain "SATURDAY"'),
        ({"contains_any": ["ten", "9:30"]}, ""),
        ({"contains_any": ["ten", "noon"]}, 'contains none of "ten", "noon"'),
        ({"contains_any": "ten"}, 'contains no "ten"'),
        ({"excludes": "Sunday"}, ""),
        ({"excludes": ["Sunday", "saturday"]}, 'contains "saturday"'),
        ({"matches": r"\b\d{1,2}:\d\d\b"}, ""),
        ({"matches": "saturday at"}, ""),
        ({"matches": "saturday at", "case_sensitive": True}, "does not match /saturday at/"),
        ({"equals": "we open on saturday at 9:30."}, ""),
        ({"equals": HOURS}, ""),
        ({"equals": "We open on Saturday"}, 'is not "We open on Saturday"'),
        ({"sources": "hours.md"}, ""),
        ({"sources": ["HOURS.md", "Prices, fees and fines.md"]}, ""),
        (
            {"sources": ["hours.md", "fines.md"]},
            'does not name "fines.md" as a source; it names hours.md, Prices, fees and fines.md',
        ),
        ({"refuses": False}, ""),
        ({"refuses": True}, "does not say that nothing was found"),
        (
            {"contains": "ten", "excludes": "9:30", "refuses": True},
            'does not contain "ten"; it contains "9:30"; it does not say that nothing was found',
        ),
    ],
)
def test_all_that_is_given_must_hold(expected, reason):
    assert Question(ask="When?", **expected).unmet(HOURS) == reason


ALIKE = [
    ("The caf\u00e9 costs.", "cafe\u0301"),
    ("Die STRASSE ist lang.", "Stra\u00dfe"),
    ("It costs 36\u00a0euros.", "36 euros"),
    ("It costs 36\u202feuros.", "36\u00a0euros"),
    ("\u00c5ngstr\u00f6m", "\u212bngstro\u0308m"),
    (
        "\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2",
        "\u03a3\u0399\u0301\u03a3\u03a5\u03a6\u039f\u03a3",
    ),
]


@pytest.mark.parametrize(("one", "other"), [*ALIKE, *(pair[::-1] for pair in ALIKE[-1:])])
def test_what_reads_alike_is_alike(one, other):
    text = f"{one}\n\nSources: a, {other}.md, b"
    source = f"{unicodedata.normalize('NFD', other)}.md"
    expected = {"contains": other, "contains_any": other, "matches": other, "sources": source}
    assert Question(ask="?", **expected).unmet(text) == ""
    assert Question(ask="?", equals=one).unmet(unicodedata.normalize("NFD", one)) == ""
    assert Question(ask="?", excludes=other).unmet(text) != ""
    assert Question(ask="?", contains="a b").unmet("a\nb") != ""


@pytest.mark.parametrize(
    ("text", "refuses"),
    [
        (NOT_FOUND, True),
        ("I'm sorry, but I couldn't find anything about that.", True),
        ("I don't know.", True),
        ("I don\N{RIGHT SINGLE QUOTATION MARK}t have enough information to say.", True),
        ("I am unable to answer that.", True),
        ("There is no information about France in the handbook.", True),
        ("We cannot find this in the documents.", True),
        ("If you cannot find your key, ask at the desk.", False),
        ("We don't have a lift.", False),
        ("At 9:30.", False),
        ("", False),
        ("x" * 300 + " I do not know.", False),
        ("You can find it on hook 12. I know.", False),
    ],
)
def test_a_refusal_is_known_by_its_words(text, refuses):
    assert (Question(ask="?", refuses=True).unmet(Answer(text)) == "") is refuses
    assert (Question(ask="?", refuses=False).unmet(Answer(text)) == "") is not refuses


def test_what_a_service_says_as_data_is_believed():
    fields = {"id": "msg_1", "conversation_id": "conv_1", "created_at": 1}
    sources = [{"id": "src_1", "name": "a, b.md", "url": None}, {"id": "src_2"}, "c.md"]
    named = Answer.of(Message(answer="At nine.", sources=sources, found=True, **fields))
    assert named.listed == named.source_names == ("a, b.md", "c.md")
    assert Question(ask="?", sources=["A, b.md", "c.md"], refuses=False).unmet(named) == ""
    assert Question(ask="?", sources="b.md").unmet(named).startswith('does not name "b.md"')
    lost = Answer.of(Message(answer="Nichts dazu gefunden.", found=False, **fields))
    assert Question(ask="?", refuses=True).unmet(lost) == ""
    odd = Answer.of(Message(answer=HOURS, sources="hours.md", found="yes", **fields))
    assert (odd.listed, odd.found, odd.names("hours.md")) == (None, None, True)
    assert odd.source_names == ("hours.md", "Prices", "fees and fines.md")
    none = Answer.of(Message(answer=HOURS, sources=[], **fields))
    assert none.source_names == Answer("At nine.").source_names == ()
    assert Question(ask="?", sources="hours.md").unmet(none) == (
        'does not name "hours.md" as a source; it names none'
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ask": "When?"}, "nothing is expected of the answer"),
        ({"ask": "When?", "contains": []}, "nothing is expected of the answer"),
        ({"ask": " ", "contains": "x"}, "ask: is empty"),
        ({"ask": "When?", "contains": ""}, "at least 1 character"),
        ({"ask": "When?", "contains": 9.3}, "valid tuple"),
        ({"ask": "When?", "matches": "(a"}, "'(a' is not a regular expression: missing )"),
        ({"ask": "When?", "matches": "(" * 5000 + ")" * 5000}, "nested too deeply"),
        ({"ask": "When?", "contians": "x"}, "there are ask, after, contains"),
        ({"contains": "x"}, "Field required"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(fields, message):
    with pytest.raises(ValidationError) as caught:
        Question(**fields)
    assert message in str(caught.value)


def test_a_question_is_a_value():
    one = Question(ask="When?", contains="9:30", id="hours")
    assert one == Question(ask="When?", contains=["9:30"], id="hours")
    assert hash(one) == hash(Question(ask="When?", contains=["9:30"], id="hours"))
    assert Question.model_validate_json(one.model_dump_json()) == one
    with pytest.raises(ValidationError):
        one.ask = "Who?"


def test_an_id_changes_with_what_is_expected_and_with_nothing_else():
    given = Question(ask="When?", contains="9")
    assert given.id == Question(ask="When?", contains=["9"]).id
    others = ({"contains": "c"}, {"contains": "9", "refuses": False}, {"excludes": "9"})
    assert given.id not in {Question(ask="When?", **other).id for other in others}
