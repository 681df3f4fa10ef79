"""Checks in DAGs that Airflow runs in one process, with its retries, its store and its pokes."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import airflow.sdk
import pytest

from answering_bot import ONCE, OPENING, PARKING, Bots
from calls import KEY
from scripted_server import close

pytestmark = pytest.mark.integration

DAGS = Path(__file__).with_name("dags")
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

RUN = """
import json, os, sys
sys.path.insert(0, os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
import checks
from airflow.utils.db import initdb
initdb()
for name in sys.argv[1:]:
    run = getattr(checks, name).test(run_conf={"file": os.environ["QUESTIONS"]})
    for one in run.get_task_instances():
        where = {"task_ids": one.task_id, "map_indexes": one.map_index}
        told = run.get_task_instance(one.task_id, map_index=one.map_index).xcom_pull(**where)
        place = [one.dag_id, one.task_id, one.map_index]
        print("RAN", json.dumps([place, [one.state, one.try_number, told]]))
"""


@pytest.fixture(scope="module")
def bots():
    server = Bots(**BOTS)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def ran(bots, tmp_path_factory):
    """The runs of all DAGs: the state, the tries and the XCom of each task."""
    folder = tmp_path_factory.mktemp("runs")
    questions = folder / "questions.toml"
    questions.write_text('[[questions]]\nask = "When do you open?"\ncontains = "nine"\n')
    connection = {
        "conn_type": "knowledge_bot",
        "host": bots.url,
        "password": KEY,
        "extra": {"max_retries": 0},
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN, *(bot.removeprefix("bot_") for bot in BOTS)],
        env=os.environ
        | {
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
            "AIRFLOW_CONN_BOT": json.dumps(connection),
            "QUESTIONS": str(questions),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # `dag.test()` masks no secrets: nothing may print the key in the first place.
    assert KEY not in done.stdout + done.stderr
    lines = [line[4:] for line in done.stdout.splitlines() if line.startswith("RAN ")]
    return {tuple(place): found for place, found in map(json.loads, lines)}


def test_every_documented_kind_of_value_works_in_a_run(ran):
    passed = {
        (task, index): told["passed"]
        for (dag, task, index), (state, _, told) in ran.items()
        if dag == "every_kind_of_value" and isinstance(told, dict) and told["ok"]
    }
    assert passed == {
        ("dicts", -1): 1,
        ("objects", -1): 2,
        ("xcom", -1): 1,
        ("file", -1): 1,
        ("path", -1): 1,
        ("mapped", 0): 1,
        ("mapped", 1): 2,
        ("sensor", -1): 1,
    }


def test_retries_go_on_while_answers_are_lost_and_ask_only_what_has_not_passed(bots, ran):
    state, tries, told = ran["loses_an_answer", "check", -1]
    assert (state, tries, told["passed"]) == ("success", 3, 3)
    if HAS_STATE_STORE:
        assert told["messages"] == 1
        assert bots.asked_of("bot_loses_an_answer") == ONCE + Counter({PARKING["ask"]: 2})


def test_a_try_that_fails_after_the_answers_costs_no_second_message(bots, ran):
    assert ran["fails_afterwards", "check", -1][:2] == ["success", 2]
    if HAS_STATE_STORE:
        assert bots.asked_of("bot_fails_afterwards") == ONCE


def test_a_wrong_answer_fails_without_a_retry(bots, ran):
    state, tries, told = ran["is_answered_wrongly", "check", -1]
    assert (state, tries) == ("failed", 1)
    assert [one["answer"] for one in told["failures"]] == ["At ten."]
    asked = bots.asked_of("bot_is_answered_wrongly")
    assert asked == {OPENING["ask"]: 1, PARKING["ask"]: 1}


def test_a_rescheduled_sensor_asks_again_only_what_is_open(bots, ran):
    state, tries, told = ran["waits_for_a_source", "known", -1]
    assert (state, tries, told["passed"]) == ("success", 1, 3)
    asked = bots.asked_of("bot_waits_for_a_source")
    assert asked[OPENING["ask"]] == 3
    if HAS_STATE_STORE:
        assert asked == ONCE + Counter({OPENING["ask"]: 2})
