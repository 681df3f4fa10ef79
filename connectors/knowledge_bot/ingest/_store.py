"""The ledger's rows, and what one run reads and writes of them.

Before the request of an item leaves, its row says on disk that it is being sent. It can be claimed
only while its row is as it was when the decision was made, so two runs never send the same item.
The claims of a run that died have an unknown outcome.
"""

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from knowledge_bot._database import Connection, Session
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest import _statements as sql
from knowledge_bot.ingest._schema import (
    HEARTBEAT,
    LEASE,
    LedgerDatabase,
    Owner,
    clock,
    dead_runs,
    running,
)

T = TypeVar("T")

_PORTS = {"http": 80, "https": 443}

# Bytes kept of a digest: enough to distinguish contents, and rows stay small.
DIGEST_SIZE = 16


class State(StrEnum):
    """What the ledger knows about an item."""

    CLAIMED = "claimed"
    """A run is sending it."""
    CREATED = "created"
    """The service has it."""
    REFUSED = "refused"
    """The service does not have it: it refused, or was not reached."""
    UNKNOWN = "unknown"
    """The service may or may not have it."""


class Row(sql.RowColumns):
    """What the ledger knows of an item."""

    __slots__ = ()

    @property
    def source_called(self) -> str:
        """The name that the service knows the source by."""
        return self.source_name or self.name or self.key

    def claimed(self, **of_item: Any) -> "Row":
        """Return the row of an item that is to be sent, with what is known of it now."""
        return self._replace(
            **of_item,
            state=State.CLAIMED,
            source_name=None if self.source_id is None else self.source_called,
            generation=self.generation + 1,
            attempts=self.attempts + 1,
            error=None,
            updated_at=int(time.time()),
            gone_at=None,
            gone_reason=None,
        )

    def settled(self, state: State, **known: Any) -> "Row":
        """Return the row with an outcome: of its claim, or found out later.

        No other place says what an outcome leaves of a row.

        Args:
            state: the outcome.
            known: columns. Of a created item, `digest` is by default that of what was sent last.
        """
        if state is State.CREATED:
            of_source = {"version": None, "source_name": None}
            known = {**of_source, "digest": self.pending, "pending": None, "error": None, **known}
        if state is not State.UNKNOWN:
            known["idempotency_key"] = None
        generation = self.generation + (self.state != State.CLAIMED)  # a claim has counted already
        return self._replace(
            state=state, generation=generation, updated_at=int(time.time()), **known
        )


NO_ROW = Row._make(
    (b"", 0, 0, "", None, "", None, State.REFUSED, *[None] * 6, 0, 0, 0, None, 0, None, None, 0)
)
"""What an item has before it has a row."""


def normalised_url(service: str) -> str:
    """Return a base URL in its normal form, the same for all its spellings (RFC 3986, 6.2).

    Raises:
        ConfigurationError: it is no text.
    """
    if not isinstance(service, str):
        raise ConfigurationError.expected("service", "a base URL", service)
    parts = urlsplit(service)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    port = parts.port if parts.port != _PORTS.get(parts.scheme) else None
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def item_ids(service: str, origin: str) -> Callable[[str], bytes]:
    """Return the function from an item's key to its id in a ledger.

    The id is a hash, since keys are long and indexes should be small; and runs that share items
    divide them by it.
    """
    place = f"{service}\0{origin}\0".encode("utf-8", "surrogatepass")
    begun = hashlib.blake2b(place, digest_size=16)

    def item_id(key: str) -> bytes:
        hashed = begun.copy()
        hashed.update(key.encode("utf-8", "surrogatepass"))
        return hashed.digest()

    return item_id


