"""Checks in a task: what is asked, how often, what is reported, and which failures are for good."""

import json
import re
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk import Asset, AssetAlias, ObjectStoragePath
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_knowledge_bot._compat import AirflowException, AirflowFailException
from airflow_knowledge_bot.operators import KnowledgeBotCheckOperator
from answering_bot import (
    AWAY,
    KEYS,
    ONCE,
    OPENING,
    PARKING,
    RIGHT,
    URL,
    StateStore,
    TaskInstance,
    where,
)
from calls import KEY
from knowledge_bot.checks import Question


def checking(**options):
    given = {"bot_id": "bot_guide"} | options
    if "file" not in given:
        given = {"questions": [OPENING, PARKING, KEYS]} | given
    return KnowledgeBotCheckOperator(task_id="check", **given)


def run(operator, instance=None, **context):
    return operator.execute({"ti": instance or TaskInstance(), **context})


def failed(operator, kind, match, **context):
    """Run a check that fails; return what it handed on all the same, and what it said."""
    instance = TaskInstance()
    with pytest.raises(kind, match=f"(?s){match}") as caught:
        run(operator, instance, **context)
    assert (type(caught.value) is AirflowFailException) == (kind is AirflowFailException)
    assert KEY not in str(caught.value)
    return instance.xcoms.get("return_value"), str(caught.value)


# What is asked, and what is reported


def test_right_answers_pass_and_the_counts_are_handed_on(bot):
    result = run(checking())
    duration = result.pop("duration")
    assert 0 <= duration < 30
    assert result == {
        "ok": True,
        "passed": 3,
        "failed": 0,
        "unanswered": 0,
        "messages": 3,
        "min_pass": 1.0,
        "stopped": None,
        "failures": [],
    }
    assert bot.asked == ONCE


def test_a_wrong_answer_fails_for_good_after_all_were_asked(bot):
    bot.knows[OPENING["ask"]] = "At ten."
    result, said = failed(checking(), AirflowFailException, 'does not contain "nine"')
    assert bot.asked == ONCE
    assert (result["ok"], result["passed"], result["failed"]) == (False, 2, 1)
    (failure,) = result["failures"]
    assert failure.pop("id")
    assert failure == {
        "question": "When do you open?",
        "reason": 'The answer does not contain "nine".',
        "answer": "At ten.",
    }
    assert "2 of 3 questions passed, and all must." in said


@pytest.mark.parametrize(("min_pass", "passes"), [(0.6, True), (0.7, False), (0, True)])
def test_a_share_may_be_enough(bot, min_pass, passes):
    bot.knows[OPENING["ask"]] = "At ten."
    if passes:
        result = run(checking(min_pass=min_pass))
        assert (result["ok"], result["failed"]) == (True, 1)
    else:
        failed(checking(min_pass=min_pass), AirflowFailException, "0.7 of all must")


def test_the_log_has_a_fact_in_each_line(bot, caplog):
    bot.knows[OPENING["ask"]] = "At\nten."
    bot.lose_next_answer(times=None, where=where(KEYS))
    store = StateStore()
    with caplog.at_level("INFO", logger="airflow_knowledge_bot"):
        failed(checking(), AirflowFailException, "nine", task_state_store=store)
        first = [f"{one.levelname} {one.getMessage()}" for one in caplog.records]
        caplog.clear()
        failed(checking(), AirflowFailException, "nine", task_state_store=store)
    again = [one.getMessage() for one in caplog.records]
    shown = re.sub(r"\d+\.\d+ s", "0 s", "\n".join(first)).splitlines()
    assert shown[:6] == [
        f"INFO Asking bot_guide 3 of 3 questions at {URL}",
        "WARNING failed (0 s): When do you open?",
        'WARNING     The answer does not contain "nine".',
        "WARNING     Answer: At ten.",
        "INFO passed (0 s): Where do visitors park?",
        "WARNING unanswered (0 s): Where are the keys?",
    ]
    assert shown[6].startswith("WARNING     No answer: ")
    assert shown[7].startswith("INFO 1 of 3 passed; ")
    assert again[0] == f"Asking bot_guide 2 of 3 questions at {URL}"
    assert "passed in an earlier try: Where do visitors park?" in again


