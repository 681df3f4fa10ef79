"""The HTTP libraries underneath: httpx, httpx2, and httpx over aiohttp for asynchronous calls."""

import asyncio
import contextlib
import functools
import ssl
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Protocol

import httpx

from knowledge_bot.configuration import Configuration
from knowledge_bot.errors import ConfigurationError

_CONNECTIONS = 100

# Below the idle timeout of every usual server and proxy, so that a request rarely meets a
# connection that is just being closed: whether such a request arrived, nobody can tell.
_KEEPALIVE_SECONDS = 5.0


class HTTPClient(Protocol):
    """What is used of an `httpx.Client`, which an `httpx2.Client` offers as well."""

    @property
    def headers(self) -> Any:
        """Headers for every request."""

    @property
    def is_closed(self) -> bool:
        """Whether it can no longer send."""

    def send(self, request: Any, *, stream: bool, follow_redirects: bool) -> Any:
        """Send a request; the answer's body is still to be read."""

    def close(self) -> None:
        """Close the connections."""


class AsyncHTTPClient(Protocol):
    """What is used of an `httpx.AsyncClient`, which an `httpx2.AsyncClient` offers as well."""

    @property
    def headers(self) -> Any:
        """Headers for every request."""

    @property
    def is_closed(self) -> bool:
        """Whether it can no longer send."""

    async def send(self, request: Any, *, stream: bool, follow_redirects: bool) -> Any:
        """Send a request; the answer's body is still to be read."""

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Close the connections."""


def library_of(client: object, kind: str) -> Any:
    """Return the module, httpx or httpx2, that an injected client comes from.

    Raises:
        ConfigurationError: the client is not of the given kind, `Client` or `AsyncClient`.
    """
    for cls in type(client).__mro__:
        name = cls.__module__.partition(".")[0]
        if name in ("httpx", "httpx2") and cls.__name__ == kind:
            return sys.modules[name]
    raise ConfigurationError(
        f"http_client: expected an httpx.{kind} or httpx2.{kind}, not {type(client).__name__}"
    )


@functools.lru_cache(maxsize=16)
def _ssl_context(verify: bool | str | ssl.SSLContext) -> ssl.SSLContext:
    # Loading the certificate authorities takes tens of milliseconds: once for a whole process.
    if isinstance(verify, ssl.SSLContext):
        return verify
    if isinstance(verify, str):
        try:
            return ssl.create_default_context(cafile=verify)
        except OSError as error:
            raise ConfigurationError(f"verify: cannot load {verify!r}: {error}") from error
    return httpx.create_ssl_context(verify=verify)


def _options(configuration: Configuration) -> dict[str, Any]:
    return {
        "verify": _ssl_context(configuration.verify),
        "limits": httpx.Limits(
            max_connections=_CONNECTIONS,
            max_keepalive_connections=_CONNECTIONS,
            keepalive_expiry=_KEEPALIVE_SECONDS,
        ),
        "follow_redirects": False,
    }


def open_client(configuration: Configuration) -> HTTPClient:
    """Return the client that blocks: httpx as it is."""
    return httpx.Client(**_options(configuration))


def open_async_client(configuration: Configuration) -> AsyncHTTPClient:
    """Return the client that awaits: httpx over aiohttp, several times cheaper in parallel."""
    from httpx_aiohttp import HttpxAiohttpClient  # heavy

    return HttpxAiohttpClient(**_options(configuration))


class LoopClients:
    """One asynchronous HTTP client per event loop, closed when its loop ends.

    Connections belong to the loop they were opened in. A caller of `asyncio.run` has a new loop
    each time and closes nothing; an asynchronous generator that waits in the loop does it, since a
    loop finishes its generators before it ends (`loop.shutdown_asyncgens`).
    """

    def __init__(self, open_one: Callable[[], AsyncHTTPClient]) -> None:
        self._open = open_one
        self._held: dict[
            asyncio.AbstractEventLoop, tuple[AsyncHTTPClient, AsyncGenerator[None, None]]
        ] = {}

    async def get(self) -> AsyncHTTPClient:
        """Return the running loop's client."""
        loop = asyncio.get_running_loop()
        held = self._held.get(loop)
        if held is None:
            self._forget_closed_loops()
            client = self._open()
            keeper = _closed_at_the_end(client)
            await anext(keeper)
            held = self._held[loop] = client, keeper
        return held[0]

    def __del__(self) -> None:
        self._forget_closed_loops()

    def _forget_closed_loops(self) -> None:
        # A loop that was closed without finishing its generators leaves its client open. Nothing
        # is left there to wait for, so that closing ends at its first step.
        for loop in [loop for loop in self._held if loop.is_closed()]:
            client, _ = self._held.pop(loop)
            closing = client.aclose()
            with contextlib.suppress(StopIteration, RuntimeError):
                closing.send(None)
            closing.close()

    async def aclose(self) -> None:
        """Close the clients of the running loop and of every other loop that still runs."""
        self._forget_closed_loops()
        running = asyncio.get_running_loop()
        while self._held:
            loop, (_, keeper) = self._held.popitem()
            if loop is running:
                await keeper.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_finish(keeper), loop)


async def _closed_at_the_end(client: AsyncHTTPClient) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.aclose()
        # The sockets themselves are closed in callbacks that are due now.
        await asyncio.sleep(0)


async def _finish(keeper: AsyncGenerator[None, None]) -> None:
    await keeper.aclose()
