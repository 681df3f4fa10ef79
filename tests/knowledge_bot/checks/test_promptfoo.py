"""Files of promptfoo: what is read of them gets promptfoo's own verdicts."""

import json

import pytest
import regex

from knowledge_bot import ConfigurationError
from knowledge_bot._answers import Answer
from knowledge_bot.checks import Verdict, check, load_questions
from knowledge_bot.checks._promptfoo import python_expression
from promptfoo_verdicts import VERDICTS, configuration

KEPT = json.loads(VERDICTS.read_text(encoding="utf-8"))

REFUSED = (r"(?<twice>\w)\k<twice>", "[^]", "[]", "{y}", "x{,3}", r"\p{L}", r"\cI", r"\e")

USUAL = """\
prompts:
  - "{{question}}"
providers: [openai:chat:bot_guide]
defaultTest:
  assert:
    - type: not-icontains
      value: sorry
tests:
  - vars: {question: "When do you open?"}
    assert:
      - type: contains
        value: 9:30
      - type: contains-any
        value: 'Saturday, "Sunday, too"'
  - description: by list
    vars:
      question: ["Who leads it?", Who comes]
      name: Mia
    assert:
      - type: icontains
        value: "{{ name }}"
"""


ASSERTING = "prompts: ['{{q}}']\ntests:\n  - vars: {q: when}\n    assert:\n      - "


def test_metadata_say_that_an_answer_is_fresh(written):
    text = """
defaultTest: {metadata: {fresh: true, team: hours}}
tests:
  - vars: {prompt: Who}
  - vars: {prompt: When}
    metadata: {fresh: false}
    assert: [{type: contains, value: nine}]
"""
    who, when = load_questions(written("p.yaml", text))
    assert (who.fresh, who.expectations, when.fresh) == (True, (), False)
    with pytest.raises(ConfigurationError, match=r"line 2: fresh"):
        load_questions(written("p.yaml", text.replace("fresh: true", "fresh: often")))


def is_refused(assertion):
    return assertion["type"].endswith("regex") and assertion["value"] in REFUSED


CASES = [one for one in KEPT["cases"] if not any(map(is_refused, one["assert"]))]


@pytest.fixture
def judged(written):
    return load_questions(written("cases.json", json.dumps(configuration(CASES))))


def test_every_assertion_holds_where_promptfoo_says_so(judged):
    assert len(CASES) > 170
    assert 60 < sum(one["passed"] for one in CASES) < 140
    differing = [
        (case["answer"], case["assert"][number], expected)
        for question, case in zip(judged, CASES, strict=True)
        for number, expected in enumerate(case["each"])
        if (not question.expectations[number].unmet(Answer(case["answer"]))) is not expected
    ]
    assert differing == []


def test_every_case_passes_where_promptfoo_says_so_when_it_is_asked_for_real(
    judged, serve, client_of
):
    echo = serve(bot_echo=lambda asked: asked)
    report = check(client_of(echo), "bot_echo", judged, concurrency=8)
    assert [one.passed for one in report.results] == [one["passed"] for one in CASES]


@pytest.mark.parametrize("expression", [one for one in KEPT["expressions"] if one not in REFUSED])
def test_an_expression_is_found_where_javascript_finds_it(expression):
    found = [
        regex.search(python_expression(expression), text) is not None for text in KEPT["texts"]
    ]
    assert "".join(str(int(one)) for one in found) == KEPT["expressions"][expression]


@pytest.mark.parametrize("expression", REFUSED)
def test_what_python_reads_as_something_else_is_refused(expression):
    with pytest.raises(ValueError, match="JavaScript's alone"):
        python_expression(expression)


def test_the_usual_form_is_read(written):
    first, second, third = load_questions(written("promptfooconfig.yaml", USUAL))
    asked = [first.ask, second.ask, third.ask]
    assert asked == ["When do you open?", "Who leads it?", "Who comes"]
    assert [(one.kind, one.values, one.negated) for one in first.expectations] == [
        ("contains_all", ("sorry",), True),
        ("contains_all", ("9:30",), False),
        ("contains_any", ("Saturday", "Sunday, too"), False),
    ]
    assert second.expectations[1].values == ("Mia",)
    assert not second.expectations[1].case_sensitive


