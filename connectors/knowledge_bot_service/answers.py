"""Answering a question from passages, in their own sentences; no language model is involved."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge_bot_service.analyzer import is_small_talk
from knowledge_bot_service.conversations import SOURCES, Asked
from knowledge_bot_service.finding import Finder
from knowledge_bot_service.quotes import Quote, choose
from knowledge_bot_service.search import Hit

REFUSAL: Final = "I could not find that in my sources."
GREETING: Final = "Hello! Ask me something about my sources."


class NoAnswerError(Exception):
    """The language model that words the answers gave none. str() is for the person who asked.

    Args:
        message: what happened.
        retry_after: in how many seconds the same question may be answered; None: asking again
            changes nothing.
    """

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, and the passages that it is made from, best first: none for one that is fixed."""

    text: str
    hits: Sequence[Hit] = ()


class Answerer:
    """Answers questions from the passages of collections.

    Args:
        finder: finds the passages.
    """

    def __init__(self, finder: Finder) -> None:
        self._finder = finder

    def answer(self, asked: Asked, collections: Sequence[int]) -> Answer:
        """Answer with at most two sentences and 300 characters, then the names of their sources.

        Args:
            asked: the question, and what was said before it.
            collections: the numbers of the collections to answer from.

        Returns:
            The answer; its text is `REFUSAL` when no passage is about the question.
        """
        if is_small_talk(asked.question):
            return Answer(GREETING)
        found = self._finder.find(asked, collections)
        if not found.is_about_it:
            return Answer(REFUSAL)
        # What was said before has chosen the passages. In them, the question's own words decide.
        quotes = choose(found.hits, found.weights, found.terms)
        text = f"{_text(quotes)}{SOURCES}{_sources(quotes, found.hits)}"
        return Answer(text, found.hits)


def _text(quotes: Iterable[Quote]) -> str:
    return " ".join(quote.text for quote in quotes)


def _sources(quotes: Iterable[Quote], hits: Sequence[Hit]) -> str:
    names = dict.fromkeys([*(quote.hit.source_name for quote in quotes), hits[0].source_name])
    return ", ".join(names)
