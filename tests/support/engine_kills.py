"""Kills workers of an engine in mid-write, and asks the service what arrived."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import psutil

import engine_job
from counting_server import CountingServer, counting
from knowledge_bot.ingest import Ledger

ROWS, KILLS = 5000, 3
# Seconds that the service takes for a source, at most, half of them before it is created.
DELAY = 0.02


@dataclass(frozen=True)
class Killed:
    """What came of a job whose workers were killed.

    Attributes:
        twice: rows that the service has more than once.
        lost: rows that it does not have, and of which nobody says so.
        unknown: rows that the ledger names as unknown.
        told: what the job said at its end; empty where it ended well.
        afterwards: the same, once the unknown rows were settled and the job was run again.
    """

    twice: int
    lost: int
    unknown: int
    told: str
    afterwards: "Killed | None" = None


def kill_workers(engine: str, sink: str, folder: Path, address: str) -> Killed:
    """Run a job of 5,000 rows, kill a worker that is writing three times, and run it once more.

    Where the worker is the job itself, it is started again, as whoever schedules it would.

    Args:
        engine: which one.
        sink: `naive` or `ledger`.
        folder: where the job may leave things.
        address: of the ledger.
    """
    rows = {row["id"] for row in engine_job.rows_of(ROWS)}
    with counting(folder, DELAY) as server:

        def judged(told: str, unknown: set[str], afterwards: Killed | None = None) -> Killed:
            arrived = server.created()
            twice = sum(count > 1 for count in arrived.values())
            lost = len(rows - arrived.keys() - unknown)
            return Killed(twice, lost, len(unknown), told, afterwards)

        job = Job(engine, sink, server, folder, address)
        for number in range(1, KILLS + 1):
            job.kill_a_worker(after=ROWS * number // (KILLS + 1))
        told = job.end()
        if sink == "naive":
            return _shown(engine, sink, judged(told, set()))
        ledger = Ledger(address)
        unknown = {entry.name for entry in ledger.unknown()}
        killed = _shown(engine, sink, judged(told, unknown))
        there = server.created()
        for entry in list(ledger.unknown()):  # as a person does, who looked into the service
            ledger.resolve(entry.id, created=entry.name in there)
        told = Job(engine, sink, server, folder, address).end()
        return replace(killed, afterwards=judged(told, set()))


def _shown(engine: str, sink: str, killed: Killed) -> Killed:
    print(  # noqa: T201 - the table of scripts/test-engines
        f"{engine}, {sink} sink, {ROWS:,} rows, {KILLS} kills: twice {killed.twice}, "
        f"lost {killed.lost}, unknown {killed.unknown}"
    )
    return killed


class Job:
    """An engine's job, in a process of its own."""

    def __init__(
        self,
        engine: str,
        sink: str,
        server: CountingServer,
        folder: Path,
        ledger: str,
    ) -> None:
        self._server, self._port = server, urlsplit(server.url).port
        self._told = folder / "told"
        self._command = [sys.executable, engine_job.__file__, engine, sink, ledger]
        self._command += [str(folder), str(ROWS)]
        self._environment = {
            **os.environ,
            "KNOWLEDGE_BOT_BASE_URL": server.url,
            "KNOWLEDGE_BOT_API_KEY": "key",
            "RUNTIME__DLTHUB_TELEMETRY": "false",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        self._start()

    def _start(self) -> None:
        with self._told.open("wb") as told:
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=told, stderr=told
            )

    def kill_a_worker(self, after: int) -> None:
        """Kill one that is sending, once so many rows are there."""
        self._wait(lambda: self._server.created().total() >= after, "so many rows arrived")
        victims: list[int] = []
        self._wait(lambda: bool(victims.extend(self._senders()) or victims), "a worker sends")
        os.kill(victims[0], signal.SIGKILL)
        if victims[0] == self._process.pid:
            self._process.wait(30)
            self._start()

    def end(self) -> str:
        """Wait for the job's end; return what it said where it failed."""
        try:
            failed = self._process.wait(600)
        finally:
            self._process.kill()
        return self._told.read_text(errors="replace") if failed else ""

    def _senders(self) -> list[int]:
        """Return the processes that are connected to the service."""
        found = []
        for process in psutil.process_iter():
            try:
                connections = process.net_connections(kind="tcp")
            except psutil.Error:  # it has just ended
                continue
            if any(one.raddr and one.raddr.port == self._port for one in connections):
                found.append(process.pid)
        return found

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 300
        while not condition():
            ended = self._process.poll()
            assert ended is None, f"{what}? the job ended: {self._told.read_text()[-3000:]}"
            assert time.monotonic() < deadline, f"never: {what}"
            time.sleep(0.02)
