"""How well terms fit weighted words: the measures that passages and sentences are judged by."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from typing import Final

Word = tuple[str, ...]
"""A word of a question: its stems, one for each language that it may be in."""

_K1: Final = 1.2
_B: Final = 0.75


def words_in(terms: Iterable[str], words: Iterable[Word]) -> set[Word]:
    """Those of the words that the terms have."""
    present = frozenset(terms)
    return {word for word in words if not present.isdisjoint(word)}


def coverage(terms: Sequence[str], weights: Mapping[Word, float]) -> float:
    """The share of the words' weight that the terms have, 0 to 1."""
    present = frozenset(terms)
    found = (weight for word, weight in weights.items() if not present.isdisjoint(word))
    return math.fsum(found) / (math.fsum(weights.values()) or 1.0)


def bm25(terms: Sequence[str], weights: Mapping[Word, float], average: float) -> float:
    """BM25 with the weights as idf, as a share of their sum.

    Args:
        terms: the terms of a passage or sentence.
        weights: the words' weights.
        average: how many terms its like have on average.

    Returns:
        1 when a text of average length has every word once; up to 2.2 when it has them often.
    """
    counts = Counter(terms)
    norm = _K1 * (1 - _B + _B * len(terms) / (average or 1.0))
    score = math.fsum(
        weight * count * (_K1 + 1) / (count + norm)
        for word, weight in weights.items()
        if (count := sum(counts[term] for term in word))
    )
    return score / (math.fsum(weights.values()) or 1.0)


def pairs(terms: Sequence[str], words: Sequence[Word]) -> float:
    """The share of the words' neighbours that are neighbours, or next but one, in the terms too."""
    present = frozenset(terms)
    asked = [pair for pair in pairwise(words) if not any(map(present.isdisjoint, pair))]
    if not asked:
        return 0.0
    there = set(pairwise(terms)) | set(zip(terms, terms[2:], strict=False))
    found = sum(not there.isdisjoint(product(first, second)) for first, second in asked)
    return found / (len(words) - 1)
