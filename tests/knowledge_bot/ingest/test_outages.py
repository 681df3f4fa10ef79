"""A ledger's database that is away for a while: what is waited for, how long, and what is said."""

import contextlib
import sqlite3
import threading
import time
import uuid

import psycopg
import pytest

from ingest_texts import texts
from knowledge_bot._database import Session
from knowledge_bot.ingest import Ledger, LedgerError, Stop
from knowledge_bot.ingest._schema import LedgerDatabase
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


# One outage.


@pytest.fixture
def session(send, ledger, monkeypatch) -> Session:
    monkeypatch.setattr(LedgerDatabase, "busy", 0.01)
    send([], ledger=ledger)
    session = Session(ledger.database, patience=1.0)
    write(session)
    return session


def write(session: Session) -> int:
    return session.do("written", lambda connection: connection.run("DELETE FROM kbot_notes"))


@contextlib.contextmanager
def locked(ledger: Ledger):
    with contextlib.closing(sqlite3.connect(str(ledger), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_an_outage_has_one_length_for_all_who_wait(session, ledger, caplog):
    def wait() -> None:
        with pytest.raises(LedgerError):
            write(session)

    threads = [threading.Thread(target=wait) for _ in range(3)]
    with locked(ledger):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert attempts_that_fail(session) == 1, "it has lasted long enough"
    write(session)
    begun, over = caplog.messages
    assert "1 s" in begun
    assert str(ledger) in over


def attempts_that_fail(session: Session) -> int:
    tried = 0

    def work(connection) -> None:
        nonlocal tried
        tried += 1
        connection.run("DELETE FROM kbot_notes")

    with pytest.raises(LedgerError):
        session.do("written", work)
    return tried


def test_the_next_outage_is_waited_for_again(session, ledger, caplog):
    with locked(ledger), pytest.raises(LedgerError):
        write(session)
    write(session)
    released = threading.Thread(target=write, args=(session,))
    with locked(ledger):
        released.start()
        time.sleep(0.3)
    released.join()
    told = [message.partition(" for")[0] for message in caplog.messages]
    assert told.count("Trying again") == 2
    assert len([message for message in caplog.messages if "is back" in message]) == 2


def test_what_does_not_pass_is_not_tried_again(session, caplog):
    with pytest.raises(LedgerError, match="no such table"):
        session.do("read", lambda connection: connection.rows("SELECT * FROM albums"))
    assert caplog.messages == []
