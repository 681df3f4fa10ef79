"""Many processes that ingest the same items at the same time, over one ledger in PostgreSQL.

    python tests/benchmarks/ingestion_workers.py [--full] [--json FILE]

They should be as fast together as one alone, and create each item once. Start-up is not counted:
each process first ingests an item of its own into another collection, then all begin together; it
is measured from there to the end of the last one. `--full` takes 6,000 items and up to 16
processes.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))

from measuring import Figure, report, run_together

from counting_server import CountingServer, counting
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest
from postgresql_server import postgresql

FULL = "--full" in sys.argv
FLAG = ["--full"] if FULL else []
ITEMS = 6000 if FULL else 1200
PROCESSES = (1, 4, 16) if FULL else (1, 4, 8)
LEAST = (1.0, 0.7)  # of one alone: more processes wait for each other's turn at the processors
ROUNDS = 3
IN_FLIGHT = 8
DELAY = 0.002


def main() -> None:
    """Measure in turn, and report."""
    speed: dict[int, list[float]] = {processes: [] for processes in PROCESSES}
    twice = lost = 0
    with postgresql() as database:
        for turn in range(ROUNDS):
            for processes in PROCESSES:
                name = f"ledger_{processes}_{turn}"
                database.create(name)
                with tempfile.TemporaryDirectory() as folder, counting(Path(folder), DELAY) as one:
                    seconds = seconds_of(processes, one, database.url(name))
                    created = {
                        name: count for name, count in one.created().items() if name in NAMES
                    }
                speed[processes].append(ITEMS / seconds)
                twice += sum(created.values()) - len(created)
                lost += ITEMS - len(created)
    rows = [
        {
            "processes": processes,
            "items/s": round(statistics.median(measured)),
            "least": round(min(measured)),
            "most": round(max(measured)),
        }
        for processes, measured in speed.items()
    ]
    alone = statistics.median(speed[1])
    figures = [
        Figure(
            f"items/s of {processes} processes / of one",
            statistics.median(speed[processes]) / alone,
            least,
            at_least=True,
        )
        for processes, least in zip(PROCESSES[1:], LEAST, strict=True)
    ]
    figures += [Figure("created twice", twice, 0), Figure("not created", lost, 0)]
    report(f"Ingestion by many processes, the same {ITEMS:,} items", figures, rows)


NAMES = {f"item {number}" for number in range(ITEMS)}


def seconds_of(processes: int, service: CountingServer, ledger: str) -> float:
    """Let so many processes ingest the items; return the seconds until the last one ended."""
    command = [sys.executable, __file__, "work", service.url, ledger]
    began, printed = run_together([[*command, str(number), *FLAG] for number in range(processes)])
    ends: list[dict[str, Any]] = [json.loads(one) for one in printed]
    assert all(end["ok"] for end in ends), ends
    assert sum(end["created"] for end in ends) == ITEMS, ends
    last: float = max(end["at"] for end in ends)  # one clock for all processes of a machine
    return last - began


def work(url: str, ledger: str, number: str) -> None:
    """Ingest the items, when told to begin."""
    with Client("key", url, timeout=30) as client:
        first = Text(name=f"first of {number}", content="Loads what a run needs.")
        ingest(client, [first], collections="col_first", ledger=Ledger(ledger))
        items = (
            Text(name=f"item {one}", content=f"This is item {one}. " * 10) for one in range(ITEMS)
        )
        print("ready", flush=True)
        sys.stdin.readline()
        result = ingest(
            client, items, collections="col_1", ledger=Ledger(ledger), concurrency=IN_FLIGHT
        )
        end = {"at": time.monotonic(), "ok": result.ok, "created": result.created}
    print(json.dumps({**end, "told": str(result)}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(*sys.argv[2:5])
    else:
        main()
