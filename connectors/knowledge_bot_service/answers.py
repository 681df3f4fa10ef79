"""Answering a question from passages, in their own sentences; no language model is involved."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge_bot_service.analyzer import QueryTerms, index_terms, is_small_talk, query_terms
from knowledge_bot_service.languages import IN_PAIRS
from knowledge_bot_service.quotes import Quote, choose
from knowledge_bot_service.search import Hit, Search, WeightedWords, Word
from knowledge_bot_service.store import Turn

REFUSAL: Final = "I could not find that in my sources."
GREETING: Final = "Hello! Ask me something about my sources."

# How many earlier turns a question is understood with.
CONTEXT_TURNS: Final = 4

# A turn counts this much less than the one after it, and the rarest words of the last reply this
# much: the best of the ways measured on follow-up questions. Whole replies pull the old passage
# back.
_DECAY: Final = 0.3
_REPLY_WEIGHT: Final = 0.3
_REPLY_WORDS: Final = 3

# The share of a question's words, weighted by how telling they are, that a passage must have. 0.45
# answers 97 % of answerable questions and refuses 83 % of those on other subjects. Pairs of
# characters match less often than words do.
_MIN_COVERAGE: Final = 0.45
_PAIRS_FACTOR: Final = 0.6

_PASSAGES: Final = 5


@dataclass(frozen=True, slots=True)
class _Question:
    """A question, and the words that it and what was said before it search with."""

    terms: QueryTerms
    queries: tuple[WeightedWords, ...]
    weights: dict[Word, float]


class Answerer:
    """Answers questions from the passages of collections.

    Args:
        search: finds the passages.
    """

    def __init__(self, search: Search) -> None:
        self._search = search

    def answer(self, question: str, turns: Sequence[Turn], collections: Sequence[int]) -> str:
        """Answer with at most two sentences and 300 characters, then the names of their sources.

        Args:
            question: what is asked.
            turns: the conversation so far, oldest first; it gives short follow-ups their subject.
            collections: the numbers of the collections to answer from.

        Returns:
            The answer; `REFUSAL` when no passage covers enough of the question.
        """
        if is_small_talk(question):
            return GREETING
        asked = self._understand(question, turns)
        hits = self._search.find(asked.queries, collections, _PASSAGES)
        if not hits or self._confidence(asked, hits) < _needed(asked.terms.language):
            return REFUSAL
        quotes = choose(hits, asked.weights, asked.terms)
        return f"{_text(quotes)}\n\nSources: {_sources(quotes, hits)}"

    def _understand(self, question: str, turns: Sequence[Turn]) -> _Question:
        terms = query_terms(question)
        queries = [WeightedWords(terms.terms, 1.0)]
        for age, turn in enumerate(reversed(turns), start=1):
            queries.append(WeightedWords(query_terms(turn.question).terms, _DECAY**age))
        if turns:
            reply = turns[-1].answer.partition("\n\nSources: ")[0]
            words = {(term,) for term in index_terms(reply)}
            queries.append(WeightedWords(self._search.rarest(words, _REPLY_WORDS), _REPLY_WEIGHT))
        return _Question(terms, tuple(queries), self._weights(queries))

    def _confidence(self, asked: _Question, hits: Sequence[Hit]) -> float:
        # A question that is clear by itself must not be refused for what was said before it.
        alone = {word: asked.weights[word] for word in asked.terms.terms}
        return max(_coverage(alone, hits), _coverage(asked.weights, hits))

    def _weights(self, queries: Iterable[WeightedWords]) -> dict[Word, float]:
        weights: dict[Word, float] = {}
        for query in queries:
            for word in query.words:
                weights[word] = max(weights.get(word, 0.0), query.weight)
        idf = self._search.idf(weights)
        return {word: weight * idf[word] for word, weight in weights.items()}


def _coverage(weights: Mapping[Word, float], hits: Iterable[Hit]) -> float:
    total = sum(weights.values())
    if not total:
        return 0.0
    return (
        max(
            sum(weight for word, weight in weights.items() if not hit.terms.isdisjoint(word))
            for hit in hits
        )
        / total
    )


def _needed(language: str) -> float:
    return _MIN_COVERAGE * (_PAIRS_FACTOR if language in IN_PAIRS else 1.0)


def _text(quotes: Iterable[Quote]) -> str:
    return " ".join(quote.text for quote in quotes)


def _sources(quotes: Iterable[Quote], hits: Sequence[Hit]) -> str:
    names = dict.fromkeys([*(quote.hit.source_name for quote in quotes), hits[0].source_name])
    return ", ".join(names)
