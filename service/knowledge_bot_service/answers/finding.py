"""Finds and ranks the passages for a question, and says how sure it is that they answer it.

They are ranked by three numbers, and one vector of weights, which was fitted on halves of the
question sets in service/tests/benchmarks/questions.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import mul
from typing import Final, NamedTuple

from knowledge_bot_service.answers.conversations import AskedQuestion, Exchange
from knowledge_bot_service.answers.prompts import asking_in
from knowledge_bot_service.index.search import Hit, Search, WeightedWords, Word
from knowledge_bot_service.readers.analyzer import (
    QueryTerms,
    index_terms,
    points_back,
    query_terms,
)
from knowledge_bot_service.readers.analyzer.languages import DEFAULT
from knowledge_bot_service.readers.analyzer.vectors import similarities, vector
from knowledge_bot_service.readers.statements import Statement, parted, statements

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

# "How do bees find their way?" has a "their" that points at nothing said before it. Where such a
# question finds nothing by itself, what its context finds has to have so much of its own words.
_OWN: Final = 0.25

# A question may be a whole page, whose words each cost time. What is asked stands at its beginning
# or at its end: of a longer one, so many characters of both are read.
_END: Final = 1000


class Numbers(NamedTuple):
    """What a passage is ranked by.

    Attributes:
        passage: BM25 of the passage, its headings counted three times, as a share of the weight of
            the question's words.
        statement: how much of that weight its best statement has, with words that stand together.
        meaning: the cosine of the vectors of the question and of the best statement.
    """

    passage: float
    statement: float
    meaning: float


WEIGHTS: Final = Numbers(passage=2.0, statement=1.5, meaning=3.0)
"""How much each number counts."""

# A word that stands in a heading counts as often as this, and one of the source's name.
_IN_HEADING: Final = 3
_IN_NAME: Final = 2

# A statement's words: the share of the question's that it has with what it is under, the BM25 of
# its own (a usual one has so many terms), and how many stand side by side as in the question.
_COVERAGE: Final = 0.7
_PAIRS: Final = 0.35
_USUAL: Final = 20

# Of BM25, as usual; and how far apart words still stand side by side.
_K1: Final = 1.2
_B: Final = 0.75
_BESIDE: Final = 2

Places = list[tuple[int, int]]
"""Where words of a question are in a text: the position of each, and which word it is."""


@dataclass(frozen=True, slots=True)
class RankedPassages:
    """What was found for a question.

    Attributes:
        passages: those that fit best, best first.
        is_near: whether the first of them is about the question's subject, or may be.
        is_found: whether it can be given as the answer, without a doubt.
    """

    passages: "Sequence[Ranked]" = ()
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
        is_found = found.is_found and not self._is_unheard_of(asked.question, collections)
        return replace(found, is_found=is_found)

    def _is_unheard_of(self, question: str, collections: Sequence[int]) -> bool:
        """Whether it asks of something by a number or code that is not there, such as room 20."""
        if not any(map(str.isnumeric, question)):
            return False
        asking = query_terms(_ends(" ".join(asking_in(question)) or question)).terms
        numbers = [word for word in asking if any(map(str.isdigit, word[0]))]
        return not all(self._search.has(word, collections) for word in numbers)

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
        if not found.is_near and len(terms.terms) >= _SHORT and _has_of(own, in_context) < _OWN:
            return found
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


def _has_of(words: "Weights", found: RankedPassages) -> float:
    """The share of some words' weight that the first passage has."""
    terms = (f"{one.hit.title} {one.hit.body}".split() for one in found.passages[:1])
    return max((words.coverage(words.places(one)) for one in terms), default=0.0)


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