def write_rows(
    connection: Connection, rows: Iterable[Row], released: Set[bytes] = frozenset()
) -> set[bytes]:
    """Write rows; return the ids of those that another run wrote since they were read.

    Each row has the generation after the one it was read with. The outcome of a claim is always
    written while the row still belongs to that run. A row that was read and is not there any more
    stays away: its source was removed.

    Args:
        connection: to the ledger.
        rows: what to write.
        released: the ids of rows that are not there since a claim ended.
    """
    # A statement of PostgreSQL writes no row twice; in the same order in all runs it locks them.
    last = {row.id: row for row in sorted(rows, key=attrgetter("id"))}
    read = {row.id for row in last.values() if row.generation > 1} - released
    there = connection.of_ids(sql.THERE, sorted(read)) if read else []
    away = [last.pop(each) for each in read.difference(each for (each,) in there)]
    lost = {row.id for row in away if row.state == State.CLAIMED}
    if connection.insert(sql.WRITE, [row[:-1] for row in last.values()]) < len(last):
        found = {row.id: row for row in rows_where(connection, "id {ids}", ids=list(last))}
        lost |= {row.id for row in last.values() if not _is_written(row, found.get(row.id))}
    return lost


def rows_where(
    connection: Connection,
    condition: str,
    *values: Any,
    ids: Sequence[Any] | None = None,
    dead: Set[int] = frozenset(),
) -> list[Row]:
    """Return the rows that meet a condition, which has `{ids}` where these are to be found.

    Args:
        connection: to the ledger.
        condition: on the columns of `Row`.
        values: of the condition.
        ids: which ones, if it names them.
        dead: runs whose claims are unknown.
    """
    query = sql.ITEMS.format(condition=condition)
    found = connection.rows(query, *values) if ids is None else connection.of_ids(query, ids)
    rows = map(Row._make, found)
    return [
        row._replace(state=State.UNKNOWN, error=sql.DIED)
        if row.state == State.CLAIMED and row.run in dead
        else row
        for row in rows
    ]


def _is_written(row: Row, found: Row | None) -> bool:
    """Return whether a row was written, such as by a commit whose answer was lost."""
    if found is None:
        return False
    return (found.run, found.state, found.source_id) == (row.run, row.state, row.source_id)


def superseded_rows(row: Row | None, source_id: str | None) -> list[tuple[Any, ...]]:
    """Return the row of `kbot_superseded` for the source that a new one replaces, if any."""
    if row is None or row.source_id is None or row.source_id == source_id:
        return []
    place = row.origin, row.collections, row.key, row.source_called
    return [(row.source_id, source_id, *place, int(time.time()))]


def expire(connection: Connection) -> None:
    """Turn the claims of dead runs into unknown outcomes; writes nothing if there are none."""
    if not dead_runs(connection):
        return
    with connection.transaction():
        # Nobody else expires them now, and nobody renews a lease. Whoever was silent for so long
        # that it is considered dead renews it before it writes anything else.
        connection.lock(sql.LOCK_RUNS)
        for run in dead_runs(connection):  # one may have renewed its lease in between
            expire_run(connection, run)


def expire_run(connection: Connection, run: int) -> None:
    """Turn a run's claims into unknown outcomes, and end its lease, inside a transaction."""
    connection.run(sql.EXPIRE, run)
    connection.run(sql.END_RUN, run)


def number_of(connection: Connection, find: str, add: str, *values: str, makes: bool = True) -> int:
    """Return the number of an origin or a set of collections; 0 where it is not to be made."""
    found = connection.rows(find, *values)
    if not found and makes:
        connection.run(add, *values)
        found = connection.rows(find, *values)
    return int(found[0][0]) if found else 0


@dataclass(slots=True)
class Batch:
    """What goes into one transaction.

    Attributes:
        rows: outcomes of claims, corrected rows, and what claims that are released began with.
        released: the ids of claims that end with nothing sent.
        claims: what is sent next.
        superseded: sources that were replaced, as `superseded_rows` returns them.
        moved: rows with the digest, whose items have another key.
    """

    rows: list[Row] = field(default_factory=list)
    released: list[bytes] = field(default_factory=list)
    claims: list[Row] = field(default_factory=list)
    superseded: list[tuple[Any, ...]] = field(default_factory=list)
    moved: list[Row] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any((self.rows, self.released, self.claims, self.superseded, self.moved))


