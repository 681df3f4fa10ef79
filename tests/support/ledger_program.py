"""Upgrades or copies a ledger, in a process that a test may kill.

    python tests/support/ledger_program.py upgrade LEDGER
    python tests/support/ledger_program.py copy FROM TO

It says `ready`, waits for a line, and says `done` in the end.
"""

import random
import subprocess
import sys
import time
from collections.abc import Callable

from knowledge_bot.ingest import Ledger


def main(what: str, address: str, *other: str) -> None:
    print("ready", flush=True)  # noqa: T201 - for the test
    sys.stdin.readline()
    if what == "upgrade":
        Ledger(address).status()
    else:
        Ledger(address).copy_to(*other)
    print("done", flush=True)  # noqa: T201 - as above


def kill(count: int, start: Callable[[], list[str]], check: Callable[[], None]) -> None:
    """Kill the program so often, at random moments of its work.

    Args:
        count: how many kills.
        start: prepares a run, and returns its arguments.
        check: raises AssertionError if a kill left anything but the old state or the new one.
    """
    longest = _run(start(), None)
    check()
    for _ in range(count):
        _run(start(), random.uniform(0, longest))
        check()


def _run(arguments: list[str], until: float | None) -> float:
    """Run the program, killed after some seconds; return how long its work took."""
    with subprocess.Popen(
        [sys.executable, __file__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        process.stdin.write("\n")
        process.stdin.flush()
        if until is None:
            assert process.stdout.readline() == "done\n"
        else:
            time.sleep(until)
            process.kill()
        return time.monotonic() - began


if __name__ == "__main__":
    main(*sys.argv[1:])
