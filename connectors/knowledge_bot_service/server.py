"""Runs a service in this process until it is stopped."""

import contextlib
import logging
import socket
import sqlite3
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import uvicorn

from knowledge_bot_service.app import create_app
from knowledge_bot_service.connections import Bounds, limited_to
from knowledge_bot_service.database import Database
from knowledge_bot_service.folder import DataFolder, FolderError
from knowledge_bot_service.gate import PREFIX
from knowledge_bot_service.keys import Keys
from knowledge_bot_service.mounts import Loader, Mounts
from knowledge_bot_service.schema import SchemaError
from knowledge_bot_service.settings import Limits, Settings
from knowledge_bot_service.storage import DiskFullError, StorageError, storage_error

_log = logging.getLogger(__name__)

# How long open requests may take when the service stops, in seconds.
_GRACE = 5

# How long a worker that analyses text keeps the interpreter from the thread that answers requests,
# in seconds. Measured while a long text is processed: with Python's own 5 ms, the 99th percentile
# of accepting a source was six times as long; the text was ready no later.
_SWITCH_INTERVAL = 0.0005

# The file limit that the process asks for, and how many files are not for clients.
_FILES: Final = 16_384
_RESERVE: Final = 256

# A server on every address is reached from this machine at one of them.
_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - none is bound here


class AddressError(Exception):
    """The service cannot listen there. str() says where, and why."""


def run(
    settings: Settings,
    folder: DataFolder,
    keys: Keys,
    *,
    on_ready: Callable[[str, int], None],
    mounts: Mapping[str, Loader] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, in a process that does nothing else.

    Args:
        settings: what the service offers and allows.
        folder: where it keeps everything.
        keys: who may use it.
        on_ready: called when requests are answered, with a base URL that leads here from this
            machine, and the real port.
        mounts: what else is answered beside the interface, by the first segment of its path.

    Raises:
        FolderError: the disk is full.
        AddressError: the address is in use, or does not belong to this machine.
        SchemaError: the database is not one that this version can use.
        SettingsError: the key of the language model is not in the environment.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    host = settings.host
    with _listener(host, settings.port) as listener:
        port: int = listener.getsockname()[1]
        shown = _ANY.get(host, f"[{host}]" if ":" in host else host)
        base_url = f"http://{shown}:{port}{PREFIX}"
        app = create_app(
            settings,
            folder,
            _opened(folder.database),
            keys,
            connections=lambda: len(server.server_state.connections),
            on_ready=lambda: on_ready(base_url, port),
            mounts=Mounts(mounts, base_url, settings.data) if mounts else None,
        )
        config = uvicorn.Config(
            app,
            http=limited_to(_bounds(settings.limits)),
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            # Any other host could claim to be any client.
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=[str(network) for network in settings.trusted_proxies],
            timeout_graceful_shutdown=_GRACE,
        )
        server = uvicorn.Server(config)
        server.run(sockets=[listener])


def _bounds(limits: Limits) -> Bounds:
    files = _open_files()
    # Each connection is an open file. The database, the workers and uploads need some as well.
    most = files - min(_RESERVE, files // 2)
    if most < limits.connections:
        _log.info("at most %d clients at once: %d files may be open", most, files)
    return Bounds(min(limits.connections, most), limits.head_seconds, limits.body_seconds)


def _open_files() -> int:
    """How many files the process may open, after the limit was raised as far as it goes."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows, which has no such limit
        return _FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # macOS has a hard limit that is higher than what it takes.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _FILES if soft == resource.RLIM_INFINITY else soft


def _opened(path: Path) -> Database:
    # Before the server's own start, which would show an error as a traceback.
    try:
        database = Database(path)
        # This raises now if the disk is full.
        database.write(_write_nothing_new).result()
    except (sqlite3.Error, OSError, StorageError) as error:
        if isinstance(storage_error(error), DiskFullError):
            raise FolderError(
                f"cannot open the database {path}: the disk is full. Make room, and start the "
                "service again; nothing was changed."
            ) from None
        raise SchemaError(
            f"cannot open the database {path}: {error}. Restore a backup, or start with another "
            "data folder; nothing was changed."
        ) from None
    return database


def _write_nothing_new(connection: sqlite3.Connection) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version = {version}")


def _listener(host: str, port: int) -> socket.socket:
    # Listening before the service has started loses no client: connections wait in the backlog.
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as error:
        raise AddressError(f"cannot listen on {host}, port {port}: {error.strerror}") from None
