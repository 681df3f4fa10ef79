"""Many items in one task: what is sent once, what is reported, and what fails."""

import inspect
import json
import threading
import time

import pytest

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.hooks.ledger import KnowledgeBotLedgerHook
from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator
from answering_bot import URL, TaskInstance
from calls import KEY
from knowledge_bot.ingest import (
    IncompleteIngestionError,
    Ingestion,
    IngestionOptions,
    Ledger,
    LedgerError,
)
from waiting import until

TEXTS = [{"name": f"text {number}", "content": f"It is {number} o'clock."} for number in range(6)]


def ingesting(**options):
    given = {"collections": "col_house", "ledger_conn_id": "ledger"} | options
    return KnowledgeBotIngestOperator(task_id="ingest", **given)


def run(operator, **context):
    return operator.execute({"ti": TaskInstance(), **context})


def test_an_unknown_outcome_is_sent_again_by_the_next_try_where_that_is_wanted(
    connect, service, ledger
):
    connect(URL)
    service.lose_next_answer()
    with pytest.raises(IncompleteIngestionError, match="unknown 1"):
        run(ingesting(origin=TEXTS, concurrency=1, on_unknown="resend"))
    assert run(ingesting(origin=TEXTS, on_unknown="resend"))["created"] == 1
    assert len(service.requests) == len(TEXTS) + 1


@pytest.mark.parametrize(
    ("status", "said"), [(401, "password of the connection"), (402, "Clear the task")]
)
def test_a_refused_key_and_a_used_up_quota_stop_the_run_at_once(
    connect, service, ledger, status, said
):
    connect(URL)
    service.fail_next(status, times=None)
    with pytest.raises(AirflowFailException, match=said) as caught:
        run(ingesting(origin=TEXTS, concurrency=1))
    assert len(service.requests) == 1
    assert KEY not in str(caught.value)


def test_a_task_that_is_killed_finishes_what_is_in_flight_and_begins_nothing(good, ledger):
    operator, holding = ingesting(origin=TEXTS, concurrency=1), threading.Event()

    def kill():
        with good.holding_answers():
            holding.set()
            assert until(lambda: good.requests)
            operator.on_kill()
            time.sleep(0.5)  # the engine asks ten times a second

    killer = threading.Thread(target=kill)
    killer.start()
    holding.wait()
    instance = TaskInstance()
    with pytest.raises(IncompleteIngestionError, match="stopped"):
        operator.execute({"ti": instance})
    killer.join()
    report = instance.xcoms["return_value"]
    assert report["unknown"] == 0
    assert report["created"] == len(good.requests) < len(TEXTS)
    # The next try sends the rest.
    assert run(ingesting(origin=TEXTS))["unchanged"] == report["created"]
    assert len(good.requests) == len(TEXTS)


def test_the_ledger_s_password_is_shown_to_nobody(good, monkeypatch, caplog):
    monkeypatch.setenv("AIRFLOW_CONN_LEDGER", "postgres://user:pass-word-7@127.0.0.1:9/none")
    with pytest.raises(LedgerError, match=r"127\.0\.0\.1") as caught:
        Ledger(KnowledgeBotLedgerHook("ledger").get_conn().database.url, wait=0).status()
    assert "pass-word-7" not in str(caught.value) + caplog.text


@pytest.mark.parametrize(
    ("fields", "libpq"),
    [
        (
            {"login": "a@b", "password": "p@ss:w/rd#?%", "host": "db.example", "port": 5433},
            {"user": "a@b", "password": "p@ss:w/rd#?%", "host": "db.example", "port": "5433"},
        ),
        ({"host": "::1", "schema": "my ledger"}, {"host": "::1", "dbname": "my ledger"}),
        ({"host": "/run/postgresql"}, {"host": "/run/postgresql"}),
        ({"host": "a,b", "port": 5433}, {"host": "a,b", "port": "5433,5433"}),
        (
            {"extra": {"sslmode": "require", "options": "-c role=kbot", "cursor": "dictcursor"}},
            {"sslmode": "require", "options": "-c role=kbot"},
        ),
    ],
    ids=["signs", "IPv6", "socket", "several hosts", "options"],
)
def test_a_connection_s_parts_reach_postgresql_as_they_are(monkeypatch, fields, libpq):
    psycopg = pytest.importorskip("psycopg")
    monkeypatch.setenv("AIRFLOW_CONN_LEDGER", json.dumps({"conn_type": "postgres", **fields}))
    address = KnowledgeBotLedgerHook("ledger").get_conn().database.url
    assert psycopg.conninfo.conninfo_to_dict(address) == libpq


def test_the_operator_s_defaults_are_those_of_the_engine():
    # Written out there, so that a DAG is parsed without the engine.
    parameters = inspect.signature(KnowledgeBotIngestOperator.__init__).parameters
    shared = IngestionOptions.__annotations__.keys() & parameters.keys() - {"collections", "origin"}
    assert shared >= {"on_unknown", "concurrency", "gone_limit", "wait_ready", "prune"}
    assert {name: parameters[name].default for name in shared} == {
        name: getattr(Ingestion, name) for name in shared
    }
