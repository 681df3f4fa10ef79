"""The ledger's database: its tables and their version, and the runs that use it.

Each run holds a lease while it sends. A run without a lease that counts can no longer record an
outcome, so what it was sending becomes unknown.
"""

import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from knowledge_bot._database import Connection, Database, DatabaseError


class LedgerError(DatabaseError):
    """The ledger cannot be opened, read or written. Nothing is sent without it."""


VERSION = 1
"""Of the tables. A ledger with tables of another version cannot be used."""

# All names share a prefix, since a PostgreSQL database often serves other programs too. Columns
# that most rows do not need are NULL, and what all items of a run share is in a table of its own:
# with ten million items, a byte per row is ten megabytes. All times are Unix seconds.
#
# An item's row is written once for each result. No index holds what a result changes, and in
# PostgreSQL a page keeps room for the next version of its rows (`{roomy}`), so that the indexes
# are left alone ("Heap-Only Tuples"). What is being sent is in a narrow table of its own.
_TABLES = """
CREATE TABLE kbot_ledger (version INTEGER NOT NULL);
INSERT INTO kbot_ledger (version) VALUES (1);
CREATE TABLE kbot_scopes (        -- within which a key is unique
    number {identity},
    service TEXT NOT NULL,
    collections TEXT NOT NULL,    -- sorted, with commas
    UNIQUE (service, collections)
);
CREATE TABLE kbot_origins (       -- read as a whole, such as a folder
    number {identity},
    scope INTEGER NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (scope, name)
);
CREATE TABLE kbot_runs (          -- the live runs, and their leases
    run BIGINT PRIMARY KEY,
    scope INTEGER NOT NULL,
    machine TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    lease_until DOUBLE PRECISION NOT NULL
);
CREATE TABLE kbot_items (         -- what became of each item
    number {identity},
    id {bytes} NOT NULL UNIQUE,   -- a hash of service, collections and key
    scope INTEGER NOT NULL,
    origin INTEGER,
    key TEXT NOT NULL,
    name TEXT,                    -- NULL: the same as the key
    kind TEXT NOT NULL,
    location TEXT,                -- of a page or a file; NULL: the same as the key
    state TEXT NOT NULL           -- created, refused or unknown
        CHECK (state IN ('created', 'refused', 'unknown')),
    digest {bytes},               -- of the content that the service has
    pending {bytes},              -- of the content sent last, unless state is created
    version TEXT,                 -- changes with the content, and is cheaper than digest
    source_id TEXT,               -- the source created last ...
    source_name TEXT,             -- ... and its name, where the item has a newer one
    source_revision TEXT,         -- ... and its revision in the service
    ready_at BIGINT,              -- ... and when the service answered from it
    idempotency_key TEXT,         -- of the attempt whose outcome is unknown, as in a claim
    run BIGINT NOT NULL,          -- the run that wrote the row last
    generation INTEGER NOT NULL,  -- writing compares and swaps it
    attempts INTEGER NOT NULL,
    error TEXT,
    updated_at BIGINT NOT NULL,
    gone_at BIGINT,               -- when its origin stopped yielding it ...
    gone_reason TEXT              -- ... and why
){roomy};
CREATE INDEX kbot_items_unsettled ON kbot_items (state) WHERE state <> 'created';
CREATE INDEX kbot_items_origin ON kbot_items (origin) WHERE origin IS NOT NULL;
CREATE INDEX kbot_items_gone ON kbot_items (gone_at) WHERE gone_at IS NOT NULL;
CREATE TABLE kbot_claims (        -- the requests in flight: items that are being sent
    id {bytes} PRIMARY KEY,       -- of the item, which may have no row yet
    run BIGINT NOT NULL,
    scope INTEGER NOT NULL,
    origin INTEGER,
    key TEXT NOT NULL,
    name TEXT,                    -- NULL: the same as the key
    kind TEXT NOT NULL,
    location TEXT,                -- NULL: the same as the key
    pending {bytes},              -- of the content being sent
    idempotency_key TEXT,         -- that the request carries; where it replaces a source, the
                                  -- revision that it replaces, in quotes, which no key begins with
    claimed_at BIGINT NOT NULL
){keyed};
CREATE TABLE kbot_superseded (
    source_id TEXT PRIMARY KEY,
    source_revision TEXT,
    replaced_by TEXT,
    scope INTEGER NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    superseded_at BIGINT NOT NULL
);
CREATE TABLE kbot_notes (         -- what whoever runs ingestions has to remember between them
    name TEXT PRIMARY KEY,
    note TEXT NOT NULL            -- JSON
);
CREATE TABLE kbot_pages (         -- validators for conditional requests
    id {bytes} PRIMARY KEY,       -- a hash of the address
    known {bytes} NOT NULL        -- packed by the page reader
);
CREATE TABLE kbot_rates (         -- the shared queue of runs with a rate
    service TEXT PRIMARY KEY,
    free_at DOUBLE PRECISION NOT NULL   -- the next free turn
);
"""


