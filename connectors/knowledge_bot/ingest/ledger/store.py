"""The ledger's statements: look up, claim, record, and declare dead."""

from collections.abc import Collection as Sized
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from knowledge_bot.ingest.ledger.databases import Database
from knowledge_bot.ingest.ledger.entries import State
from knowledge_bot.ingest.ledger.owners import LEASE, Owner
from knowledge_bot.ingest.ledger.rows import Replaced, Row, Touch
from knowledge_bot.ingest.ledger.schema import owners, sources, superseded

# A row has 17 parameters, of which SQLite allowed 999 in one statement.
_WRITE_SIZE = 50

DIED = "the worker that sent it died before it recorded the outcome"


class Store:
    """The statements for one database. Its methods run inside the connection's transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert: Any = sqlite.insert if database.file is not None else postgresql.insert
        # As text: it is the one statement that runs for every item, and SQLAlchemy's handling of
        # the parameters costs three times as much as the statement.
        self._write = _around_values(
            str(self._write_statement().compile(dialect=database.engine.dialect))
        )
        self._many = self._many_at_once if database.file is not None else self._one_by_one
        self._lookup = sa.select(sources).where(
            sources.c.id.in_(sa.bindparam("ids", expanding=True))
        )
        self._signatures = sa.select(sources.c.id, sources.c.signature).where(
            sources.c.id.in_(sa.bindparam("ids", expanding=True)),
            sources.c.state == State.CREATED.value,
            sources.c.digest == sources.c.source_digest,
            sources.c.signature.is_not(None),
        )
        self._touch = (
            sources.update()
            .where(
                sources.c.id == sa.bindparam("touched_id"),
                sources.c.version == sa.bindparam("seen_version"),
                sources.c.state != State.CLAIMED.value,
            )
            .values(
                signature=sa.bindparam("new_signature"),
                state=State.CREATED.value,
                digest=sources.c.source_digest,
                error="",
            )
        )

    def lookup(self, connection: Any, ids: Sequence[str]) -> dict[str, Row]:
        """Return the rows of these ids."""
        found = connection.execute(self._lookup, {"ids": list(ids)}).fetchall()
        return {row[0]: Row._make(row) for row in found}

    def signatures(self, connection: Any, ids: Sequence[str]) -> dict[str, str]:
        """Return the signatures of those of these files that the service has."""
        return dict(connection.execute(self._signatures, {"ids": list(ids)}).fetchall())

    def write(self, connection: Any, rows: Iterable[Row]) -> set[str]:
        """Write claims and results; return the ids of those that another worker was faster with.

        A claim holds the version that follows the one it was decided on, and wins only where the
        row still has that one. A result wins only where the row is still its owner's.
        """
        # In one order for all workers: PostgreSQL locks row by row, and would see deadlocks.
        ordered = sorted(rows, key=lambda row: row.id)
        written = sum(
            self._many(connection, ordered[start : start + _WRITE_SIZE])
            for start in range(0, len(ordered), _WRITE_SIZE)
        )
        if written == len(ordered):
            return set()
        return self._not_written(connection, ordered)

    def write_alone(self, connection: Any, rows: Sequence[Row]) -> set[str]:
        """Write as `write` does, in a transaction that does nothing else; none is to be open."""
        if self._database.file is not None and len(rows) <= _WRITE_SIZE:
            # One statement is a transaction of SQLite's. BEGIN and COMMIT would each give up the
            # interpreter's lock once more, and wait for it while the event loop is busy.
            if self._many_at_once(connection, rows) == len(rows):
                return set()
            with connection.begin():
                return self._not_written(connection, rows)
        with connection.begin():
            return self.write(connection, rows)

    def supersede(self, connection: Any, replaced: Sequence[Replaced]) -> None:
        """Note sources that newer ones replaced."""
        if replaced:
            statement = self._insert(superseded).on_conflict_do_nothing()
            connection.execute(statement, [row._asdict() for row in replaced])

    def withdraw(self, connection: Any, claims: Sequence[Row]) -> None:
        """Remove claims of new items that were never sent."""
        for claim in claims:
            connection.execute(
                sources.delete().where(
                    sources.c.id == claim.id,
                    sources.c.owner == claim.owner,
                    sources.c.state == State.CLAIMED.value,
                )
            )

    def touch(self, connection: Any, touched: Sequence[Touch]) -> None:
        """Note files whose content is what the service has."""
        if touched:
            connection.execute(self._touch, [touch._asdict() for touch in touched])

    def renew(self, connection: Any, owner: Owner) -> None:
        """Announce that an owner lives for another lease."""
        values = {
            "id": owner.id,
            "machine": owner.machine,
            "host": owner.host,
            "pid": owner.pid,
            "started": owner.started,
            "lease_until": self._database.now(connection) + LEASE,
        }
        statement = self._insert(owners).values(values)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["id"], set_={"lease_until": statement.excluded.lease_until}
            )
        )

    def leave(self, connection: Any, owner: Owner) -> None:
        """Remove an owner that will send nothing more; what it still claims becomes `unknown`."""
        connection.execute(owners.delete().where(owners.c.id == owner.id))
        self._orphans_are_unknown(connection)

    def bury(self, connection: Any) -> None:
        """Turn the claims of dead owners into `unknown`."""
        now = self._database.now(connection)
        for *fields, lease_until in connection.execute(sa.select(owners)).fetchall():
            owner = Owner(*fields)
            if owner.is_dead(lease_until=lease_until, now=now):
                # Only where it was not renewed a moment ago, by a machine that was just busy.
                connection.execute(
                    owners.delete().where(
                        owners.c.id == owner.id, owners.c.lease_until == lease_until
                    )
                )
        self._orphans_are_unknown(connection)

    def any_dead(self, connection: Any, among: Sized[str]) -> bool:
        """Tell whether one of these owners is gone or dead, so that `bury` has work."""
        now = self._database.now(connection)
        living = set()
        known = connection.execute(sa.select(owners).where(owners.c.id.in_(list(among))))
        for *fields, lease_until in known:
            if not Owner(*fields).is_dead(lease_until=lease_until, now=now):
                living.add(fields[0])
        return bool(set(among) - living)

    def _orphans_are_unknown(self, connection: Any) -> None:
        connection.execute(
            sources.update()
            .where(
                sources.c.state == State.CLAIMED.value,
                sources.c.owner.not_in(sa.select(owners.c.id)),
            )
            .values(
                state=State.UNKNOWN.value,
                version=sources.c.version + 1,
                error=DIED,
                updated_at=self._database.now(connection),
            )
        )

    def _not_written(self, connection: Any, rows: Sequence[Row]) -> set[str]:
        found = self.lookup(connection, [row.id for row in rows])
        return {row.id for row in rows if not _is_written(row, found.get(row.id))}

    def _many_at_once(self, connection: Any, rows: Sequence[Row]) -> int:
        """Write rows in one statement of SQLite's; return how many were written.

        The interpreter's lock is given up and waited for once for each statement.
        """
        head, values, tail = self._write
        statement = head + ", ".join([values] * len(rows)) + tail
        parameters = tuple(chain.from_iterable(rows))
        driver = connection.connection.driver_connection
        return int(driver.execute(statement, parameters).rowcount)

    def _one_by_one(self, connection: Any, rows: Sequence[Row]) -> int:
        """Write rows in one pipeline of PostgreSQL's, which takes no row twice in a statement."""
        parameters = [row._asdict() for row in rows]
        return int(connection.exec_driver_sql("".join(self._write), parameters).rowcount)

    def _write_statement(self) -> Any:
        statement = self._insert(sources)
        new = statement.excluded
        # In the text, so that the statement takes a row's values and nothing else.
        claimed: Any = sa.literal_column(f"'{State.CLAIMED}'")
        unknown: Any = sa.literal_column(f"'{State.UNKNOWN}'")
        one: Any = sa.literal_column("1")
        claims = sa.and_(new.state == claimed, sources.c.version == new.version - one)
        # A result that comes after its owner was taken for dead is still the truth.
        records = sa.and_(
            new.state != claimed,
            sources.c.owner == new.owner,
            sa.or_(sources.c.state == claimed, sources.c.state == unknown),
        )
        return statement.on_conflict_do_update(
            index_elements=["id"],
            # What the id is a hash of stays; naming the id would write the index on it once more.
            set_={
                column.name: new[column.name]
                for column in sources.columns
                if column.name not in ("id", "service", "collections", "key")
            },
            where=sa.or_(claims, records),
        )


def _around_values(insert: str) -> tuple[str, str, str]:
    """Split an insert's text into what precedes a row's placeholders, them, and what follows."""
    head, values, rest = insert.partition(" VALUES ")
    row, conflict, tail = rest.partition(" ON CONFLICT ")
    return head + values, row, conflict + tail


def _is_written(row: Row, found: Row | None) -> bool:
    return found is not None and (found.owner, found.state) == (row.owner, row.state)
