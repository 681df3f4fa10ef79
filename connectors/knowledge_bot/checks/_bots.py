"""Whether the bot that was asked is there."""

from collections.abc import Sequence

from knowledge_bot.errors import APIError, KnowledgeBotError
from knowledge_bot.models import Bot

# Of the service's bots, how many are named where one is missing.
_NAMED = 10


class NoSuchBotError(KnowledgeBotError):
    """The service lists its bots, and this one is not among them."""


def check_bot(bot: str, there: Sequence[Bot], error: APIError) -> None:
    """Raise `NoSuchBotError` where a refusal shows that a bot is not there.

    Only after a refusal: the interface does not say that the list names every bot (section 4).
    """
    ids = [one.id for one in there]
    if bot in ids or not ids:
        return
    named = ", ".join(ids[:_NAMED]) + (", …" if len(ids) > _NAMED else "")
    refused = f"the message was refused with {error.status_code}"
    raise NoSuchBotError(
        f"There is no {bot}: {refused}, and the service has {named}", delivery=error.delivery
    )
