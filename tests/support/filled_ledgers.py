"""Fills a ledger as a first run does, without a service: in seconds, where that would take minutes.

The engine's own planner makes the rows and its own statement writes them, each item claimed and
then created and one after the other, so the file is as large as one that a run made, and in the
same order. Only the requests are left out, and the transactions are larger.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from knowledge_bot import Client
from knowledge_bot._database import Connection
from knowledge_bot.ingest import Ledger
from knowledge_bot.ingest._plan import Job, Planner
from knowledge_bot.ingest._store import _WRITE, Row, State, Store, normalised_url

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
        origin: what they are said to come from, as `from_folder(…).origin`.
    """
    service = normalised_url(client.base_url)
    store = Store(Ledger(ledger).database, reading=False)
    store.open(service, (COLLECTION,), origin)
    planner = Planner(store, service, (COLLECTION,), "hold")
    count, waiting = 0, []
    for item in items:
        waiting.append(item)
        if len(waiting) == _AT_ONCE:
            count += _record(store, planner, waiting)
            waiting = []
    count += _record(store, planner, waiting)
    store.close()
    return count


def _record(store: Store, planner: Planner, items: list[object]) -> int:
    rows: list[Row] = []
    planned = planner.plan(items)
    for job in planned.jobs:
        claim = planner.claim(job)
        rows += [claim, _created(claim, job)]

    def write(connection: Connection) -> None:
        with connection.transaction():
            assert connection.run_many(_WRITE, [row[:-1] for row in rows]) == len(rows)

    store._session.do("written", write)
    return len(planned.jobs)


def _created(claim: Row, job: Job) -> Row:
    return claim._replace(
        state=State.CREATED,
        digest=job.digest,
        pending=None,
        version=job.version,
        source_id=f"src_{os.urandom(8).hex()}",
        revision=claim.revision + 2,
    )
