"""Sends the requests of a run, over whichever client there is."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._endpoints import read_source_reference
from knowledge_bot._extensions import Extensions
from knowledge_bot._threads import in_thread
from knowledge_bot.ingest._plan import Job

# The longest ping, in seconds.
_PING_TIMEOUT = 10.0

# How many items a blocking client sends itself. To load aiohttp costs as much as some more of them.
_FEW = 200


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

    async def send(self, job: Job) -> tuple[str, str | None]:
        """Send an item once; return id and revision of its source, or raise a `KnowledgeBotError`.

        It is created, or takes the place of `job.target`.
        """
        method, fields = _call(job)
        if type(self._client) not in (Client, AsyncClient):  # a subclass may do more than send
            source = await self._done(getattr(self._client, method), **fields)
            return str(source.id), getattr(source, "revision", None)
        request = getattr(AsyncClient, method)(**fields)
        request.read = read_source_reference
        sent: tuple[str, str | None] = await self._done(self._client._call, request)  # noqa: SLF001 - as above
        return sent

    async def call(self, method: str, *arguments: Any, **fields: Any) -> Any:
        """Call a method of the client, which tries again by itself; return a list as a whole."""
        called = getattr(self._patient, method)
        if method == "list_sources" and self._awaits:
            return [one async for one in called(*arguments, **fields)]
        done = await self._done(called, *arguments, **fields)
        return await asyncio.to_thread(list, done) if method == "list_sources" else done

    async def ping(self) -> object:
        """Ask whether the service is up, or raise a `KnowledgeBotError`."""
        timeout = min(_PING_TIMEOUT, self._client._configuration.timeout)  # noqa: SLF001 - as above
        return await self._done(self._client._derive(timeout=timeout).ping)  # noqa: SLF001 - as above

    async def _done(self, call: Callable[..., Any], *arguments: Any, **fields: Any) -> Any:
        if self._awaits:
            return await call(*arguments, **fields)
        return await in_thread(partial(call, *arguments, **fields))


def _call(job: Job) -> tuple[str, dict[str, Any]]:
    """Return the client method that creates or replaces the source of an item, its arguments."""
    item: Any = job.item
    fields: dict[str, Any] = {"name": job.name, "collections": job.collections}
    if job.kind == "text":
        method, fields["content"] = "create_text_source", item.content
    elif job.kind == "webpage":
        from knowledge_bot.models import Header

        headers = [Header(name=name, value=text.get_secret_value()) for name, text in item.headers]
        method, fields["url"], fields["headers"] = "create_webpage_source", item.url, headers
    else:
        name = job.place.rpartition("/" if job.kind == "object" else os.sep)[2] or job.name
        content = job.content if job.content is not None else item.open or job.place
        method, fields["file"], fields["filename"] = "upload_source", content, name
    if job.target is not None:
        return "replace_source", {"source_id": job.target, "revision": job.revision, **fields}
    if job.idempotency_key is not None:
        fields["idempotency_key"] = job.idempotency_key
    return method, fields
