"""Checks under a real Airflow, while sources, services and workers come and go."""

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import airflow.sdk
import pytest

from airflow_processes import Airflow
from answering_bot import KEYS, ONCE, OPENING, PARKING, Bots
from calls import KEY
from scripted_server import close, silence

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

needs_state_store = pytest.mark.skipif(
    not hasattr(airflow.sdk, "NEVER_EXPIRE"),
    reason="Airflow 3.1 and 3.2 keep nothing between the tries and pokes of a task",
)

DAGS = Path(__file__).with_name("dags")
INTERVAL = 3  # seconds, as the DAG says
# Seconds that this Airflow takes to start a task that is due, on a busy machine.
LATENCY = 15

BOTS = {
    "bot_every_kind_of_value": {},
    "bot_is_answered_wrongly": {OPENING["ask"]: "At ten."},
    "bot_is_killed": {KEYS["ask"]: [silence, "At the desk."]},
    "bot_loses_an_answer": {PARKING["ask"]: [close, close, "Behind the workshop."]},
    "bot_waits_for_a_service": {},
    "bot_waits_for_a_source": {OPENING["ask"]: "I do not know."},
}


@pytest.fixture(scope="module")
def bots():
    server = Bots(**BOTS)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def airflow(bots, tmp_path_factory):
    home = tmp_path_factory.mktemp("checks")
    (home / "questions.toml").write_text(
        '[[questions]]\nask = "When do you open?"\ncontains = "nine"\n'
    )
    connection = {
        "conn_type": "knowledge_bot",
        "host": bots.url,
        "password": KEY,
        "extra": {"timeout": 120, "max_retries": 0},
    }
    lineage = {"type": "file", "log_file_path": str(home / "lineage.jsonl"), "append": True}
    settings = {
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(lineage),
        "QUESTIONS": str(home / "questions.toml"),
    }
    with Airflow(home, DAGS, connections={"bot": connection}, settings=settings) as running:
        yield running
        assert running.files_holding(KEY) == []


def ran(airflow, dag_id, **conf):
    """Run a DAG to its end; return the run's state and its only task."""
    run_id = airflow.trigger(dag_id, **conf)
    state = airflow.finished(dag_id, run_id)["state"]
    (task,) = airflow.tasks(dag_id, run_id).values()
    return state, task


@needs_state_store
def test_a_task_that_was_killed_asks_again_only_what_had_no_answer(airflow, bots):
    run_id = airflow.trigger("is_killed")
    airflow.until(
        lambda: bots.asked_of("bot_is_killed")[KEYS["ask"]] or None, 120, "the third is asked"
    )
    time.sleep(2)  # what passed waits half a second to be written
    pid = int((airflow.home / "airflow" / "pids" / "is_killed").read_text())
    os.kill(pid, signal.SIGKILL)
    assert airflow.finished("is_killed", run_id)["state"] == "success"
    assert bots.asked_of("bot_is_killed") == ONCE + Counter([KEYS["ask"]])


def messages_of(bots, airflow, dag_id, ready):
    """Run a waiting DAG, let what it waits for happen, and count.

    Returns the seconds from then to its end, from its first message to its last one, and how often
    each question was asked.
    """
    bot = f"bot_{dag_id}"
    run_id = airflow.trigger(dag_id)
    airflow.until(lambda: bots.asked_of(bot) or None, 120, "the sensor asks")
    began = time.monotonic()
    time.sleep(4 * INTERVAL)
    ready()
    now = time.monotonic()
    assert airflow.finished(dag_id, run_id)["state"] == "success"
    return time.monotonic() - now, time.monotonic() - began, bots.asked_of(bot)


@needs_state_store
def test_a_source_that_becomes_answerable_later_passes_within_an_interval(airflow, bots):
    knows = bots.answers["bot_waits_for_a_source"]
    late, seconds, asked = messages_of(
        bots, airflow, "waits_for_a_source", lambda: knows.update({OPENING["ask"]: "At nine."})
    )
    assert late < INTERVAL + LATENCY
    # At most one message for the open question in each interval; none for what had passed.
    assert 2 <= asked.pop(OPENING["ask"]) <= seconds / INTERVAL + 1
    assert asked == {PARKING["ask"]: 1, KEYS["ask"]: 1}


def test_a_service_that_is_away_for_a_while_is_waited_for(airflow, bots):
    run_id = None
    try:
        bots.on_accept = lambda connection: False
        run_id = airflow.trigger("waits_for_a_service")
        path = f"/dags/waits_for_a_service/dagRuns/{run_id}/taskInstances/known"

        def rescheduled():
            return airflow.get(path)["state"] == "up_for_reschedule" or None

        airflow.until(rescheduled, 120, "the sensor was rescheduled")
        connections = bots.connections
        airflow.until(lambda: bots.connections > connections + 3 or None, 60, "it tries again")
    finally:
        bots.on_accept = lambda connection: True
    assert airflow.finished("waits_for_a_service", run_id)["state"] == "success"
    assert airflow.get(path)["try_number"] == 1
    assert bots.asked_of("bot_waits_for_a_service") == ONCE


def test_openlineage_gets_which_answers_were_right(airflow):
    pytest.importorskip("airflow.providers.openlineage", reason="Airflow's OpenLineage provider")
    assert ran(airflow, "is_answered_wrongly")[0] == "failed"

    def finished():
        events = [json.loads(line) for line in (airflow.home / "lineage.jsonl").open()]
        ended = [
            event["inputs"]
            for event in events
            if event["eventType"] == "FAIL" and event["job"]["name"] == "is_answered_wrongly.check"
        ]
        return ended or None

    (bot,) = airflow.until(finished, 60, "the event of the task's end")[0]
    assert bot["name"] == "bot_is_answered_wrongly"
    found = bot["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert [one["success"] for one in found] == [False, True]
