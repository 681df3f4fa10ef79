"""A ledger in PostgreSQL as it grows: its size, a second run, vacuum, and its indexes.

    python tests/benchmarks/ingestion_postgresql.py [--full] [--json FILE]

Ledgers of 50,000 and 200,000 texts are filled by `tests/support/filled_ledgers.py`, with `--full`
of 100,000 and 1,000,000: what ten million need follows where a figure an item stays the same, or
grows with the depth of an index. Nothing listens at the service's address: a second run only reads.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))

import psycopg
from measuring import Figure, report

from filled_ledgers import COLLECTION, fill
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest
from postgresql_server import PostgreSQL, postgresql

FEW, MANY = (100_000, 1_000_000) if "--full" in sys.argv else (50_000, 200_000)
SERVICE = "http://127.0.0.1:9"
INDEXES = ("kbot_items_id_key", "kbot_items_pkey", "kbot_items_digest", "kbot_items_unsettled")


def main() -> None:
    """Fill two ledgers, and look at each."""
    with postgresql() as database:
        found = {count: of_size(database, count) for count in (FEW, MANY)}
    few, many = found[FEW], found[MANY]
    figures = [
        Figure(f"bytes an item of {MANY:,} / of {FEW:,}", many["bytes"] / few["bytes"], 1.1),
        Figure(
            f"items/s of a second run over {MANY:,} / over {FEW:,}",
            many["second run, items/s"] / few["second run, items/s"],
            0.8,
            at_least=True,
        ),
    ]
    rows = [
        {"texts": f"{count:,}", **{name: _shown(value) for name, value in measured.items()}}
        for count, measured in found.items()
    ]
    report("A ledger in PostgreSQL as it grows", figures, rows)


def of_size(database: PostgreSQL, count: int) -> dict[str, float]:
    """Fill a ledger with so many texts, and measure it."""
    name = f"ledger_{count}"
    database.create(name)
    url = database.url(name)
    found: dict[str, float] = {}
    with Client("key", SERVICE) as client:
        assert fill(url, client, texts(count)) == count
        with psycopg.connect(url, autocommit=True) as connection:

            def one(query: str) -> Any:
                row = connection.execute(query).fetchone()  # type: ignore[call-overload] # of ours
                assert row is not None
                return row[0]

            found["bytes"] = one("SELECT pg_total_relation_size('kbot_items')") / count
            began = time.perf_counter()
            connection.execute("VACUUM (ANALYZE) kbot_items")
            found["vacuum, s"] = time.perf_counter() - began
            began = time.perf_counter()
            report = ingest(client, texts(count), collections=COLLECTION, ledger=Ledger(url))
            assert report.unchanged == count, report
            found["second run, items/s"] = count / (time.perf_counter() - began)
            for index in INDEXES:
                short = index.removeprefix("kbot_items_")
                found[f"index {short}, bytes"] = one(f"SELECT pg_relation_size('{index}')") / count
            connection.execute("VACUUM FULL kbot_items")
            found["bytes, packed"] = one("SELECT pg_total_relation_size('kbot_items')") / count
    return found


def texts(count: int) -> Iterator[Text]:
    """Yield texts with keys of about 12 characters."""
    for number in range(count):
        yield Text(name=f"text {number:08}", content=f"This is the text {number}.")


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


if __name__ == "__main__":
    main()