def test_a_long_check_has_a_short_log_and_a_small_xcom(bot, caplog):
    questions = [{"ask": f"Question {n}? " + "x" * 2000, "contains": "nine"} for n in range(150)]
    with caplog.at_level("INFO", logger="airflow_knowledge_bot"):
        result, _ = failed(checking(questions=questions), AirflowFailException, "And 145 more")
    assert (result["failed"], len(result["failures"])) == (150, 20)
    assert len(json.dumps(result)) < 40_000
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) < 320
    assert max(map(len, texts)) < 600
    assert "… and 50 more." in texts


def test_outlets_get_the_counts(bot):
    handbook, alias = Asset("knowledgebot://svc.example/col_1"), AssetAlias("fed")
    bot.knows[OPENING["ask"]] = "At ten."
    events = OutletEventAccessors()
    run(checking(min_pass=0.5, outlets=[handbook, alias]), outlet_events=events)
    assert events[handbook].extra == {
        "bot_id": "bot_guide",
        "passed": 2,
        "failed": 1,
        "unanswered": 0,
        "min_pass": 0.5,
    }
    assert events[alias].asset_alias_events == []


# What the parameters take


def objects():
    return [Question(**OPENING), Question(ask=PARKING["ask"], contains="behind")]


@pytest.mark.parametrize(
    "questions",
    [
        [OPENING, PARKING],
        (OPENING, PARKING),
        objects(),
        [OPENING, *objects()[1:]],
    ],
    ids=["dicts", "a tuple", "objects", "both"],
)
def test_questions_may_be(bot, questions):
    assert run(checking(questions=questions))["ok"]


def test_a_dict_s_texts_are_templates_and_an_object_is_taken_as_it_is(bot):
    operator = checking(
        bot_id="bot_{{ who }}",
        questions=[
            {"ask": "When do you {{ what }}?", "contains": ["{{ hour }}"]},
            Question(ask="{{ what }}", contains="{{ hour }}"),
        ],
        min_pass=0.5,
        knowledge_bot_conn_id="knowledge_bot_{{ conn }}",
    )
    operator.render_template_fields(
        {"who": "guide", "what": "open", "hour": "nine", "conn": "default"}
    )
    assert run(operator)["passed"] == 1
    assert set(bot.asked) == {"When do you open?", "{{ what }}"}


TOML = '[[questions]]\nask = "When do you open?"\ncontains = "nine"\n'


@pytest.mark.parametrize("kind", [str, lambda path: path, "file://{}".format, ObjectStoragePath])
@pytest.mark.parametrize(("name", "text"), [("q.toml", TOML), ("q.jsonl", json.dumps(OPENING))])
def test_a_file_may_be_a_path_an_address_or_an_object(bot, tmp_path, kind, name, text):
    (tmp_path / name).write_text(text)
    given = tmp_path / name
    assert run(checking(file=kind(str(given)) if kind is not str else str(given)))["passed"] == 1
    assert bot.asked == {OPENING["ask"]: 1}


def test_a_file_s_path_is_a_template_and_its_text_is_none(bot, tmp_path):
    (tmp_path / "q.toml").write_text(TOML.replace("nine", "{{ nine }}"))
    operator = checking(file=f"{tmp_path}/{{{{ name }}}}.toml")
    operator.render_template_fields({"name": "q", "nine": "nine"})
    assert operator.file == f"{tmp_path}/q.toml"
    failed(operator, AirflowFailException, r'"\{\{ nine \}\}"')


