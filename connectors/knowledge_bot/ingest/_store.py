"""The ledger's rows, and the statements on them.

An item's row says `claimed` on disk before its request leaves, and holds the outcome afterwards. A
claim is a compare-and-swap on the row that the decision was based on, so two runs never send the
same item. Each run holds a lease. The claims of a run that died have an unknown outcome.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from knowledge_bot._database import Connection, Session
from knowledge_bot.ingest._leases import (
    DIED,
    HEARTBEAT,
    LEASE,
    Owner,
    clock,
    dead_runs,
    expire,
    live_runs,
    running,
)
from knowledge_bot.ingest._schema import LedgerDatabase

T = TypeVar("T")

_PORTS = {"http": 80, "https": 443}


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


class Row(NamedTuple):
    """A row of `kbot_items`, in the order of its columns; see `_schema` for their meaning."""

    id: bytes
    scope: int
    origin: int | None
    key: str
    name: str | None
    kind: str
    location: str | None
    state: str
    digest: bytes | None
    pending: bytes | None
    version: str | None
    source_id: str | None
    source_name: str | None
    run: int
    revision: int
    attempts: int
    error: str | None
    updated_at: int
    gone_at: int | None
    number: int = 0  # the database gives it; never written


def normalised_url(service: str) -> str:
    """Return a base URL in its normal form, the same for all its spellings (RFC 3986, 6.2)."""
    parts = urlsplit(service)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    port = parts.port if parts.port != _PORTS.get(parts.scheme) else None
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def item_id(service: str, collections: Iterable[str], key: str) -> bytes:
    """Return an item's id in a ledger: a hash, since keys are long and indexes should be small."""
    text = f"{service}\0{','.join(sorted(collections))}\0{key}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()


_WRITE = f"""
    INSERT INTO kbot_items ({", ".join(Row._fields[:-1])})
    VALUES ({", ".join("?" * (len(Row._fields) - 1))})
    ON CONFLICT (id) DO UPDATE SET
        {", ".join(f"{name} = excluded.{name}" for name in Row._fields[1:-1])}
    WHERE kbot_items.revision = excluded.revision - 1   -- unchanged since it was read, or ...
       OR (kbot_items.run = excluded.run                -- ... the outcome of this run's claim,
           AND excluded.state <> 'claimed'              -- even if others considered the run dead
           AND kbot_items.state IN ('claimed', 'unknown'))
"""  # noqa: S608 - names of ours

_SUPERSEDE = """
    INSERT INTO kbot_superseded (source_id, replaced_by, scope, key, name, superseded_at)
    VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

_UNKNOWN_OF_A_RUN = """
    UPDATE kbot_items SET state = 'unknown', error = ?, updated_at = ?, revision = revision + 1
    WHERE state = 'claimed' AND run = ?
