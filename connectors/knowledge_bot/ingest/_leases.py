"""The leases of the runs that use a ledger, and the claims that dead runs leave behind.

Each run holds a lease while it sends. A run without a lease that counts can no longer record an
outcome, so its claims become items whose outcome is unknown.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from knowledge_bot._database import Connection

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
        run = int(time.time() * 1000) << 20 | secrets.randbits(20)
        return cls(run, machine, socket.gethostname(), pid, started or "")

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
    """Return the runs that can still record the outcome of their claims, with their scopes.

    Args:
        connection: to the ledger.
        but: a run that is not asked for.
    """
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


def expire(connection: Connection) -> None:
    """Turn the claims of dead runs into unknown outcomes; writes nothing if there are none."""
    if not dead_runs(connection):
        return
    with connection.transaction():
        if not connection.sqlite:
            # Nobody else expires them now, and nobody renews a lease. Whoever was silent for so
            # long that it is considered dead renews it before it writes anything else.
            connection.run("LOCK TABLE kbot_runs IN SHARE ROW EXCLUSIVE MODE")
        for run in dead_runs(connection):  # one may have renewed its lease in between
            expire_run(connection, run)


# An item that is sent again keeps what the ledger knows of its older source.
_EXPIRE = """
    INSERT INTO kbot_items (
        id, scope, origin, key, name, kind, location, state, pending, run, revision, attempts,
        error, updated_at, idempotency_key
    )
    SELECT id, scope, origin, key, name, kind, location, 'unknown', pending, run, 1, 1,
        ?, ?, idempotency_key
    FROM kbot_claims WHERE run = ? ORDER BY id
    ON CONFLICT (id) DO UPDATE SET
        origin = excluded.origin, name = excluded.name, kind = excluded.kind,
        location = excluded.location, state = excluded.state, pending = excluded.pending,
        run = excluded.run, error = excluded.error, updated_at = excluded.updated_at,
        idempotency_key = excluded.idempotency_key,
        revision = kbot_items.revision + 1,
        attempts = kbot_items.attempts + 1,
        source_name = CASE WHEN kbot_items.source_id IS NOT NULL
            THEN coalesce(kbot_items.source_name, kbot_items.name, kbot_items.key) END,
        gone_at = NULL, gone_reason = NULL
"""


def expire_run(connection: Connection, run: int) -> None:
    """Turn a run's claims into unknown outcomes, and end its lease, inside a transaction."""
    connection.run(_EXPIRE, DIED, int(connection.now()), run)
    connection.run("DELETE FROM kbot_claims WHERE run = ?", run)
    connection.run("DELETE FROM kbot_runs WHERE run = ?", run)
