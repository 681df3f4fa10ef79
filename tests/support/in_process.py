"""Services in the test's own process, for whatever does not test sockets and processes."""

import asyncio
import socket
import tempfile
import threading
from collections.abc import Coroutine
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import uvicorn

from knowledge_bot_service import Service

T = TypeVar("T")

_numbers = count(1)
_running: dict[str, "InProcess"] = {}


class InProcess:
    """A service with what `LocalService` has, except for a process and a socket of its own.

    Its requests are those of `web`, and of each client with `Transport`.
    """

    def __init__(self, data: Path | None = None, **declared: Any) -> None:
        self._temporary = None if data else tempfile.TemporaryDirectory(prefix="kbot-")
        folder = self._temporary.name if self._temporary else data
        # A question waits for what was added before it, however busy the machine is.
        declared["settings"] = {"wait_for_sources": 60.0} | dict(declared.get("settings", {}))
        self._service = Service.for_tests(folder, **declared)
        self.api_key, self.data = self._service.api_key, self._service.data
        self._host = f"service-{next(_numbers)}"
        self.base_url = f"http://{self._host}/public/v1"
        self.sources = self._service.sources
        self.wait_until_ready = self._service.wait_until_ready

    def start(self) -> None:
        _run(self._service.__aenter__())
        _running[self._host] = self

    def stop(self) -> None:
        if _running.pop(self._host, None):
            _run(self._service.__aexit__())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._temporary:
            self._temporary.cleanup()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        transport = httpx.ASGITransport(self._service, raise_app_exceptions=False)
        response = await transport.handle_async_request(request)
        content = await response.aread()
        return httpx.Response(response.status_code, headers=response.headers, content=content)


class OnAPort(InProcess):
    """The same at an address that other programs reach: a second less than a `LocalService`."""

    def __init__(self, data: Path | None = None, *, port: int = 0, **declared: Any) -> None:
        super().__init__(data, **declared)
        self._port = port

    def start(self) -> None:
        """Start it, and return when it answers."""
        super().start()
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=2048)
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/public/v1"
        # The service has started, in the loop in which it is served.
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._service, lifespan="off", log_config=None, timeout_graceful_shutdown=2
            )
        )
        serving = self._server.serve(sockets=[self._listener])
        self._served = asyncio.run_coroutine_threadsafe(serving, _loop())

    def stop(self) -> None:
        self._server.should_exit = True
        self._served.result()
        self._listener.close()
        super().stop()


class Transport(httpx.BaseTransport):
    """Sends requests to the services of this process by their names, and others to the network."""

    def __init__(self) -> None:
        # Loading certificates takes longer than most requests here, and none is for them.
        self._network = httpx.HTTPTransport(verify=False)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host not in _running:
            return self._network.handle_request(request)
        content = request.read()
        sent = httpx.Request(request.method, request.url, headers=request.headers, content=content)
        if "Transfer-Encoding" in request.headers:
            del sent.headers["Content-Length"]  # nothing says how long a chunked body will be
        return _run(_running[request.url.host].answer(sent))

    def close(self) -> None:
        self._network.close()


web = httpx.Client(transport=Transport(), timeout=30)
"""A client without a key."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="services", daemon=True).start()
    return loop


def _run(doing: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(doing, _loop()).result()
