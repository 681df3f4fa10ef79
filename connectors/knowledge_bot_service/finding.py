"""Finding the passages that a question is about, and telling whether they are about it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge_bot_service.analyzer import QueryTerms, index_terms, query_terms
from knowledge_bot_service.analyzer.languages import IN_PAIRS
from knowledge_bot_service.conversations import Asked, Exchange
from knowledge_bot_service.relevance import Word, bm25, coverage, pairs
from knowledge_bot_service.search import Hit, Search, WeightedWords

# How many passages an answer is made from.
PASSAGES: Final = 5

# An exchange counts this much less than the one after it, and the rarest words of the last reply
# this much: the best of the ways measured on follow-up questions. Whole replies pull the old
# passage back.
_DECAY: Final = 0.3
_REPLY_WEIGHT: Final = 0.3
_REPLY_WORDS: Final = 4

# Words of a question that needs what was said before it. One of more words is clear by itself: by
# as much as it is longer, what was said before counts less.
_SHORT: Final = 3

# A question may be a whole page, whose words each cost time. What is asked stands at its beginning
# or at its end: of a longer one, so many characters of both are read.
_END: Final = 1000

# A passage without the name or the number that is asked about is about something else.
_NAME_WEIGHT: Final = 1.5

# How well the best passage must fit: the mean of the coverage of the question's words, of their
# BM25, both weighted by how telling the words are, and of the pairs of words found side by side.
# For English this answers 97 % of answerable questions and refuses 82 % of those on other subjects.
# Other languages compound and inflect more; pairs of characters are found less often, and those of
# Thai more often, than words.
_MIN_FIT: Final = {"en": 0.36, "th": 0.54} | dict.fromkeys(IN_PAIRS - {"th"}, 0.18)
_MIN_FIT_ELSEWHERE: Final = 0.2


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a question.

    Attributes:
        terms: the question's own words, and its kind.
        weights: how telling each of these words is.
        hits: the passages that fit best, best first.
        is_about_it: whether the best of them is about the question's subject.
    """

    terms: QueryTerms
    weights: Mapping[Word, float]
    hits: Sequence[Hit]
    is_about_it: bool


class Finder:
    """Finds passages for the questions of a conversation.

    Args:
        search: the index of passages.
    """

    def __init__(self, search: Search) -> None:
        self._search = search

    def find(self, asked: Asked, collections: Sequence[int]) -> Found:
        """Find the passages that fit a question best.

        Args:
            asked: the question, and what was said before it, which gives short follow-ups their
                subject.
            collections: the numbers of the collections to look in.
        """
        terms = query_terms(_ends(asked.question))
        words = WeightedWords(terms.terms, 1.0)
        before = self._context(asked.before, min(1.0, _SHORT / max(1, len(terms.terms))))
        found = self._find(terms, [words, *before], collections)
        if found.is_about_it or not asked.before:
            return found
        # What was said before leads away from a question on something else. Measured: asked by
        # itself, such a question is answered as often as the first one of a conversation.
        by_itself = self._find(terms, [words], collections)
        return by_itself if by_itself.is_about_it else found

    def _find(
        self, terms: QueryTerms, queries: Sequence[WeightedWords], collections: Sequence[int]
    ) -> Found:
        hits = self._search.find(queries, collections, PASSAGES)
        weights = self._weights(queries)
        own = {word: weights[word] for word in terms.terms}
        needed = _MIN_FIT.get(terms.language, _MIN_FIT_ELSEWHERE)
        return Found(terms, own, hits, _best_fit(terms, own, weights, hits) >= needed)

    def _context(self, before: Sequence[Exchange], weight: float) -> Iterable[WeightedWords]:
        """What was said before, to search for as well, with a weight beside the question's 1."""
        for age, exchange in enumerate(reversed(before), start=1):
            yield WeightedWords(query_terms(_ends(exchange.question)).terms, weight * _DECAY**age)
        if before:
            # In their order: of words that are as rare, those of the better sentence come first.
            words = dict.fromkeys((term,) for term in index_terms(before[-1].answer))
            yield WeightedWords(self._search.rarest(words, _REPLY_WORDS), weight * _REPLY_WEIGHT)

    def _weights(self, queries: Iterable[WeightedWords]) -> dict[Word, float]:
        weights: dict[Word, float] = {}
        for query in queries:
            for word in query.words:
                weights[word] = max(weights.get(word, 0.0), query.weight)
        idf = self._search.idf(weights)
        return {word: weight * idf[word] for word, weight in weights.items()}


def _ends(question: str) -> str:
    if len(question) <= 2 * _END:
        return question
    return f"{question[:_END]} {question[-_END:]}"


def _best_fit(
    terms: QueryTerms,
    own: Mapping[Word, float],
    weights: Mapping[Word, float],
    hits: Sequence[Hit],
) -> float:
    if not hits:
        return 0.0
    names = {name: own[name] * _NAME_WEIGHT for name in terms.names}
    # A question that is clear by itself must not be refused for what was said before it.
    return max(_fit({**own, **names}, hits), _fit({**weights, **names}, hits))


def _fit(weights: Mapping[Word, float], hits: Sequence[Hit]) -> float:
    average = sum(len(hit.terms) for hit in hits) / len(hits)
    best = hits[0].terms
    return (
        coverage(best, weights) + bm25(best, weights, average) + pairs(best, tuple(weights))
    ) / 3
