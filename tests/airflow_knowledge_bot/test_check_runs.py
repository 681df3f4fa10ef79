"""Checks in DAGs that Airflow runs in one process, with its retries, its store and its pokes."""

import json
from collections import Counter
from pathlib import Path

import airflow.sdk
import pytest

from answering_bot import ONCE, OPENING, PARKING, Bots
from calls import KEY
from scripted_server import close

DAG_FILE = Path(__file__).with_name("dags") / "checks.py"
# What is kept between the tries and pokes of a task; Airflow 3.1 and 3.2 have nothing of the kind.
HAS_STATE_STORE = hasattr(airflow.sdk, "NEVER_EXPIRE")

# What the bots answer otherwise than they should; each DAG has a bot of its own.
BOTS = {
    "bot_every_kind_of_value": {},
    "bot_fails_afterwards": {},
    "bot_is_answered_wrongly": {OPENING["ask"]: "At ten."},
    "bot_loses_an_answer": {PARKING["ask"]: [close, close, "Behind the workshop."]},
    "bot_waits_for_a_source": {OPENING["ask"]: ["I do not know.", close, "At nine."]},
}


@pytest.fixture(scope="module")
def bots():
    server = Bots(**BOTS)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def ran(bots, dags, tmp_path_factory):
    """The tasks of all DAGs' runs, by DAG and task."""
    questions = tmp_path_factory.mktemp("runs") / "questions.toml"
    questions.write_text('[[questions]]\nask = "When do you open?"\ncontains = "nine"\n')
    connection = {
        "conn_type": "knowledge_bot",
        "host": bots.url,
        "password": KEY,
        "extra": {"max_retries": 0},
    }
    tasks = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_BOT", json.dumps(connection))
        patch.setenv("QUESTIONS", str(questions))
        checks = dags.parse(DAG_FILE.read_text(encoding="utf-8"), "checks")
        for name in (bot.removeprefix("bot_") for bot in BOTS):
            done = dags.run(getattr(checks, name), run_conf={"file": str(questions)})
            # `dag.test()` masks no secrets: nothing may print the key in the first place.
            assert KEY not in done.log
            tasks |= {(name, task_id): task for task_id, task in done.tasks.items()}
    return tasks


def test_every_documented_kind_of_value_works_in_a_run(ran):
    passed = {
        name: task.xcom["passed"]
        for (dag, name), task in ran.items()
        if dag == "every_kind_of_value" and isinstance(task.xcom, dict) and task.xcom["ok"]
    }
    assert passed == {
        "dicts": 1,
        "objects": 2,
        "xcom": 1,
        "file": 1,
        "path": 1,
        "mapped[0]": 1,
        "mapped[1]": 2,
        "sensor": 1,
    }


def test_retries_go_on_while_answers_are_lost_and_ask_only_what_has_not_passed(bots, ran):
    task = ran["loses_an_answer", "check"]
    assert (task.state, task.try_number, task.xcom["passed"]) == ("success", 3, 3)
    if HAS_STATE_STORE:
        assert task.xcom["messages"] == 1
        assert bots.asked_of("bot_loses_an_answer") == ONCE + Counter({PARKING["ask"]: 2})


def test_a_try_that_fails_after_the_answers_costs_no_second_message(bots, ran):
    task = ran["fails_afterwards", "check"]
    assert (task.state, task.try_number) == ("success", 2)
    if HAS_STATE_STORE:
        assert bots.asked_of("bot_fails_afterwards") == ONCE


def test_a_wrong_answer_fails_without_a_retry(bots, ran):
    task = ran["is_answered_wrongly", "check"]
    assert (task.state, task.try_number) == ("failed", 1)
    assert [one["answer"] for one in task.xcom["failures"]] == ["At ten."]
    asked = bots.asked_of("bot_is_answered_wrongly")
    assert asked == {OPENING["ask"]: 1, PARKING["ask"]: 1}


def test_a_rescheduled_sensor_asks_again_only_what_is_open(bots, ran):
    task = ran["waits_for_a_source", "known"]
    assert (task.state, task.try_number, task.xcom["passed"]) == ("success", 1, 3)
    asked = bots.asked_of("bot_waits_for_a_source")
    assert asked[OPENING["ask"]] == 3
    if HAS_STATE_STORE:
        assert asked == ONCE + Counter({OPENING["ask"]: 2})
