"""The ledger for its users: what it holds, and how a person settles unknown outcomes."""

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple, Self

from knowledge_bot._database import Connection
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._leases import dead_runs, expire
from knowledge_bot.ingest._schema import LedgerDatabase, LedgerError
from knowledge_bot.ingest._store import (
    Row,
    State,
    as_unknown,
    find_rows,
    item_ids,
    normalised_url,
    page_id,
    read_rows,
    superseded_rows,
    write_rows,
    write_superseded,
)

_SETTLED_AS_MISSING = "a person found that the service does not have it"


class Entry(NamedTuple):
    """What the ledger knows about one item.

    Attributes:
        id: a hash of service, collections and key, as 32 hexadecimal digits.
        service: the base URL, normalised.
        collections: the ids of the collections, sorted.
        origin: where it came from, such as a folder; None without a name.
        key: the item's key.
        name: the name it was last sent under.
        kind: `webpage`, `text`, `file`, or `object` for a file with an `open` function.
        location: the page's address or the file's path; None for a text.
        state: the outcome of sending it last.
        source_id: the source last created from it; None without one.
        attempts: how many times it was claimed.
        error: the last error; empty without one.
        updated_at: when the state was written, in UTC, to the second.
        gone_at: when its origin was first seen without it, in UTC; None if it is there.
        version: the page's version; None for everything else.
    """

    id: str
    service: str
    collections: tuple[str, ...]
    origin: str | None
    key: str
    name: str
    kind: str
    location: str | None
    state: State
    source_id: str | None
    attempts: int
    error: str
    updated_at: datetime
    gone_at: datetime | None
    version: str | None


class SupersededSource(NamedTuple):
    """A source that a newer one replaced. The service offers no deletion; a person may remove it.

    Attributes:
        source_id: the older source.
        replaced_by: the newer source; None if it is not known.
        service: the base URL.
        collections: the ids of the collections, sorted.
        key: the item's key.
        name: the name that the older source was sent under.
        superseded_at: when the newer source was recorded, in UTC.
    """

    source_id: str
    replaced_by: str | None
    service: str
    collections: tuple[str, ...]
    key: str
    name: str
    superseded_at: datetime


class LedgerCounts(NamedTuple):
    """How many items a ledger holds for one service and set of collections, by state.

    Attributes:
        service: the base URL.
        collections: the ids of the collections, sorted.
        created: how many the service has.
        claimed: how many are being sent.
        refused: how many it does not have.
        unknown: how many it may have.
        gone: how many of those that it has are no longer at their origin.
    """

    service: str
    collections: tuple[str, ...]
    created: int
    claimed: int
    refused: int
    unknown: int
    gone: int