class KnownItem(NamedTuple):
    """What the service has of an item.

    Attributes:
        number: of its row.
        version: the version that was sent last.
        digest: the digest of the content.
        settled: whether it is there as it should, in the collections of the run.
        gone: whether its origin did not yield it before.
    """

    number: int
    version: str | None
    digest: bytes
    settled: bool
    gone: bool


class Store:
    """A ledger as one run uses it; its threads take turns.

    All methods raise `LedgerError`.

    Args:
        database: where the ledger is.
        patience: seconds to wait for a database that is away.
        reading: whether nothing may be written, as in a dry run.
        alive: returns whether the run can still end.

    Attributes:
        session: how the database is reached.
        run: the run's number.
        origin: the number of the origin; 0 if a reader finds none.
        registered: whether the run has registered itself, and so holds a lease.
    """

    def __init__(
        self,
        database: LedgerDatabase,
        *,
        patience: float,
        reading: bool = False,
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self._database, self.reading, self._alive = database, reading, alive
        self._owner = Owner.of_this_process()
        self.run: int = self._owner.run
        self.origin: int = 0
        self.session: Session = Session(database, reading=reading, patience=patience)
        self._sets: dict[tuple[str, ...], int] = {}
        self.registered: bool = False
        self._renewed = -math.inf

    def open(self, service: str, origin: str) -> str | None:
        """Open the ledger, or make it, and return the origin's note.

        A reader makes nothing, and finds an empty ledger where there is none.

        Args:
            service: the base URL, normalised.
            origin: the origin's name.
        """
        if not self.session.open():
            return None

        def look(connection: Connection) -> str | None:
            if not self.reading:
                expire(connection)
            found, makes = (service, origin), not self.reading
            self.origin = number_of(connection, sql.ORIGIN, sql.ADD_ORIGIN, *found, makes=makes)
            notes = connection.rows(sql.ORIGIN_NOTE, self.origin)
            return str(notes[0][0]) if notes and notes[0][0] is not None else None

        return self.session.do("written", look)

    @property
    def is_there(self) -> bool:
        """Whether there is a ledger: a reader makes none."""
        return not self.reading or self.origin > 0

    def collections(self, ids: tuple[str, ...]) -> int:
        """Return the number of a set of collections; 0 if a reader finds none."""
        if ids not in self._sets:
            joined, makes = ",".join(sorted(ids)), not self.reading
            self._sets[ids] = self.session.do(
                "written",
                lambda connection: number_of(connection, sql.SET, sql.ADD_SET, joined, makes=makes),
            )
        return self._sets[ids]

    def collection_ids(self, number: int) -> list[str]:
        """Return a set of collections by its number."""
        sets: dict[int, str] = dict(self.read(lambda connection: connection.rows(sql.SETS)))
        return sets[number].split(",")

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read with the run's connection."""
        return self.session.do("read", work)

    def known(self, collections: tuple[str, ...]) -> dict[str, KnownItem]:
        """Return what the service has of the origin, by key."""
        values = self.collections(collections), self.origin
        found = self.read(lambda connection: connection.rows(sql.KNOWN, *values))
        return {
            key: KnownItem(number, version, digest, bool(settled), bool(gone))
            for key, number, version, digest, settled, gone in found
        }

    def find(self, ids: Sequence[bytes]) -> dict[bytes, Row]:
        """Look items up by their ids; claims of dead runs are unknown outcomes by then."""

        def find(connection: Connection) -> dict[bytes, Row]:
            rows = rows_where(connection, "id {ids}", ids=ids)
            claimed = any(row.state == State.CLAIMED and row.run != self.run for row in rows)
            if claimed and (dead := dead_runs(connection)):
                if not self.reading:
                    expire(connection)
                rows = rows_where(connection, "id {ids}", ids=ids, dead=dead)
            return {row.id: row for row in rows}

        return self.read(find)

    def version_of(self, identifier: bytes) -> str | None:
        """Return the version of an item; None if it has none."""
        found = self.read(lambda connection: connection.rows(sql.VERSION_OF, identifier))
        return found[0][0] if found else None

    # Writing --------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> set[bytes]:
        """Write a batch durably; return the ids of what another run wrote or claimed first."""
        return self.session.do("written", lambda connection: self._write(connection, batch))

    def finish(self, batch: Batch) -> None:
        """Write what is left, give up the lease, and close; claims left then become unknown."""
        try:
            if batch or self.registered:  # else a ledger that was never reached is not waited for
                self.session.do("written", lambda found: self._write(found, batch, leave=True))
        finally:
            running.pop(self.run, None)
            self.session.close()

    def _write(self, connection: Connection, batch: Batch, *, leave: bool = False) -> set[bytes]:
        with connection.transaction():
            if self.due:  # first, so that a run considered dead is live before its claims
                self._renew(connection)
            if released := set(batch.released):
                connection.run_for_ids(sql.RELEASE, sorted(released), self.run)
            lost = write_rows(connection, [*batch.rows, *batch.claims], released)
            if batch.superseded:
                connection.insert(sql.SUPERSEDE, batch.superseded)
            for row in batch.moved:
                connection.run(sql.MOVE, *row, row.digest, row.id)
            for row in batch.rows if lost else ():
                # Another run or a person settled it meanwhile: the service has it twice.
                if row.id in lost and row.state == State.CREATED and row.source_id:
                    (there,) = rows_where(connection, "id = ?", row.id)
                    if older := superseded_rows(row, there.source_id):
                        connection.insert(sql.SUPERSEDE, older)
            if leave:
                expire_run(connection, self.run)
        return lost

    @property
    def due(self) -> bool:
        """Whether it is time to renew the lease."""
        return clock() - self._renewed > HEARTBEAT

    @property
    def lapsed(self) -> bool:
        """Whether the lease may have expired unnoticed, such as while the machine slept."""
        return clock() - self._renewed > LEASE / 2

    def _renew(self, connection: Connection) -> None:
        if not self.registered:
            connection.run(sql.FORGET_RUNS, connection.now() - LEASE)
        lease = connection.now() + LEASE
        connection.run(sql.RENEW, *self._owner, lease)
        running[self.run] = self._alive
        self.registered, self._renewed = True, clock()

    def set_note(self, note: str | None) -> None:
        """Remember something about the origin as a whole."""
        self.session.do(
            "written", lambda connection: connection.run(sql.SET_ORIGIN_NOTE, note, self.origin)
        )

    def mark_gone(self, numbers: Mapping[str | None, Sequence[int]]) -> None:
        """Record which items the origin no longer yields, and under None which it does again.

        The numbers are those of their rows, by the reason.
        """

        def mark(connection: Connection) -> None:
            with connection.transaction():
                for reason, several in numbers.items():
                    at = "NULL" if reason is None else int(time.time())
                    why = "NULL" if reason is None else f"'{reason}'"
                    how = sql.MARK_GONE.format(at=at, reason=why, ids="{ids}")
                    connection.run_for_ids(how, several)

        if not self.reading:
            self.session.do("written", mark)

    def is_ledger_file(self, path: str) -> bool:
        """Return whether a file belongs to the ledger. Such a file must not even be opened.

        Closing it drops the locks that SQLite holds on it in this process (POSIX; "How To Corrupt
        An SQLite Database File", section 2.2).
        """
        folder, _, name = path.rpartition(os.sep)
        file = self._database.file
        if file is None or not name.startswith(file.name):
            return False
        if not re.fullmatch(r"(-(journal|shm|wal))?", name[len(file.name) :]):
            return False
        try:
            return Path(folder or os.curdir).samefile(file.parent)
        except OSError:
            return False
