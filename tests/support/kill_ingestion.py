"""Kills an ingesting process with SIGKILL, again and again, and asks the service what arrived.

A round ingests the items until a run comes to its end; every run before that is killed at a random
moment. Then the service's own journal is compared with the ledger:

- twice: sources that the service created more than once. Must be 0.
- lost: items that the service does not have and that the ledger does not call unknown. Must be 0.
- most_unknown_per_kill: items whose outcome the ledger does not know; at most `concurrency`.
"""

import os
import random
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest
from served import Surviving, surviving


@dataclass
class Counts:
    """What was seen over all rounds."""

    kills: int = 0
    twice: int = 0
    lost: int = 0
    most_unknown_per_kill: int = 0


def kill_ingestion(
    kills: int,
    items: int,
    concurrency: int = 16,
    longest: float = 1.0,
    ledger_of: Callable[[Path], str] = str,
) -> Counts:
    """Kill so many runs over so many items, in as many rounds as it takes.

    Args:
        kills: how many runs are killed.
        items: how many items a round has.
        concurrency: how many requests are in flight.
        longest: seconds after which a run is killed at the latest.
        ledger_of: the ledger's address, given a path where nothing is yet.
    """
    counts = Counts()
    while counts.kills < kills:
        with tempfile.TemporaryDirectory() as folder, surviving(Path(folder), 0.002) as server:
            ledger, unsettled, finished = ledger_of(Path(folder, "ledger.db")), 0, False
            while not finished:
                limit = longest if counts.kills < kills else None
                finished = one_run(server, ledger, items, concurrency, limit)
                counts.kills += not finished
                before, unsettled = unsettled, count_unsettled(ledger)
                counts.most_unknown_per_kill = max(counts.most_unknown_per_kill, unsettled - before)
            arrived = server.created()
            unknown = {entry.key for entry in Ledger(ledger).unknown()}
            counts.twice += sum(count > 1 for count in arrived.values())
            counts.lost += len({*names(items)} - arrived.keys() - unknown)
    return counts


def one_run(
    server: Surviving, ledger: str, items: int, concurrency: int, longest: float | None
) -> bool:
    """Ingest in a child process; return whether it ended before it was killed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with Client("key", server.url) as client:
                texts = (Text(name=name, content=f"Text of {name}.") for name in names(items))
                report = ingest(
                    client,
                    texts,
                    collections="col_1",
                    ledger=Ledger(ledger),
                    concurrency=concurrency,
                )
            status = 0 if report.stopped is None else 1
        finally:
            os._exit(status)
    if longest is not None:
        time.sleep(random.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError("a run failed before it was killed")
    return True


def names(items: int) -> Iterator[str]:
    return (f"item {number}" for number in range(items))


def count_unsettled(ledger: str) -> int:
    """Count claims and unknown outcomes, without turning the one into the other."""
    if "://" in ledger:
        return sum(1 for _ in Ledger(ledger).unknown()) if Ledger(ledger).exists() else 0
    if not Path(ledger).exists():
        return 0
    count = 0
    # It may have been killed before the tables were made.
    with closing(sqlite3.connect(ledger)) as connection, suppress(sqlite3.OperationalError):
        query = "select count(*) from kbot_items where state in ('claimed', 'unknown')"
        count = connection.execute(query).fetchone()[0]
    return count