def test_json_and_anchors_are_read(written):
    (by_json,) = load_questions(
        written(
            "c.json",
            '{\n\t"prompts": ["{{q}}"],\n\t"tests": [{"vars": {"q": "\\ud83d\\udd27?"},\n'
            '\t\t"assert": [{"type": "equals", "value": "x"}]}]\n}',
        )
    )
    assert by_json.ask == "🔧?"
    (by_anchor,) = load_questions(
        written(
            "c.yaml",
            "prompts: ['{{q}}']\n"
            "defaultTest: {vars: &all {q: old, x: y}}\n"
            "tests:\n"
            "  - vars: {<<: *all, q: new}\n"
            "    assert: &must\n"
            "      - {type: equals, value: '{{x}}'}\n",
        )
    )
    assert (by_anchor.ask, by_anchor.expectations[0].values) == ("new", ("y",))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("prompts: [a\ntests: b", 2, "is not valid YAML"),
        ("tests: [{vars: {q: Who?}}]", 1, "into quotes"),
        ("- a", 1, "is a mapping of names to values"),
        ("prompts: ['{{q}}']", 1, "there are no 'tests'"),
        ("tests:\n  - file://test.yaml", 2, "names a file"),
        ("tests:\n  - vars: {q: w}\n", 2, "the test has no 'assert'"),
        ("scenarios: []\ntests: []", 1, "'scenarios' is not read here"),
        ("tests: tests.csv", 1, "tests.csv: cannot be read"),
        (
            "tests:\n  - assert: [{type: is-json}]\n    threshold: 1.5\n",
            3,
            "expected a number from 0 to 1",
        ),
        ("prompts: prompts.txt\ntests: []", 1, "'prompts.txt' names a file"),
        ("prompts: ['file://a.j2']\ntests: []", 1, "names a file"),
        ("tests:\n  - vars: {q: {a: b}}\n    assert: [{type: a}]", 2, "expected a list"),
        ("tests:\n  - vars: {a: b, c: d}\n    assert: [{type: equals, value: x}]", 2, "'prompts'"),
        ("tests:\n  - assert: [{type: equals, value: x}]\n    vars: {a: b, a: c}", 3, "twice"),
        (f"evaluateOptions: {{repeat: 3}}\n{USUAL}", 1, "'repeat' of evaluateOptions"),
        (f"commandLineOptions: {{repeat: 2}}\n{USUAL}", 1, "'repeat' of commandLineOptions"),
        (f"description: !!python/object/apply:os.system [ls]\n{USUAL}", 1, "the tag"),
        (f"description: !env HOME\n{USUAL}", 1, "the tag '!env'"),
        *(
            (ASSERTING + one, 5, said)
            for one, said in (
                ("{value: x}", "an assertion has no 'type'"),
                ("{type: contains}", "the assertion 'contains' has no 'value'"),
                ("{type: contains, value: [a, b]}", "expected a text"),
                ("{type: contains, value: ''}", "is empty"),
                ("{type: contains-all, value: []}", "is empty"),
                ("{type: contains, value: '{{nobody}}'}", "{{nobody}} is not a var of the test"),
                ("{type: regex, value: '(a'}", "'(a' is not a regular expression"),
                ("{type: contains, value: x, weight: 0}", "without weight"),
                ("{type: latency}", "the assertion 'latency' has no 'threshold'"),
            )
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(written, text, line, message):
    file = written("promptfooconfig.yaml", text)
    with pytest.raises(ConfigurationError) as caught:
        load_questions(file)
    assert str(caught.value).startswith(f"{file}, line {line}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("assert: [{type: llm-rubric, value: x}]", ["the assertion 'llm-rubric'"]),
        (
            "assert: [{type: javascript, value: x}, {type: contains, value: a}, {type: similar}]",
            ["the assertion 'javascript'", "the assertion 'similar'"],
        ),
        ("assert: [{type: not-similar, value: x}]", ["the assertion 'not-similar'"]),
        ("assert: [{type: contains, value: x, threshold: 1}]", ["'threshold' of the assertion"]),
        ("assert: [{type: contains, value: file://x}]", ["names a file"]),
        ("assert: [{type: contains, value: '{{q | upper}}'}]", ["more than a var's name"]),
        ("assert: [{type: contains, value: '{% if q %}'}]", ["a template with {%"]),
        ("assert: [{type: is-json, value: {type: object}}]", ["a value of the assertion"]),
        ("assert: [{type: regex, value: '(?i)x'}]", ["Python's alone"]),
        ("options: {transform: x}", ["the option 'transform'"]),
        ("assertScoringFunction: f.js", ["'assertScoringFunction' of a test"]),
    ],
)
def test_a_test_that_is_not_read_whole_is_not_asked_and_says_all_of_why(
    written, serve, client_of, test, said
):
    fine = "  - vars: {q: 'Who?'}\n    assert: [{type: contains, value: Mia}]\n"
    text = f"prompts: ['{{{{q}}}}']\ntests:\n{fine}  - vars: {{q: 'When?'}}\n    {test}\n"
    questions = load_questions(written("p.yaml", text))
    service = serve(bot_echo=lambda asked: "Mia")
    report = check(client_of(service), "bot_echo", questions)
    one, other = report.results
    assert one.passed
    assert (other.verdict, other.attempts) == (Verdict.UNASKED, 0)
    assert all(each in other.reason for each in said)
    assert "(line 5)" in other.reason or "(line 6)" in other.reason
    assert not report.ok


