"""Ingests with a ledger that cannot grow: `python limited_disk.py URL LEDGER`."""

import resource
import signal
import sys

from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest

if __name__ == "__main__":
    url, path = sys.argv[1:]
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails with EFBIG instead
    ledger = Ledger(path)
    with Client("key", url) as client:
        ingest(client, [], collections="col_1", ledger=ledger)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        items = (Text(name=f"t{number}", content="text") for number in range(2000))
        report = ingest(client, items, collections="col_1", ledger=ledger)
    print(f"stopped: {report.stopped}, {report.stop_reason}")  # noqa: T201 - read by the test
