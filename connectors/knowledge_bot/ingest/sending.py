"""How an item becomes a request, on either client."""

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from knowledge_bot.client import AsyncClient, Client
from knowledge_bot.errors import APIError, ConfigurationError, Delivery, KnowledgeBotError
from knowledge_bot.ingest.items import File, Text
from knowledge_bot.ingest.planning import Job
from knowledge_bot.ingest.threads import DaemonThreads
from knowledge_bot.models import Header, Source

Send: TypeAlias = Callable[[Job], Awaitable[Source]]
"""Creates the source of an item, or raises a `KnowledgeBotError`."""


def sender_of(client: Client, threads: DaemonThreads) -> Send:
    """Return a sender for a blocking client.

    It awaits where it can, since a thread for each request costs twice the CPU. A client that sends
    with an `http_client` of the caller's, or has methods of the caller's, is called in threads.
    """
    if type(client) is Client:
        with contextlib.suppress(ConfigurationError):
            return awaiting_sender(client.to_async())  # its connections end with the loop
    return _blocking_sender(client, threads)


def awaiting_sender(client: AsyncClient) -> Send:
    """Return a sender that awaits an asynchronous client."""
    once = client.with_options(max_retries=0)

    def send(job: Job) -> Awaitable[Source]:
        result: Awaitable[Source] = _call(once, job)()
        return result

    return send


def is_overloaded(error: KnowledgeBotError) -> bool:
    """Tell whether the service has too much to do."""
    return isinstance(error, APIError) and error.status_code in (429, 503)


def is_unreached(error: KnowledgeBotError) -> bool:
    """Tell whether the request did not get as far as the service, through no fault of the item."""
    return error.delivery is Delivery.NOT_DELIVERED and not isinstance(error, ConfigurationError)


def _blocking_sender(client: Client, threads: DaemonThreads) -> Send:
    # The engine itself sends again what may be sent again, so that the whole run slows down.
    once = client.with_options(max_retries=0)

    def send(job: Job) -> Awaitable[Source]:
        return threads.run(_call(once, job))

    return send


def _call(client: Any, job: Job) -> Callable[[], Any]:
    item, name, collections = job.item, job.claim.name, job.collections
    if isinstance(item, Text):
        return partial(
            client.create_text_source, name=name, collections=collections, content=item.content
        )
    if isinstance(item, File):
        return partial(client.upload_source, name=name, collections=collections, file=item.path)
    headers = [Header(name=name, value=value.get_secret_value()) for name, value in item.headers]
    return partial(
        client.create_webpage_source,
        name=name,
        collections=collections,
        url=item.url,
        headers=headers,
    )
