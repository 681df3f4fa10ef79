"""A ledger in PostgreSQL as it grows: its size, a second run, vacuum, and its indexes.

    python tests/benchmarks/ingestion_postgresql.py [--full] [--json FILE]

Ledgers of 50,000 and 200,000 texts are filled by `tests/support/filled_ledgers.py`, with `--full`
of 100,000 and 1,000,000. A second run takes as many texts from either, in turn, so that the index
of the larger one is all that differs; nothing listens at the service's address. What ten million
need follows from figures an item that stay the same, or grow with the depth of an index.
"""

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))

import psycopg
from measuring import Figure, report

from filled_ledgers import COLLECTION, fill
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest
from postgresql_server import PostgreSQL, postgresql

FEW, MANY = (100_000, 1_000_000) if "--full" in sys.argv else (50_000, 200_000)
ROUNDS = 3
SERVICE = "http://127.0.0.1:9"
INDEXES = ("kbot_items_id_key", "kbot_items_pkey", "kbot_items_unsettled")


def main() -> None:
    """Fill two ledgers, and look at each."""
    with postgresql() as database, Client("key", SERVICE) as client:
        urls = {count: filled(database, client, count) for count in (FEW, MANY)}
        found = {count: of_size(urls[count], count) for count in urls}
        speed: dict[int, list[float]] = {count: [] for count in urls}
        for _ in range(ROUNDS):
            for count, url in urls.items():
                began = time.perf_counter()
                result = ingest(client, texts(FEW), collections=COLLECTION, ledger=Ledger(url))
                speed[count].append(FEW / (time.perf_counter() - began))
                assert result.unchanged == FEW, result
    for count in urls:
        found[count]["second run, items/s"] = statistics.median(speed[count])
    sizes = found[MANY]["bytes, packed"] / found[FEW]["bytes, packed"]
    speeds = statistics.median(speed[MANY]) / statistics.median(speed[FEW])
    figures = [
        Figure(f"bytes an item, packed, of {MANY:,} / of {FEW:,}", sizes, 1.1),
        Figure(f"items/s of a second run in {MANY:,} / in {FEW:,}", speeds, 0.8, at_least=True),
    ]
    rows = [
        {"texts": f"{count:,}", **{name: _shown(value) for name, value in measured.items()}}
        for count, measured in found.items()
    ]
    report("A ledger in PostgreSQL as it grows", figures, rows)


def filled(database: PostgreSQL, client: Client, count: int) -> str:
    """Fill a ledger with so many texts, and return its address."""
    name = f"ledger_{count}"
    database.create(name)
    url = database.url(name)
    assert fill(url, client, texts(count)) == count
    return url


def of_size(url: str, count: int) -> dict[str, float]:
    """Measure a ledger's bytes an item, as it grew and without what is dead, and its vacuum."""
    found: dict[str, float] = {}
    with psycopg.connect(url, autocommit=True) as connection:

        def bytes_of(query: str) -> float:
            row = connection.execute(query).fetchone()  # type: ignore[call-overload] # of ours
            assert row is not None
            return float(row[0]) / count

        size = "SELECT pg_total_relation_size('kbot_items')"
        found["bytes"] = bytes_of(size)
        for index in INDEXES:
            short = index.removeprefix("kbot_items_")
            found[f"index {short}, bytes"] = bytes_of(f"SELECT pg_relation_size('{index}')")
        began = time.perf_counter()
        connection.execute("VACUUM (ANALYZE) kbot_items")
        found["vacuum, s"] = time.perf_counter() - began
        connection.execute("VACUUM FULL kbot_items")
        found["bytes, packed"] = bytes_of(size)
    return found


def texts(count: int) -> Iterator[Text]:
    """Yield texts with keys of about 12 characters."""
    for number in range(count):
        yield Text(name=f"text {number:08}", content=f"This is the text {number}.")


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


if __name__ == "__main__":
    main()
