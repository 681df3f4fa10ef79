"""Fills a ledger as a first run does, without a service: in seconds, where that would take minutes.

The engine's own examiner reads the items and its own statement writes their rows, so the file is as
large as one that a run made. Only claims and requests are left out, and the transactions are
larger.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from knowledge_bot import Client
from knowledge_bot.ingest import Ledger
from knowledge_bot.ingest._jobs import Examiner, Planned
from knowledge_bot.ingest._store import (
    DIGEST_SIZE,
    NO_ROW,
    Batch,
    Row,
    State,
    Store,
    item_ids,
    normalised_url,
)

COLLECTION = "col_1"

# Items that go into one transaction.
_AT_ONCE = 5000


def fill(ledger: Path | str, client: Client, items: Iterable[object], origin: str) -> int:
    """Record the items as created; return how many there were.

    Args:
        ledger: a SQLite file or another address, made where there is none.
        client: of the service that is said to have them; it sends nothing.
        items: what is recorded.
        origin: the name of where they are said to come from.
    """
    service, several = normalised_url(client.base_url), iter(items)
    store = Store(Ledger(ledger).database, patience=30)
    store.open(service, origin)
    count = 0
    while part := list(islice(several, _AT_ONCE)):
        rows = list(_rows(store, service, origin, part))
        assert not store.write(Batch(rows=rows))
        count += len(rows)
    store.finish(Batch())
    return count


def _rows(store: Store, service: str, origin: str, items: list[object]) -> Iterator[Row]:
    examiner = Examiner((COLLECTION,), hashes=True, is_own=lambda _: False)
    item_id, collections = item_ids(service, origin), store.collections((COLLECTION,))
    for job in examiner.usable(examiner.jobs(items, Planned()), Planned()):
        claim = NO_ROW.claimed(
            id=item_id(job.key),
            run=store.run,
            origin=store.origin,
            collections=collections,
            key=job.key,
            name=None if job.name == job.key else job.name,
            kind=job.kind,
            location=None if job.kind == "text" or job.place == job.key else job.place,
            pending=job.digest[:DIGEST_SIZE],
        )
        source = f"src_{os.urandom(8).hex()}"
        yield claim.settled(State.CREATED, source_id=source, version=job.version)
