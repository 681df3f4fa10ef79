"""Lets the faults of `faults.py` happen to real clients.

What each call ended in, whether the service may have acted, and how many requests arrived: through
both clients and every HTTP client that a user may pass in.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import http_libraries
from calls import KEY, ask, create, read, upload, upload_much
from faults import Fault, Outcome, Place
from knowledge_bot import AsyncClient, Client, KnowledgeBotError
from waiting import until_awaited

CLIENTS: dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]] = {
    "Client": (Client, None),
    "AsyncClient": (AsyncClient, None),
    **http_libraries.CLIENTS,
}
"""Both clients, with connections of their own and with a client of the user."""

_AUTHORITIES = ssl.create_default_context()  # takes longer to load than most faults to happen

POOL = 100
"""How many connections each of them has."""


def expected(fault: Fault) -> dict[str, Outcome]:
    """What the table says of every call."""
    post = Outcome(fault.error, fault.delivery, fault.may_pass, fault.posts)
    listing = Outcome(fault.error, fault.delivery, fault.may_pass, fault.gets)
    return {"create": post, "upload": fault.upload or post, "message": post, "list": listing}


def observe(fault: Fault, client: str) -> dict[str, Outcome]:
    """What every call through such a client really ended in, within `no_waiting`."""
    with fault.place() as place:
        return asyncio.run(_outcomes(fault, client, place))


async def _outcomes(fault: Fault, client: str, place: Place) -> dict[str, Outcome]:
    calls = {
        "create": (create, "/sources/write"),
        "upload": (upload_much if fault.upload else upload, "/sources/upload"),
        "message": (ask, "/messages"),
        "list": (read, "/bots"),
    }
    # One call may find the connection that another has left; what waits can wait at once.
    turns = asyncio.Semaphore(len(calls) if fault.is_waited_for else 1)

    async def outcome(name: str, call: Callable[[Any], Any], path: str) -> Outcome | None:
        def arrived() -> int:
            return sum(one.endswith(path) for one in place.arrived())

        async with turns:
            before = arrived()
            try:
                await result_of(call, opened.with_options(timeout=fault.timeout))
            except KnowledgeBotError as error:
                # A server that is slow to read catches up with a client that has given up.
                await until_awaited(lambda: arrived() - before >= awaited[name].arrived, 10)
                return Outcome(type(error), error.delivery, error.may_pass, arrived() - before)
            return None

    awaited = expected(fault)
    async with contextlib.AsyncExitStack() as closing:
        opened = await closing.enter_async_context(opened_as(client, place.url))
        if fault.occupied:
            await closing.enter_async_context(_occupied(opened, place))
        outcomes = await asyncio.gather(*(outcome(name, *calls[name]) for name in calls))
    return dict(zip(calls, outcomes, strict=True))


async def result_of(call: Callable[[Any], Any], client: Any) -> Any:
    """The result of a call through either kind of client."""
    if isinstance(client, AsyncClient):
        return await call(client)
    return await asyncio.to_thread(call, client)


@contextlib.asynccontextmanager
async def opened_as(name: str, url: str) -> AsyncIterator[Any]:
    ours, theirs = CLIENTS[name]
    async with contextlib.AsyncExitStack() as closing:

        async def entered(client: Any) -> Any:
            if hasattr(client, "__aenter__"):
                return await closing.enter_async_context(client)
            return closing.enter_context(client)

        http_client = None if theirs is None else await entered(theirs(verify=_AUTHORITIES))
        yield await entered(ours(KEY, url, http_client=http_client))


@contextlib.asynccontextmanager
async def _occupied(client: Any, place: Place) -> AsyncIterator[None]:
    """Take every connection with a call that waits for its answer until the place is gone."""
    waiting = client.with_options(timeout=60, max_retries=0)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(POOL + 10))

    async def wait() -> None:
        with contextlib.suppress(KnowledgeBotError):
            await result_of(create, waiting)

    async with asyncio.TaskGroup() as calls:
        for _ in range(POOL):
            calls.create_task(wait())
        try:
            assert await until_awaited(lambda: len(place.arrived()) >= POOL)
            yield
        finally:
            place.stop()
