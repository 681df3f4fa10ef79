"""Lets the faults of `faults.py` happen to real clients.

What each call ended in, whether the service may have acted, and how many requests arrived: through
both clients and every HTTP client that a user may pass in.
"""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import http_libraries
from calls import KEY, ask, create, read, upload, upload_much
from faults import Fault, Outcome, Place
from knowledge_bot import AsyncClient, Client, KnowledgeBotError
from knowledge_bot._retries import no_waiting
from waiting import until_awaited

CLIENTS: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
    "Client": (Client, None),
    "AsyncClient": (AsyncClient, None),
    **http_libraries.CLIENTS,
}
"""Both clients, with connections of their own and with a client of the user."""

POOL = 100
"""How many connections each of them has."""


def expected(fault: Fault) -> dict[str, Outcome]:
    """What the table says of every call."""
    post = Outcome(fault.error, fault.delivery, fault.posts)
    listing = Outcome(fault.error, fault.delivery, fault.gets)
    return {"create": post, "upload": fault.upload or post, "message": post, "list": listing}


def observe(fault: Fault, client: str) -> dict[str, Outcome]:
    """What every call through such a client really ended in."""
    calls = {
        "create": create,
        "upload": upload_much if fault.upload else upload,
        "message": ask,
        "list": read,
    }
    with no_waiting(), fault.place() as place:
        return asyncio.run(_outcomes(fault, client, place, calls))


async def _outcomes(
    fault: Fault, client: str, place: Place, calls: dict[str, Callable[[Any], Any]]
) -> dict[str, Outcome]:
    outcomes = {}
    awaited = expected(fault)
    async with contextlib.AsyncExitStack() as closing:
        opened = await closing.enter_async_context(_opened(client, place.url))
        if fault.occupied:
            await closing.enter_async_context(_occupied(opened, place))
        impatient = opened.with_options(timeout=fault.timeout)
        for name, call in calls.items():
            before = place.arrived()
            try:
                result = call(impatient)
                await result if inspect.isawaitable(result) else None
            except KnowledgeBotError as error:
                await _read_by(place, before + awaited[name].arrived)
                arrived = place.arrived() - before
                outcomes[name] = Outcome(type(error), error.delivery, arrived)
    return outcomes


async def _read_by(place: Place, count: int) -> None:
    """Let a server that is slow to read catch up with a client that has given up."""
    await until_awaited(lambda: place.arrived() >= count, 10)


@contextlib.asynccontextmanager
async def _opened(name: str, url: str) -> AsyncIterator[Any]:
    ours, theirs = CLIENTS[name]
    async with contextlib.AsyncExitStack() as closing:

        async def entered(client: Any) -> Any:
            if hasattr(client, "__aenter__"):
                return await closing.enter_async_context(client)
            return closing.enter_context(client)

        http_client = None if theirs is None else await entered(theirs())
        yield await entered(ours(KEY, url, http_client=http_client))


@contextlib.asynccontextmanager
async def _occupied(client: Any, place: Place) -> AsyncIterator[None]:
    """Take every connection with a call that waits for its answer until the place is gone."""
    waiting = client.with_options(timeout=60, max_retries=0)

    async def wait(threads: ThreadPoolExecutor) -> None:
        with contextlib.suppress(KnowledgeBotError):
            if isinstance(client, AsyncClient):
                await create(waiting)
            else:
                await asyncio.get_running_loop().run_in_executor(threads, create, waiting)

    with ThreadPoolExecutor(POOL) as threads:
        async with asyncio.TaskGroup() as calls:
            for _ in range(POOL):
                calls.create_task(wait(threads))
            try:
                assert await until_awaited(lambda: place.arrived() >= POOL)
                yield
            finally:
                place.stop()
