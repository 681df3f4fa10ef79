"""What happens to a ledger while a run uses it: it is removed, locked, restarted, or set back."""

import contextlib
import sqlite3
import threading
import time

import pytest

from ingest_texts import texts
from knowledge_bot.ingest import Ledger, Stop, Text
from knowledge_bot.origins import Folder
from waiting import until

pytestmark = pytest.mark.timeout(120)


def at_arrival(number: int, damage):
    """Return a judge that does the damage once, when so many items have arrived."""
    lock, count = threading.Lock(), 0

    def judge(name, times):
        nonlocal count
        with lock:
            count += 1
            if count == number:
                damage()

    return judge


@contextlib.contextmanager
def locked(path, seconds: float | None = None):
    """Hold a write lock, as another process would, for some seconds or for the whole block."""
    writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    writer.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(seconds or 0.0, writer.rollback)
    if seconds is not None:
        timer.start()
    yield
    if seconds is not None:
        timer.join()
    writer.close()


def sources_of(ledger) -> set[str | None]:
    return {entry.source_id for entry in ledger.entries("created")}


# The ledger's file.


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_ledger_that_is_lost_under_a_run_stops_it(send, service, ledger, tmp_path, how):
    send([], ledger=Ledger(tmp_path / "other.db"))

    def lose():
        if how == "replaced":
            (tmp_path / "other.db").replace(tmp_path / "ledger.db")
            return
        for path in tmp_path.glob("ledger.db*"):
            path.unlink()

    service.judge = at_arrival(20, lose)
    report = send(texts(3000), ledger=ledger, concurrency=4)
    assert report.stopped is Stop.LEDGER
    assert str(tmp_path / "ledger.db") in report.stop_reason
    assert how in report.stop_reason
    assert len(service.created) < 500


# Locks.


def test_a_ledger_that_is_locked_for_some_seconds_is_waited_for(
    send, ledger, tmp_path, monkeypatch
):
    monkeypatch.setattr("knowledge_bot.ingest._schema.LedgerDatabase.busy", 0.2)
    send([], ledger=ledger)
    with locked(tmp_path / "ledger.db", 0.8):
        report = send(texts(50), ledger=ledger)
    assert (report.created, report.failed, report.stopped) == (50, 0, None)


def test_a_ledger_that_stays_locked_ends_the_run_and_nothing_is_sent(
    send, service, ledger, tmp_path, monkeypatch
):
    send([], ledger=ledger)
    monkeypatch.setattr("knowledge_bot.ingest._schema.LedgerDatabase.busy", 0.2)
    with locked(tmp_path / "ledger.db"):
        ledger.wait = 0.3
        report = send(texts(50), ledger=ledger)
    assert report.stopped is Stop.LEDGER
    assert service.arrived == []
    assert send(texts(50), ledger=ledger).created == 50


def test_what_was_sent_while_the_ledger_was_locked_is_recorded_later(
    send, service, ledger, tmp_path
):
    locks = []

    def lock():
        locks.append(contextlib.ExitStack())
        locks[0].enter_context(locked(tmp_path / "ledger.db", 0.8))

    service.judge = at_arrival(10, lock)
    report = send(texts(50), ledger=ledger)
    locks[0].close()
    assert (report.created, report.unknown, report.stopped) == (50, 0, None)
    assert len(sources_of(ledger)) == 50


