"""Answers questions with sentences from passages; no language model is involved."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from pydantic import BaseModel, ConfigDict

from knowledge_bot.models import Message
from knowledge_bot_service.answers.conversations import SOURCES, Asked
from knowledge_bot_service.answers.finding import Finder
from knowledge_bot_service.answers.quotes import PARAGRAPH, Quote, choose
from knowledge_bot_service.index.search import Hit
from knowledge_bot_service.readers.analyzer import small_talk
from knowledge_bot_service.readers.analyzer.questions import SmallTalk

REFUSAL: Final = "I could not find that in my sources."

# What small talk is answered with: nothing is looked for.
_REPLIES: Final[dict[SmallTalk, str]] = {
    "greeting": "Hello! Ask me something about my sources.",
    "thanks": "You are welcome. Ask me more about my sources.",
    "farewell": "Goodbye! Come back when you have a question about my sources.",
    "introduction": "I answer questions from the sources that I was given, and name those that an"
    " answer is from.",
}


class NoAnswerError(Exception):
    """The language model gave no answer. str() is for the person who asked.

    Args:
        message: what happened.
        retry_after: seconds after which the same question may be answered; None if asking again
            changes nothing.
    """

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class CitedSource(BaseModel):
    """A source that an answer names, and the `revision` of it that the answer was given from.

    `url` is a web page's, and `passages` the ids of those that the answer uses.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    url: str | None = None
    revision: str
    passages: tuple[int, ...]


class AnsweredMessage(Message):
    """A message, with what the service says beside the documented fields (interface section 2).

    `sources` are those that the answer names, in its order. `found` is False if nothing was found
    in the sources, and left out if nothing was looked for.
    """

    sources: tuple[CitedSource, ...]
    found: bool | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer.

    Attributes:
        text: its words, then the names of its sources.
        found: whether something was found; None if nothing was looked for.
        sources: those that it names.
        hits: the passages that were found, best first.
    """

    text: str
    found: bool | None
    sources: Sequence[CitedSource] = ()
    hits: Sequence[Hit] = ()

    @classmethod
    def citing(cls, words: str, cited: Iterable[Hit], hits: Sequence[Hit]) -> Self:
        """An answer in `words` that names the sources of the passages that it uses, in order."""
        passages: dict[str, list[Hit]] = {}
        for hit in cited:
            passages.setdefault(hit.source_id, []).append(hit)
        sources = tuple(
            CitedSource(
                id=source,
                name=used[0].source_name,
                url=used[0].source_url,
                revision=used[0].source_revision,
                passages=tuple(dict.fromkeys(hit.passage for hit in used)),
            )
            for source, used in passages.items()
        )
        names = dict.fromkeys(source.name for source in sources)
        return cls(f"{words}{SOURCES}{', '.join(names)}", True, sources, hits)


class Answerer:
    """Answers questions from the passages of collections.

    Args:
        finder: finds the passages.
    """

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    def answer(self, asked: Asked, collections: Sequence[int]) -> Answer:
        """Answer with at most two sentences and 300 characters, then the names of their sources.

        A sentence that introduces a list, a table or code has it after it, in lines of its own; the
        answer then has at most 1,200 characters.

        Args:
            asked: the question, and what was said before it.
            collections: the numbers of the collections to answer from.

        Returns:
            The answer; its text is `REFUSAL` when no passage is about the question.
        """
        if said := small_talk(asked.question):
            return Answer(_REPLIES[said], found=None)
        found = self._finder.find(asked, collections)
        if not found.is_about_it:
            return Answer(REFUSAL, found=False)
        # Earlier turns helped to choose the passages. Within them, the question decides first.
        quotes = choose(found.hits, found.weights, found.terms)
        cited = [*(quote.hit for quote in quotes), found.hits[0]]
        return Answer.citing(_text(quotes), cited, found.hits)


def _text(quotes: Sequence[Quote]) -> str:
    separator = " " if all(quote.is_prose for quote in quotes) else PARAGRAPH
    return separator.join(quote.text for quote in quotes)
