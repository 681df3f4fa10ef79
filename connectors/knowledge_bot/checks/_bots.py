"""Whether the client can ask, and the bot that was asked is there."""

import contextlib
from collections.abc import Callable
from typing import Any

from knowledge_bot.errors import APIError, ConfigurationError, KnowledgeBotError

# Of the service's bots, how many are named where one is missing.
_NAMED = 10


class NoSuchBotError(KnowledgeBotError):
    """The service lists its bots, and this one is not among them."""


def check_client(kind: type, client: object, known: str) -> None:
    """Refuse what is no client of a kind; `known` says which function takes which."""
    if not isinstance(client, kind):
        raise ConfigurationError.expected("client", kind.__name__, client, f"; {known}")


async def check_bot(bot: str, client: Any, call: Callable[..., Any], error: APIError) -> None:
    """Raise `NoSuchBotError` where a refusal shows that a bot is not there.

    Only after a refusal: the interface does not say that the list names every bot (section 4).
    `call` calls a function that uses the client, and awaits what it returns.
    """
    ids: list[str] = []
    with contextlib.suppress(KnowledgeBotError):
        ids = [one.id for one in await call(client.list_bots)]
    if bot in ids or not ids:
        return
    named = ", ".join(ids[:_NAMED]) + (", …" if len(ids) > _NAMED else "")
    refused = f"the message was refused with {error.status_code}"
    raise NoSuchBotError(
        f"There is no {bot}: {refused}, and the service has {named}", delivery=error.delivery
    )
