"""Who holds a claim, and whether that process still lives.

A live owner must never be taken for dead: its request may be on its way. So a process is looked for
only where its id means the same as here, on the same running kernel and in the same process
namespace (a container has one of its own). Everywhere else its lease decides, by the database's
clock.
"""

import os
import platform
import uuid
from dataclasses import dataclass
from pathlib import Path

LEASE = 60.0
"""Seconds that an owner may be silent before a worker on another machine takes it for dead."""

HEARTBEAT = LEASE / 4
"""Seconds between two renewals of a lease."""

_ANYWHERE = ""


@dataclass(frozen=True, slots=True)
class Owner:
    """One run in one process.

    Attributes:
        id: unique for every run.
        machine: the running kernel and process namespace; empty where they cannot be told.
        host: the machine's name, for people.
        pid: the process's id in its namespace.
        started: when the process started, in the kernel's own words, so that a process that was
            given the same id later is not taken for it.
    """

    id: str
    machine: str
    host: str
    pid: int
    started: str

    @classmethod
    def of_this_process(cls) -> "Owner":
        """Return a new owner for a run in this process."""
        pid, machine = os.getpid(), _machine()
        started = _start_of(pid) if machine else None
        return cls(uuid.uuid4().hex, machine, platform.node(), pid, started or "")

    def is_dead(self, *, lease_until: float, now: float) -> bool:
        """Tell whether the owner can no longer send anything.

        Args:
            lease_until: Unix seconds until which it announced to live.
            now: Unix seconds by the same clock.
        """
        lapsed = lease_until < now
        if self.machine == _ANYWHERE or self.machine != _machine():
            return lapsed
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
        return _ANYWHERE
    # Clones of a running virtual machine share all but their names.
    return f"{kernel} {namespace} {platform.node()}"


def _start_of(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None where it has ended.

    See proc(5), /proc/pid/stat: field 3 is the state, field 22 the start.
    """
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = text.rpartition(")")[2].split()  # the name before may hold spaces and parentheses
    return None if fields[0] in "ZXx" else fields[19]
