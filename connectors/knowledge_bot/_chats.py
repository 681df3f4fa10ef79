"""Conversations with a bot, turn by turn, and one question to several bots at once."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from itertools import zip_longest
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from knowledge_bot._endpoints import MOST_PASSAGES, identifier

if TYPE_CHECKING:
    from knowledge_bot._client import AsyncClient, Client
    from knowledge_bot.models import Message, Passage


class Chat:
    """A conversation with a bot, one turn after another; made by `Client.chat`.

    Attributes:
        conversation_id: the conversation's id; None until the first answer.
    """

    def __init__(
        self, send_message: "Callable[..., Message]", bot_id: str, conversation_id: str | None
    ) -> None:
        self._send_message, self._bot_id = send_message, identifier("bot_id", bot_id, "bot_")
        self.conversation_id = conversation_id
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        return f"Chat({self._bot_id!r}, conversation_id={self.conversation_id!r})"

    def ask(self, content: str) -> "Message":
        """Send a message in this conversation; returns and raises what `send_message` does."""
        with self._turn:
            message = self._send_message(
                bot_id=self._bot_id, content=content, conversation_id=self.conversation_id
            )
            self.conversation_id = message.conversation_id
        return message


class AsyncChat:
    """A conversation with a bot, one turn after another; made by `AsyncClient.chat`.

    Turns of several event loops at once do not wait for each other.

    Attributes:
        conversation_id: the conversation's id; None until the first answer.
    """

    def __init__(
        self,
        send_message: "Callable[..., Awaitable[Message]]",
        bot_id: str,
        conversation_id: str | None,
    ) -> None:
        self._send_message, self._bot_id = send_message, identifier("bot_id", bot_id, "bot_")
        self.conversation_id = conversation_id
        # A lock belongs to the first event loop in which a task had to wait for it.
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    def __repr__(self) -> str:
        return f"AsyncChat({self._bot_id!r}, conversation_id={self.conversation_id!r})"

    async def ask(self, content: str) -> "Message":
        """Send a message in this conversation; returns and raises what `send_message` does."""
        async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            message = await self._send_message(
                bot_id=self._bot_id, content=content, conversation_id=self.conversation_id
            )
            self.conversation_id = message.conversation_id
        return message


def ask_bots(client: "Client", bot_ids: Sequence[str], content: str) -> "list[Message]":
    """Ask every bot the same question at the same time, each in a new conversation.

    Args:
        client: the client to ask with.
        bot_ids: the bots, `bot_…`.
        content: the question.

    Returns:
        The answers, in the order of `bot_ids`.

    Raises:
        KnowledgeBotError: the first failure in the order of `bot_ids`, once every bot has answered
            or failed, so that no question is left running. Notes on it name the other failures.
    """

    def ask(bot_id: str) -> "Message | Exception":
        try:
            return client.send_message(bot_id=bot_id, content=content)
        except Exception as error:  # noqa: BLE001 - raised by _all_answers, when all have ended
            return error

    if len(bot_ids) < 2:  # needs no thread
        return _all_answers(bot_ids, [ask(bot_id) for bot_id in bot_ids])
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(bot_ids), thread_name_prefix="ask_bots") as pool:
        # Tracing and callbacks of frameworks travel in context variables.
        asked = [pool.submit(copy_context().run, ask, bot_id) for bot_id in bot_ids]
    return _all_answers(bot_ids, [outcome.result() for outcome in asked])


async def aask_bots(client: "AsyncClient", bot_ids: Sequence[str], content: str) -> "list[Message]":
    """Ask as `ask_bots` does, without blocking; cancelling it cancels every question."""

    async def ask(bot_id: str) -> "Message | Exception":
        try:
            return await client.send_message(bot_id=bot_id, content=content)
        except Exception as error:  # noqa: BLE001 - raised by _all_answers, when all have ended
            return error

    if len(bot_ids) < 2:  # needs no task
        return _all_answers(bot_ids, [await ask(bot_id) for bot_id in bot_ids])
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(ask(bot_id)) for bot_id in bot_ids]
    return _all_answers(bot_ids, [outcome.result() for outcome in asked])


def search_bots(
    client: "Client", bot_ids: Sequence[str], query: str, limit: int
) -> "list[tuple[str, Passage]] | None":
    """Find the passages that each bot would answer from, where the service announces `passages`.

    Args:
        client: the client to search with.
        bot_ids: the bots, `bot_…`.
        query: the question.
        limit: how many passages at most, of all bots.

    Returns:
        Passages and their bots, the best of each bot in turn; one that several bots have is the
        first one's. None where the service does not announce `passages`.

    Raises:
        KnowledgeBotError: as `Client.search`.
    """
    if "passages" not in client.extensions():
        return None
    count = min(limit, MOST_PASSAGES)
    return _in_turn(
        bot_ids, [client.search(query, bot_id=bot, limit=count) for bot in bot_ids], limit
    )


async def asearch_bots(
    client: "AsyncClient", bot_ids: Sequence[str], query: str, limit: int
) -> "list[tuple[str, Passage]] | None":
    """Search as `search_bots` does, without blocking."""
    if "passages" not in await client.extensions():
        return None
    count = min(limit, MOST_PASSAGES)
    found = [await client.search(query, bot_id=bot, limit=count) for bot in bot_ids]
    return _in_turn(bot_ids, found, limit)


def _in_turn(
    bot_ids: Sequence[str], found: "Sequence[Sequence[Passage]]", limit: int
) -> "list[tuple[str, Passage]]":
    named = ([(bot, one) for one in ones] for bot, ones in zip(bot_ids, found, strict=True))
    turns = [one for turn in zip_longest(*named) for one in turn if one is not None]
    first: dict[str, tuple[str, Passage]] = {}
    for bot, one in turns:
        first.setdefault(one.id, (bot, one))
    return list(first.values())[:limit]


def _all_answers(
    bot_ids: Sequence[str], outcomes: "Sequence[Message | Exception]"
) -> "list[Message]":
    answers = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
    failures = [
        (bot_id, outcome)
        for bot_id, outcome in zip(bot_ids, outcomes, strict=True)
        if isinstance(outcome, Exception)
    ]
    if not failures:
        return answers
    (failed, error), *others = failures
    if len(bot_ids) > 1:
        error.add_note(f"This was {failed}. Of {len(bot_ids)} bots asked, {len(answers)} answered.")
    for bot_id, other in others:
        error.add_note(f"{bot_id} failed as well: {other}")
    raise error
