"""Running a service in this process until it is told to stop."""

import socket
import sqlite3
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import uvicorn

from knowledge_bot_service.app import create_app
from knowledge_bot_service.database import Database
from knowledge_bot_service.folder import DataFolder
from knowledge_bot_service.gate import PREFIX
from knowledge_bot_service.keys import Keys
from knowledge_bot_service.mounts import Loader, Mounts
from knowledge_bot_service.schema import SchemaError
from knowledge_bot_service.settings import Settings

# How long open requests may take when the service is told to stop, in seconds.
_GRACE = 5

# How long a worker that analyses text keeps the interpreter from the thread that answers requests,
# in seconds. Measured while a long text is processed: with Python's own 5 ms, the 99th percentile
# of accepting a source was six times as long; the text was ready no later.
_SWITCH_INTERVAL = 0.0005

# Who listens on every address is reached from this machine by one of them.
_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - none is bound here


class AddressError(Exception):
    """The service cannot listen there. str() says where, and why."""


def run(
    settings: Settings,
    folder: DataFolder,
    keys: Keys,
    *,
    host: str,
    port: int,
    on_ready: Callable[[str, int], None],
    mounts: Mapping[str, Loader] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, in a process that does nothing else.

    Args:
        settings: what the service offers and allows.
        folder: where it keeps everything.
        keys: who may use it.
        host: the address or name to listen on.
        port: the port; 0 takes a free one.
        on_ready: called with the base URL and the real port when requests are answered.
        mounts: what else is answered beside the interface, by the first segment of its path.

    Raises:
        AddressError: the address is in use or is not this machine's.
        SchemaError: the database is not one that this version can use.
        SettingsError: the key of the language model is not in the environment.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    with _listener(host, port) as listener:
        real_port: int = listener.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        base_url = f"http://{shown}:{real_port}{PREFIX}"
        reached = base_url.replace(f"//{shown}:", f"//{_ANY.get(host, shown)}:", 1)
        app = create_app(
            settings,
            folder,
            _opened(folder.database),
            keys,
            connections=lambda: len(server.server_state.connections),
            on_ready=lambda: on_ready(base_url, real_port),
            mounts=Mounts(mounts, reached) if mounts else None,
        )
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            # Whoever is not named here may claim to be anybody.
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=[str(network) for network in settings.trusted_proxies],
            timeout_graceful_shutdown=_GRACE,
        )
        server = uvicorn.Server(config)
        server.run(sockets=[listener])


def _opened(path: Path) -> Database:
    # Before the server's own start, which could tell of an error with a traceback alone.
    try:
        return Database(path)
    except sqlite3.Error as error:
        raise SchemaError(
            f"cannot open the database {path}: {error}. Restore a backup, or start with another "
            "data folder; nothing was changed."
        ) from None


def _listener(host: str, port: int) -> socket.socket:
    # Listening before the service has started loses no client: connections wait in the backlog.
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as error:
        raise AddressError(f"cannot listen on {host}, port {port}: {error.strerror}") from None
