"""What a report says: as text, as JSON, and as JUnit XML."""

import json
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from knowledge_bot.checks import CheckReport, CheckStop, Question, Result, Verdict

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit.xsd")))
BEGAN = datetime(2026, 11, 22, 2, 15, tzinfo=UTC)


def result(ask="When?", verdict=Verdict.PASSED, **more):
    question = Question(ask=ask, contains="x")
    return Result(question.id, question, "bot_1", verdict=verdict, **more)


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
    results = [result()] * passed + [result(verdict=Verdict.FAILED)] * (total - passed)
    assert report(*results, min_pass=passed / total).ok
    if passed < total:
        assert not report(*results, min_pass=(passed + 1) / total).ok


def test_the_table_says_why_what_did_not_pass_did_not():
    head, _, *rows = str(report(PASSED, FAILED, LOST)).splitlines()
    assert head == "verdict     tries  seconds  question"
    assert rows[:3] == [
        "passed          1     0.40  When do you open?",
        f"failed          3     1.25  {FAILED.question.ask}",
        '                            The answer does not contain "Mia".',
    ]
    assert rows[3].strip().startswith("Answer: Max leads it.")
    assert rows[-1].startswith("1 of 3 passed")
    assert "0.82 s (median)" in rows[-1]


@given(st.text(), st.text(), st.text())
def test_no_text_of_a_service_steers_a_terminal(ask, reason, said):
    one = result("q" + ask, Verdict.FAILED, reason=reason, answer=said)
    assert all(line.isprintable() for line in report(one).table().split("\n"))


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


def test_junit_has_a_case_for_each_question():
    (suite,) = parsed(report(PASSED, FAILED, LOST, UNASKED))
    assert suite.get("name") == "kbot check bot_1"
    counted = ("tests", "failures", "errors", "skipped")
    assert [suite.get(name) for name in counted] == list("4111")
    cases = suite.findall("testcase")
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
