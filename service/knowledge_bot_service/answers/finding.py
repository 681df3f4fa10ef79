"""Finds the passages for a question, and says how sure it is that they answer it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowledge_bot_service.answers.conversations import AskedQuestion, Exchange
from knowledge_bot_service.answers.prompts import asking_in
from knowledge_bot_service.answers.ranking import Query, Ranked, Weights, pointed, ranked
from knowledge_bot_service.index.search import Search, WeightedWords, Word
from knowledge_bot_service.readers.analyzer import (
    QueryTerms,
    index_terms,
    points_back,
    query_terms,
)
from knowledge_bot_service.readers.analyzer.languages import DEFAULT
from knowledge_bot_service.readers.analyzer.vectors import vector

# How many passages are handed on, and how many are ranked that were found by their words.
PASSAGES: Final = 5
LOOKED_AT: Final = 40

# In an index of `_LARGE` passages the best one answers where its score is this, and is about
# another subject where it is below the lower one. Between them nobody knows. With these, 0.92 of
# questions on other subjects are not answered, and 0.02 of those that the sources answer refused.
_FOUND: Final = 3.62
_NEAR: Final = 2.27

# In a smaller index less fits by chance, and less is needed: so much for each tenth of it. For an
# answer that holds in English alone: the vectors of other languages are all near to each other.
# Smaller ones than 25 passages were not measured.
_BY_SIZE: Final = 0.6
_LARGE: Final = 1000
_SMALLEST: Final = 25

# An exchange counts this much less than the one after it, and the rarest words of the last reply
# this much: the best of the ways measured on follow-up questions. Whole replies pull the old
# passage back.
_DECAY: Final = 0.3
_REPLY_WEIGHT: Final = 0.3
_REPLY_WORDS: Final = 4

# The vector of a question that goes on is that of so many earlier ones with it.
_MEANT: Final = 2

# A question of fewer words needs what was said before it. For one of more words that counts less,
# by as much as it is longer.
_SHORT: Final = 3

# A question may be a whole page, whose words each cost time. What is asked stands at its beginning
# or at its end: of a longer one, so many characters of both are read.
_END: Final = 1000


@dataclass(frozen=True, slots=True)
class RankedPassages:
    """What was found for a question.

    Attributes:
        passages: those that fit best, best first.
        is_near: whether the first of them is about the question's subject, or may be.
        is_found: whether it can be given as the answer, without a doubt.
    """

    passages: Sequence[Ranked] = ()
    is_near: bool = False
    is_found: bool = False

    @property
    def best(self) -> int | None:
        """The number of the first of them."""
        return self.passages[0].hit.passage if self.passages else None


class Finder:
    """Finds passages for the questions of a conversation.

    Args:
        search: the index of passages.
    """

    def __init__(self, search: Search) -> None:
        self._search = search

    def find(
        self, asked: AskedQuestion, collections: Sequence[int], limit: int = PASSAGES
    ) -> RankedPassages:
        """Find the passages that answer a question best.

        Args:
            asked: the question, and what was said before it, which gives short follow-ups their
                subject.
            collections: the numbers of the collections to look in.
            limit: how many passages to return at most; 40 or fewer.
        """
        found = self._look(asked, collections, limit)
        return replace(found, is_found=found.is_found and not self._is_unheard_of(asked.question))

    def _is_unheard_of(self, question: str) -> bool:
        """Whether it asks of something by a number or code that is nowhere, such as room 20."""
        if not any(map(str.isnumeric, question)):
            return False
        asking = query_terms(_ends(" ".join(asking_in(question)) or question)).terms
        numbers = [word for word in asking if any(map(str.isdigit, word[0]))]
        return bool(numbers) and not all(self._search.count(numbers).having.values())

    def _look(self, asked: AskedQuestion, collections: Sequence[int], limit: int) -> RankedPassages:
        question = _ends(asked.question)
        if question.isupper() and " " in question:  # the vectors know few words in capitals
            question = question.lower()
        terms = query_terms(question)
        if terms.is_empty and not asked.before:
            return RankedPassages()
        words = WeightedWords(terms.terms, 1.0)
        found = self._find(question, terms, [words], collections, limit)
        if not asked.before or _stands_alone(asked, terms, found):
            return found
        before = [*self._context(asked.before, min(1.0, _SHORT / max(1, len(terms.terms))))]
        said = [_ends(exchange.question) for exchange in asked.before[-_MEANT:]]
        whole = " ".join([*said, question])
        # "When is it?" has no word of a subject, and finds whatever has "when" in it.
        queries = before if terms.is_empty else [words, *before]
        in_context = self._find(whole, terms, queries, collections, limit)
        if terms.is_empty:
            return in_context
        if found.is_near and not in_context.is_near:
            return found
        # Of a passage that both are about, it is the last question that a statement has to answer.
        own = Weights(self._search.count(terms.terms).idf(), terms.terms)
        passages = [pointed(own, one) for one in in_context.passages]
        is_found = in_context.is_found and (found.is_found or _goes_on(asked))
        is_found = is_found or (found.is_found and found.best == in_context.best)
        return replace(in_context, passages=passages, is_found=is_found)

    def _find(
        self,
        text: str,
        terms: QueryTerms,
        queries: Sequence[WeightedWords],
        collections: Sequence[int],
        limit: int,
    ) -> RankedPassages:
        weights: dict[Word, float] = {}
        for one in queries:
            for word in one.words:
                weights[word] = max(weights.get(word, 0.0), one.weight)
        counts = self._search.count(weights)
        weighed = {word: weights[word] * idf for word, idf in counts.idf().items()}
        query = Query(Weights(weighed, terms.terms), vector(text))
        hits = self._search.find(queries, counts, collections, LOOKED_AT, query.vector)
        less = _BY_SIZE * math.log10(_LARGE / max(_SMALLEST, min(counts.passages, _LARGE)))
        near, needed = _NEAR - less, _FOUND - less * (terms.language == DEFAULT)
        # One that has none of the words is found where it is near, and not because there are few.
        passages = [one for one in ranked(query, hits) if one.hit.score or one.score >= near]
        score = passages[0].score if passages else 0.0
        return RankedPassages(passages[:limit], score >= near, score >= needed)

    def _context(self, before: Sequence[Exchange], weight: float) -> Iterable[WeightedWords]:
        """What was said before, to search for as well, with a weight beside the question's 1."""
        for age, exchange in enumerate(reversed(before), start=1):
            yield WeightedWords(query_terms(_ends(exchange.question)).terms, weight * _DECAY**age)
        # In their order: of words that are as rare, those of the better sentence come first.
        words = dict.fromkeys((term,) for term in index_terms(before[-1].answer))
        yield WeightedWords(self._search.rarest(words, _REPLY_WORDS), weight * _REPLY_WEIGHT)


def _goes_on(asked: AskedQuestion) -> bool:
    """Whether a question speaks of what was said before it.

    What the same message tells, or a turn that nobody answered, belongs to the question.
    """
    return points_back(asked.question) or not asked.before[-1].answer


def _stands_alone(asked: AskedQuestion, terms: QueryTerms, found: RankedPassages) -> bool:
    """Whether what was said before could only lead away from the question.

    One that finds nothing by itself is on another subject: with what was said before, it would be
    given the answer to something else. Only a short one that finds something may still go on, as
    "How long is the course?" does. Measured on 540 changes of subject, 295 follow-up questions and
    136 that no source answers: of the first, 1 in 97 is lost after another subject, and of the
    last, none is answered that is not answered alone.
    """
    words = len(terms.terms)
    if terms.is_empty or points_back(asked.question):
        return False
    if not found.is_near:
        return not _goes_on(asked)
    return words >= _SHORT or (found.is_found and words == _SHORT - 1)


def _ends(question: str) -> str:
    if len(question) <= 2 * _END:
        return question
    return f"{question[:_END]} {question[-_END:]}"
