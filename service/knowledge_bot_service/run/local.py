"""A service for examples, tests and trials: in a child process on a free loopback port, or here."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

from knowledge_bot_service.config.folder import database_file, new_key
from knowledge_bot_service.config.settings import GIVEN_KEY, ServiceConfiguration, parse_settings
from knowledge_bot_service.store.sources import SourceState, read_source_states

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

# How long a stopping service may take before it is killed, in seconds.
_STOP_PATIENCE: Final = 10.0

_UNFINISHED: Final = frozenset({"pending", "processing"})


class LocalServiceError(Exception):
    """The service did not start, already runs, or does not run. str() says which, and why."""


class _OnThisMachine:
    """A service's key, its settings, and the sources in its data folder."""

    def __init__(
        self,
        data: Path | str | None = None,
        *,
        collections: Mapping[str, str] | Iterable[str] | None = None,
        bots: Mapping[str, Sequence[str]] | Iterable[str] | None = None,
        bot_names: Mapping[str, str] | None = None,
        allow_fetch: Iterable[str] = (),
        api_key: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.api_key = api_key or new_key()
        more = dict(settings or {})
        own = {"name": GIVEN_KEY, "role": "manage", "key": self.api_key}
        more["keys"] = [own, *more.get("keys", ())]
        values = _settings(collections, bots, bot_names or {}) | {
            "allow_fetch": list(allow_fetch),
            **more,
        }
        # Before there is a folder to remove.
        parse_settings(values, origin="LocalService")
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="kbot-")
            data = self._temporary.name
        self.data = Path(data)
        self._settings = {"data": str(self.data)} | values

    def sources(self) -> list[SourceState]:
        """Every source with its status and reason, oldest first, read from the data folder."""
        file = database_file(self.data)
        if not file.exists():
            return []
        with contextlib.closing(sqlite3.connect(file, timeout=30)) as connection:
            connection.execute("PRAGMA query_only = ON")
            return read_source_states(connection)

    def wait_until_ready(self, timeout: float = 30.0) -> None:
        """Wait until every accepted source is ready or has failed.

        Args:
            timeout: how long to wait, in seconds.

        Raises:
            TimeoutError: some are unfinished after that; the message names them.
        """
        deadline = time.monotonic() + timeout
        while unfinished := [one for one in self.sources() if one.status in _UNFINISHED]:
            if time.monotonic() > deadline:
                named = ", ".join(f"{one.name} ({one.id}) {one.status}" for one in unfinished[:10])
                raise TimeoutError(
                    f"{len(unfinished)} sources are not ready after {timeout:g} s: {named}"
                )
            time.sleep(0.02)

    def _remove(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()


class LocalService(_OnThisMachine):
    """A Knowledge-Bot Service on this machine, as a context manager.

    ```python
    with LocalService(
        collections={"col_handbook": "Handbook"}, bots={"bot_guide": ["col_handbook"]}
    ) as service:
        client = Client(service.api_key, service.base_url)
    ```

    It answers when `with` (or `start`) returns, and ends with the `with` block, or with this
    process, however that dies.

    Args:
        data: the data folder, kept afterwards; None is a temporary one, removed at the end, also
            when this process is killed.
        collections: names by id, or ids alone, which are then the names too. Default:
            `col_default`.
        bots: for each bot's id the ids of the collections that it reads, or ids alone, of bots over
            all collections. Default: `bot_default`.
        bot_names: names by bot id; a bot that is not there is named by its id.
        allow_fetch: networks (CIDR) that web pages may be fetched from although they are not
            public, such as `127.0.0.1/32` for a page server on this machine.
        api_key: the service's key; generated when left out.
        settings: further settings by name, as in the configuration file.

    Attributes:
        api_key: the service's key.
        data: its data folder.

    Raises:
        SettingsError: the values do not make a valid configuration.
    """

    _port = 0
    _process: "subprocess.Popen[str] | None" = None

    @property
    def base_url(self) -> str:
        """The service's base URL, `/public/v1` included. It is the same after `start` again."""
        return f"http://127.0.0.1:{self._port}/public/v1"

    @property
    def pid(self) -> int:
        """The process id of the running service.

        Raises:
            LocalServiceError: it does not run.
        """
        return self._running().pid

    def start(self) -> None:
        """Start the service, and return when it answers. It takes the port that it had before.

        Raises:
            LocalServiceError: it did not start, or runs already.
        """
        if self._process is not None:
            raise LocalServiceError("the service runs already")
        start = json.dumps(
            {
                "settings": self._settings,
                "port": self._port,
                "temporary": self._temporary is not None,
            }
        )
        self._process = subprocess.Popen(
            # -P: no file of the working folder is taken for a module.
            [sys.executable, "-P", "-m", "knowledge_bot_service.run.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        )
        try:
            self._port = _port_of(self._process, start)
        except BaseException:
            # Ctrl-C among them: no `with` block has begun that would end it.
            self.kill()
            raise

    def stop(self) -> None:
        """End the service as a person would, and wait until it has ended."""
        if self._process is None:
            return
        with contextlib.suppress(BrokenPipeError):
            # A line says that this is meant; its end alone, that this process has died.
            _pipe(self._process.stdin).write("\n")
            _pipe(self._process.stdin).close()
        try:
            self._process.wait(_STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def kill(self) -> None:
        """End the service at once, as a crash would (SIGKILL).

        Raises:
            LocalServiceError: it does not run.
        """
        self._running().kill()
        self._reap()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._remove()

    def __repr__(self) -> str:
        return f"LocalService(base_url={self.base_url!r}, data={str(self.data)!r})"

    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None:
            raise LocalServiceError("the service does not run")
        return self._process

    def _reap(self) -> None:
        process, self._process = self._running(), None
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                _pipe(pipe).close()


class Service(_OnThisMachine):
    """A Knowledge-Bot Service as an ASGI application, for tests: no socket, no signal handlers.

    ```python
    async with Service.for_tests(folder) as service:
        httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url=service.base_url)
    ```

    It answers within `async with`. Documents are read in a child process, as ever.

    Attributes:
        api_key: the service's key.
        data: its data folder.
        base_url: where requests go, `/public/v1` included; nothing listens there.
    """

    base_url = "http://service.test/public/v1"

    @classmethod
    def for_tests(cls, folder: Path | str, **declared: Any) -> Self:
        """Make a service on a data folder, which is kept.

        Args:
            folder: the data folder.
            **declared: what `LocalService` takes beside it.

        Raises:
            SettingsError: the values do not make a valid configuration.
        """
        return cls(folder, **declared)

    async def __aenter__(self) -> Self:
        # Loaded only here: a process that starts a `LocalService` has no use for it.
        from knowledge_bot_service.config.folder import DataFolder
        from knowledge_bot_service.config.keys import KeyList
        from knowledge_bot_service.run.server import opened
        from knowledge_bot_service.web.app import create_app

        settings = parse_settings(self._settings, origin="settings")
        async with contextlib.AsyncExitStack() as entered:
            folder = entered.enter_context(DataFolder(settings.data))
            keys = KeyList(folder, settings)
            self._app = create_app(settings, folder, opened(folder), keys)
            lifespan = self._app.router.lifespan_context(self._app)
            self._state = await entered.enter_async_context(lifespan)
            self._entered = entered.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._entered.aclose()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer a request, as ASGI has it."""
        await self._app({**scope, "state": dict(self._state or {})}, receive, send)


def _settings(
    collections: Mapping[str, str] | Iterable[str] | None,
    bots: Mapping[str, Sequence[str]] | Iterable[str] | None,
    bot_names: Mapping[str, str],
) -> dict[str, object]:
    default = ServiceConfiguration()
    if collections is None:
        collections = {one.id: one.name for one in default.collections}
    elif not isinstance(collections, Mapping):
        collections = {one: one for one in collections}
    if bots is None:
        bots, bot_names = [default.bots[0].id], {default.bots[0].id: default.bots[0].name}
    if not isinstance(bots, Mapping):
        bots = {one: list(collections) for one in bots}
    return {
        "collections": [{"id": one, "name": name} for one, name in collections.items()],
        "bots": [
            {"id": one, "name": bot_names.get(one, one), "collections": list(reads)}
            for one, reads in bots.items()
        ],
    }


def _port_of(process: "subprocess.Popen[str]", start: str) -> int:
    """Send a new process its settings, and wait for the port on which it answers."""
    answer = ""
    with contextlib.suppress(BrokenPipeError):
        _pipe(process.stdin).write(start + "\n")
        _pipe(process.stdin).flush()
        answer = _pipe(process.stdout).readline()
    report = json.loads(answer or "{}")
    if "port" not in report:
        raise LocalServiceError(
            f"the service did not start: {report.get('error', 'its output above says why')}"
        )
    port: int = report["port"]
    return port


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None  # noqa: S101 - both are pipes here; for the type checker
    return stream
