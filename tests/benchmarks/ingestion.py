"""Ingestion with a ledger: a second run over unchanged files, and memory.

    python tests/benchmarks/ingestion.py [--full] [--json FILE]

What is compared runs in turn, in another order each round. `--full` takes 100,000 files and texts,
and some minutes more.
"""

import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import Process, SimpleQueue
from pathlib import Path
from typing import Any

from measuring import Figure, peak_mebibytes, report

from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest
from knowledge_bot.origins import Folder

IN_FLIGHT = 16
ROUNDS = 7
FULL = "--full" in sys.argv
FILES = 100_000 if FULL else 20_000
MANY = 100_000 if FULL else 10_000
FILE_SIZE = 64 * 1024
COLLECTION = "col_1"

SOURCE = {"id": "src_1", "name": "a", "status": "pending", "created_at": 1731500000000}
CREATED = json.dumps({"value": SOURCE | {"collections": [{"id": COLLECTION, "name": "a"}]}})

Rows = list[dict[str, Any]]


def main() -> None:
    """Measure all, and report."""
    if sys.argv[1:2] == ["memory"]:
        print(memory(int(sys.argv[2])))
        return
    rows: Rows = []
    with tempfile.TemporaryDirectory() as folder:
        figures = unchanged_files(Path(folder), rows)
    few, many = (memory_of_another_process(count) for count in (1000, MANY))
    rows += [
        {"case": "MiB at most, 1,000 texts", "value": round(few, 1)},
        {"case": f"MiB at most, {MANY:,} texts", "value": round(many, 1)},
    ]
    figures.append(Figure(f"growth from 1,000 to {MANY:,} texts, MiB", many - few, 25))
    report("Ingestion", figures, rows)


class Answer(BaseHTTPRequestHandler):
    """Reads a request to its end and keeps nothing of it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = (CREATED if self.command == "POST" else '"pong"').encode()
        self.send_response_only(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815


def answer(address: "SimpleQueue[str]") -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    address.put(f"http://127.0.0.1:{server.server_port}")
    server.serve_forever()


@contextmanager
def answering() -> Iterator[str]:
    """Run a service in a process of its own; give its address."""
    address: SimpleQueue[str] = SimpleQueue()
    process = Process(target=answer, args=(address,), daemon=True)
    process.start()
    yield address.get()
    process.kill()


def texts(count: int) -> Iterator[Text]:
    """Yield texts of some 2,000 characters."""
    for number in range(count):
        yield Text(name=f"text {number}", content=f"This is the text {number}. " * 80)


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
    with (
        tempfile.TemporaryDirectory() as folder,
        answering() as url,
        Client("key", url) as client,
    ):
        options = {"collections": COLLECTION, "ledger": f"{folder}/ledger.db"}
        report = ingest(client, texts(count), **options, concurrency=IN_FLIGHT)
        assert report.created == count
    return peak_mebibytes()


if __name__ == "__main__":
    main()
