"""Processes that are killed, ended, or many: what really arrived at the service.

One of each kind runs always, the others at night.
"""

import contextlib
import json
import multiprocessing
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from typing import Any

import psycopg
import pytest

import ingest_worker
from kill_ingestion import kill_ingestion
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest
from served import Surviving, surviving
from waiting import until

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def worker():
    """`worker(url, ledger, items)`: a process that ingests; it ends with the test."""
    with contextlib.ExitStack() as ending:

        def start(*arguments: object, begin: bool = True, ignored: int | None = None):
            with signals_for_children(ignored):
                process = subprocess.Popen(
                    [sys.executable, ingest_worker.__file__, *map(str, arguments)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    process_group=0,
                )
            ending.enter_context(process)
            ending.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            if begin:
                begin_with(process)
            return process

        yield start


@contextlib.contextmanager
def signals_for_children(ignored: int | None):
    """Let children handle signals as by default, whatever this process ignores, as under nohup."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {
        number: signal.signal(number, signal.SIG_IGN if number == ignored else signal.SIG_DFL)
        for number in numbers
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def report_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, _ = process.communicate(timeout=60)
    report: dict[str, Any] = json.loads(output)
    return report


def begin_with(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def wait_for(server: Surviving, count: int) -> None:
    assert until(lambda: server.created().total() >= count, 60)


def wait_for_claims(ledger: Ledger, count: int) -> None:
    assert until(
        lambda: ledger.exists() and sum(one.claimed for one in ledger.status()) == count, 30
    )


def at_night(*row: object, timeout: int = 240):
    return pytest.param(*row, marks=[pytest.mark.slow, pytest.mark.timeout(timeout)])


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("sqlite", {"kills": 2, "items": 300, "concurrency": 8, "longest": 0.3}),
        at_night("postgresql", {"kills": 2, "items": 400, "concurrency": 8, "longest": 0.5}),
        at_night("sqlite", {"kills": 1000, "items": 20_000, "concurrency": 16}, timeout=7200),
    ],
    ids=["a few", "in PostgreSQL", "a thousand"],
)
def test_killed_runs_lose_nothing_and_create_nothing_twice(request, kind, how):
    if kind == "postgresql":
        schema = request.getfixturevalue("new_schema")
        how = {**how, "ledger_of": lambda path: schema()}
    counts = kill_ingestion(**how)
    assert counts.kills == how["kills"]
    assert (counts.twice, counts.lost) == (0, 0)
    assert counts.most_unknown_per_kill <= how["concurrency"]


@pytest.mark.slow
def test_a_stopped_worker_with_an_open_transaction_does_not_stop_the_others(
    tmp_path, worker, postgresql
):
    address = postgresql
    with surviving(tmp_path, 0.0) as server:
        frozen = worker(server.url, address, 3000)
        stop_in_a_transaction(frozen, address)
        began = time.monotonic()
        report = ingest_worker.ingested(server.url, address, 3000, wait_ready=2.0)
        seconds = time.monotonic() - began
        frozen.send_signal(signal.SIGCONT)
        resumed = report_of(frozen)
        created = server.created()
    assert report.stopped is None
    assert seconds < 100  # it waits for ten; with a busy machine, 3,000 items take another minute
    assert resumed["stopped"] is None
    assert created.total() == len(created) == 3000


def stop_in_a_transaction(process: subprocess.Popen[str], address: str) -> None:
    """Stop a process while it holds locks of the ledger in an open transaction."""
    holding = (
        "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) "
        "WHERE state = 'idle in transaction' AND mode = 'RowExclusiveLock' "
        "AND relation = to_regclass('kbot_items')"
    )
    deadline = time.monotonic() + 60
    with psycopg.connect(address, autocommit=True) as connection:
        while time.monotonic() < deadline:
            time.sleep(0.011)
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.02)
            if connection.execute(holding).fetchall() == [(1,)]:
                return
            process.send_signal(signal.SIGCONT)
    raise AssertionError("it was never in a transaction")


@pytest.mark.slow
def test_a_hangup_that_nohup_ignores_stays_ignored(tmp_path, worker):
    with surviving(tmp_path, 0.01) as server:
        process = worker(server.url, tmp_path / "ledger.db", 300, ignored=signal.SIGHUP)
        wait_for(server, 20)
        process.send_signal(signal.SIGHUP)
        report = report_of(process)
    assert (report["created"], report["stopped"]) == (300, None)


@pytest.mark.slow
def test_a_worker_of_a_pool_that_is_ended_records_what_is_under_way_and_ends(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    with surviving(tmp_path, 0.05) as server:
        pool = multiprocessing.get_context("spawn").Pool(1)
        arguments = (server.url, str(tmp_path / "ledger.db"), 20_000)
        pool.apply_async(ingest_worker.ingested_in_a_pool, arguments)
        wait_for(server, 50)
        ending = threading.Thread(target=pool.terminate, daemon=True)
        ending.start()
        ending.join(30)
        try:
            assert not ending.is_alive()
        finally:
            for process in multiprocessing.active_children():
                process.kill()
        created = server.created().total()
    (counts,) = ledger.status()
    assert (counts.created, counts.claimed, counts.unknown) == (created, 0, 0)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_second_signal_ends_a_run_that_hangs(tmp_path, worker, number):
    ledger = Ledger(tmp_path / "ledger.db")
    with surviving(tmp_path, 600) as server:
        process = worker(server.url, tmp_path / "ledger.db", 100)
        wait_for_claims(ledger, 8)
        process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)  # sooner, it would be the same wish
        process.send_signal(number)
        assert process.wait(timeout=30) == -number
    assert len(list(ledger.unknown())) == 8
    assert sum(one.created + one.claimed for one in ledger.status()) == 0


@pytest.mark.slow
def test_four_processes_share_the_work_and_create_every_item_once(tmp_path, ledger_address, worker):
    items = 400
    with surviving(tmp_path, 0.01) as server:
        processes = [worker(server.url, ledger_address, items, begin=False) for _ in range(4)]
        for process in processes:
            begin_with(process)
        reports = [report_of(process) for process in processes]
        created = server.created()
    assert len(created) == items
    assert created.total() == items
    assert sum(report["created"] for report in reports) == items
    assert [report["unknown"] + report["refused"] for report in reports] == [0, 0, 0, 0]
    assert sum(report["created"] > 0 for report in reports) > 1, "they took turns"


def test_the_claims_of_a_killed_worker_are_unknown_at_once(tmp_path, ledger_address, worker):
    with surviving(tmp_path, 30) as server:
        process = worker(server.url, ledger_address, 100)
        ledger = Ledger(ledger_address)
        wait_for_claims(ledger, 8)
        assert list(ledger.unknown()) == [], "a live worker was taken for dead"
        process.kill()
        process.communicate()
        assert len(list(ledger.unknown())) == 8
        (counts,) = ledger.status()
        assert (counts.claimed, counts.unknown) == (0, 8)


@pytest.mark.slow
def test_a_worker_that_dies_while_another_one_runs_leaves_unknown_what_it_claimed(
    tmp_path, postgresql, worker
):
    with surviving(tmp_path, 30) as server, Client("key", server.url) as client:
        process = worker(server.url, postgresql, 8)
        ledger = Ledger(postgresql)
        wait_for_claims(ledger, 8)

        def items():  # the run is open by now, and looked for dead ones then
            process.kill()
            process.communicate()
            yield Text(name="item 3", content="Text 3.")

        report = ingest(client, items(), collections="col_1", ledger=ledger)
        assert (report.unknown, report.elsewhere) == (1, 0)


@pytest.mark.slow
def test_a_run_can_wait_for_what_another_one_is_sending(tmp_path, worker):
    ledger = tmp_path / "ledger.db"
    with surviving(tmp_path, 1) as server:
        first = worker(server.url, ledger, 8)
        wait_for_claims(Ledger(ledger), 8)
        report = ingest_worker.ingested(server.url, str(ledger), 8, wait_ready=30)
        assert (report.unchanged, report.elsewhere, report.created) == (8, 0, 0)
        assert report_of(first)["created"] == 8
        assert server.created().total() == 8


@pytest.mark.slow
def test_a_run_can_wait_until_a_dead_machine_is_found_out(tmp_path, postgresql, worker):
    with surviving(tmp_path, 600) as server:
        process = worker(server.url, postgresql, 8, "north", 0, 1)
        wait_for_claims(Ledger(postgresql), 8)
        process.kill()
        assert list(Ledger(postgresql).unknown()) == [], "nobody can know yet"
        report = ingest_worker.ingested(server.url, postgresql, 8, wait_ready=30)
    assert (report.unknown, report.elsewhere, report.created) == (8, 0, 0)
    assert {one.key for one in report.failures} == {f"item {number}" for number in range(8)}


@pytest.mark.slow
def test_a_run_waits_no_longer_than_it_is_asked_to(tmp_path, worker):
    ledger = tmp_path / "ledger.db"
    with surviving(tmp_path, 600) as server:
        worker(server.url, ledger, 8)
        wait_for_claims(Ledger(ledger), 8)
        began = time.monotonic()
        report = ingest_worker.ingested(server.url, str(ledger), 8, wait_ready=0.5)
        assert 0.5 <= time.monotonic() - began < 60  # the service answers after 600
    assert (report.elsewhere, report.created) == (8, 0)


@pytest.mark.slow
def test_a_machine_whose_clock_is_set_back_is_not_taken_for_dead(tmp_path, postgresql, worker):
    with surviving(tmp_path, 1.5) as server:
        first = worker(server.url, postgresql, 16, "north", -3600, 1.5)
        wait_for_claims(Ledger(postgresql), 8)
        time.sleep(2.0)  # longer than a lease
        second = worker(server.url, postgresql, 16, "south", 0, 1.5)
        reports = [report_of(first), report_of(second)]
        assert set(server.created().values()) == {1}
    assert sum(report["created"] for report in reports) == 16


@pytest.mark.parametrize(("items", "transport"), [(100, "httpcore"), (400, "aiohttp")])
@pytest.mark.slow
def test_a_run_that_is_killed_before_it_can_send_leaves_nothing_unknown(tmp_path, items, transport):
    """Loading the transport takes long here: nothing may be claimed meanwhile."""
    script = tmp_path / "slow.py"
    script.write_text(
        "import sys, time\n"
        "class Slow:\n"
        "    def find_spec(name, *arguments):\n"
        f"        if name == {transport!r}:\n"
        "            print('loading', flush=True)\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow)\n"
        "import ingest_worker\n"
        f"ingest_worker.ingested(*sys.argv[1:3], {items})\n"
    )
    ledger = Ledger(tmp_path / "ledger.db")
    with surviving(tmp_path) as server:
        process = subprocess.Popen(
            [sys.executable, script, server.url, tmp_path / "ledger.db"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.path.dirname(ingest_worker.__file__)},
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "loading\n"
            time.sleep(0.5)
            process.kill()
    # Its tables come with its first row.
    assert not ledger.exists() or not sum(one.claimed + one.unknown for one in ledger.status())


@pytest.mark.slow
def test_a_run_that_is_killed_while_the_service_refuses_leaves_nothing_unknown(tmp_path, worker):
    ledgers = [tmp_path / f"{number}.db" for number in range(2)]
    with socket.socket() as refusing:  # it does not listen, and nobody else gets its port
        refusing.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{refusing.getsockname()[1]}"
        processes = [worker(url, ledger, 100) for ledger in ledgers]
        time.sleep(1.0)
        for process, ledger in zip(processes, ledgers, strict=True):
            time.sleep(0.3)
            process.kill()
            process.communicate()
            assert not Ledger(ledger).exists() or list(Ledger(ledger).unknown()) == []


@pytest.mark.slow
def test_who_is_dead_is_known_by_process_here_and_by_lease_elsewhere(tmp_path, worker):
    ledger = Ledger(tmp_path / "ledger.db")
    expected = {
        "lease_until = 0": 0,  # it lives, though its heart stood still
        "started = '1'": 8,  # another process has its id now
        "pid = pid + 4000000": 8,
        "machine = 'another'": 0,
        "machine = 'another', lease_until = 0": 8,
    }
    found = {}
    with surviving(tmp_path, 600) as server:
        worker(server.url, tmp_path / "ledger.db", 100)
        wait_for_claims(ledger, 8)
        with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
            connection.execute("CREATE TABLE kept AS SELECT * FROM kbot_runs")
            for change in expected:  # reading writes nothing, so each begins anew
                connection.execute("DELETE FROM kbot_runs")
                connection.execute("INSERT INTO kbot_runs SELECT * FROM kept")
                connection.execute(f"UPDATE kbot_runs SET {change}")
                connection.commit()
                found[change] = len(list(ledger.unknown()))
    assert found == expected
