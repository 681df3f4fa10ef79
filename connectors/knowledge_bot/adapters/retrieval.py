"""What bots answer from, or what they answer, for the retrievers of frameworks.

Where the service announces `passages`, these are searched for, and no bot is asked. Elsewhere every
bot is asked: then the passages are retrieved that its answer names, and where it names none, the
answer itself.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

from knowledge_bot._answers import Answer
from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._endpoints import MOST_PASSAGES
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.models import Message, Passage

__all__ = ["Answer", "Retrieval", "Retrieved", "aask_bots", "ask_bots", "bots_named", "retrieved"]


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A passage, or an answer.

    Attributes:
        id: the passage's, which stays the same until its source changes, or the message's.
        text: what it says.
        fields: what frameworks keep beside it, as new plain values. Of a passage `bot_id`,
            `source`: the source's name, `source_id`, `url`, `revision`, `passage_id`, `score` and
            `found`; of an answer what `Answer.as_dict` returns.
    """

    id: str
    text: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Retrieval:
    """How bots are asked for what they know.

    Attributes:
        bots: their ids, `bot_…`.
        limit: how many passages at most, of all bots.
        answers: how many bots are asked at most, where no passages are searched for.
        relevant: whether what is not about the question is left out.
    """

    # As much as prompts have room for.
    DEFAULT: ClassVar[int] = 5

    bots: Sequence[str]
    limit: int = DEFAULT
    answers: int | None = None
    relevant: bool = False

    @property
    def is_of_one(self) -> bool:
        """Whether a single bot is asked."""
        return len(self.bots[: self.answers]) == 1

    def get(self, client: Client, query: str) -> list[Retrieved]:
        """Retrieve what fits a question.

        Returns:
            Passages, the best of each bot in turn, where one that several bots have is the first
            one's; or the answers in the order of the bots.

        Raises:
            KnowledgeBotError: as `Client.search`; where bots are asked, the first failure in their
                order, once every bot has answered or failed, so that no question is left running.
                Notes on it name the other failures.
        """
        if "passages" in client.extensions():
            count = min(self.limit, MOST_PASSAGES)
            found = [client.search(query, bot_id=bot, limit=count) for bot in self.bots]
            return self._found(found)
        bots = self.bots[: self.answers]
        return self._answered(ask_bots(client, bots, query))

    async def aget(self, client: AsyncClient, query: str) -> list[Retrieved]:
        """Retrieve as `get` does, without blocking; cancelling it cancels every question."""
        if "passages" in await client.extensions():
            count = min(self.limit, MOST_PASSAGES)
            found = [await client.search(query, bot_id=bot, limit=count) for bot in self.bots]
            return self._found(found)
        return self._answered(await aask_bots(client, self.bots[: self.answers], query))

    def _found(self, found: Sequence[Sequence[Passage]]) -> list[Retrieved]:
        best = _in_turn(self.bots, found, self.limit)
        return self._kept(retrieved(bot, one) for bot, one in best)

    def _answered(self, answers: Sequence[Message]) -> list[Retrieved]:
        found: list[Retrieved] = []
        for bot, message in zip(self.bots, answers, strict=False):
            answer = Answer.of(message)
            cited = [retrieved(bot, one) for one in answer.cited[: self.limit]]
            found += cited or [Retrieved(message.id, answer.text, answer.as_dict(bot))]
        return self._kept(found)

    def _kept(self, found: Iterable[Retrieved]) -> list[Retrieved]:
        return [one for one in found if one.fields["found"] or not self.relevant]


def bots_named(bot_id: str | None, bot_ids: Sequence[str] | None) -> list[str]:
    """Return the bots that a retriever is made with, each once.

    Raises:
        ConfigurationError: none are named, or one and several.
    """
    if (bot_id is None) == (bot_ids is None) or isinstance(bot_ids, str):
        raise ConfigurationError.of(
            "bot_id", "name one bot with bot_id=, or several with bot_ids=[…]"
        )
    named = [bot_id] if bot_id is not None else list(dict.fromkeys(bot_ids or ()))
    if not named:
        raise ConfigurationError.of("bot_ids", "name at least one bot")
    return named


def retrieved(bot_id: str, one: Passage) -> Retrieved:
    """Return a passage that a bot would answer from, or has answered from."""
    fields = {
        "bot_id": bot_id,
        "source": one.name,
        "source_id": one.source_id,
        "url": one.url,
        "revision": one.revision,
        "passage_id": one.id,
        "score": one.score,
        "found": one.found is not False,
    }
    return Retrieved(one.id, one.text, fields)


def ask_bots(client: Client, bot_ids: Sequence[str], content: str) -> list[Message]:
    """Ask every bot the same question at the same time, each in a new conversation."""

    def one(bot_id: str) -> Message | Exception:
        try:
            return client.send_message(bot_id=bot_id, content=content)
        except Exception as error:  # noqa: BLE001 - raised by _all_answers, when all have ended
            return error

    if len(bot_ids) < 2:  # needs no thread
        return _all_answers(bot_ids, [one(bot_id) for bot_id in bot_ids])
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(bot_ids), thread_name_prefix="ask_bots") as pool:
        # Tracing and callbacks of frameworks travel in context variables.
        asked = [pool.submit(copy_context().run, one, bot_id) for bot_id in bot_ids]
    return _all_answers(bot_ids, [outcome.result() for outcome in asked])


async def aask_bots(client: AsyncClient, bot_ids: Sequence[str], content: str) -> list[Message]:
    """Ask as `ask_bots` does, without blocking; cancelling it cancels every question."""

    async def one(bot_id: str) -> Message | Exception:
        try:
            return await client.send_message(bot_id=bot_id, content=content)
        except Exception as error:  # noqa: BLE001 - raised by _all_answers, when all have ended
            return error

    if len(bot_ids) < 2:  # needs no task
        return _all_answers(bot_ids, [await one(bot_id) for bot_id in bot_ids])
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(one(bot_id)) for bot_id in bot_ids]
    return _all_answers(bot_ids, [outcome.result() for outcome in asked])


def _in_turn(
    bot_ids: Sequence[str], found: Sequence[Sequence[Passage]], limit: int
) -> list[tuple[str, Passage]]:
    named = ([(bot, one) for one in ones] for bot, ones in zip(bot_ids, found, strict=True))
    turns = [one for turn in zip_longest(*named) for one in turn if one is not None]
    first: dict[str, tuple[str, Passage]] = {}
    for bot, one in turns:
        first.setdefault(one.id, (bot, one))
    return list(first.values())[:limit]


def _all_answers(bot_ids: Sequence[str], outcomes: Sequence[Message | Exception]) -> list[Message]:
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
