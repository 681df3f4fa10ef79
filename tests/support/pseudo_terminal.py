"""A command on a pseudo-terminal, as a person has it in front of them."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class Terminal:
    """A running command: `expect` waits for what it shows, `type` answers."""

    def __init__(self, master: int, process: "subprocess.Popen[bytes]") -> None:
        self._master, self._process = master, process
        self.shown = ""
        self._seen = 0

    def expect(self, text: str, seconds: float = 20.0) -> None:
        """Wait until the text is shown after what was expected before."""
        deadline = time.monotonic() + seconds
        while (found := self.shown.find(text, self._seen)) < 0:
            if time.monotonic() > deadline or not self.read(0.1):
                raise AssertionError(f"{text!r} was not shown; only: {self.shown!r}")
        self._seen = found + len(text)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def interrupt_prompt(self) -> None:
        """Press Ctrl-C once the command sleeps at the prompt that it has shown.

        Python's readline shows its prompt before it waits for keys, and notes a signal that comes
        in between only with the next key (`readline_until_enter_or_signal`, Modules/readline.c).
        """
        while self._state() != "S":
            self.read(0.05)
        self.type("\x03")

    def _state(self) -> str:
        """Return the process's state as proc_pid_stat(5) names it; `S` sleeps in a wait."""
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2][0]

    def end(self, seconds: float = 120.0) -> int:
        """Read to the end; return the exit code."""
        deadline = time.monotonic() + seconds
        while self.read(0.1):
            assert time.monotonic() < deadline, f"still running; shown: {self.shown!r}"
        return self._process.wait(seconds)

    def read(self, seconds: float) -> bool:
        """Take what is shown by now; return whether more may come."""
        if select.select([self._master], [], [], seconds)[0]:
            try:
                piece = os.read(self._master, 65536)
            except OSError:  # Linux's way to say that nobody holds the other end any more
                return False
            self.shown += piece.decode("utf-8", "replace").replace("\r\n", "\n")
            return bool(piece)
        return True


@contextmanager
def terminal(
    command: Sequence[object], environment: dict[str, str], columns: int = 100
) -> Iterator[Terminal]:
    """Run a command with stdin, stdout and stderr on a terminal of its own."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _ON_A_TERMINAL, *map(str, command)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "40", **environment},
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


# The new session takes the terminal as its own, so that Ctrl-C and hidden prompts work.
_ON_A_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