def test_the_connection_names_the_bot_where_the_task_does_not(bot, connect):
    connect(URL, default_bot_id="bot_guide")
    assert run(checking(bot_id=None))["ok"]
    connect(URL)
    failed(checking(bot_id=None), AirflowFailException, "bot_id: .*'default_bot_id'")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"questions": None}, "exactly one of the parameters .* none of them"),
        ({"file": "q.toml", "questions": [OPENING]}, "exactly one .* both of them"),
        ({"questions": []}, r"'questions' is empty once it is rendered \(\[\]\)"),
        ({"questions": [OPENING, ""]}, "'questions' is empty"),
        ({"questions": "a text"}, r"'questions' gives str .* `\.output`"),
        ({"questions": OPENING}, "'questions' gives dict instead of several"),
        ({"questions": Question(**OPENING)}, "gives Question instead of several"),
        ({"questions": [OPENING, 7]}, "'questions', question 2: expected the fields"),
        ({"questions": [{"ask": "When?"}]}, "question 1: nothing is expected of the answer"),
        ({"questions": [OPENING | {"contain": "a"}]}, "question 1: 'contain' is not a field"),
        ({"questions": [{"ask": "?", "matches": "("}]}, "question 1: .*not a regular expression"),
        ({"questions": [OPENING, OPENING]}, "two have the id"),
        ({"file": ""}, "'file' is empty"),
        ({"file": "/nowhere/q.toml"}, "'file' cannot be used: /nowhere/q.toml: cannot be read"),
        ({"file": "file:///nowhere/q.toml"}, "'file' cannot be read: .*nowhere"),
        ({"file": "q.txt"}, "'file' cannot be used: q.txt"),
        ({"bot_id": ""}, "'bot_id' is empty"),
        ({"bot_id": ["bot_guide"]}, "bot_id: expected a string, not list"),
        ({"bot_id": "col_1"}, "bot_id: "),
        ({"knowledge_bot_conn_id": "none_such"}, "'none_such'"),
        ({"knowledge_bot_conn_id": ""}, "'knowledge_bot_conn_id' is empty once it is rendered"),
    ],
)
def test_what_cannot_be_asked_is_reported_in_a_sentence_and_nothing_is_sent(bot, options, said):
    result, message = failed(checking(**options), AirflowFailException, said)
    assert result is None
    assert "Nothing was sent" in message or "nothing was sent" in message
    assert bot.requests == []


def test_a_file_that_is_no_text_is_reported(bot, tmp_path):
    (tmp_path / "q.toml").write_bytes(b"\xff\xfe")
    for file in (f"{tmp_path}/q.toml", f"file://{tmp_path}/q.toml"):
        failed(checking(file=file), AirflowFailException, r"'file' .*UTF-8 text.* Nothing was sent")


@pytest.mark.parametrize(
    "options",
    [
        {"min_pass": 1.1},
        {"min_pass": -1},
        {"min_pass": "all"},
        {"min_pass": True},
        {"concurrency": 1.5},
        {"answer_timeout": -1},
        {"answer_interval": timedelta(0)},
        {"concurrency": 0},
        {"min_pass": float("nan")},
    ],
)
def test_a_number_out_of_its_range_is_refused_when_the_dag_is_parsed(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"^{name}: .* not "):
        checking(**options)


# What may be tried again


@pytest.mark.parametrize("does", AWAY.values(), ids=AWAY)
def test_a_lost_answer_is_asked_again_by_the_next_try_alone(bot, does):
    getattr(bot, does)(where=where(PARKING))
    store = StateStore()
    result, _ = failed(
        checking(), AirflowException, "unanswered: .*Where do visitors park", task_state_store=store
    )
    assert (result["passed"], result["failed"], result["unanswered"]) == (2, 1, 1)
    again = run(checking(), task_state_store=store)
    assert (again["ok"], again["passed"], again["messages"]) == (True, 3, 1)
    assert bot.asked == ONCE + Counter([PARKING["ask"]])


def test_a_service_that_is_away_is_not_asked_all_questions(bot, connect):
    connect(URL, max_retries=0, timeout=0.5)
    many = [{"ask": f"Question {number}?", "contains": "y"} for number in range(200)]
    with bot.holding_answers():
        result, said = failed(checking(questions=many), AirflowException, "unanswered")
    assert 10 <= len(bot.requests) <= 40  # the check looks for its stop at intervals
    assert result["unanswered"] == 200
    assert "And 195 more." in said


def test_an_answer_that_is_wrong_is_not_outweighed_by_one_that_is_missing(bot):
    bot.knows[OPENING["ask"]] = "At ten."
    bot.lose_next_answer(times=None, where=where(PARKING))
    failed(checking(), AirflowFailException, "clear the task")
    # Where one wrong answer can be spared, the missing one makes the difference.
    failed(checking(min_pass=0.6), AirflowException, "next try")


def test_a_try_after_a_check_that_ended_gets_answers_of_its_own(bot):
    """With the same keys of idempotency the service would give those of the earlier try."""
    bot.extensions, bot.announcement = {"idempotency"}, "idempotency=1;lifetime=604800"
    begun = SimpleNamespace(dag_id="night", run_id="run_1", start_date=datetime.now(UTC))
    instance = TaskInstance()
    instance.task_id, instance.map_index = "check", -1
    given = {"instance": instance, "dag_run": begun, "task_state_store": StateStore()}
    bot.knows[OPENING["ask"]] = "At ten."
    with pytest.raises(AirflowFailException):
        run(checking(), **given)
    bot.knows[OPENING["ask"]] = RIGHT[OPENING["ask"]]
    assert run(checking(), **given)["passed"] == 3
    assert len({one.headers["idempotency-key"] for one in bot.requests}) == 4


