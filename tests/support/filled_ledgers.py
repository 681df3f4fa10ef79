"""Fills a ledger as a first run does, without a service: in seconds, where that would take minutes.

The engine's own planner makes the rows and its own statement writes them, one after the other, so
the file is as large as one that a run made. Only claims and requests are left out, and the
transactions are larger.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from knowledge_bot import Client
from knowledge_bot.ingest import Ledger
from knowledge_bot.ingest._plan import Planner
from knowledge_bot.ingest._store import Batch, State, Store, normalised_url

COLLECTION = "col_1"

# Items that go into one transaction.
_AT_ONCE = 5000


def fill(
    ledger: Path | str, client: Client, items: Iterable[object], origin: str | None = None
) -> int:
    """Record the items as created; return how many there were.

    Args:
        ledger: a SQLite file or another address, made where there is none.
        client: of the service that is said to have them; it sends nothing.
        items: what is recorded.
        origin: what they are said to come from, as `Folder(…).origin`.
    """
    service = normalised_url(client.base_url)
    store = Store(Ledger(ledger).database, patience=30)
    store.open(service, (COLLECTION,), origin)
    planner = Planner(store, service, (COLLECTION,), "hold", items)
    count, waiting = 0, []
    for item in items:
        waiting.append(item)
        if len(waiting) == _AT_ONCE:
            count += _record(store, planner, waiting)
            waiting = []
    count += _record(store, planner, waiting)
    store.finish(Batch(), same=False)
    return count


def _record(store: Store, planner: Planner, items: list[object]) -> int:
    planned = planner.plan(items)
    batch = Batch()
    for job in planned.jobs:
        claim = job.claimed(store.run, store.origin)
        source = f"src_{os.urandom(8).hex()}"
        batch.rows.append(claim.settled(State.CREATED, source_id=source, version=job.version))
    assert not store.write(batch)
    return len(planned.jobs)
