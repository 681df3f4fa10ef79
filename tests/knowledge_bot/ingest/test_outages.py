"""A ledger's database that is away for a while: what is waited for, how long, and what is said."""

import threading
import time
import uuid

import psycopg
import pytest

from ingest_texts import texts
from knowledge_bot.ingest import Ledger, LedgerError, Stop
from postgresql_server import postgresql as running_postgresql

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def server():
    """A PostgreSQL that may be stopped."""
    with running_postgresql() as running:
        yield running


@pytest.fixture
def database(server) -> str:
    name = f"of_a_test_{uuid.uuid4().hex}"
    server.create(name)
    return name


def say(server, *statements: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def fail_over(server, database: str, seconds: float) -> None:
    """Take no writes for a while, as a server does that another one replaces."""
    read_only = f"ALTER DATABASE {database} SET default_transaction_read_only = "
    end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'"
    say(server, read_only + "on", end)
    time.sleep(seconds)
    say(server, read_only + "off")


def stop_for(server, seconds: float) -> None:
    server.stop()
    time.sleep(seconds)
    server.start()


@pytest.mark.parametrize(
    ("how", "seconds"),
    [
        ("fail over", 1.5),
        pytest.param("fail over", 20, marks=pytest.mark.slow),
        pytest.param("stop", 60, marks=pytest.mark.slow),
    ],
)
def test_a_database_that_is_away_is_waited_for_and_nothing_comes_of_it(  # noqa: PLR0917 - a row
    send, service, server, database, how, seconds
):
    ledger, lock = Ledger(server.url(database)), threading.Lock()
    happen = {
        "fail over": lambda: fail_over(server, database, seconds),
        "stop": lambda: stop_for(server, seconds),
    }
    happening = threading.Thread(target=happen[how])

    def judge(name, times):
        with lock:
            if len(service.arrived) >= 100 and not happening.ident:
                happening.start()

    service.judge = judge
    report = send(texts(300), ledger=ledger)
    happening.join()
    assert (report.created, report.unknown, report.failed, report.stopped) == (300, 0, 0, None)
    assert len(service.arrived) == 300
    assert [one.created for one in ledger.status()] == [300]


def test_a_standby_is_named_as_one(send, service, server, database):
    ledger = Ledger(server.url(database))
    send([], ledger=ledger)
    say(server, f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    ledger.wait = 0.5
    report = send(texts(5), ledger=ledger)
    assert report.stopped is Stop.LEDGER
    assert "target_session_attrs=read-write" in report.stop_reason
    assert service.arrived == []


@pytest.fixture
def away(server, database):
    """A server that was stopped after its database was made, and is back after the test."""
    server.stop()
    yield database
    if not server.runs:
        server.start()


def test_a_database_that_is_away_at_the_opening_is_waited_for(send, service, server, away):
    back = threading.Timer(1.0, server.start)
    back.start()
    reports = []
    report = send(texts(3), ledger=Ledger(server.url(away)), on_progress=reports.append)
    back.join()
    assert (report.created, report.stopped, len(service.arrived)) == (3, None, 3)
    assert ([*filter(None, (one.paused for one in reports))] != [], report.paused) == (True, "")


@pytest.mark.parametrize("reading", [False, True])
def test_a_database_that_stays_away_is_an_error_after_the_wait(
    send, service, server, away, reading
):
    began = time.monotonic()
    with pytest.raises(LedgerError) as caught:
        send(texts(3), ledger=Ledger(server.url(away), wait=1.5), dry_run=reading)
    assert 1.5 < time.monotonic() - began < 30
    assert caught.value.may_pass
    assert service.arrived == []


def test_an_address_that_is_wrong_is_not_waited_for(send, service, server):
    with pytest.raises(LedgerError):  # or this test runs into its time limit
        send(texts(3), ledger=Ledger(server.url("no_such_database")))
    assert service.arrived == []


def test_whoever_ends_a_run_does_not_wait_for_its_ledger(send, service, server, away):
    stop = threading.Event()
    asked = threading.Timer(0.5, stop.set)
    asked.start()
    with pytest.raises(LedgerError):  # as above
        send(texts(3), ledger=Ledger(server.url(away)), stop=stop)
    asked.join()
    assert service.arrived == []