def test_the_same_item_twice_waits_for_a_locked_ledger_without_planning(
    send, service, ledger, tmp_path, monkeypatch
):
    send([], ledger=ledger)
    statements: list[str] = []
    connect = sqlite3.connect

    def tracing(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", tracing)
    with locked(tmp_path / "ledger.db", 1.5):
        began = time.process_time()
        report = send([Text(name="a", content="b")] * 3, ledger=ledger)
    assert report.created == 1
    assert report.unchanged + report.skipped == 2
    assert service.arrived == ["a"]
    assert len([one for one in statements if " kbot_items" in one]) < 20
    assert time.process_time() - began < 1.0


# PostgreSQL that goes away.


@pytest.fixture
def server(server_of_postgresql):
    """A PostgreSQL that a test may stop; it is there again for the next one."""
    yield server_of_postgresql
    if not server_of_postgresql.runs:
        server_of_postgresql.start()


@pytest.mark.slow
def test_a_postgresql_that_is_restarted_under_a_run_is_waited_for(
    send, service, server, postgresql
):
    ledger = Ledger(postgresql)
    used_while_it_was_away = []

    def restart():
        server.stop()
        used = time.process_time()
        time.sleep(2)
        used_while_it_was_away.append(time.process_time() - used)
        server.start()

    restarting = threading.Thread(target=restart)
    service.judge = at_arrival(100, restarting.start)
    report = send(texts(300), ledger=ledger)
    restarting.join()
    assert used_while_it_was_away[0] < 1, "it was not waited for, but asked all the time"
    assert (report.created, report.unknown, report.failed) == (300, 0, 0)
    assert report.duration > 2
    assert len(service.arrived) == len(sources_of(ledger)) == 300

    # Results in hand while it is away are written when it is back.
    def answer_while_it_is_away(name, times):
        nonlocal stopped
        with stopping:
            if not stopped:
                server.stop()
                stopped = True
                threading.Timer(1.0, server.start).start()

    stopped, stopping = False, threading.Lock()
    service.judge = answer_while_it_is_away
    report = send(texts(8, "new"), ledger=ledger)
    assert (report.created, report.unknown, report.superseded) == (8, 0, 8)
    assert len(sources_of(ledger)) == 300
    assert len(list(ledger.superseded())) == 8


def test_a_postgresql_that_stays_away_ends_the_run_and_what_was_in_hand_is_named(
    send, service, server, postgresql
):
    ledger = Ledger(postgresql)
    service.judge = at_arrival(4, server.stop)
    ledger.wait = 2
    report = send(texts(50), ledger=ledger, concurrency=4)
    assert report.stopped is Stop.LEDGER
    assert 2 <= report.duration < 8  # four wait at once; one after the other would be 8
    assert len(service.created) <= 8
    told = {one.key: one.error for one in report.failures if one.kind == "unknown"}
    sent = list(told)
    assert report.created + len(sent) == len(service.created)
    assert set(sent) <= set(service.created)
    said = " ".join(told.values())
    assert "src_" in said, "a source that is known to be there has to be named"
    server.start()
    service.judge = lambda name, times: None
    send(texts(50), ledger=ledger)
    unknown = {entry.key for entry in ledger.unknown()}
    assert len(service.arrived) == len(set(service.arrived))
    assert set(service.created) | unknown == {f"t{number}" for number in range(50)}


# Clocks.


def test_a_run_goes_on_after_the_machine_slept(send, service, ledger, monkeypatch):
    real, slept = time.clock_gettime, 0.0

    def sleep():
        nonlocal slept
        slept += 1000.0  # its lease is over long since

    monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) + slept)
    service.judge = at_arrival(10, sleep)
    report = send(texts(50), ledger=ledger)
    assert (report.created, report.unknown) == (50, 0)
    assert len(service.arrived) == 50


@pytest.mark.parametrize("step", [-3600.0, 3600.0], ids=["back", "forward"])
def test_a_clock_that_is_set_does_not_stop_the_heartbeat(
    send, service, ledger_address, monkeypatch, step
):
    ledger = Ledger(ledger_address)
    leases: list[float] = []
    real = time.time

    def note(renewals: int) -> None:
        def noted() -> bool:
            with contextlib.closing(ledger.database.connect(reading=True)) as connection:
                leases.append(connection.rows("SELECT lease_until FROM kbot_runs")[0][0])
            return len(set(leases)) >= renewals

        until(noted)

    def set_the_clock(name, times):
        note(1)
        monkeypatch.setattr(time, "time", lambda: real() + step)
        del leases[:]
        note(3)
        monkeypatch.setattr(time, "time", real)

    monkeypatch.setattr("knowledge_bot.ingest._store.LEASE", 2.0)
    monkeypatch.setattr("knowledge_bot.ingest._store.HEARTBEAT", 0.1)
    service.judge = set_the_clock
    assert send(texts(1), ledger=ledger).created == 1
    assert len(set(leases)) >= 3


def test_a_ledger_in_the_folder_that_is_fed_is_no_document(send, service, tmp_path):
    for number in range(30):
        (tmp_path / f"{number}.md").write_text(f"Text {number}", encoding="utf-8")
    for name in ("other.db", "ledger.db.md"):
        (tmp_path / name).write_bytes(b"not the ledger")
    for created in (32, 0, 0):
        report = send(Folder(tmp_path), ledger=Ledger(tmp_path / "ledger.db"))
        assert report.ok
        assert (report.created, report.superseded) == (created, 0)
        assert report.skipped >= 1
    assert [name for name in service.created if "ledger" in name] == ["ledger.db.md"]
    skipped = {one.name for one in report.failures if one.kind == "skipped"}
    assert "ledger.db" in skipped


def test_a_ledger_of_another_run_is_no_document(send, service, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("Open at 9:30.", encoding="utf-8")
    send([Text(name="t", content="one")], ledger=Ledger(folder / "other.db"))
    report = send(Folder(folder), ledger=Ledger(tmp_path / "ledger.db"))
    assert (report.created, [one.name for one in report.failures]) == (1, ["other.db"])