def test_without_a_store_a_retry_asks_all(bot):
    bot.lose_next_answer(times=2, where=where(PARKING))
    failed(checking(), AirflowException, "next try")
    failed(checking(), AirflowException, "next try")
    assert set(bot.asked.values()) == {2}


def test_a_task_that_was_cleared_asks_all(bot):
    store = StateStore()
    run(checking(), task_state_store=store)
    run(checking(), TaskInstance(max_tries=2), task_state_store=store)
    assert bot.asked == ONCE
    run(checking(), TaskInstance(max_tries=3), task_state_store=store)
    assert set(bot.asked.values()) == {2}


@pytest.mark.parametrize("change", ["bot_id", "contains"])
def test_what_passed_elsewhere_or_otherwise_is_asked_again(bot, connect, change):
    store = StateStore()
    one = {"id": "hours", **OPENING}
    run(checking(questions=[one]), task_state_store=store)
    if change == "bot_id":
        failed(
            checking(questions=[one], bot_id="bot_other"),
            AirflowFailException,
            "no bot_other",
            task_state_store=store,
        )
    else:
        other = one | {"contains": "at"}
        assert run(checking(questions=[other]), task_state_store=store)["messages"] == 1
    assert bot.asked == {OPENING["ask"]: 2}


def test_what_is_kept_of_a_question_is_small_and_tells_nothing(bot):
    store = StateStore()
    many = [{"ask": f"{number}?", "contains": "could not find"} for number in range(500)]
    began = time.monotonic()
    assert run(checking(questions=many), task_state_store=store)["passed"] == 500
    assert len(json.dumps(store)) < 12_000
    assert KEY not in str(store)
    assert "could not" not in str(store)
    # It is written each half second, not with every answer.
    assert store.writes < 10 + 2 * (time.monotonic() - began)


def test_a_task_that_ends_in_the_middle_has_kept_what_passed(bot, monkeypatch):
    monkeypatch.setattr("knowledge_bot.checks._run._GRACE", 0.5)  # seconds
    store, operator = StateStore(), checking(concurrency=1)

    def answered(question):
        if question == KEYS["ask"]:
            operator.on_kill()
            time.sleep(1)
        return RIGHT[question]

    bot.bots["bot_guide"] = answered
    result, _ = failed(operator, AirflowException, "next try", task_state_store=store)
    assert result["stopped"] == "requested"
    assert result["passed"] == 2
    bot.bots["bot_guide"] = RIGHT
    assert run(checking(), task_state_store=store)["messages"] == 1


def test_waiting_asks_again_what_has_not_passed_within_one_try(bot):
    bot.lose_next_answer(where=where(PARKING))
    bot.knows[PARKING["ask"]] = ["Nobody knows.", "Nobody knows.", "Behind the workshop."]
    result = run(checking(answer_timeout=20, answer_interval=0.2))
    assert result["ok"]
    assert bot.asked == Counter({**dict.fromkeys(RIGHT, 1), PARKING["ask"]: 3})


# What nobody needs to try again


@pytest.mark.parametrize(
    ("status", "stop", "said"),
    [
        (401, "authentication", "401.*password of the connection 'knowledge_bot_default'"),
        (403, "authentication", "403.*password of the connection 'knowledge_bot_default'"),
        (402, "payment", "402.*Clear the task once the service's"),
        (None, "bot", "There is no bot_other.*has bot_guide.*task's parameter 'bot_id'"),
    ],
)
def test_what_every_question_would_meet_fails_at_once(bot, status, stop, said):
    if status is not None:
        bot.fail_next(status, times=None)
    asked = "bot_guide" if status else "bot_other"
    result, _ = failed(checking(bot_id=asked, concurrency=1), AirflowFailException, said)
    assert sum(bot.asked.values()) == 1
    assert result["stopped"] == stop


def test_a_question_that_is_refused_is_not_tried_again(bot):
    bot.fail_next(400, message="Too long.", times=None, where=where(PARKING))
    result, _ = failed(checking(), AirflowFailException, "unanswered: .*Too long")
    assert (result["passed"], result["unanswered"]) == (2, 1)


def test_an_address_where_something_else_answers_fails_for_good(bot):
    bot.answer_next(200, b"<html>", times=None)
    failed(checking(), AirflowFailException, "unanswered")
