"""Runs a service in this process until it is stopped."""

import errno
import logging
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Mapping
from types import FrameType

import uvicorn

from knowledge_bot import __version__
from knowledge_bot_service.config.folder import DataFolder, FolderError, database_file, mark_used
from knowledge_bot_service.config.keys import KeyList
from knowledge_bot_service.config.refusals import DiskFullError, StorageError, storage_error
from knowledge_bot_service.config.settings import ServiceConfiguration, SettingsError
from knowledge_bot_service.store.database import ServiceDatabase
from knowledge_bot_service.web.app import create_app
from knowledge_bot_service.web.gate import PREFIX, Loader, Mounts

_log = logging.getLogger(__name__)

# What a request's first line and headers may take together, in bytes. Browsers send some 2 kB.
_HEAD_BYTES = 64 * 1024

# How long open requests may take when the service stops, in seconds.
_GRACE = 5

# Seconds after which an idle connection is closed: later than clients give theirs up (undici after
# 4, httpx and ours after 5, aiohttp after 15), or a request may meet a connection being closed.
_IDLE = 20

# How long a worker that analyses text keeps the interpreter from the thread that answers requests,
# in seconds. Measured while a long text is processed: with Python's own 5 ms, the 99th percentile
# of accepting a source was six times as long; the text was ready no later.
_SWITCH_INTERVAL = 0.0005

# A server on every address is reached from this machine at one of them.
_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - none is bound here


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address, before anything is made that a failure would leave behind.

    No client is lost by that: connections wait until the service has started.

    Raises:
        SettingsError: the address is in use, or does not belong to this machine.
    """
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as error:
        why = f"{error.strerror}"
        if error.errno == errno.EADDRINUSE:
            why = (
                "it is in use, perhaps by another `kbot serve`. Use that one, or take another port "
                "with --port"
            )
        raise SettingsError(f"cannot listen on {host}, port {port}: {why}") from None


def base_url_at(host: str, listener: socket.socket) -> str:
    """The base URL that leads from this machine to a service which listens there."""
    shown = _ANY.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{listener.getsockname()[1]}{PREFIX}"


def run(
    settings: ServiceConfiguration,
    folder: DataFolder,
    keys: KeyList,
    listener: socket.socket,
    *,
    on_ready: Callable[[], None],
    on_stop: Callable[[], None] | None = None,
    mounts: Mapping[str, Loader] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, in a process that does nothing else.

    `on_ready` is called when requests are answered, `on_stop` in the signal's handler, before
    anything is refused.

    Raises:
        FolderError: the disk is full, or the database is not one that this version can use.
        SettingsError: the key of the language model is not in the environment.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    # An upload waits where it stays: the system's folder may be small, or memory.
    tempfile.tempdir = str(folder.material)
    host, limits = settings.host, settings.limits
    port: int = listener.getsockname()[1]
    base_url = base_url_at(host, listener)

    def started() -> None:
        told = "started: version %s, listening on %s, port %d, data folder %s"
        _log.info(told, __version__, host, port, settings.data.absolute())
        on_ready()

    app = create_app(
        settings,
        folder,
        opened(folder),
        keys,
        on_ready=started,
        mounts=Mounts(mounts, base_url, settings.data) if mounts else None,
    )
    config = uvicorn.Config(
        app,
        # The other parser of uvicorn's takes a head of any size.
        http="h11",
        h11_max_incomplete_event_size=_HEAD_BYTES,
        limit_concurrency=limits.connections,
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=_GRACE,
    )
    server = _Server(config, on_stop)
    try:
        server.run(sockets=[listener])
    finally:  # it raises the signal that stopped it
        _log.info("stopped")


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._on_stop is not None:
            self._on_stop()
        super().handle_exit(sig, frame)


def opened(folder: DataFolder) -> ServiceDatabase:
    """Open the database of a data folder, before a server's start shows an error as a traceback.

    Raises:
        FolderError: the disk is full, or the database is not one that this version can use.
    """
    path = database_file(folder.path)
    try:
        database = ServiceDatabase(path)
        # This raises now if the disk is full.
        database.run(_write_nothing_new)
        mark_used(folder.path)
    except (sqlite3.Error, OSError, StorageError) as error:
        is_full = isinstance(storage_error(error), DiskFullError)
        why = "the disk is full. Make room" if is_full else f"{error}. Restore a backup"
        raise FolderError(
            f"cannot open the database {path}: {why}, or start with another data folder; nothing "
            "was changed"
        ) from None
    return database


def _write_nothing_new(connection: sqlite3.Connection) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version = {version}")