class Ledger:
    """Remembers what was sent to which service and collections, under which key.

    Any number of runs, processes and machines may use one ledger at the same time; several machines
    need PostgreSQL. The first run makes the ledger. Reading it writes nothing. A pickled ledger
    holds its address, the password included.

    Every method raises `LedgerError` if the ledger cannot be read or written.

    Args:
        address: `sqlite:///kbot.db`, the path of a SQLite file, or `postgresql://…` (extra
            `postgresql`). `str`, `repr` and errors show no password.
    """

    def __init__(self, address: str | os.PathLike[str]) -> None:
        if not isinstance(address, str | os.PathLike):
            raise ConfigurationError(
                "ledger: expected a Ledger, its address (sqlite:///file or postgresql://…) or the "
                f"path of a SQLite file, not {type(address).__name__}"
            )
        self._address = os.fspath(address)

    @property
    def database(self) -> LedgerDatabase:
        """Where it is kept."""
        return LedgerDatabase.of(self._address)

    def __str__(self) -> str:
        try:
            return self.database.name
        except LedgerError:  # the address may still hold a password
            return "<an address that cannot be used>"

    def __repr__(self) -> str:
        return f"Ledger({str(self)!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self._address,)

    def exists(self) -> bool:
        """Return whether the ledger has been made."""
        connection = self.database.open(reading=True)
        if connection is not None:
            connection.close()
        return connection is not None

    def status(self) -> list[LedgerCounts]:
        """Count the items by state, for each service and set of collections."""
        with self._reading() as connection:
            scopes, dead = _scopes(connection), dead_runs(connection)
            counts: dict[int, Counter[str]] = {scope: Counter() for scope in scopes}
            for scope, state, run, count, gone in connection.rows(
                "SELECT scope, state, CASE WHEN state = 'claimed' THEN run END AS claiming, "
                "count(*), count(gone_at) FROM kbot_items GROUP BY scope, state, claiming"
            ):
                counts[scope][State.UNKNOWN if run in dead else state] += count
                counts[scope]["gone"] += gone
            names = LedgerCounts._fields[2:]
            return sorted(
                LedgerCounts(*scopes[scope], *(counted[name] for name in names))
                for scope, counted in counts.items()
                if counted.total()
            )

    def entries(self, state: str | None = None) -> Iterator[Entry]:
        """Yield an entry for each item, or for those in one state, sorted by key."""
        where, values = "1 = 1", [] if state is None else [str(state)]
        if state is not None:
            where = "state IN (?, 'claimed')" if state == State.UNKNOWN else "state = ?"
        with self._reading() as connection:
            for entry in self._as_entries(connection, read_rows(connection, where, *values)):
                if state is None or entry.state == state:
                    yield entry

    def unknown(self) -> Iterator[Entry]:
        """Yield the items whose outcome is unknown, claims of dead workers included."""
        return self.entries(State.UNKNOWN)

    def refused(self) -> Iterator[Entry]:
        """Yield the items that the service refused, or that did not reach it."""
        return self.entries(State.REFUSED)

    def gone(self, *, service: str | None = None) -> Iterator[Entry]:
        """Yield the items that the service has and that their origin no longer yields.

        The service offers no deletion. A person may remove the sources there, and the items here
        with `forget`.

        Args:
            service: the base URL of one service; by default the items of all services.
        """
        with self._reading() as connection:
            rows = read_rows(connection, "gone_at IS NOT NULL")
            for entry in self._as_entries(connection, rows):
                if service is None or entry.service == normalised_url(service):
                    yield entry

    def superseded(self, *, service: str | None = None) -> Iterator[SupersededSource]:
        """Yield the sources that newer ones replaced, and that a person may remove.

        Args:
            service: as for `gone`.
        """
        with self._reading() as connection:
            scopes = _scopes(connection)
            for source_id, replaced_by, scope, key, name, at in connection.rows(
                "SELECT source_id, replaced_by, scope, key, name, superseded_at "
                "FROM kbot_superseded ORDER BY superseded_at, source_id"
            ):
                if service is None or scopes[scope][0] == normalised_url(service):
                    ids = source_id, replaced_by
                    yield SupersededSource(*ids, *scopes[scope], key, name, _time(at))

    def resolve(self, key: str, *, created: bool, source_id: str | None = None) -> Entry:
        """Settle an unknown outcome, after a person looked at the service.

        Args:
            key: the item's key, or the entry's id where several share a key.
            created: whether the service has the item. If not, the next run sends it.
            source_id: the source that was created, if it is known.

        Returns:
            The entry as it is now.

        Raises:
            LedgerError: there is no such item, there are several, or its outcome is not unknown.
        """
        with self._writing() as connection:
            row = _single_row(connection, key)
            if row.state != State.UNKNOWN:
                raise LedgerError(f"{key!r} is {row.state}, not unknown")
            settled = row._replace(revision=row.revision + 1, updated_at=_now(connection))
            if created:
                write_superseded(connection, superseded_rows(row, source_id))
                settled = settled._replace(
                    state=State.CREATED,
                    digest=row.pending,
                    pending=None,
                    version=None,
                    source_id=source_id,
                    source_name=None,
                    error=None,
                )
            else:
                settled = settled._replace(state=State.REFUSED, error=_SETTLED_AS_MISSING)
            write_rows(connection, [settled])
            return next(self._as_entries(connection, read_rows(connection, "id = ?", row.id)))

    def forget(
        self,
        key: str | None = None,
        *,
        collection: str | None = None,
        origin: str | None = None,
        everything: bool = False,
    ) -> int:
        """Forget items that a person removed from the service, so that they can be sent again.

        Items that meet all conditions are forgotten, with the older sources that they replaced. The
        next run sends an item that its origin still yields.

        Args:
            key: an item's key, or the entry's id. The id of a superseded source forgets that source
                alone.
            collection: the id of a collection.
            origin: the name of an origin, as in `Entry.origin`.
            everything: whether to forget all items; then nothing else may be given.

        Returns:
            How many were forgotten.

        Raises:
            LedgerError: no condition was given, or an item is being sent right now.
        """
        named = {"key": key, "collection": collection, "origin": origin}
        if everything == any(value is not None for value in named.values()):
            raise LedgerError("name what to forget: a key, a collection, an origin, or everything")
        with self._writing() as connection:
            rows = read_rows(connection, "1 = 1") if key is None else _of_key(connection, key)
            entries = [
                entry
                for entry in self._as_entries(connection, rows)
                if (collection is None or collection in entry.collections)
                and (origin is None or origin == entry.origin)
            ]
            sending = [entry.key for entry in entries if entry.state is State.CLAIMED]
            if sending:
                raise LedgerError(
                    f"{sending[0]!r} is being sent right now, so nothing was forgotten; try again "
                    "when the run has ended"
                )
            scopes = {held: scope for scope, held in _scopes(connection).items()}
            for entry in entries:
                connection.run("DELETE FROM kbot_items WHERE id = ?", bytes.fromhex(entry.id))
                connection.run(
                    "DELETE FROM kbot_superseded WHERE scope = ? AND key = ?",
                    scopes[entry.service, entry.collections],
                    entry.key,
                )
                if entry.kind == "webpage":  # so that it is read again
                    identifier = page_id(entry.location or entry.key)
                    connection.run("DELETE FROM kbot_pages WHERE id = ?", identifier)
            if entries or key is None:
                return len(entries)
            return connection.run("DELETE FROM kbot_superseded WHERE source_id = ?", key)

    def export(self) -> Iterator[str]:
        """Yield refused items as lines of JSON, for `from_jsonl` and `kbot ingest jsonl`.

        The ledger keeps no content and no headers. So texts and objects are left out, and must be
        read from their source again; pages come without their headers.
        """
        for entry in self.refused():
            place = {"webpage": "url", "file": "path"}.get(entry.kind)
            if place is not None:
                fields = {
                    place: entry.location,
                    "name": entry.name,
                    "key": entry.key,
                    "collections": entry.collections,
                    **({"version": entry.version} if entry.version else {}),
                }
                yield json.dumps(fields, ensure_ascii=False)

    def _as_entries(self, connection: Connection, rows: Iterable[Row]) -> Iterator[Entry]:
        scopes, dead = _scopes(connection), dead_runs(connection)
        origins = dict(connection.rows("SELECT number, name FROM kbot_origins"))
        rows = [as_unknown(row) if row.run in dead else row for row in rows]
        for row in sorted(rows, key=lambda row: (scopes[row.scope], row.key)):
            yield Entry(
                id=row.id.hex(),
                service=scopes[row.scope][0],
                collections=scopes[row.scope][1],
                origin=origins.get(row.origin),
                key=row.key,
                name=row.name or row.key,
                kind=row.kind,
                location=None if row.kind == "text" else row.location or row.key,
                state=State(row.state),
                source_id=row.source_id,
                attempts=row.attempts,
                error=row.error or "",
                updated_at=_time(row.updated_at),
                gone_at=None if row.gone_at is None else _time(row.gone_at),
                version=row.version if row.kind == "webpage" else None,
            )

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        database = self.database
        connection = database.open(reading=True)
        if connection is None:
            raise LedgerError(f"there is no ledger at {self}")
        with contextlib.closing(connection), database.explaining("read"):
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._reading():
            pass  # raises if there is no ledger, instead of making one
        database = self.database
        with (
            contextlib.closing(database.connect(reading=False)) as connection,
            database.explaining("written"),
        ):
            expire(connection)
            with connection.transaction():
                yield connection


