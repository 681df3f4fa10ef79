"""What the embedded service needs to compare an origin of a million keys, and to list of it.

    python service/tests/benchmarks/service_origins.py [--full] [--json FILE]

The entries are written as the service writes them, without requests: 200,000, or a million by
`--full`, which takes some minutes. A ratio is to reading the rows of the sources alone.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from measuring import Figure, report

from knowledge_bot_service.store.database import ServiceDatabase
from knowledge_bot_service.store.origins import (
    Completing,
    ListedEntries,
    Origins,
    mark_of,
)
from knowledge_bot_service.store.sources import SourceStore

COUNT = 1_000_000 if "--full" in sys.argv else 200_000
ROUNDS = 3
SCAN = "SELECT count(*), sum(length(name)) FROM source"


def entries() -> Iterator[tuple[str, str, str, int, int, int]]:
    """Yield the rows of the entries, of which some hundred failed."""
    for number in range(1, COUNT + 1):
        key, version = f"docs/{number % 1000}/{number}.md", f"{number} 1700000000"
        yield (key, version, f"sha256:{number:064}", number, *mark_of(key, version))


def fill(database: ServiceDatabase) -> None:
    """Write an origin with its entries and sources."""
    SourceStore(database, ["col_one"])
    sources = (
        (n, f"src_{n:024}", f"docs/{n}.md", "ready" if n % 1000 else "failed", n)
        for n in range(1, COUNT + 1)
    )
    for statement, rows in (
        ("INSERT INTO origin (name) VALUES (?)", [("files",)]),
        (
            (
                "INSERT INTO source (id, public_id, name, kind, status, created_at, place)"
                " VALUES (?, ?, ?, 'text', ?, 0, ?)"
            ),
            sources,
        ),
        ("INSERT INTO source_collection VALUES (?, 1)", ((n,) for n in range(1, COUNT + 1))),
        (
            (
                "INSERT INTO entry (origin, key, version, digest, place, bucket, mark)"
                " VALUES (1, ?, ?, ?, ?, ?, ?)"
            ),
            entries(),
        ),
    ):
        database.write(
            lambda connection, s=statement, r=rows: connection.executemany(s, r)
        ).result()  # type: ignore[misc]


def cpu(call: Callable[[], object]) -> float:
    """Return the CPU seconds of one call: the median of some."""
    spent = []
    for _ in range(ROUNDS):
        began = time.process_time()
        call()
        spent.append(time.process_time() - began)
    return statistics.median(spent)


def main() -> None:
    """Fill a database, ask, and report."""
    with tempfile.TemporaryDirectory() as folder:
        database = ServiceDatabase(Path(folder) / "origins.sqlite3")
        fill(database)
        origins = Origins(database, ["col_one"], sees_all=True)
        runs = iter(range(ROUNDS))
        asked: dict[str, Callable[[], object]] = {
            "reading the rows": lambda: database.reader().execute(SCAN).fetchone(),
            "compare": lambda: origins.compare("files"),
            "one bucket": lambda: origins.entries(
                ListedEntries(origin="files", bucket=7, limit=1000)
            ),
            "those that failed": lambda: origins.entries(
                ListedEntries(origin="files", status=["failed"], limit=1000)
            ),
            "complete": lambda: origins.complete(
                Completing(origin="files", run=f"{next(runs)}", limit=0.5)
            ).result(),
        }
        spent = {name: cpu(call) for name, call in asked.items()}
        database.close()
    seconds = spent["compare"]
    report(
        "Origins in the embedded service",
        [
            Figure("comparing a million keys, CPU s", seconds * 1_000_000 / COUNT, 1),
            Figure(
                "comparing, of reading the rows of the sources",
                seconds / spent["reading the rows"],
                2.5,
            ),
        ],
        [{"call": name, "CPU ms": round(1000 * one, 1)} for name, one in spent.items()],
    )


if __name__ == "__main__":
    main()
