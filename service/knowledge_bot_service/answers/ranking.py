"""How well a passage answers a question: three numbers, and one vector of weights.

The weights were fitted on halves of the question sets in service/tests/benchmarks/questions.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import mul
from typing import Final, NamedTuple

from knowledge_bot_service.index.search import Hit, Word
from knowledge_bot_service.readers.analyzer.vectors import similarities
from knowledge_bot_service.readers.statements import Statement, parted, statements


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
    """The passage with the best of the statements that have most of some words."""
    _, said = parted(passage.hit.body)
    have = [words.coverage(words.places(own)) for _, own in said]
    return replace(passage, fits=[sum(both) for both in zip(have, passage.fits, strict=True)])


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
