"""What bots answer from, or what they answer, for the retrievers of frameworks.

Where the service announces `passages`, these are searched for, and no bot is asked. Elsewhere every
bot is asked: then the passages are retrieved that its answer names, and where it names none, the
answer itself.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, ClassVar, TypeAlias, TypeVar

from knowledge_bot._answers import Answer
from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._endpoints import MOST_PASSAGES, identifier
from knowledge_bot._extensions import Extensions
from knowledge_bot._threads import begun
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.models import Message, Passage

__all__ = ["Answer", "Retrieval", "Retrieved", "answered", "bots_named", "retrieved"]

T = TypeVar("T")

_Way: TypeAlias = tuple[Callable[[str], Any], Callable[[str, Any], list["Retrieved"]], int | None]


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A passage, or an answer.

    Frameworks compare and hash what they keep: a passage that two questions or two bots find must
    be equal, or a fusion counts it twice. So what belongs to the question stands beside the fields.

    Attributes:
        id: the passage's, which stays the same until its source changes; equal answers of a bot
            have the same one.
        text: what it says.
        fields: what frameworks keep beside it: new flat values, none of them None. Of a passage
            `source`: the source's name, `source_id`, `url`, `revision` and `passage_id`; of an
            answer `bot_id`, `passage_id`, and `source`: the names of its sources, with commas.
        found: whether anything was found about the question, as far as the service can tell.
        score: higher for what fits better among the passages of one search; None: there is none.
    """

    id: str
    text: str
    fields: dict[str, str]
    found: bool = True
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Retrieval:
    """How bots are asked for what they know.

    Attributes:
        bots: their ids, `bot_…`.
        limit: how many passages and answers at most, of all bots; None: five passages, or an
            answer of each bot.
        relevant: whether what is not about the question is left out.
    """

    # As much as prompts have room for.
    DEFAULT: ClassVar[int] = 5

    bots: Sequence[str]
    limit: int | None = None
    relevant: bool = False

    def get(self, client: Client, query: str) -> list[Retrieved]:
        """Retrieve what fits a question.

        All bots are asked at the same time, and the limit comes last: a bot that knows something
        is not left out for those that do not.

        Returns:
            Passages, the best of each bot in turn, first those of the bots that found something;
            one that several bots have comes once. Or the answers, in the same order.

        Raises:
            KnowledgeBotError: as `Client.search` or `Client.send_message`: the first failure in the
                order of the bots, once every bot has answered or failed, so that no question is
                left running. Notes on it name the other failures.
        """
        ask, read, limit = self._way(client, query, client.extensions())
        return self._best(map(read, self.bots, _of_each(self.bots, ask)), limit)

    async def aget(self, client: AsyncClient, query: str) -> list[Retrieved]:
        """Retrieve as `get` does, without blocking; cancelling it cancels every question."""
        ask, read, limit = self._way(client, query, await client.extensions())
        return self._best(map(read, self.bots, await _aof_each(self.bots, ask)), limit)

    def _way(self, client: Any, query: str, extensions: Extensions) -> _Way:
        """Return how a bot is asked, how what it returns is read, and the limit of all."""
        if "passages" not in extensions:
            return (lambda bot: client.send_message(bot_id=bot, content=query)), _answer, self.limit
        most = min(self.limit or self.DEFAULT, MOST_PASSAGES)
        return (lambda bot: client.search(query, bot_id=bot, limit=most)), _passages, most

    def _best(self, of_bots: Iterable[list[Retrieved]], limit: int | None) -> list[Retrieved]:
        """Drop what nobody wants, join what several bots have, and only then cut."""
        of_bots = list(of_bots)
        knowing = [several for several in of_bots if any(one.found for one in several)]
        others = [several for several in of_bots if several not in knowing]
        in_turn = chain(_in_turn(knowing), _in_turn(others))
        first: dict[str, Retrieved] = {}
        for one in in_turn:
            if one.found or not self.relevant:
                first.setdefault(one.id, one)
        return list(first.values())[:limit]


def bots_named(bot_id: str | None, bot_ids: Sequence[str] | None) -> list[str]:
    """Return the bots that a retriever is made with, each once.

    Raises:
        ConfigurationError: none are named, or one and several, or one is no id of a bot.
    """
    if (bot_id is None) == (bot_ids is None) or isinstance(bot_ids, str):
        raise ConfigurationError.of(
            "bot_id", "name one bot with bot_id=, or several with bot_ids=[…]"
        )
    named = [bot_id] if bot_id is not None else list(dict.fromkeys(bot_ids or ()))
    if not named:
        raise ConfigurationError.of("bot_ids", "name at least one bot")
    return [identifier("bot_id", bot, "bot_") for bot in named]


def retrieved(one: Passage) -> Retrieved:
    """Return a passage that a bot would answer from, or has answered from."""
    fields = {
        "source": one.name,
        "source_id": one.source_id,
        "url": one.url,
        "revision": one.revision,
        "passage_id": one.id,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    return Retrieved(one.id, one.text, known, one.found is not False, one.score)


def answered(bot_id: str, answer: Answer, text: str | None = None) -> Retrieved:
    """Return an answer, with a text of its own where one is given."""
    assert answer.message is not None  # noqa: S101 - a bot's answer is a message
    fields = {"bot_id": bot_id} | ({"source": answer.sources} if answer.sources else {})
    words = text or answer.text
    said = hashlib.blake2b(f"{bot_id}\0{words}".encode(), digest_size=12).hexdigest()
    fields["passage_id"] = f"ans_{said}"
    return Retrieved(fields["passage_id"], words, fields, not answer.refuses)


def _in_turn(several: Iterable[list[Retrieved]]) -> Iterator[Retrieved]:
    return filter(None, chain.from_iterable(zip_longest(*several)))


def _passages(_bot_id: str, found: Sequence[Passage]) -> list[Retrieved]:
    return list(map(retrieved, found))


def _answer(bot_id: str, message: Message) -> list[Retrieved]:
    answer = Answer.of(message)
    return _passages(bot_id, answer.cited) or [answered(bot_id, answer)]


def _of_each(bots: Sequence[str], ask: Callable[[str], T]) -> list[T]:
    """Ask for every bot at the same time."""
    if len(bots) < 2:  # needs no thread
        return list(map(ask, bots))
    asked = [begun("ask a bot", ask, bot) for bot in bots]
    return _all_of(bots, [outcome.exception() or outcome.result() for outcome in asked])


async def _aof_each(bots: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> list[T]:
    """Ask as `_of_each` does, without blocking; cancelling it cancels every question."""
    if len(bots) < 2:  # needs no task
        return [await ask(bot) for bot in bots]
    return _all_of(bots, await asyncio.gather(*map(ask, bots), return_exceptions=True))


def _all_of(bots: Sequence[str], outcomes: Sequence[T | BaseException]) -> list[T]:
    answers = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    failures = [
        (bot, outcome)
        for bot, outcome in zip(bots, outcomes, strict=True)
        if isinstance(outcome, BaseException)
    ]
    if not failures:
        return answers
    (failed, error), *others = failures
    error.add_note(f"This was {failed}. Of {len(bots)} bots asked, {len(answers)} answered.")
    for bot, other in others:
        error.add_note(f"{bot} failed as well: {other}")
    raise error
