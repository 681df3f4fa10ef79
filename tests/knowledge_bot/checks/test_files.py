"""Questions from files: what is read, and what is said with its place where it cannot be."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_bot import ConfigurationError
from knowledge_bot.checks import Question, load_questions

TOML = """\
# asked every night
[[questions]]
ask = "When do you open on Saturday?"
contains = ["9:30"]
sources = "hours.md"

[[questions]]
id = "france"
ask = "What is the capital of France?"
refuses = true
"""


def test_toml_and_lines_of_json_say_the_same(written):
    expected = [
        Question(ask="When do you open on Saturday?", contains="9:30", sources="hours.md"),
        Question(ask="What is the capital of France?", refuses=True, id="france"),
    ]
    assert load_questions(written("q.toml", TOML)) == expected
    lines = (
        '\ufeff{"ask": "When do you open on Saturday?", "contains": "9:30", "sources": "hours.md"}'
        '\r\n\r\n{"id": "france", "ask": "What is the capital of France?", "refuses": true}'
    )
    assert load_questions(str(written("q.jsonl", lines))) == expected


def test_a_later_line_end_of_unicode_ends_no_line(written):
    (one,) = load_questions(written("q.jsonl", '{"ask": "a\u2028b", "contains": "x"}'))
    assert one.ask == "a\u2028b"


@pytest.mark.parametrize(
    ("name", "text", "where", "named"),
    [
        ("q.toml", "", "", ""),
        ("q.jsonl", "\n \n", "", ""),
        ("q.toml", "ask = ", "", "Invalid value (at end of document)"),
        ("q.toml", "a = " + "[" * 100_000, "", ""),
        ("q.toml", TOML + "[[questions]]\nask = 'x'\n", ", line 11", ""),
        ("q.toml", TOML + "[[questions]]\nask='x'\ncontians='x'", ", line 11", "'contians'"),
        ("q.toml", TOML.replace("es = true", 'es = "off"'), ", line 7", "refuses: "),
        ("q.toml", TOML.replace('["9:30"]', "[9, 30]"), ", line 2", "contains.0: "),
        ("q.toml", TOML.replace('["9:30"]', "9.30"), ", line 2", "contains: "),
        ("q.toml", '[[question]]\nask = "x"', "", "'question'"),
        ("q.toml", "questions = [{ask = 'x'}]", ", question 1", ""),
        ("q.toml", "questions = 1", ", question 1", "the fields of a question"),
        ("q.toml", TOML + "[[questions]]\nask='x'\nmatches='a('", ", line 11", "'a('"),
        ("q.jsonl", '{"ask": "x", "contains": "y"}\n{"ask"}', ", line 2", "Expecting"),
        ("q.jsonl", '\n["ask"]', ", line 2", "the fields of a question"),
        ("q.jsonl", '{"contains": "y"}', ", line 1", "ask: "),
        ("q.jsonl", '{"ask": "\\ud83d", "contains": "y"}', ", line 1", "ask: "),
        ("q.jsonl", "[" * 100_000, ", line 1", ""),
        ("q.jsonl", b'{"ask": "x"\n, "a": "\xff"}', "", "UTF-8"),
        ("q.yaml", "tests: []", "", ".toml or .jsonl"),
    ],
)
def test_what_cannot_be_read_is_reported_with_its_place(written, name, text, where, named):
    file = written(name, text)
    with pytest.raises(ConfigurationError) as caught:
        load_questions(file)
    assert str(caught.value).startswith(f"{file}{where}: ")
    assert named in str(caught.value)


@pytest.mark.parametrize("name", ["missing.toml", "folder.toml", "a\0b.toml"])
def test_a_file_that_cannot_be_opened_is_reported(tmp_path, name):
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(ConfigurationError) as caught:
        load_questions(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")


@settings(max_examples=30)
@given(st.sampled_from(["q.toml", "q.jsonl"]), st.binary(max_size=300))
def test_whatever_a_file_holds_is_read_or_reported(written, name, content):
    file = written(name, content)
    try:
        assert load_questions(file)
    except ConfigurationError as error:
        assert str(file) in str(error)  # noqa: PT017 - some are read