"""


def read_rows(connection: Connection, where: str, *values: Any) -> list[Row]:
    """Return the rows that meet a condition."""
    query = f"SELECT {', '.join(Row._fields)} FROM kbot_items WHERE {where}"  # noqa: S608 - as above
    return list(map(Row._make, connection.rows(query, *values)))


def write_rows(connection: Connection, rows: Sequence[Row]) -> set[bytes]:
    """Write rows; return the ids of those that another run wrote since they were read.

    Each row has the revision after the one it was read with. The outcome of a claim is always
    written while the row still belongs to that run.
    """
    # In the same order in all runs: PostgreSQL locks row by row, and would find deadlocks.
    ordered = sorted(rows, key=lambda row: row.id)
    written = connection.run_many(_WRITE, [row[:-1] for row in ordered])
    if written == len(ordered):
        return set()
    found = find_rows(connection, [row.id for row in ordered])
    last = {row.id: row for row in ordered}  # one may be released and claimed again in one batch
    return {row.id for row in last.values() if not _is_written(row, found.get(row.id))}


def find_rows(connection: Connection, ids: Sequence[bytes]) -> dict[bytes, Row]:
    """Return the rows with these ids."""
    query = f"SELECT {', '.join(Row._fields)} FROM kbot_items WHERE id {{ids}}"  # noqa: S608 - as above
    return {row.id: row for row in map(Row._make, connection.of_ids(query, ids))}


def _is_written(row: Row, found: Row | None) -> bool:
    """Return whether a row was written, such as by a commit whose answer was lost."""
    if found is None:
        return False
    return (found.run, found.state, found.source_id) == (row.run, row.state, row.source_id)


def superseded_rows(row: Row, source_id: str | None) -> list[tuple[Any, ...]]:
    """Return the row of `kbot_superseded` for the source that a new one replaces, if any."""
    if row.source_id is None or row.source_id == source_id:
        return []
    name = row.source_name or row.name or row.key
    return [(row.source_id, source_id, row.scope, row.key, name, int(time.time()))]


def write_superseded(connection: Connection, superseded: Sequence[tuple[Any, ...]]) -> None:
    """Record sources that newer ones replaced."""
    connection.run_many(_SUPERSEDE, superseded)


def page_id(url: str) -> bytes:
    """Return the id of a page's address in a ledger."""
    return hashlib.blake2b(url.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(slots=True)
class Batch:
    """What goes into one transaction.

    Attributes:
        rows: claims, outcomes of claims, and corrected rows.
        withdrawn: claims of new items that were not sent after all.
        superseded: sources that were replaced, as `superseded_rows` returns them.
    """

    rows: list[Row] = field(default_factory=list)
    withdrawn: list[Row] = field(default_factory=list)
    superseded: list[tuple[Any, ...]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.rows or self.withdrawn or self.superseded)


class Store:
    """A ledger as one run uses it; its threads take turns.

    All methods but `close` and `give_up` raise `LedgerError`.

    Args:
        database: where the ledger is.
        reading: whether nothing may be written, as in a dry run.
        alive: returns whether the run can still end.

    Attributes:
        run: the run's number.
        origin: the number of the origin named when the ledger was opened.
        highest: the highest row number at that time.
        in_doubt: whether the last transaction may be committed though its answer was lost.
    """

    def __init__(
        self, database: LedgerDatabase, *, reading: bool, alive: Callable[[], bool] = lambda: True
    ) -> None:
        self._database, self.reading, self._alive = database, reading, alive
        self._owner = Owner.of_this_process()
        self.run: int = self._owner.run
        self.origin: int | None = None
        self.highest: int = 0
        self.in_doubt: bool = False
        self._session = Session(database, reading=reading)
        own = "" if database.file is None else database.file.name
        self._ledger_files = frozenset(
            {own, *(f"{own}-{kind}" for kind in ("journal", "shm", "wal"))}
        )
        self._service, self._scope = "", 0
        self._renewed = 0.0
        self._wrote = False

    @property
    def registered(self) -> bool:
        """Whether the run has registered itself, and so holds a lease."""
        return self._renewed > 0

    def open(self, service: str, collections: Sequence[str], origin: str | None) -> bool:
        """Open the ledger, or make it; a reader makes nothing, and gets False if there is none.

        Args:
            service: the base URL, normalised.
            collections: where the run's items go.
            origin: the name of their origin; None without one.
        """
        if self._session.open() is None:
            return False

        def look(connection: Connection) -> int:
            if not self.reading:
                expire(connection)
            query = "SELECT coalesce(max(number), 0) FROM kbot_items"
            return int(connection.rows(query)[0][0])

        self.highest = self._session.do("read", look)
        self._service, self._scope = service, self.scope(service, collections)
        if origin is not None:
            of_scope = (self._scope, origin)
            self.origin = self._number_of("kbot_origins", "scope", "name", of_scope) or None
        return True

    def scope(self, service: str, collections: Iterable[str]) -> int:
        """Return the number of a service with some collections; 0 if a reader finds none."""
        values = (service, ",".join(sorted(collections)))
        return self._number_of("kbot_scopes", "service", "collections", values)

    def created(self, after: int, count: int) -> list[Any]:
        """Return number, key, version and digest of rows of the origin that are created, not gone.

        Args:
            after: the number of the row that was read last.
            count: how many at most.
        """
        query = (
            "SELECT number, key, version, digest FROM kbot_items WHERE origin = ? AND number > ? "
            "AND scope = ? AND state = 'created' AND gone_at IS NULL ORDER BY number LIMIT ?"
        )
        values = (self.origin, after, self._scope, count)
        return self._session.do("read", lambda connection: connection.rows(query, *values))

    def find(self, ids: Sequence[bytes]) -> dict[bytes, Row]:
        """Return the rows of items; claims of dead runs are unknown in them."""

        def find(connection: Connection) -> dict[bytes, Row]:
            found = find_rows(connection, ids)
            claiming = {row.run for row in found.values() if row.state == State.CLAIMED}
            if not claiming - {self.run} or not claiming & (dead := dead_runs(connection)):
                return found
            if not self.reading:
                expire(connection)
                return find_rows(connection, ids)
            return {row.id: as_unknown(row) if row.run in dead else row for row in found.values()}

        return self._session.do("read", find)

    def contents(self, scope: int, digests: Sequence[bytes]) -> dict[bytes, str]:
        """Return a key for each of these contents that the scope already has."""
        query = "SELECT digest, key FROM kbot_items WHERE digest {ids} AND scope = ?"
        found = self._session.do(
            "read", lambda connection: connection.of_ids(query, digests, scope)
        )
        return dict(found)

    def rank(self) -> tuple[int, int]:
        """Return the run's place among the live runs of the same scope, and how many those are.

        Runs over the same items share them out by it. Asking registers the run.
        """

        def look(connection: Connection) -> list[int]:
            if not self.registered:
                self._renew(connection)
            living = live_runs(connection)
            return sorted(run for run in living if living[run] == self._scope)

        runs = self._session.do("written", look)
        return (runs.index(self.run), len(runs)) if self.run in runs else (0, 1)

    def reserve(self, count: int, rate: float, longest: float) -> float:
        """Reserve turns in the queue shared by all runs that send to the service at a rate.

        Args:
            count: how many turns.
            rate: turns per second.
            longest: the most that one run reserves at once, in seconds.

        Returns:
            Seconds until the first turn.
        """

        def take(connection: Connection) -> float:
            if not self.registered:  # live runs are counted below
                self._renew(connection)
            connection.run(
                "INSERT INTO kbot_rates (service, free_at) VALUES (?, 0) ON CONFLICT DO NOTHING",
                self._service,
            )
            with connection.transaction():
                # SQLite's write transactions exclude each other already.
                locked = "" if connection.sqlite else " FOR UPDATE"
                query = "SELECT free_at, (SELECT count(*) FROM kbot_runs) FROM kbot_rates "
                where = f"WHERE service = ?{locked}"
                ((free_at, runs),) = connection.rows(query + where, self._service)
                now = connection.now()
                # Later than all runs together can have reserved: the clock was set back.
                first = now if free_at > now + (runs + 1) * longest else max(free_at, now)
                connection.run(
                    "UPDATE kbot_rates SET free_at = ? WHERE service = ?",
                    first + count / rate,
                    self._service,
                )
            return float(first - now)

        return self._session.do("written", take)

    def write(self, batch: Batch, *, leave: bool = False) -> set[bytes]:
        """Write a batch durably; return the ids of the rows that another run wrote first.

        Args:
            batch: what to write.
            leave: whether to give up the lease too; the claims left then become unknown.
        """

        def write(connection: Connection) -> set[bytes]:
            self._wrote = self._wrote or bool(batch)
            with connection.transaction():
                if self.due:  # first, so that a run considered dead is live before its claims
                    self._renew(connection)
                connection.run_many(
                    "DELETE FROM kbot_items WHERE id = ? AND run = ? AND state = 'claimed'",
                    [(row.id, row.run) for row in batch.withdrawn],
                )
                lost = write_rows(connection, batch.rows)
                write_superseded(connection, batch.superseded)
                for row in batch.rows if lost else ():
                    # Another run or a person settled it meanwhile: the service has it twice.
                    if row.id in lost and row.state == State.CREATED and row.source_id:
                        (there,) = find_rows(connection, [row.id]).values()
                        write_superseded(connection, superseded_rows(row, there.source_id))
                if leave:
                    connection.run("DELETE FROM kbot_runs WHERE run = ?", self.run)
                    connection.run(_UNKNOWN_OF_A_RUN, DIED, int(time.time()), self.run)
                self.in_doubt = not connection.sqlite  # until the commit is answered
            self.in_doubt = False
            return lost

        lost = self._session.do("written", write)
        if leave and self._wrote:
            self._session.do("read back", lambda _: self._database.check_whole())
        return lost

    @property
    def due(self) -> bool:
        """Whether it is time to renew the lease."""
        return not self._renewed or clock() - self._renewed > HEARTBEAT

    @property
    def lapsed(self) -> bool:
        """Whether the lease may have expired unnoticed, such as while the machine slept."""
        return clock() - self._renewed > LEASE / 2

    def mark_gone(self, seen: bytearray, limit: float) -> tuple[int, int]:
        """Record which items the origin no longer yields, after it was read to its end.

        Args:
            seen: a bit for each row that was seen, by the row's number.
            limit: the share of its items that may disappear at once, 0 to 1.

        Returns:
            How many of its items are gone, and how many more would be without the limit.
        """

        def mark(connection: Connection) -> tuple[int, int]:
            query = (
                "SELECT number FROM kbot_items "
                "WHERE origin = ? AND digest IS NOT NULL AND number <= ? AND gone_at IS "
            )
            there, before = (
                [number for (number,) in connection.rows(query + sort, self.origin, self.highest)]
                for sort in ("NULL", "NOT NULL")
            )
            vanished = [number for number in there if not seen[number >> 3] >> (number & 7) & 1]
            back = [number for number in before if seen[number >> 3] >> (number & 7) & 1]
            withheld = len(vanished) if len(vanished) > limit * len(there) else 0
            changes: list[tuple[int | None, int]]
            changes = [] if withheld else [(int(time.time()), number) for number in vanished]
            changes += [(None, number) for number in back]
            if changes and not self.reading:
                with connection.transaction():
                    connection.run_many(
                        "UPDATE kbot_items SET gone_at = ?, revision = revision + 1 "
                        "WHERE number = ? AND state <> 'claimed'",
                        changes,
                    )
            return len(before) - len(back) + (0 if withheld else len(vanished)), withheld

        return self._session.do("written", mark)

    def recall(self, url: str) -> bytes | None:
        """Return what is remembered of a page; None if nothing is."""
        query = "SELECT known FROM kbot_pages WHERE id = ?"
        found = self._session.do("read", lambda connection: connection.rows(query, page_id(url)))
        return bytes(found[0][0]) if found else None

    def remember(self, url: str, known: bytes) -> None:
        """Remember a page; a reader remembers nothing."""
        statement = (
            "INSERT INTO kbot_pages (id, known) VALUES (?, ?) "
            "ON CONFLICT (id) DO UPDATE SET known = excluded.known"
        )
        if not self.reading:
            self._session.do(
                "written", lambda connection: connection.run(statement, page_id(url), known)
            )

    def is_ledger_file(self, path: str) -> bool:
        """Return whether a file belongs to the ledger. Such a file must not even be opened.

        Closing it drops the locks that SQLite holds on it in this process (POSIX; "How To Corrupt
        An SQLite Database File", section 2.2).
        """
        folder, _, name = path.rpartition(os.sep)
        file = self._database.file
        if not name or file is None or name not in self._ledger_files:
            return False
        try:
            return Path(folder or os.curdir).samefile(file.parent)
        except OSError:
            return False

    def give_up(self) -> None:
        """Stop waiting for a database that does not answer."""
        self._session.given_up = True

    def close(self) -> None:
        """Close the connection."""
        running.pop(self.run, None)
        self._session.close()

    def _number_of(self, table: str, one: str, two: str, values: tuple[Any, Any]) -> int:
        query = f"SELECT number FROM {table} WHERE {one} = ? AND {two} = ?"  # noqa: S608 - as above
        insert = f"INSERT INTO {table} ({one}, {two}) VALUES (?, ?) ON CONFLICT DO NOTHING"  # noqa: S608

        def find(connection: Connection) -> int:
            found = connection.rows(query, *values)
            if not found and not self.reading:
                connection.run(insert, *values)
                found = connection.rows(query, *values)
            return int(found[0][0]) if found else 0

        return self._session.do("written", find)

    def _renew(self, connection: Connection) -> None:
        if not self.registered:  # remove what killed runs left behind and nothing needs
            connection.run(
                "DELETE FROM kbot_runs WHERE lease_until < ? AND run NOT IN "
                "(SELECT run FROM kbot_items WHERE state = 'claimed')",
                connection.now() - LEASE,
            )
        connection.run(
            "INSERT INTO kbot_runs (run, scope, machine, host, pid, started, lease_until) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (run) DO UPDATE SET lease_until = excluded.lease_until",
            self.run,
            self._scope,
            *self._owner[1:],
            connection.now() + LEASE,
        )
        running[self.run] = self._alive
        self._renewed = clock()


def as_unknown(row: Row) -> Row:
    """Return a dead run's claim as unknown, without writing it."""
    return row._replace(state=State.UNKNOWN, error=DIED) if row.state == State.CLAIMED else row
