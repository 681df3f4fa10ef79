"""What a person asks a ledger, and how a person settles what it does not know."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from knowledge_bot.ingest.ledger.entries import Entry, Holdings, State, SupersededSource
from knowledge_bot.ingest.ledger.rows import Replaced, Row, replaced_by
from knowledge_bot.ingest.ledger.schema import sources, superseded
from knowledge_bot.ingest.ledger.store import Store


def holdings(connection: Any) -> list[Holdings]:
    """Count the items by service, collections and state."""
    group = (sources.c.service, sources.c.collections)
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for service, collections, state, count in connection.execute(
        sa.select(*group, sources.c.state, sa.func.count())
        .group_by(*group, sources.c.state)
        .order_by(*group)
    ):
        counts.setdefault((service, collections), {})[state] = count
    return [
        Holdings(
            service,
            tuple(collections.split(",")),
            **{state.value: states.get(state.value, 0) for state in State},
        )
        for (service, collections), states in counts.items()
    ]


def entries(connection: Any, state: State | None, name: str | None = None) -> Iterator[Entry]:
    """Yield the entries of a state, or those whose key or id is `name`."""
    query = sa.select(sources).order_by(sources.c.service, sources.c.collections, sources.c.key)
    if state is not None:
        query = query.where(sources.c.state == state.value)
    if name is not None:
        query = query.where(sa.or_(sources.c.key == name, sources.c.id == name))
    for found in connection.execute(query):
        row = Row(*found)
        yield Entry(
            id=row.id,
            service=row.service,
            collections=tuple(row.collections.split(",")),
            key=row.key,
            name=row.name,
            kind=row.kind,
            state=State(row.state),
            source_id=row.source_id,
            attempts=row.attempts,
            error=row.error,
            updated_at=datetime.fromtimestamp(row.updated_at, UTC),
        )


def superseded_sources(connection: Any) -> Iterator[SupersededSource]:
    """Yield the superseded sources, the oldest first."""
    query = sa.select(superseded).order_by(superseded.c.superseded_at, superseded.c.source_id)
    for found in connection.execute(query):
        row = Replaced(*found)
        yield SupersededSource(
            source_id=row.source_id,
            replaced_by=row.replaced_by,
            service=row.service,
            collections=tuple(row.collections.split(",")),
            key=row.key,
            name=row.name,
            superseded_at=datetime.fromtimestamp(row.superseded_at, UTC),
        )


def row(connection: Any, identifier: str) -> Row | None:
    """Return one row as it is now, and let nobody change it before this transaction ends."""
    # SQLite knows no locks on rows and leaves this out: its writers exclude each other.
    query = sa.select(sources).where(sources.c.id == identifier).with_for_update()
    found = connection.execute(query).first()
    return Row(*found) if found else None


def settle(
    connection: Any, store: Store, row: Row, *, created: bool, source_id: str | None
) -> None:
    """Write what a person found out about an unknown outcome."""
    values: dict[str, Any] = {
        "state": State.CREATED.value if created else State.REFUSED.value,
        "version": row.version + 1,
        "error": "" if created else "a person found that the service does not have it",
        "updated_at": time.time(),
    }
    if created:
        values |= {"source_id": source_id, "source_name": row.name, "source_digest": row.digest}
        store.supersede(connection, replaced_by(row, source_id))
    connection.execute(sources.update().where(sources.c.id == row.id).values(values))
