"""Asynchronous connections that outlive no event loop, though their client does."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

import httpx


class LoopTransports:
    """One transport per event loop, closed when its loop ends.

    Connections belong to the loop they were opened in. A caller of `asyncio.run` has a new loop
    each time and closes nothing; an asynchronous generator that waits in the loop does it, since a
    loop finishes its generators before it ends (`loop.shutdown_asyncgens`).
    """

    def __init__(self, open_one: Callable[[], httpx.AsyncBaseTransport]) -> None:
        self._open = open_one
        self._held: dict[
            asyncio.AbstractEventLoop, tuple[httpx.AsyncBaseTransport, AsyncGenerator[None, None]]
        ] = {}
        self.is_closed: bool = False

    async def send(self, request: Any, **_options: bool) -> Any:
        """Send a request in the running loop, as `httpx.AsyncClient.send` streams an answer."""
        return await (await self.open()).handle_async_request(request)

    async def open(self) -> httpx.AsyncBaseTransport:
        """Return the running loop's transport, opened where it was not yet."""
        held = self._held.get(asyncio.get_running_loop())
        return held[0] if held else await self._opened()

    async def _opened(self) -> httpx.AsyncBaseTransport:
        self._forget_closed_loops()
        transport = self._open()
        keeper = _closed_at_the_end(transport)
        self._held[asyncio.get_running_loop()] = transport, keeper
        await anext(keeper)
        return transport

    def __del__(self) -> None:
        self._forget_closed_loops()

    def _forget_closed_loops(self) -> None:
        # A loop that was closed without finishing its generators leaves its transport open.
        # Nothing is left there to wait for, so that closing ends at its first step.
        for loop in list(self._held):  # other threads may be opening theirs
            if not loop.is_closed() or (held := self._held.pop(loop, None)) is None:
                continue
            closing = held[0].aclose()
            with contextlib.suppress(StopIteration, RuntimeError):
                closing.send(None)
            closing.close()

    async def aclose(self) -> None:
        """Close the transports of the running loop and of every other loop that still runs."""
        self.is_closed = True
        self._forget_closed_loops()
        running = asyncio.get_running_loop()
        while self._held:
            loop, (_, keeper) = self._held.popitem()
            if loop is running:
                await keeper.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_finish(keeper), loop)


async def _closed_at_the_end(transport: httpx.AsyncBaseTransport) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await transport.aclose()
        # The sockets themselves are closed in callbacks that are due now.
        await asyncio.sleep(0)


async def _finish(keeper: AsyncGenerator[None, None]) -> None:
    await keeper.aclose()
