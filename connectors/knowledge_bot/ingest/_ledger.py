"""The ledger for its users: what it holds, and how a person settles unknown outcomes."""

import contextlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from knowledge_bot._database import Connection
from knowledge_bot._endpoints import check_number
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest import _statements as sql
from knowledge_bot.ingest._schema import LedgerDatabase, LedgerError, dead_runs
from knowledge_bot.ingest._store import (
    Row,
    State,
    expire,
    item_ids,
    normalised_url,
    rows_where,
    superseded_rows,
    write_rows,
)

_SETTLED_AS_MISSING = "a person found that the service does not have it"


class Entry(NamedTuple):
    """What the ledger knows about one item.

    Attributes:
        id: a hash of service, origin and key, as 32 hexadecimal digits.
        service: the base URL, normalised.
        collections: the ids of the collections, sorted.
        origin: the name of where it came from, such as a folder.
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
        version: what says that it is unchanged; None where only its content does.
        gone_reason: why it is gone: `missing`, `excluded` by a filter, `404` or `410`. Without
            `gone_at`, more were missing than `gone_limit` allows.
    """

    id: str
    service: str
    collections: tuple[str, ...]
    origin: str
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
    gone_reason: str | None


class SupersededSource(NamedTuple):
    """A source that a newer one replaced. The service offers no deletion; a person may remove it.

    Attributes:
        source_id: the older source.
        replaced_by: the newer source; None if it is not known.
        service: the base URL.
        origin: the name of where the item came from.
        collections: the ids of the collections, sorted.
        key: the item's key.
        name: the name that the older source was sent under.
        superseded_at: when the newer source was recorded, in UTC.
    """

    source_id: str
    replaced_by: str | None
    service: str
    origin: str
    collections: tuple[str, ...]
    key: str
    name: str
    superseded_at: datetime


