"""Ingestion with a ledger: what it costs, a second run over unchanged files, and memory.

    python tests/benchmarks/ingestion.py [--full] [--json FILE]

What is compared runs in turn, in another order each round. `--full` takes 100,000 files and texts,
and some minutes more.
"""

import asyncio
import hashlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from answering_server import answering
from measuring import Figure, peak_mebibytes, report

from knowledge_bot import AsyncClient, Client
from knowledge_bot.ingest import Ledger, Text, ingest
from knowledge_bot.origins import Folder

IN_FLIGHT = 16
ROUNDS = 7
TEXTS = 6000
FULL = "--full" in sys.argv
FILES = 100_000 if FULL else 20_000
MANY = 100_000 if FULL else 10_000
FILE_SIZE = 64 * 1024
COLLECTION = "col_1"

Rows = list[dict[str, Any]]


def main() -> None:
    """Measure all, and report."""
    if sys.argv[1:2] == ["memory"]:
        print(memory(int(sys.argv[2])))
        return
    rows: Rows = []
    with answering(0.002) as url:
        figures = [throughput(url, rows)]
    with tempfile.TemporaryDirectory() as folder:
        figures += unchanged_files(Path(folder), rows)
    few, many = (memory_of_another_process(count) for count in (1000, MANY))
    rows += [
        {"case": "MiB at most, 1,000 texts", "value": round(few, 1)},
        {"case": f"MiB at most, {MANY:,} texts", "value": round(many, 1)},
    ]
    figures.append(Figure(f"growth from 1,000 to {MANY:,} texts, MiB", many - few, 25))
    report("Ingestion", figures, rows)


def texts(count: int) -> Iterator[Text]:
    """Yield texts of some 2,000 characters."""
    for number in range(count):
        yield Text(name=f"text {number}", content=f"This is the text {number}. " * 80)


def alone(url: str) -> None:
    """Create sources with as many requests in flight, and nothing that remembers them."""

    async def create(client: AsyncClient, left: Iterator[Text]) -> None:
        for text in left:
            await client.create_text_source(
                name=text.name, collections=COLLECTION, content=text.content
            )

    async def main() -> None:
        async with AsyncClient("key", url) as client:
            left = texts(TEXTS)
            await asyncio.gather(*(create(client, left) for _ in range(IN_FLIGHT)))

    asyncio.run(main())


def ingested(url: str, count: int, ledger: Path) -> None:
    """Ingest so many texts with a ledger on disk."""
    with Client("key", url) as client:
        options = {"collections": COLLECTION, "ledger": ledger, "concurrency": IN_FLIGHT}
        assert ingest(client, texts(count), **options).created == count


def throughput(url: str, rows: Rows) -> Figure:
    """Compare a first run with the same requests alone."""
    wall: dict[str, list[float]] = {"alone": [], "with a ledger on disk": []}
    for turn in range(-1, ROUNDS):  # the first one warms up
        for case in random.sample([*wall], len(wall)):
            with tempfile.TemporaryDirectory() as folder:
                began = time.perf_counter()
                if case == "alone":
                    alone(url)
                else:
                    ingested(url, TEXTS, Path(folder, "ledger.db"))
                if turn >= 0:
                    wall[case].append(time.perf_counter() - began)
    rows += [
        {"case": f"texts/s, {case}", "value": round(TEXTS / middle(seconds))}
        for case, seconds in wall.items()
    ]
    bare, kept = map(middle, wall.values())
    return Figure("throughput with a ledger on disk", bare / kept, 0.7, at_least=True)


def middle(samples: list[float]) -> float:
    """Return the median."""
    return statistics.median(samples)


def unchanged_files(folder: Path, rows: Rows) -> list[Figure]:
    """Compare a second run over files with what it takes to look at them, and to read them."""
    files = folder / "files"
    for number in range(FILES):
        path = files / f"{number // 1000:03}" / f"{number:06}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(number.to_bytes(8))
        os.truncate(path, FILE_SIZE)  # with a hole: read and hashed as any, and quickly made
    time.sleep(3)  # or the youngest files count as just written, and are hashed once more
    ledger, sent = folder / "ledger.db", []
    with answering() as url, Client("key", url) as client:

        def second_run() -> None:
            result = ingest(
                client,
                Folder(files),
                collections=COLLECTION,
                ledger=Ledger(ledger),
                concurrency=IN_FLIGHT,
            )
            sent.append(FILES - result.unchanged)

        second_run()
        assert sent.pop() == FILES
        cases = {
            "for a second run over them": second_run,
            f"to read and hash {FILES:,} files": lambda: hash_all(files),
            "to look at them": lambda: look_at_all(files),
        }
        seconds: dict[str, list[float]] = {case: [] for case in cases}
        for turn in range(-1, ROUNDS):  # the first one warms up
            for case in random.sample(list(cases), len(cases)):
                began = time.perf_counter()
                cases[case]()
                if turn >= 0:
                    seconds[case].append(time.perf_counter() - began)
    rows += [{"case": f"s {case}", "value": round(middle(seconds[case]), 2)} for case in cases]
    again, read, looked = (middle(seconds[case]) for case in cases)
    return [
        Figure("second run over unchanged files / reading and hashing", again / read, 0.12),
        Figure("second run over unchanged files / os.walk and stat", again / looked, 2.0),
        Figure("requests of the second run", sum(sent), 0),
    ]


def hash_all(folder: Path) -> None:
    """Read and hash every file, as a tool without a ledger has to."""
    for parent, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(parent, name), "rb") as file:
                hashlib.file_digest(file, "sha256")


def look_at_all(folder: Path) -> None:
    """Find every file and ask for its status: the least that tells which ones changed."""
    for parent, _, names in os.walk(folder):
        for name in names:
            os.stat(os.path.join(parent, name))


def memory_of_another_process(count: int) -> float:
    """Return what `memory` measures in a process of its own."""
    command = [sys.executable, __file__, "memory", str(count)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def memory(count: int) -> float:
    """Ingest so many texts; return the process's peak memory in MiB."""
    with tempfile.TemporaryDirectory() as folder, answering() as url:
        ingested(url, count, Path(folder, "ledger.db"))
    return peak_mebibytes()


if __name__ == "__main__":
    main()
