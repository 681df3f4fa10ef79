"""A process that ingests: `python ingest_worker.py URL LEDGER ITEMS`.

It begins when it is sent a line, so that several begin together, and prints its report as JSON.
With more arguments it stands for another machine, `NAME CLOCK LEASE`: its clock is set by `CLOCK`
seconds soon after it began, and its lease lasts `LEASE` seconds.
"""

import json
import socket
import sys
import threading
import time
from typing import Any

from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Report, Text, _store, ingest


def main(url: str, ledger: str, items: str, *machine: str) -> None:
    if machine:
        be_another_machine(machine[0], float(machine[1]), float(machine[2]))
    print("ready", flush=True)  # noqa: T201 - read by whoever started it
    sys.stdin.readline()
    report = ingested(url, ledger, int(items), on_unknown="resend" if machine else "hold")
    print(json.dumps(report.as_dict()))  # noqa: T201 - read by whoever started it


def ingested(url: str, ledger: str, items: int, **options: Any) -> Report:
    """Ingest so many texts."""
    with Client("key", url) as client:
        return ingest(
            client,
            (Text(name=f"item {number}", content=f"Text {number}.") for number in range(items)),
            collections="col_1",
            ledger=Ledger(ledger),
            concurrency=8,
            **options,
        )


def ingested_in_a_pool(url: str, ledger: str, items: int) -> Report:
    return ingested(url, ledger, items)


def be_another_machine(name: str, step: float, lease: float) -> None:
    real, offset = time.time, 0.0
    time.time = lambda: real() + offset
    socket.gethostname = lambda: name
    _store.LEASE, _store.HEARTBEAT = lease, lease / 4

    def set_the_clock() -> None:
        nonlocal offset
        offset = step

    threading.Timer(lease / 2, set_the_clock).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
