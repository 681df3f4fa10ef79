"""The sensor in its three modes."""

import time
from datetime import timedelta

import pytest
from airflow.exceptions import (  # where Airflow 3.1 has them, too
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.sdk.module_loading import import_string

from airflow_knowledge_bot.sensors import KnowledgeBotPingSensor
from answering_bot import URL, TaskInstance
from failures import status

PING = {"where": lambda request: request.is_ping}


def sensor(**options):
    given = {"poke_interval": 0.1, "timeout": 5.0} | options
    return KnowledgeBotPingSensor(task_id="service_is_up", **given)


@pytest.mark.parametrize(
    "happens",
    [
        *[status(number, **PING) for number in (500, 502, 503, 429)],
        lambda service: service.lose_next_answer(**PING),
        lambda service: service.time_out_next(**PING),
    ],
)
def test_a_passing_failure_means_not_yet(good, happens):
    happens(good)
    assert sensor().poke({}) is False
    assert sensor().poke({}) is True


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404])
def test_what_waiting_cannot_mend_fails_at_once(connect, service, status):
    connect(URL)
    service.answer_next(status, times=None, **PING)
    with pytest.raises(AirflowFailException, match=str(status)):
        sensor().execute({})
    assert len(service.pings) == 1


@pytest.mark.parametrize(
    ("conn_id", "host", "said"),
    [
        ("knowledge_bot_default", None, "'knowledge_bot_default'"),
        ("knowledge_bot_default", "https://svc.example:no", "'knowledge_bot_default'"),
        ("none_such", None, "'none_such'"),
        ("", None, "'knowledge_bot_conn_id'"),
    ],
)
def test_a_connection_that_cannot_work_fails_at_once(connect, conn_id, host, said):
    connect(host)
    with pytest.raises(AirflowFailException, match=said):
        sensor(knowledge_bot_conn_id=conn_id).execute({})


def test_a_wait_that_was_too_long_times_out_or_skips(good):
    good.fail_next(503, times=None, **PING)
    with pytest.raises(AirflowSensorTimeout):
        sensor(timeout=0.2).execute({})
    with pytest.raises(AirflowSkipException):
        sensor(timeout=0.2, soft_fail=True).execute({})


def test_a_rescheduled_sensor_gives_its_slot_back(good):
    good.fail_next(503, **PING)
    waiting = sensor(mode="reschedule")
    with pytest.raises(AirflowRescheduleException):
        waiting.execute({"ti": TaskInstance()})
    waiting.execute({"ti": TaskInstance()})


def test_a_deferred_sensor_gives_its_trigger_the_time_when_to_give_up(connect):
    with pytest.raises(TaskDeferred) as deferred:
        sensor(deferrable=True, timeout=90, poke_interval=7).execute({})
    path, values = deferred.value.trigger.serialize()
    assert path == "airflow_knowledge_bot.triggers.knowledge_bot.KnowledgeBotPingTrigger"
    assert values["knowledge_bot_conn_id"] == "knowledge_bot_default"
    assert values["poke_interval"] == 7
    assert values["deadline"] == pytest.approx(time.time() + 90, abs=5)
    assert deferred.value.method_name == "execute_complete"
    # Airflow's own timeout comes later than the trigger's, whose event says why.
    assert deferred.value.timeout.total_seconds() > 90


def test_a_sensor_may_go_to_its_trigger_without_a_worker():
    backing_off = {"exponential_backoff": True, "max_wait": timedelta(minutes=1)}
    waiting = sensor(start_from_trigger=True, timeout=90, poke_interval=7, **backing_off)
    assert waiting.start_from_trigger is True
    arguments = waiting.start_trigger_args
    assert arguments.trigger_kwargs == {
        "knowledge_bot_conn_id": "knowledge_bot_default",
        "poke_interval": 7.0,
        "deadline": None,  # Airflow's own timeout is absolute, and counts from the task's start
        "exponential_backoff": True,
        "max_wait": 60.0,
    }
    assert arguments.timeout.total_seconds() == 90
    trigger = import_string(arguments.trigger_cls)(**arguments.trigger_kwargs)
    assert trigger.serialize() == (arguments.trigger_cls, arguments.trigger_kwargs)
    # Where Airflow takes the task to a worker after all, it defers from there.
    with pytest.raises(TaskDeferred):
        waiting.execute({})


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"status": "timeout", "message": "too long"}, AirflowSensorTimeout),
        ({"status": "failed", "message": "wrong key"}, AirflowFailException),
        (None, AirflowFailException),
        ({}, AirflowFailException),
        ({"status": "fine", "message": "?"}, AirflowFailException),
        ({"status": "ready"}, AirflowFailException),
    ],
)
def test_any_other_event_fails_and_skips_where_the_dag_wants_that(event, error):
    with pytest.raises(error):
        sensor().resume_execution("execute_complete", {"event": event}, {})
    with pytest.raises(AirflowSkipException):
        sensor(soft_fail=True).resume_execution("execute_complete", {"event": event}, {})
