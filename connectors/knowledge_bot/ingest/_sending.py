"""One item on its way to the service: its turn, its claim, its attempts and what became of them."""

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._extensions import Extensions
from knowledge_bot._threads import in_thread
from knowledge_bot.errors import Delivery, KnowledgeBotError
from knowledge_bot.ingest._jobs import Job
from knowledge_bot.ingest._keeper import Keeper
from knowledge_bot.ingest._listings import name_to_send
from knowledge_bot.ingest._pressure import Judge, Pressure, is_away, settles
from knowledge_bot.ingest._report import Counters, Kind, Stop

# The longest ping, in seconds.
_PING_TIMEOUT = 10.0

# How many items a blocking client sends itself. To load aiohttp costs as much as some more of them.
_FEW = 200

# For how long something is asked that is about no single item, in seconds, and pauses between.
_LONGEST_ASKED = 60.0
_PAUSE = 1.0


class Sender:
    """Sends the requests of a run. It awaits an asynchronous client; a blocking one is in threads.

    A thread for each request costs twice the CPU. So a blocking client sends a few items, as in
    most nights, and an asynchronous one many; but a subclass, or a client with the caller's
    `http_client`, sends them all.
    """

    def __init__(self, client: Client | AsyncClient) -> None:
        self._use(client)
        self._few = type(client) is Client and not client._connections.given  # noqa: SLF001 - the core's own
        self._expected = 0

    def _use(self, client: Client | AsyncClient) -> None:
        self._patient: Any = client
        # The engine retries by itself, so that the whole run slows down.
        self._client: Any = client._derive(max_retries=0)  # noqa: SLF001 - as above
        self._awaits = isinstance(client, AsyncClient)

    @property
    def extensions(self) -> Extensions:
        """What the service announced, as far as it was asked."""
        return self._client._connections.announced.extensions or {}  # noqa: SLF001 - as above

    async def open(self, count: int) -> None:
        """Prepare to send more items, so that nothing is claimed before it can be sent."""
        first = self._expected == 0
        self._expected += count
        if self._few and self._expected > _FEW:
            self._few, first = False, True
            self._use(self._patient.to_async())  # its connections end with the loop
        if first:
            await self._done(self._client._open)  # noqa: SLF001 - as above

    async def send(self, method: str, fields: dict[str, Any]) -> Any:
        """Call a method of the client once, or raise a `KnowledgeBotError`."""
        return await self._done(getattr(self._client, method), **fields)

    async def ask(self, method: str, *arguments: Any, **fields: Any) -> Any:
        """Call a method of the client, again and again for a while where that may help."""
        began = time.monotonic()
        while True:
            try:
                return await self._done(getattr(self._patient, method), *arguments, **fields)
            except KnowledgeBotError as error:
                if not is_away(error) or time.monotonic() - began > _LONGEST_ASKED:
                    raise
            await asyncio.sleep(_PAUSE)

    async def ping(self) -> object:
        """Ask whether the service is up, or raise a `KnowledgeBotError`."""
        timeout = min(_PING_TIMEOUT, self._client._configuration.timeout)  # noqa: SLF001 - as above
        return await self._done(self._client._derive(timeout=timeout).ping)  # noqa: SLF001 - as above

    async def _done(self, call: Callable[..., Any], *arguments: Any, **fields: Any) -> Any:
        if self._awaits:
            return await call(*arguments, **fields)
        return await in_thread(partial(call, *arguments, **fields))


def content_of(job: Job) -> tuple[str, dict[str, Any]]:
    """Return what an item is sent as: `text`, `webpage` or `file`, and the client's arguments."""
    item: Any = job.item
    fields: dict[str, Any] = {"name": name_to_send(job.name), "collections": job.collections}
    if job.kind == "text":
        return "text", {**fields, "content": item.content}
    if job.kind == "webpage":
        from knowledge_bot.models import Header

        headers = [Header(name=name, value=text.get_secret_value()) for name, text in item.headers]
        return "webpage", {**fields, "url": item.url, "headers": headers}
    name = job.place.rpartition("/" if job.kind == "object" else os.sep)[2] or job.name
    content = job.content if job.content is not None else item.open or job.place
    return "file", {**fields, "file": content, "filename": name}


class Courier:
    """Sends one item after another, each when it has its turn.

    Args:
        sender: sends the requests.
        keeper: says how, and writes down what became of it.
        gate: gives turns.
        counters: count it.
        stop: ends the run.
    """

    def __init__(
        self,
        sender: Sender,
        keeper: Keeper,
        gate: Pressure,
        counters: Counters,
        stop: Callable[[Stop, str], None],
    ) -> None:
        self._sender, self._keeper, self._gate = sender, keeper, gate
        self._counters, self._stop = counters, stop
        self._judge = Judge(gate, repeatable=keeper.repeatable)

    async def send(self, job: Job) -> float | None:
        """Send an item when it has its turn, and record the outcome.

        Returns:
            The seconds after which it is to be sent again; None if it is not.
        """
        async with self._gate.turn() as mine:
            if not mine:
                if job.failure is not None:  # the run ended before it could be sent again
                    self._counters.add(job.failure)
                return None
            if not await self._keeper.claim(job):
                return None
            wait = await self._try(job)
        while wait is not None and job.in_doubt:
            # It keeps its claim while it waits, since it may have been acted on.
            await asyncio.sleep(wait)
            async with self._gate.turn() as mine:
                if not mine:
                    error = job.failure.error if job.failure else ""
                    self._keeper.failed(job, "unknown", error, again=False)
                    return None
                wait = await self._try(job)
        return wait

    async def _try(self, job: Job) -> float | None:
        """Send an item once, and record the outcome; return as `send` does."""
        job.tries, began, self._counters.current = job.tries + 1, time.monotonic(), job.name
        method, fields = self._keeper.request(job)
        try:
            answer = await self._sender.send(method, fields)
        except KnowledgeBotError as error:
            return await self._failed(job, error, began)
        except BaseException as error:
            never = getattr(error, "delivery", None) is Delivery.NOT_DELIVERED
            sure = never and not job.in_doubt
            kind: Kind = "undelivered" if sure or self._keeper.repeatable else "unknown"
            reason = f"it was interrupted while it was being sent: {error!r}"
            self._keeper.failed(job, kind, reason, again=False)
            raise
        self._judge.succeeded()
        await self._keeper.sent(job, answer)
        return None

    async def _failed(self, job: Job, error: KnowledgeBotError, began: float) -> float | None:
        """Record a failure, or return the seconds after which the item is to be sent again."""
        counts = self._counters.counts
        succeeded = counts["created"] + counts["replaced"] + counts["unchanged"]
        decision = await self._keeper.judged(job, error) or self._judge.failed(
            error, began, job.tries, succeeded, keyed=job.in_doubt or _is_keyed(job)
        )
        kind: Kind | None = "unknown" if job.in_doubt and not settles(error) else decision.kind
        again = decision.retry_in is not None
        job.in_doubt = again and kind == "unknown"
        job.failure = job.outcome("undelivered", str(error))
        if not job.in_doubt:
            self._keeper.failed(job, kind, str(error), again=again)
        if decision.stop is not None:
            self._stop(*decision.stop)
        return decision.retry_in


def _is_keyed(job: Job) -> bool:
    return getattr(job.claim, "idempotency_key", None) is not None