R = TypeVar("R", Entry, SupersededSource)


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
    """Remembers what was sent to a service, of which origin and under which key.

    It is for services that do not announce `sync`; the others keep the book themselves.

    Any number of runs, processes and machines may use one ledger at the same time; several machines
    need PostgreSQL. The first run makes the ledger. Reading it writes nothing. A pickled ledger
    holds its address, the password included.

    Every method raises `LedgerError` if the ledger cannot be read or written.

    Args:
        address: `sqlite:///kbot.db`, the path of a SQLite file, or `postgresql://…` (extra
            `postgresql`). `str`, `repr` and errors show no password.
        wait: seconds to wait, in one outage, for a database that is locked, restarts, fails over or
            has lost its sessions; then a run ends.
    """

    def __init__(self, address: str | os.PathLike[str], *, wait: float = 300.0) -> None:
        if not isinstance(address, str | os.PathLike):
            raise ConfigurationError.expected(
                "ledger",
                "a Ledger, its address (sqlite:///file or postgresql://…) or the path of a SQLite "
                "file",
                address,
            )
        check_number("wait", wait, 0, math.inf)
        self._address, self.wait = os.fspath(address), wait

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

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self._address, self.wait)

    def exists(self) -> bool:
        """Return whether the ledger has been made."""
        connection = self.database.open(reading=True)
        if connection is not None:
            connection.close()
        return connection is not None

    def status(self) -> list[LedgerCounts]:
        """Count the items by state, for each service and set of collections."""
        with self._reading() as connection:
            counts: dict[tuple[str, tuple[str, ...]], Counter[str]] = {}
            dead = dead_runs(connection)
            for service, collections, state, run, count, gone in connection.rows(sql.STATES):
                counted = counts.setdefault((service, tuple(collections.split(","))), Counter())
                counted.update({State.UNKNOWN if run in dead else state: count, "gone": gone})
            states = LedgerCounts._fields[2:]
            return sorted(
                LedgerCounts(*scope, *(counted[state] for state in states))
                for scope, counted in counts.items()
            )

    def entries(self, state: str | None = None) -> Iterator[Entry]:
        """Yield an entry for each item, or for those in one state, sorted by key."""
        with self._reading() as connection:
            if state is None:
                yield from entries_of(connection)
            elif state == State.CREATED:
                yield from entries_of(connection, "state = 'created'")
            else:  # by the index of what is not settled
                several = entries_of(connection, "state <> 'created'")
                yield from (entry for entry in several if entry.state == state)

    def unknown(self) -> Iterator[Entry]:
        """Yield the items whose outcome is unknown, claims of dead workers included."""
        return self.entries(State.UNKNOWN)

    def gone(self, *, service: str | None = None) -> Iterator[Entry]:
        """Yield the items that the service has and that their origin no longer yields.

        The service offers no deletion. A person may remove the sources there, and the items here
        with `forget`.

        Args:
            service: the base URL of one service; by default the items of all services.
        """
        with self._reading() as connection:
            yield from _of_service(service, entries_of(connection, "gone_at IS NOT NULL"))

    def superseded(self, *, service: str | None = None) -> Iterator[SupersededSource]:
        """Yield the sources that newer ones replaced, and that a person may remove.

        Args:
            service: as for `gone`.
        """
        with self._reading() as connection:
            yield from _of_service(service, _superseded_of(connection))

    def resolve(self, key: str, *, created: bool, source_id: str | None = None) -> Entry:
        """Settle an unknown outcome, after a person looked at the service.

        Args:
            key: the item's key, or the entry's id where several share a key.
            created: whether the service has the item. If not, the next run sends it.
            source_id: the source that was created, if it is known.

        Returns:
            The entry as it is now; also where it was so before.

        Raises:
            LedgerError: there is no such item, there are several, or its outcome is another one.
        """
        with self._writing() as connection:
            entry = _single_entry(connection, key)
            if entry.state == (State.CREATED if created else State.REFUSED):
                return entry
            if entry.state != State.UNKNOWN:
                raise LedgerError(f"{key!r} is {entry.state}, not unknown")
            (row,) = rows_where(connection, "id = ?", bytes.fromhex(entry.id))
            if created:
                if older := superseded_rows(row, source_id):
                    connection.insert(sql.SUPERSEDE, older)
                settled = row.settled(State.CREATED, source_id=source_id)
            else:
                settled = row.settled(State.REFUSED, error=_SETTLED_AS_MISSING)
            write_rows(connection, [settled])
            return _single_entry(connection, entry.id)

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
            key: an item's key, the entry's id, or, of an item that is gone, its source's id. The id
                of a superseded source forgets that source alone.
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
            found = entries_of(connection) if key is None else _of_key(connection, key)
            if key is not None and not found:
                found = entries_of(connection, "gone_at IS NOT NULL AND source_id = ?", key)
            entries = [
                entry
                for entry in found
                if (collection is None or collection in entry.collections)
                and (origin is None or origin == entry.origin)
            ]
            sending = [entry.key for entry in entries if entry.state is State.CLAIMED]
            if sending:
                raise LedgerError(
                    f"{sending[0]!r} is being sent right now, so nothing was forgotten; try again "
                    "when the run has ended"
                )
            for entry in entries:
                connection.run(sql.FORGET_SUPERSEDED_OF, bytes.fromhex(entry.id))
                connection.run(sql.FORGET, bytes.fromhex(entry.id), entry.source_id or "")
            if entries or key is None:
                return len(entries)
            return connection.run(sql.FORGET_SUPERSEDED, key)

    def note(self, name: str, change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Change what a caller keeps in the ledger under a name, in one transaction.

        It is for whoever runs ingestions and has to remember something between them, such as what
        was announced. The ledger makes no use of it.

        Args:
            name: for example of a scheduled task. Each has a note of its own.
            change: takes the note, empty at first, and changes it in place: names with plain JSON.
                An empty one is not kept.

        Returns:
            The note as it is now.
        """
        database = self.database
        connection = database.open(reading=False)
        assert connection is not None  # noqa: S101 - only readers get None
        with (
            contextlib.closing(connection),
            database.explaining("written"),
            connection.transaction(),
        ):
            connection.lock(sql.LOCK_NOTES)
            kept = connection.rows(sql.NOTE, name)
            note: dict[str, Any] = json.loads(kept[0][0]) if kept else {}
            change(note)
            connection.run(sql.DELETE_NOTE, name)
            if note:
                connection.run(sql.ADD_NOTE, name, json.dumps(note))
            return note

    def export(self) -> Iterator[str]:
        """Yield all that the ledger knows as lines of JSON, for `import_from` at another place.

        From then on only one of the two may be used, since neither knows what is sent with the
        other.

        Raises:
            LedgerError: there is no ledger, or a run is using it.
        """
        from knowledge_bot.ingest._exports import lines_of

        with self._reading() as connection:
            yield from lines_of(connection, str(self))

    def import_from(self, lines: Iterable[str]) -> dict[str, int]:
        """Make the ledger from lines that `export` yielded: as a whole or not at all.

        What dead workers were sending is unknown then.

        Args:
            lines: all of them, in their order.

        Returns:
            How many rows there are of `scopes`, `origins`, `items` and so on.

        Raises:
            LedgerError: there is a ledger already, or something else; or these are not all lines of
                an export of this version.
        """
        from knowledge_bot.ingest._exports import fill

        counts: dict[str, int] = {}
        self.database.create(lambda connection: counts.update(fill(connection, lines)))
        return counts

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        database = self.database
        connection = database.open(reading=True)
        if connection is None:
            raise LedgerError(f"there is no ledger at {self}; each run names the one that it uses")
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
                connection.lock(sql.LOCK_ITEMS)  # no run claims or records anything meanwhile
                yield connection


def _made(kind: type[Ledger], address: str, wait: float) -> Ledger:
    return kind(address, wait=wait)


def entries_of(
    connection: Connection, condition: str = "1 = 1", *values: Any, ids: Sequence[bytes] = ()
) -> list[Entry]:
    """Return the entries that meet a condition, which has `{ids}` where these are to be found."""
    rows = rows_where(connection, condition, *values, ids=ids or None, dead=dead_runs(connection))
    origins = {number: place for number, *place in connection.rows(sql.ORIGINS)}
    sets = {number: tuple(ids.split(",")) for number, ids in connection.rows(sql.SETS)}
    return sorted(
        (_entry(row, origins[row.origin], sets[row.collections]) for row in rows),
        key=lambda entry: (entry.service, entry.origin, entry.collections, entry.key),
    )


def _of_service(service: str | None, several: Iterable[R]) -> Iterator[R]:
    """Yield what belongs to a service; all without one."""
    wanted = None if service is None else normalised_url(service)
    return (each for each in several if wanted in (None, each.service))


def _superseded_of(connection: Connection) -> list[SupersededSource]:
    """Return the superseded sources, the oldest first."""
    read = [SupersededSource(*row) for row in connection.rows(sql.SUPERSEDED)]
    return [
        one._replace(
            collections=tuple(str(one.collections).split(",")),
            superseded_at=_time(int(one.superseded_at)),  # type: ignore[call-overload] # still a number
        )
        for one in read
    ]


def _entry(row: Row, place: Sequence[str], collections: tuple[str, ...]) -> Entry:
    return Entry(
        row.id.hex(),
        place[0],
        collections,
        place[1],
        row.key,
        row.name or row.key,
        row.kind,
        None if row.kind == "text" else row.location or row.key,
        State(row.state),
        row.source_id,
        row.attempts,
        row.error or "",
        _time(row.updated_at),
        None if row.gone_at is None else _time(row.gone_at),
        row.version,
        row.gone_reason,
    )


def _of_key(connection: Connection, key: str) -> list[Entry]:
    """Return the entries of a key in every origin, or of an entry's id."""
    if not isinstance(key, str):
        raise ConfigurationError.expected("key", "a text", key)
    origins = [place for _, *place in connection.rows(sql.ORIGINS)]
    ids = [item_ids(at, name)(key) for at, name in origins]
    if re.fullmatch("[0-9a-f]{32}", key):
        ids.append(bytes.fromhex(key))
    return entries_of(connection, "id {ids}", ids=ids) if ids else []


def _single_entry(connection: Connection, key: str) -> Entry:
    entries = _of_key(connection, key)
    if not entries:
        unsettled = entries_of(connection, "state <> 'created'")
        unknown = [entry.key for entry in unsettled if entry.state == State.UNKNOWN]
        near = [each for each in unknown if each.endswith(f"/{key}")][:5]
        meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise LedgerError(f"the ledger has no item with the key {key!r}{meant}")
    if len(entries) > 1:
        ids = ", ".join(
            f"{entry.id} ({entry.origin}, {', '.join(entry.collections)})" for entry in entries
        )
        raise LedgerError(f"several items have the key {key!r}; name one by its id: {ids}")
    return entries[0]


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
