"""A process that ingests: `python ingest_worker.py URL LEDGER ITEMS`.

It begins when it is sent a line, so that several begin together, and prints its report as JSON.
"""

import json
import signal
import sys

from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Report, Text, ingest


def main(url: str, ledger: str, items: str) -> None:
    print("ready", flush=True)  # noqa: T201 - read by whoever started it
    sys.stdin.readline()
    report = ingested(url, ledger, int(items))
    print(json.dumps(report.as_dict()))  # noqa: T201 - read by whoever started it


def ingested(url: str, ledger: str, items: int) -> Report:
    """Ingest so many texts."""
    # Where coverage is measured it handles SIGTERM, and `ingest` leaves a handler of others alone.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with Client("key", url) as client:
        return ingest(
            client,
            (Text(name=f"item {number}", content="Text.") for number in range(items)),
            collections="col_1",
            ledger=Ledger(ledger),
            concurrency=8,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
