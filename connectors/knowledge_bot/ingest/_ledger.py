"""The ledger as users know it: what it holds, and how a person settles what it does not know."""

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
from knowledge_bot.ingest._schema import LedgerDatabase, LedgerError
from knowledge_bot.ingest._store import (
    Row,
    State,
    as_unknown,
    dead_runs,
    expire,
    find_rows,
    item_id,
    one_spelling,
    page_id,
    read_rows,
    replaced,
    supersede,
    write_rows,
)

_SETTLED_AS_MISSING = "a person found that the service does not have it"


class Entry(NamedTuple):
    """What the ledger knows about one item.

    Attributes:
        id: a hash of service, collections and key, as 32 hexadecimal digits.
        service: the base URL, in one spelling for all of them.
        collections: the ids of the collections, sorted.
        origin: what yielded it, such as a folder; None where that had no name.
        key: what the item is known by.
        name: the name it was last sent under.
        kind: `webpage`, `text`, `file`, or `object` for a file that is opened by its `open`.
        location: the page's address or the file's path; None for a text.
        state: what came of sending it last.
        source_id: the source that was last created of it; None without one.
        attempts: how many times it was claimed.
        error: what went wrong last; empty where nothing did.
        updated_at: when the state was written, in UTC, to the second.
        gone_at: when its origin was first seen without it, in UTC; None while it is there.
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
    """A source that a newer one replaced; the service offers no deletion, a person may remove it.

    Attributes:
        source_id: the older source.
        replaced_by: the newer source, None where it is not known.
        service: the base URL.
        collections: the ids of the collections, sorted.
        key: what the item is known by.
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


class Holdings(NamedTuple):
    """How many items a ledger knows for one service and set of collections.

    Attributes:
        service: the base URL.
        collections: the ids of the collections, sorted.
        created: how many the service has.
        claimed: how many are being sent.
        refused: how many it does not have.
        unknown: how many it may have.
        gone: how many it has that their origin no longer yields.
    """

    service: str
    collections: tuple[str, ...]
    created: int
    claimed: int
    refused: int
    unknown: int
    gone: int


class Ledger:
    """What was sent to which service and collections under which key.

    Any number of runs, processes and machines may use one ledger at the same time; on several
    machines that takes PostgreSQL. It is made by the run that uses it first. Reading it writes
    nothing. Pickling it takes the address along, with the password in it.

    Every method raises `LedgerError` where the ledger cannot be read, or written.

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
        except LedgerError:  # what was given may hold a password all the same
            return "<an address that cannot be used>"

    def __repr__(self) -> str:
        return f"Ledger({str(self)!r})"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self._address,)

    def exists(self) -> bool:
        """Tell whether there is a ledger yet."""
        connection = self.database.open(reading=True)
        if connection is not None:
            connection.close()
        return connection is not None

    def status(self) -> list[Holdings]:
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
            names = Holdings._fields[2:]
            return sorted(
                Holdings(*scopes[scope], *(counted[name] for name in names))
                for scope, counted in counts.items()
                if counted.total()
            )

    def entries(self, state: str | None = None) -> Iterator[Entry]:
        """Yield what is known of each item, or of those in one state, by the order of keys."""
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

        The service offers no deletion: a person may remove their sources there, and tell the ledger
        with `forget`.

        Args:
            service: the base URL of one service, in any spelling; by default those of all.
        """
        with self._reading() as connection:
            rows = read_rows(connection, "gone_at IS NOT NULL")
            for entry in self._as_entries(connection, rows):
                if service is None or entry.service == one_spelling(service):
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
                if service is None or scopes[scope][0] == one_spelling(service):
                    ids = source_id, replaced_by
                    yield SupersededSource(*ids, *scopes[scope], key, name, _time(at))

    def resolve(self, key: str, *, created: bool, source_id: str | None = None) -> Entry:
        """Settle an unknown outcome, after a person looked at the service.

        Args:
            key: the item's key, or the entry's id where several share a key.
            created: whether the service has the item. If not, the next run sends it.
            source_id: the source that was created, where it is known.

        Returns:
            The entry as it is now.

        Raises:
            LedgerError: no such item, several, or one whose outcome is not unknown.
        """
        with self._writing() as connection:
            row = _only(connection, key)
            if row.state != State.UNKNOWN:
                raise LedgerError(f"{key!r} is {row.state}, not unknown")
            settled = row._replace(revision=row.revision + 1, updated_at=_now(connection))
            if created:
                supersede(connection, replaced(row, source_id))
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

        Items for which all that is given holds are forgotten, with the older sources that they
        replaced. An item that its origin still yields is sent by the next run.

        Args:
            key: an item's key, or the entry's id; or the id of a superseded source, of which alone
                the ledger then forgets.
            collection: the id of a collection.
            origin: the name of an origin, as `Entry.origin` shows it.
            everything: whether to forget all items; nothing else is given then.

        Returns:
            How many were forgotten.

        Raises:
            LedgerError: nothing was named, or an item is being sent at this moment.
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
                    f"{sending[0]!r} is being sent at this moment, so nothing was forgotten; do it "
                    "again when the run has ended"
                )
            scopes = {held: scope for scope, held in _scopes(connection).items()}
            for entry in entries:
                connection.run("DELETE FROM kbot_items WHERE id = ?", bytes.fromhex(entry.id))
                connection.run(
                    "DELETE FROM kbot_superseded WHERE scope = ? AND key = ?",
                    scopes[entry.service, entry.collections],
                    entry.key,
                )
                if entry.kind == "webpage":  # so that it is read anew
                    identifier = page_id(entry.location or entry.key)
                    connection.run("DELETE FROM kbot_pages WHERE id = ?", identifier)
            if entries or key is None:
                return len(entries)
            return connection.run("DELETE FROM kbot_superseded WHERE source_id = ?", key)

    def export(self) -> Iterator[str]:
        """Yield refused items as lines of JSON, which `from_jsonl` and `kbot ingest jsonl` take.

        The ledger keeps no content and no header: a text and an object have to be given by their
        source again, and are left out, and a page comes without its headers.
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
            pass  # nothing is made where there is none
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
    ids = [item_id(*scope, key) for scope in _scopes(connection).values()]
    if re.fullmatch("[0-9a-f]{32}", key):
        ids.append(bytes.fromhex(key))
    return list(find_rows(connection, ids).values())


def _only(connection: Connection, key: str) -> Row:
    rows = _of_key(connection, key)
    if not rows:
        raise LedgerError(f"the ledger knows no item with the key {key!r}")
    if len(rows) > 1:
        scopes = _scopes(connection)
        told = ", ".join(f"{row.id.hex()} ({', '.join(scopes[row.scope][1])})" for row in rows)
        raise LedgerError(f"several items have the key {key!r}; name one by its id: {told}")
    return rows[0]


def _now(connection: Connection) -> int:
    return int(connection.now())


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
