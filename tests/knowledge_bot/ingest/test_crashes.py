"""Processes that are killed, ended, or many: what really arrived at the service."""

import json
import multiprocessing
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import ingest_worker
from counting_server import CountingServer, counting
from kill_ingestion import kill_ingestion
from knowledge_bot.ingest import Ledger

pytestmark = pytest.mark.timeout(240)


def worker(url: str, ledger: str, items: int, *, begin: bool = True) -> subprocess.Popen[str]:
    command = [sys.executable, ingest_worker.__file__, url, ledger, str(items)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    if begin:
        begin_with(process)
    return process


def begin_with(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def wait_for(server: CountingServer, count: int) -> None:
    deadline = time.monotonic() + 60
    while server.created().total() < count:
        assert time.monotonic() < deadline, "nothing arrived"
        time.sleep(0.02)


def wait_for_claims(ledger: Ledger, count: int) -> None:
    deadline = time.monotonic() + 30
    while not (ledger.exists() and sum(one.claimed for one in ledger.status()) == count):
        assert time.monotonic() < deadline, "nothing was claimed"
        time.sleep(0.02)


def test_killed_runs_lose_nothing_and_create_nothing_twice():
    tally = kill_ingestion(kills=10, items=1500, concurrency=8)
    assert tally.kills == 10
    assert (tally.twice, tally.lost) == (0, 0)
    assert tally.most_unknown_per_kill <= 8


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_thousand_killed_runs_lose_nothing_and_create_nothing_twice():
    tally = kill_ingestion(kills=1000, items=20_000, concurrency=16)
    assert (tally.twice, tally.lost) == (0, 0)
    assert tally.most_unknown_per_kill <= 16


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_asked_to_end_leaves_nothing_unknown(tmp_path, ledger_address, number):
    with (
        counting(tmp_path, 0.01) as server,
        worker(server.url, ledger_address, 20_000) as process,
    ):
        wait_for(server, 50)
        process.send_signal(number)
        output, _ = process.communicate(timeout=30)
        report = json.loads(output)
        created = server.created()
    assert report["stopped"] == "requested"
    assert report["unknown"] == 0
    assert report["created"] == created.total() < 20_000
    assert list(Ledger(ledger_address).unknown()) == []
    (holding,) = Ledger(ledger_address).status()
    assert (holding.claimed, holding.created) == (0, created.total())


def test_a_worker_of_a_pool_that_is_ended_records_what_is_under_way_and_ends(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    with counting(tmp_path, 0.05) as server:
        pool = multiprocessing.get_context("spawn").Pool(1)
        arguments = (server.url, str(tmp_path / "ledger.db"), 20_000)
        pool.apply_async(ingest_worker.ingested, arguments)
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
    (holding,) = ledger.status()
    assert (holding.created, holding.claimed, holding.unknown) == (created, 0, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_a_run_that_hangs(tmp_path, number):
    ledger = Ledger(tmp_path / "ledger.db")
    with (
        counting(tmp_path, 600) as server,
        worker(server.url, str(tmp_path / "ledger.db"), 100) as process,
    ):
        wait_for_claims(ledger, 8)
        process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.send_signal(number)
        try:
            assert process.wait(timeout=30) == -number
        finally:
            process.kill()
    assert len(list(ledger.unknown())) == 8
    assert sum(one.created + one.claimed for one in ledger.status()) == 0


def test_four_processes_create_every_item_exactly_once(tmp_path, ledger_address):
    items = 1000
    with counting(tmp_path, 0.01) as server:
        processes = [worker(server.url, ledger_address, items, begin=False) for _ in range(4)]
        for process in processes:
            begin_with(process)
        reports = [json.loads(process.communicate(timeout=200)[0]) for process in processes]
        created = server.created()
    assert len(created) == items
    assert created.total() == items
    assert sum(report["created"] for report in reports) == items
    assert [report["unknown"] + report["refused"] for report in reports] == [0, 0, 0, 0]
    assert sum(report["created"] > 0 for report in reports) > 1, "they took turns"


def test_the_claims_of_a_killed_worker_are_unknown_at_once(tmp_path, ledger_address):
    with counting(tmp_path, 30) as server, worker(server.url, ledger_address, 100) as process:
        ledger = Ledger(ledger_address)
        wait_for_claims(ledger, 8)
        assert list(ledger.unknown()) == [], "a live worker was taken for dead"
        process.kill()
        process.communicate()
        assert len(list(ledger.unknown())) == 8


def test_two_runs_at_once_leave_the_other_ones_claims_alone(tmp_path, ledger_address):
    with counting(tmp_path, 2) as server:
        with worker(server.url, ledger_address, 8) as first:
            ledger = Ledger(ledger_address)
            wait_for_claims(ledger, 8)
            with worker(server.url, ledger_address, 8) as second:
                report = json.loads(second.communicate(timeout=60)[0])
            first.communicate(timeout=60)
        assert report["created"] == 0
        assert report["elsewhere"] + report["unchanged"] == 8
        assert server.created().total() == 8


def test_workers_are_told_apart_from_later_processes_with_the_same_id(tmp_path):
    script = Path(tmp_path, "own.py")
    script.write_text(
        "from dataclasses import replace\n"
        "from knowledge_bot.ingest.ledger.owners import Owner\n"
        "me = Owner.of_this_process()\n"
        "assert not me.is_dead(lease_until=0, now=1), 'a live owner with a lapsed lease'\n"
        "assert replace(me, started='1').is_dead(lease_until=9, now=1), 'a reused id'\n"
        "elsewhere = replace(me, machine='other', pid=1)\n"
        "assert not elsewhere.is_dead(lease_until=9, now=1)\n"
        "assert elsewhere.is_dead(lease_until=0, now=1)\n"
    )
    subprocess.run([sys.executable, script], check=True)
