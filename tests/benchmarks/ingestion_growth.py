"""Ingestion at a million items: the second run's pace and memory, and the ledger's size.

    python tests/benchmarks/ingestion_growth.py [--full] [--json FILE]

The ledgers are filled by `tests/support/filled_ledgers.py`: the engine's own planner and store,
without requests. A second run is a process of its own, and nothing listens at its service's
address. 100,000 texts are compared with 300,000, or with 1,000,000 by `--full`, which takes some
minutes. Fewer would say nothing: they fit into SQLite's cache.
"""

import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))

from answering_server import answering
from measuring import Figure, peak_mebibytes, report

from filled_ledgers import COLLECTION, fill
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest

FEW, MANY = (100_000, 1_000_000) if "--full" in sys.argv else (100_000, 300_000)
INGESTED = 5000
ROUNDS = 3
SERVICE = "http://127.0.0.1:9"


def main() -> None:
    """Fill two ledgers, run over each, and report."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = {}
        for count in (FEW, MANY):
            began = time.perf_counter()
            with Client("key", SERVICE) as client:
                assert fill(ledger_of(folder, count), client, texts(count)) == count
            print(f"{count:,} items recorded in {time.perf_counter() - began:.0f} s", flush=True)
            sizes[count] = size_of(ledger_of(folder, count)) / count
        speed: dict[int, list[float]] = {FEW: [], MANY: []}
        memory: dict[int, list[float]] = {FEW: [], MANY: []}
        for _ in range(ROUNDS):
            for count in (FEW, MANY):
                seconds, mebibytes = in_another_process(ledger_of(folder, count), count)
                speed[count].append(count / seconds)
                memory[count].append(mebibytes)
        ingested = bytes_after_a_real_run(folder)
    rows = [
        {
            "texts": f"{count:,}",
            "items/s of the second run": round(statistics.median(speed[count])),
            "peak MiB": round(statistics.median(memory[count]), 1),
            "bytes an item": round(sizes[count]),
        }
        for count in (FEW, MANY)
    ]
    middle = {count: statistics.median(speed[count]) for count in speed}
    peak = {count: statistics.median(memory[count]) for count in memory}
    sizes_told = f"ledger's bytes an item, {MANY:,} texts"
    figures = [
        Figure(f"items/s of {MANY:,} / of {FEW:,}", middle[MANY] / middle[FEW], 0.9, at_least=True),
        Figure(f"growth of memory from {FEW:,} to {MANY:,}, MiB", peak[MANY] - peak[FEW], 25),
        Figure(sizes_told, sizes[MANY], 250),
        Figure(f"the same, {INGESTED:,} texts that were really sent", ingested, 250),
    ]
    report("Ingestion, a million items", figures, rows)


def texts(count: int) -> Iterator[Text]:
    """Yield texts with keys of about 12 characters."""
    for number in range(count):
        yield Text(name=f"text {number:07}", content=f"This is the text {number}.")


def ledger_of(folder: Path, count: int) -> Path:
    """Return the file of the ledger with so many items."""
    return folder / f"{count}.db"


def size_of(ledger: Path) -> int:
    """Return a ledger's bytes, with all that is in its log written into the file."""
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return ledger.stat().st_size


def bytes_after_a_real_run(folder: Path) -> float:
    """Return the bytes an item of a ledger that `ingest` filled, empty tables not counted."""
    ledger = folder / "ingested.db"
    with answering() as url, Client("key", url) as client:
        ingest(client, [], collections=COLLECTION, ledger=Ledger(ledger))
        empty = size_of(ledger)
        result = ingest(client, texts(INGESTED), collections=COLLECTION, ledger=Ledger(ledger))
        assert result.created == INGESTED
    with closing(sqlite3.connect(ledger)) as connection:  # ids as long as the service's own
        connection.execute("UPDATE kbot_items SET source_id = 'src_' || lower(hex(randomblob(8)))")
        connection.commit()
    return (size_of(ledger) - empty) / INGESTED


def in_another_process(ledger: Path, count: int) -> tuple[float, float]:
    """Return what `second_run` measures in a process of its own."""
    command = [sys.executable, __file__, "run", str(ledger), str(count)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    seconds, mebibytes = json.loads(output)
    return seconds, mebibytes


def second_run(ledger: Path, count: int) -> tuple[float, float]:
    """Ingest what is there already; return the seconds it took and the peak memory in MiB."""
    with Client("key", SERVICE) as client:
        began = time.perf_counter()
        result = ingest(client, texts(count), collections=COLLECTION, ledger=Ledger(ledger))
        seconds = time.perf_counter() - began
    assert result.unchanged == count, result
    return seconds, peak_mebibytes()


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        print(json.dumps(second_run(Path(sys.argv[2]), int(sys.argv[3]))))
    else:
        main()