_ALWAYS_THERE = {
    "kbot_items", "kbot_origins", "kbot_pages", "kbot_runs", "kbot_scopes", "kbot_superseded"
}  # fmt: skip


class LedgerDatabase(Database):
    """Where a ledger is kept."""

    noun = "ledger"
    error = LedgerError
    tables = _TABLES

    def is_made(self, connection: Connection) -> bool:
        """Return whether a database holds a ledger.

        Raises:
            LedgerError: it holds a ledger of another version, a part of one, or, as SQLite's file,
                something else.
        """
        names = connection.names()
        if "kbot_ledger" not in names:
            others = [name for name in names if "kbot_heads" not in name]
            if others and connection.sqlite:
                raise self.error(
                    f"{self.name} is not a ledger: it is a database of another program, with the "
                    f"table {others[0]!r}. Nothing was written to it; name another file"
                )
            return False
        ((version,),) = connection.rows("SELECT version FROM kbot_ledger") or ((0,),)
        if version not in (0, VERSION):
            raise self.error(
                f"{self.name} is a ledger of version {version}, and this knowledge-bot uses "
                f"version {VERSION}. Nothing was written to it; name another one"
            )
        if version == 0 or not _ALWAYS_THERE.issubset(names):
            raise self.error(
                f"{self.name} is a part of a ledger: some of its tables or rows are missing, such "
                "as after a copy that was interrupted. Nothing was written to it; copy it again, "
                "or restore it"
            )
        return True

    def check_replaced(self, *, there: bool) -> None:
        """Raise LedgerError: SQLite would go on writing to a file that has lost its name."""
        raise self.error(
            f"the ledger {self.name} was {'replaced' if there else 'removed'} while it was in use. "
            "It does not know what was sent since. Restore it before the next run, or that is sent "
            "again"
        )


LEASE = 60.0
"""Seconds that a run may be silent before workers on other machines consider it dead."""

HEARTBEAT = LEASE / 4
"""Seconds between two renewals of a lease."""

DIED = "the worker that sent it died before it recorded the outcome"

_UNKNOWN_MACHINE = ""

running: dict[int, Callable[[], bool]] = {}
"""The runs of this process that have not ended, each with a function that says whether it still can
end: its event loop may be closed while the process goes on."""


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
        run = int(time.time() * 1000) << 20 | random.SystemRandom().getrandbits(20)
        return cls(run, machine, socket.gethostname(), pid, started or "")

    def is_dead(self, *, lease_until: float, now: float) -> bool:
        """Return whether the run can no longer send anything.

        Both times are Unix seconds by the same clock.
        """
        lapsed = lease_until < now
        if self.machine == _UNKNOWN_MACHINE or self.machine != _machine():
            return lapsed
        if self.pid == os.getpid() and _start_of(self.pid) == self.started:
            return self.run not in running or not running[self.run]()
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
    return f"{kernel} {namespace} {socket.gethostname()}"


def _start_of(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None if it has ended.

    See proc(5), /proc/pid/stat: field 3 is the state, field 22 the start.
    """
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = text.rpartition(")")[2].split()  # the name before may hold spaces and parentheses
    return None if fields[0] in "ZXx" else fields[19]


def live_runs(connection: Connection, *, but: int = 0) -> dict[int, int]:
    """Return the runs that can still record the outcome of their claims, with their scopes."""
    now = connection.now()
    query = (
        "SELECT run, machine, host, pid, started, lease_until, scope FROM kbot_runs WHERE run <> ?"
    )
    return {
        owner[0]: scope
        for *owner, lease_until, scope in connection.rows(query, but)
        if not Owner(*owner).is_dead(lease_until=lease_until, now=now)
    }


def dead_runs(connection: Connection) -> set[int]:
    """Return the runs that hold claims and can no longer record their outcome."""
    runs = {run for (run,) in connection.rows("SELECT DISTINCT run FROM kbot_claims")}
    return runs - live_runs(connection).keys() if runs else runs
