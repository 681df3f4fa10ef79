"""The ledger's database, and the runs that use it.

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
from knowledge_bot.ingest._statements import (
    ALWAYS_THERE,
    CLAIMING_RUNS,
    RUNS,
    TABLES,
    VERSION,
)


class LedgerError(DatabaseError):
    """The ledger cannot be opened, read or written. Nothing is sent without it."""


class LedgerDatabase(Database):
    """Where a ledger is kept."""

    noun = "ledger"
    error = LedgerError
    tables = TABLES

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
        if version == 0 or not ALWAYS_THERE.issubset(names):
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
        run: a number that no other run has.
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
        return cls(
            random.SystemRandom().getrandbits(62), machine, socket.gethostname(), pid, started or ""
        )

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


def live_runs(connection: Connection) -> set[int]:
    """Return the runs that can still record the outcome of their claims."""
    now = connection.now()
    return {
        owner[0]
        for *owner, lease_until in connection.rows(RUNS)
        if not Owner(*owner).is_dead(lease_until=lease_until, now=now)
    }


def dead_runs(connection: Connection) -> set[int]:
    """Return the runs that hold claims and can no longer record their outcome."""
    runs = {run for (run,) in connection.rows(CLAIMING_RUNS)}
    return runs - live_runs(connection) if runs else runs