def _scopes(connection: Connection) -> dict[int, tuple[str, tuple[str, ...]]]:
    found = connection.rows("SELECT number, service, collections FROM kbot_scopes")
    return {number: (service, tuple(joined.split(","))) for number, service, joined in found}


def _of_key(connection: Connection, key: str) -> list[Row]:
    """Return the rows of a key in every scope, or the row of an entry's id."""
    ids = [item_ids(*scope)(key) for scope in _scopes(connection).values()]
    if re.fullmatch("[0-9a-f]{32}", key):
        ids.append(bytes.fromhex(key))
    return list(find_rows(connection, ids).values())


def _single_row(connection: Connection, key: str) -> Row:
    rows = _of_key(connection, key)
    if not rows:
        unsettled = read_rows(connection, "state = 'unknown'")
        near = [row.key for row in unsettled if row.key.endswith(f"/{key}")][:5]
        meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise LedgerError(f"the ledger has no item with the key {key!r}{meant}")
    if len(rows) > 1:
        scopes = _scopes(connection)
        ids = ", ".join(f"{row.id.hex()} ({', '.join(scopes[row.scope][1])})" for row in rows)
        raise LedgerError(f"several items have the key {key!r}; name one by its id: {ids}")
    return rows[0]


def _now(connection: Connection) -> int:
    return int(connection.now())


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
