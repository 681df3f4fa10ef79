"""What a report says: as text, as JSON, as JUnit XML, and beside an earlier one."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from knowledge_bot import ConfigurationError
from knowledge_bot.checks import Baseline, CheckReport, CheckStop, Question, Result, Verdict

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit.xsd")))
BEGAN = datetime(2026, 11, 22, 2, 15, tzinfo=UTC)


def result(ask="When?", verdict=Verdict.PASSED, bot="bot_1", **more):
    question = Question(ask=ask, contains="x", id=more.pop("id", None))
    return Result(question.id, question, bot, verdict=verdict, **more)


def report(*results, **more):
    given = {"min_pass": 1.0, "began": BEGAN, "duration": 12.34, **more}
    return CheckReport(results=results, **given)


PASSED = result("When do you open?", answer="At 9:30.", attempts=1, seconds=0.4)
FAILED = result(
    "Who leads the repair evening, and who comes along to help with the bicycles on Thursdays?",
    Verdict.FAILED,
    reason='The answer does not contain "Mia".',
    answer="Max leads it. " * 20,
    attempts=3,
    seconds=1.25,
)
LOST = result("Why?", Verdict.UNANSWERED, reason="No answer: it broke.", attempts=1, seconds=60.0)
UNASKED = result("And then?", Verdict.UNASKED)


def test_the_counts_are_of_what_passed_and_of_all_that_did_not():
    whole = report(
        PASSED, FAILED, LOST, UNASKED, stopped=CheckStop.REQUESTED, stop_reason="asked to"
    )
    assert (whole.passed, whole.failed, whole.ok) == (1, 3, False)
    assert report(PASSED).ok
    assert not report(PASSED, stopped=CheckStop.PAYMENT).ok


@given(st.integers(1, 2000), st.data())
def test_exactly_the_share_that_is_wanted_is_enough(total, data):
    passed = data.draw(st.integers(0, total))
    results = [result(id="a")] * passed + [result(verdict=Verdict.FAILED, id="a")] * (
        total - passed
    )
    assert report(*results, min_pass=passed / total).ok
    if passed < total:
        assert not report(*results, min_pass=(passed + 1) / total).ok


def test_the_table_fits_a_terminal_and_a_log():
    text = str(report(PASSED, FAILED, LOST))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.splitlines()[:3] == [
        "verdict     tries  seconds  question",
        "─" * 80,
        "passed          1     0.40  When do you open?",
    ]
    assert 'The answer does not contain "Mia".' in text
    assert "Answer: Max leads it." in text
    assert "1 of 3 passed" in text
    assert "0.82 s (median)" in text


@given(st.text(), st.text(), st.text(), st.integers(0, 200))
def test_no_text_of_a_service_steers_a_terminal(ask, reason, said, width):
    one = result("q" + ask, Verdict.FAILED, reason=reason, answer=said)
    lines = report(one).table(width).split("\n")
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) <= max(width, 40) or any("─" in line for line in lines)


def test_characters_that_take_two_columns_are_counted_so():
    from rich.cells import cell_len

    text = report(
        result("営業時間を教えてください。" * 20, Verdict.FAILED, answer="九時" * 99)
    ).table()
    assert max(map(cell_len, text.splitlines())) <= 80


def test_several_bots_are_named_in_the_table():
    text = report(result(bot="bot_a"), result(bot="bot_b")).table()
    assert "bot_a: When?" in text
    assert "bot_b: When?" in text


def test_json_holds_everything_that_is_plain():
    found = json.loads(json.dumps(report(PASSED, FAILED).as_dict()))
    assert (found["ok"], found["passed"], found["failed"]) == (False, 1, 1)
    assert found["began"] == "2026-11-22T02:15:00.000+00:00"
    assert set(found["results"][0]) == {
        *("id", "ask", "bot_id", "verdict", "reason", "answer", "attempts", "seconds"),
        *("message_id", "conversation_id"),
    }


def parsed(report):
    document = etree.fromstring(report.junit().encode())
    SCHEMA.assertValid(document)
    return document


def test_junit_has_a_case_for_each_question_and_a_suite_for_each_bot():
    suites = parsed(report(PASSED, FAILED, LOST, UNASKED, result(bot="bot_2")))
    assert [dict(suite.attrib)["name"] for suite in suites] == [
        "kbot check bot_1",
        "kbot check bot_2",
    ]
    first = dict(suites[0].attrib)
    assert [first[name] for name in ("tests", "failures", "errors", "skipped")] == list("4111")
    cases = suites[0].findall("testcase")
    assert [[part.tag for part in case] for case in cases] == [
        ["system-out"],
        ["failure", "system-out"],
        ["error"],
        ["skipped"],
    ]
    assert cases[0].get("name") == "When do you open?"
    assert cases[1].find("failure").get("message") == 'The answer does not contain "Mia".'


@given(st.text(), st.text(), st.text(), st.sampled_from(Verdict))
def test_junit_is_valid_whatever_a_service_says(ask, reason, said, verdict):
    parsed(report(result("q" + ask, verdict, reason=reason, answer=said)))


def test_junit_shows_what_xml_cannot_hold():
    one = result("a\x00b", Verdict.FAILED, reason="c\x1b[2Jd", answer="e\ud800\ufffff<&]]>")
    case = parsed(report(one)).find(".//testcase")
    assert case.get("name") == "a\\x00b"
    assert case.find("failure").get("message") == "c\\x1b[2Jd"
    assert case.find("system-out").text == "e\\ud800\\ufffff<&]]>"


def test_a_baseline_shows_what_got_worse_and_better(tmp_path):
    yesterday = report(PASSED, FAILED, result("Gone?"), result("Both?", Verdict.FAILED))
    yesterday.baseline().save(tmp_path / "last.json")
    worse = result(
        PASSED.question.ask, Verdict.FAILED, reason="It broke.", answer="no", seconds=0.9
    )
    better = result(FAILED.question.ask, answer="Mia", seconds=0.5)
    today = report(worse, better, result("Both?", Verdict.FAILED), result("New?"), UNASKED)
    found = today.compare(Baseline.load(tmp_path / "last.json"))
    assert [one.ask for one in found.worse] == [PASSED.question.ask]
    assert [one.ask for one in found.better] == [FAILED.question.ask]
    assert (found.still_failing, found.new, found.left_out, found.ok) == (1, 1, 1, False)
    assert (found.seconds_before, found.seconds_now) == (0.825, 0.7)
    assert str(found).splitlines() == [
        (
            "Since the baseline: 1 worse, 1 better, 1 still failing, 1 new, 1 left out; median "
            "answer 0.82 s, now 0.70 s"
        ),
        "  worse: When do you open?: It broke.",
        f"  better: {FAILED.question.ask}",
    ]


def test_what_was_not_asked_is_neither_saved_nor_compared():
    assert UNASKED.id not in report(PASSED, UNASKED).baseline().standings
    before = report(result("And then?")).baseline()
    found = report(UNASKED).compare(before)
    assert (found.worse, found.new, found.left_out) == ((), 0, 0)
    assert str(found) == "Since the baseline: nothing changed"


def test_an_id_of_its_own_keeps_a_question_the_same_when_its_words_change():
    before = report(result("When?", id="hours")).baseline()
    found = report(result("When do you open?", Verdict.FAILED, id="hours")).compare(before)
    assert [one.id for one in found.worse] == ["hours"]
    derived = [Question(ask="a", contains="b"), Question(ask="a", contains=["b"])]
    assert derived[0].id == derived[1].id != Question(ask="a", contains="c").id
    assert Question(ask="a", contains="b", refuses=False).id != derived[0].id


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is not a baseline of a check"),
        (b"{}", "saved_at: Field required"),
        (b'{"version": 2, "saved_at": 1, "standings": {}}', "version"),
        (b"\xff\xfe", "is not a baseline"),
        (b"[1]", "is not a baseline"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_baseline_that_cannot_be_read_is_reported(tmp_path, content, expected):
    file = tmp_path / "last.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=expected) as caught:
        Baseline.load(file)
    assert str(file) in str(caught.value)


def test_a_baseline_replaces_the_one_before_at_once(tmp_path):
    file = tmp_path / "last.json"
    file.write_text("old")
    file.chmod(0o640)
    report(PASSED).baseline().save(file)
    assert Baseline.load(file).standings[PASSED.id].passed
    assert (file.stat().st_mode & 0o777, os.listdir(tmp_path)) == (0o640, ["last.json"])
    link = tmp_path / "link.json"
    link.symlink_to(file)
    report(FAILED).baseline().save(link)
    assert link.is_symlink()
    assert not Baseline.load(file).standings[FAILED.id].passed
    with pytest.raises(OSError, match="No such file"):
        report(PASSED).baseline().save(tmp_path / "nowhere" / "last.json")
