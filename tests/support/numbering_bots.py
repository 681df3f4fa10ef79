"""Bots in memory that number their answers, and what of a service's memory tells who heard what."""

from itertools import count
from typing import Any

from knowledge_bot.testing import MemoryService, ReceivedQuestion

BOTS = ("bot_1", "bot_2", "bot_3")


def numbering(**options: Any) -> MemoryService:
    """Return a service whose bots answer `<answer 1> of bot_1`, and so on."""
    numbers = count(1)

    def answer(question: ReceivedQuestion) -> str:
        return f"<answer {next(numbers)}> of {question.bot_id}"

    return MemoryService(bots=dict.fromkeys(BOTS, answer), collections=["col_1"], **options)


def received(service: MemoryService) -> list[dict[str, Any]]:
    """Return the fields of every request that arrived and was no ping."""
    return [request.value for request in service.requests]


def contents(service: MemoryService) -> list[str]:
    """Return what every message or text said."""
    return [value["content"] for value in received(service) if "content" in value]


def heard(service: MemoryService) -> list[list[str]]:
    """Return what was said in each conversation, in the order in which they began."""
    return [told for told in service.conversations.values() if told]


def times_sent(service: MemoryService, text: str) -> list[int]:
    """Return how often each conversation that was told a text was told it."""
    times = (sum(said.count(text) for said in told) for told in service.conversations.values())
    return list(filter(None, times))