class Weights:
    """The words of a question, and how much each of them says about its subject.

    Args:
        weights: of each word.
        words: those that stand side by side in the question, in their order.
    """

    def __init__(self, weights: Mapping[Word, float], words: Sequence[Word]) -> None:
        whole = math.fsum(weights.values()) or 1.0
        self._shares = [weight / whole for weight in weights.values()]
        self._words = {form: n for n, word in enumerate(weights) for form in word}
        beside = [self._words[word[0]] for word in words if word[0] in self._words]
        self._pairs = frozenset(pairwise(beside))

    def places(self, terms: Sequence[str]) -> Places:
        """Where the terms have words of the question."""
        words = self._words
        if words.keys().isdisjoint(terms):  # as for most of a passage, at a tenth of the time
            return []
        return [(place, words[term]) for place, term in enumerate(terms) if term in words]

    def coverage(self, places: Places) -> float:
        """The share of the words' weight that is there, 0 to 1."""
        return sum(self._shares[word] for word in {word for _, word in places})

    def bm25(self, places: Places, length: int, average: float) -> float:
        """BM25 with the weights as idf, as a share of their sum.

        Args:
            places: where the words are.
            length: how many terms there are.
            average: how many terms its like have on average.

        Returns:
            1 when a text of average length has every word once; up to 2.2 when it has them often.
        """
        norm = _K1 * (1 - _B + _B * length / (average or 1.0))
        counts: dict[int, int] = {}
        for _, word in places:
            counts[word] = counts.get(word, 0) + 1
        return sum(
            self._shares[word] * count * (_K1 + 1) / (count + norm)
            for word, count in counts.items()
        )

    def pairs(self, places: Places) -> float:
        """The share of the words' neighbours that are neighbours, or next but one, here too."""
        if not self._pairs:
            return 0.0
        near = {
            pair
            for n, (place, word) in enumerate(places)
            for other, following in places[n + 1 : n + 3]
            if other - place <= _BESIDE and (pair := (word, following)) in self._pairs
        }
        return len(near) / len(self._pairs)


@dataclass(frozen=True, slots=True)
class Query:
    """What passages are ranked for.

    Attributes:
        words: the question's, and how much each says about its subject.
        vector: the question's.
    """

    words: Weights
    vector: bytes


@dataclass(frozen=True)
class Ranked:
    """A passage with its rank.

    Attributes:
        hit: the passage.
        numbers: what it is ranked by.
        score: these, weighted.
        fits: how well each of its statements fits, in their order.
    """

    hit: Hit
    numbers: Numbers
    score: float
    fits: Sequence[float]

    @functools.cached_property
    def best(self) -> int:
        """The position of the best of its statements."""
        return self.fits.index(max(self.fits))

    @functools.cached_property
    def statements(self) -> Sequence[Statement]:
        """What the passage says."""
        return statements(self.hit.blocks)

    @property
    def quote(self) -> str:
        """What fits best in its text, word for word; after a question what answers that."""
        best = self.statements[self.best]
        asked = best.is_lead and not best.leads
        answers = (one for one in self.statements[self.best :] if asked and one.lead == best.text)
        return next(answers, best).quote


def ranked(query: Query, hits: Sequence[Hit]) -> list[Ranked]:
    """Rank passages for a question, best first."""
    average = sum(hit.title.count(" ") + hit.body.count(" ") + 1 for hit in hits) / (len(hits) or 1)
    found = [_ranked(query, hit, average) for hit in hits]
    return sorted(found, key=lambda one: -one.score)


def pointed(words: Weights, passage: Ranked) -> Ranked:
    """The passage with its statements for some words: one that has them all fits twice as well.

    No more, since the "cost" of "And what does it cost?" stands in many a statement.
    """
    _, said = parted(passage.hit.body)
    have = [1 + words.coverage(words.places(own)) for _, own in said]
    return replace(passage, fits=[*map(mul, have, passage.fits)])


def _ranked(query: Query, hit: Hit, average: float) -> Ranked:
    asked, name = query.words, hit.title.split()
    headings, said = parted(hit.body)
    terms = [*name * _IN_NAME, *headings * _IN_HEADING]
    found, length = asked.places(terms), len(terms)
    words = []
    before, above = None, []
    for under, own in said:
        if under is not before:
            above, before = asked.places([*name, *under]), under
        there = asked.places(own)
        words.append(_in_statement(asked, above, len(name) + len(under), there, len(own)))
        found += there
        length += len(own)
    meanings = similarities(query.vector, hit.vectors)
    numbers = Numbers(asked.bm25(found, length, average), max(words), max(meanings))
    # Each as much as the other: fitted on which statement of the best passage has the answer.
    fits = [sum(both) for both in zip(words, meanings, strict=True)]
    return Ranked(hit, numbers, sum(map(mul, WEIGHTS, numbers)), fits)


def _in_statement(asked: Weights, above: Places, before: int, there: Places, length: int) -> float:
    """How much a statement says: what words are above it, `before` terms long, and in it."""
    whole = [*above, *((before + place, word) for place, word in there)]
    if not whole:
        return 0.0
    return (
        _COVERAGE * asked.coverage(whole)
        + (1 - _COVERAGE) * asked.bm25(there, length, _USUAL)
        + _PAIRS * asked.pairs(whole)
    )
