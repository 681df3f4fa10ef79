"""How well terms fit the words of a question: what passages and their statements are ranked by."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

Word = tuple[str, ...]
"""A word of a question: its stems, one for each language that it may be in."""

Places = list[tuple[int, int]]
"""Where words of a question are in a text: the position of each, and which word it is."""

_K1: Final = 1.2
_B: Final = 0.75


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

    def places(self, terms: Iterable[str]) -> Places:
        """Where the terms have words of the question."""
        words = self._words
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
        counts = Counter(word for _, word in places)
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


_BESIDE: Final = 2
