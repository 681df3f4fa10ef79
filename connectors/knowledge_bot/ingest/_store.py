"""The ledger's rows, the statements on them, and the leases of the runs that write them.

An item's row says `claimed` on disk before its request leaves, and holds the outcome afterwards. A
claim is a compare-and-swap on the row that the decision was based on, so two runs never send the
same item. Each run holds a lease. The claims of a run that died have an unknown outcome.
"""

import hashlib
import os
import platform
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from knowledge_bot._database import Connection, Session
from knowledge_bot.ingest._schema import LedgerDatabase

T = TypeVar("T")

_PORTS = {"http": 80, "https": 443}

LEASE = 60.0
"""Seconds that a run may be silent before workers on other machines consider it dead."""

HEARTBEAT = LEASE / 4
"""Seconds between two renewals of a lease."""

DIED = "the worker that sent it died before it recorded the outcome"


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


_UNKNOWN_MACHINE = ""

# The runs of this process that have not ended, each with a function that says whether it still can
# end: its event loop may be closed while the process goes on.
_running: dict[int, Callable[[], bool]] = {}


def clock() -> float:
    """Return seconds of a clock that nobody can set, and that goes on while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Owner(NamedTuple):
    """One run in one process.

    A live run must never be considered dead: its request may be on its way. So a process id is
    checked only where it means the same process: on the same running kernel and in the same process
    namespace (a container has its own). Everywhere else the lease decides, by the database's clock.

    Attributes:
        run: a number that no other run has. It grows with the clock, which matters only for the
            order of runs that share items.
        machine: the running kernel and process namespace; empty if they are not known.
        host: the machine's name, for people.
        pid: the process's id in its namespace.
        started: when the process started, as the kernel writes it, so that a later process with the
            same id is not mistaken for it.
    """

    run: int
    machine: str
    host: str
    pid: int
    started: str

    @classmethod
    def of_this_process(cls) -> "Owner":
        """Return the owner of a new run in this process."""
        pid, machine = os.getpid(), _machine()
        started = _start_of(pid) if machine else None
        # The later a run begins, the greater its number: those that share items rank by it.
        run = int(time.time() * 1000) << 20 | secrets.randbits(20)
        return cls(run, machine, platform.node(), pid, started or "")

    def is_dead(self, *, lease_until: float, now: float) -> bool:
        """Return whether the run can no longer send anything.

        Args:
            lease_until: when its lease ends, in Unix seconds.
            now: Unix seconds by the same clock.
        """
        lapsed = lease_until < now
        if self.machine == _UNKNOWN_MACHINE or self.machine != _machine():
            return lapsed
        if self.pid == os.getpid() and _start_of(self.pid) == self.started:
            return self.run not in _running or not _running[self.run]()
        try:
            os.kill(self.pid, 0)
            return _start_of(self.pid) != self.started
        except ProcessLookupError:
            return True
        except OSError:  # another user's process, or a /proc that cannot be read just now
            return lapsed


def _machine() -> str:
    try:
        kernel = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = Path("/proc/self/ns/pid").readlink()
        _start_of(os.getpid())
    except OSError:  # not Linux, or a sandbox without /proc
        return _UNKNOWN_MACHINE
    # Clones of a running virtual machine share all but their names.
    return f"{kernel} {namespace} {platform.node()}"


def _start_of(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None if it has ended.

    See proc(5), /proc/pid/stat: field 3 is the state, field 22 the start.
    """
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = text.rpartition(")")[2].split()  # the name before may hold spaces and parentheses
    return None if fields[0] in "ZXx" else fields[19]


def live_runs(connection: Connection) -> dict[int, int]:
    """Return the runs that can still record the outcome of their claims, with their scopes."""
    now = connection.now()
    query = "SELECT run, machine, host, pid, started, lease_until, scope FROM kbot_runs"
    return {
        owner[0]: scope
        for *owner, lease_until, scope in connection.rows(query)
        if not Owner(*owner).is_dead(lease_until=lease_until, now=now)
    }


def dead_runs(connection: Connection) -> set[int]:
    """Return the runs that hold claims and can no longer record their outcome."""
    rows = connection.rows("SELECT DISTINCT run FROM kbot_items WHERE state = 'claimed'")
    return {run for (run,) in rows} - live_runs(connection).keys() if rows else set()


def expire(connection: Connection) -> None:
    """Turn the claims of dead runs into unknown outcomes; writes nothing if there are none."""
    if not dead_runs(connection):
        return
    with connection.transaction():
        for run in dead_runs(connection):  # one may have renewed its lease in between
            connection.run("DELETE FROM kbot_runs WHERE run = ?", run)
            connection.run(_UNKNOWN_OF_A_RUN, DIED, int(time.time()), run)


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
    """

    def __init__(
        self, database: LedgerDatabase, *, reading: bool, alive: Callable[[], bool] = lambda: True
    ) -> None:
        self._database, self.reading, self._alive = database, reading, alive
        self._owner = Owner.of_this_process()
        self.run: int = self._owner.run
        self.origin: int | None = None
        self.highest: int = 0
        self._session = Session(database, reading=reading)
        own = "" if database.file is None else database.file.name
        self._ledger_files = frozenset(
            {own, *(f"{own}-{kind}" for kind in ("journal", "shm", "wal"))}
        )
        self._service, self._scope = "", 0
        self._renewed = 0.0
        self._wrote = self._has_rates = False

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
        connection = self._session.open()
        if connection is None:
            return False
        with self._database.explaining("read"):
            if not self.reading:
                expire(connection)
            query = "SELECT coalesce(max(number), 0) FROM kbot_items"
            ((self.highest,),) = connection.rows(query)
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
            if not self._has_rates:
                self._database.make_rates(connection)
                connection.run(
                    "INSERT INTO kbot_rates (service, free_at) VALUES (?, 0) "
                    "ON CONFLICT DO NOTHING",
                    self._service,
                )
                self._has_rates = True
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
        _running.pop(self.run, None)
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
        _running[self.run] = self._alive
        self._renewed = clock()


def as_unknown(row: Row) -> Row:
    """Return a dead run's claim as unknown, without writing it."""
    return row._replace(state=State.UNKNOWN, error=DIED) if row.state == State.CLAIMED else row
