"""Many workers over one ledger in PostgreSQL, as an engine's workers are.

    python tests/benchmarks/ingestion_scaling.py [--full] [--json FILE]

Each worker is a process with rows of its own. Told are rows a second, and of the ledger its
transactions and writes for each row, and its connections. One service answers at once, so that the
processors are the limit; one takes 50 ms, so that it is the requests in flight. `--full` takes more
rows, and three rounds.
"""

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))

import psycopg
from measuring import Figure, report, run_together

from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest
from postgresql_server import PostgreSQL, postgresql
from served import Surviving, surviving

FULL = "--full" in sys.argv
WORKERS = (1, 4, 16)
ROUNDS = 3 if FULL else 1
IN_FLIGHT = 8
# Of the service: its name, the seconds that it takes at most (half of them on average), the rows.
AT_ONCE = ("at once", 0.0, 4800 if FULL else 1600)
IN_50_MS = ("in 50 ms", 0.05, 3200 if FULL else 1600)


@dataclass
class Measured:
    """What a run of several workers did."""

    rows: float
    transactions: float
    writes: float
    connections: int


def main() -> None:
    """Measure in turn, and report."""
    with postgresql() as database:
        table, figures = scaling(database)
    report("Workers of an engine over one ledger in PostgreSQL", figures, table)


def scaling(database: PostgreSQL) -> tuple[list[dict[str, Any]], list[Figure]]:
    """Measure 1, 4 and 16 workers."""
    table, figures = [], []
    for name, delay, rows in (AT_ONCE, IN_50_MS):
        runs: dict[int, list[Measured]] = {workers: [] for workers in WORKERS}
        for _ in range(ROUNDS):
            for workers in WORKERS:
                runs[workers].append(measured(database, workers, rows, delay))
        middle = {
            workers: statistics.median(one.rows for one in several)
            for workers, several in runs.items()
        }
        for workers, several in runs.items():
            table.append(
                {
                    "service answers": name,
                    "workers": workers,
                    "rows/s": round(middle[workers]),
                    "transactions of the ledger a row": round(
                        statistics.median(one.transactions / one.rows for one in several), 2
                    ),
                    "writes of the ledger a row": round(
                        statistics.median(one.writes / one.rows for one in several), 2
                    ),
                    "connections": max(one.connections for one in several),
                }
            )
        told = f"rows/s of {WORKERS[-1]} workers / of one, service answers {name}"
        bound = 1.5 if name == IN_50_MS[0] else None
        figures.append(Figure(told, middle[WORKERS[-1]] / middle[1], bound, at_least=True))
    return table, figures


def measured(database: PostgreSQL, workers: int, rows: int, delay: float) -> Measured:
    """Let so many workers write the rows."""
    name = f"ledger_{time.monotonic_ns()}"
    database.create(name)
    with tempfile.TemporaryDirectory() as folder, surviving(Path(folder), delay) as service:
        with Watching(database, name) as watching:
            seconds = seconds_of(workers, service, database.url(name), rows)
        created = service.created()
    of_rows = [one for one in created if one.startswith("row ")]
    assert len(of_rows) == rows, f"{len(of_rows)} of {rows}"
    assert set(created.values()) == {1}
    return Measured(
        rows / seconds,
        watching.transactions / seconds,
        watching.writes / seconds,
        watching.connections,
    )


class Watching:
    """Counts what a database does meanwhile, by PostgreSQL's own statistics."""

    def __init__(self, database: PostgreSQL, name: str) -> None:
        self._database, self._name = database, name
        self._ended = threading.Event()
        self.transactions = self.writes = self.connections = 0

    def __enter__(self) -> "Watching":
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        time.sleep(1.2)  # until all sessions have reported
        with psycopg.connect(self._database.url(), autocommit=True) as connection:
            found = connection.execute(
                "SELECT xact_commit, tup_inserted + tup_updated + tup_deleted "
                "FROM pg_stat_database WHERE datname = %s",
                [self._name],
            ).fetchone()
        assert found is not None
        self.transactions, self.writes = found

    def _watch(self) -> None:
        with psycopg.connect(self._database.url(), autocommit=True) as connection:
            while not self._ended.wait(0.05):
                found = connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [self._name]
                ).fetchone()
                assert found is not None
                self.connections = max(self.connections, found[0])


def seconds_of(workers: int, service: Surviving, ledger: str, rows: int) -> float:
    """Let so many processes write rows of their own; return the seconds until the last one ended.

    Start-up is not counted: each sends a row of its own first, then all begin together.
    """
    command = [sys.executable, __file__, "work", service.url, ledger]
    began, printed = run_together(
        [[*command, f"{number}:{rows}:{workers}"] for number in range(workers)]
    )
    return max(map(float, printed)) - began


def work(url: str, ledger: str, share: str) -> None:
    """Write rows, when told to begin; print when it was done, by the clock of all processes."""
    worker, end, step = map(int, share.split(":"))
    with Client("key", url, timeout=30) as client:

        def write(names: Iterable[str]) -> None:
            report = ingest(
                client,
                [Text(name=name, content=f"This is the {name}. " * 10) for name in names],
                collections="col_1",
                ledger=Ledger(ledger),
                concurrency=IN_FLIGHT,
            )
            assert report.ok, report

        write([f"first {worker}"])  # loads what a run needs
        print("ready", flush=True)
        sys.stdin.readline()
        write(f"row {one}" for one in range(worker, end, step))
        print(time.monotonic())


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(*sys.argv[2:5])
    else:
        main()