@pytest.mark.parametrize(
    ("assertion", "answer", "seconds", "holds"),
    [
        ("{type: starts-with, value: We}", "We open.", 0, True),
        ("{type: starts-with, value: we}", "We open.", 0, False),
        ("{type: not-starts-with, value: We}", "We open.", 0, False),
        ("{type: is-json}", ' {"a": [1]} ', 0, True),
        ("{type: is-json}", "NaN", 0, False),
        ("{type: is-json}", "At nine.", 0, False),
        ("{type: not-is-json}", "At nine.", 0, True),
        ("{type: latency, threshold: 500}", "x", 0.5, True),
        ("{type: latency, threshold: 500}", "x", 0.51, False),
        ("{type: levenshtein, value: kitten, threshold: 3}", "sitting", 0, True),
        ("{type: levenshtein, value: kitten, threshold: 2}", "sitting", 0, False),
        ("{type: levenshtein, value: abcdef}", "a", 0, True),
        ("{type: levenshtein, value: abcdefg}", "a", 0, False),
        ("{type: is-refusal}", "I could not find that in my sources.", 0, True),
        ("{type: not-is-refusal}", "At nine.", 0, True),
    ],
)
def test_an_assertion_holds_where_it_should(written, assertion, answer, seconds, holds):
    text = f"prompts: ['{{{{q}}}}']\ntests:\n  - vars: {{q: w}}\n    assert: [{assertion}]\n"
    (question,) = load_questions(written("p.yaml", text))
    assert (question.unmet(Answer(answer), seconds) == "") is holds


@pytest.mark.parametrize(
    ("threshold", "answer", "passes"),
    [(0.5, "a", True), (0.8, "a", False), (0.75, "b", True), (0.76, "b", False), (1, "ab", True)],
)
def test_a_threshold_is_a_share_of_the_weights(written, threshold, answer, passes):
    text = (
        f"prompts: ['{{{{q}}}}']\ntests:\n  - vars: {{q: w}}\n    threshold: {threshold}\n"
        "    assert:\n      - {type: contains, value: a}\n      - {type: contains, value: b}\n"
    )
    text = text if "b" not in answer else text.replace("value: b", "value: b, weight: 3")
    (question,) = load_questions(written("p.yaml", text))
    assert (question.unmet(answer) == "") is passes


CSV = """\
question,place,__expected,__expected2,__threshold,__description
When do you open?,desk,icontains:Nine,not-contains: ten,,first
"Who, then?",desk,Mia,,0.5,second
How far?,desk,levenshtein(2): near,"contains-any: a, ""b, c"" ",,
Why?,desk,llm-rubric: is kind,,,
"""


@pytest.mark.parametrize("text", ["file://tests.csv", "tests.csv", None])
def test_tests_stand_in_a_table_as_well(written, text):
    file = written("tests.csv", CSV if text else CSV.replace("question,", "prompt,"))
    if text:
        file = written("p.yaml", f"prompts: ['{{{{question}}}}']\ntests: {text}\n")
    first, second, third, fourth = load_questions(file)
    asked = [one.ask for one in (first, second, third)]
    assert asked == ["When do you open?", "Who, then?", "How far?"]
    assert [(one.kind, one.values, one.negated) for one in first.expectations] == [
        ("contains_all", ("Nine",), False),
        ("contains_all", ("ten",), True),
    ]
    assert (second.expectations[0].kind, second.threshold) == ("equals", 0.5)
    assert [(one.limit, one.values) for one in third.expectations] == [
        (2, ("near",)),
        (None, ("a", "b, c")),
    ]
    assert "llm-rubric" in fourth.unread


def test_a_row_with_too_few_columns_is_named(written):
    with pytest.raises(ConfigurationError, match=r"tests\.csv, line 2"):
        load_questions(written("tests.csv", "prompt,__expected\nWho?\n"))


def test_a_mapping_that_is_merged_into_itself_ends(written):
    with pytest.raises(ConfigurationError, match="holds itself"):
        load_questions(written("p.yaml", "a: &a\n  <<: *a\ntests: []\n<<: *a\n"))


def test_vars_that_multiply_without_end_are_refused(written, monkeypatch):
    monkeypatch.setattr("knowledge_bot.checks._promptfoo._MOST", 1000)
    many = ", ".join(map(str, range(40)))
    text = (
        "prompts: ['{{a}} {{b}}']\ntests:\n"
        f"  - vars: {{a: [{many}], b: [{many}]}}\n    assert: [{{type: contains, value: x}}]\n"
    )
    with pytest.raises(ConfigurationError, match="more than 1,000 questions"):
        load_questions(written("p.yaml", text))


def test_tests_that_are_alike_are_several(written):
    text = "tests:\n" + "  - {vars: {q: a, z: %d}, assert: [{type: equals, value: b}]}\n" * 2
    one, two = load_questions(written("q.yaml", f"prompts: ['{{{{q}}}}']\n{text % (1, 2)}"))
    assert (one.ask, two.ask) == ("a", "a")
    assert two.id == f"{one.id}-2"


@pytest.mark.timeout(20)
def test_mappings_that_merge_mappings_are_each_read_once(written):
    lines = ["tests:", "  - &m0 {vars: {question: a}, assert: [{type: equals, value: b}]}"]
    lines += [f"  - &m{n}\n    <<: [*m{n - 1}, *m{n - 1}]" for n in range(1, 40)]
    text = "prompts: ['{{question}}']\n" + "\n".join(lines)
    assert len(load_questions(written("q.yaml", text))) == 40
