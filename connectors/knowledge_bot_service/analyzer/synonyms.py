"""What is known of common English words: how common they are, and what else often means the same.

From WordNet 3.0, whose licence is in english.txt; `scripts/synonyms` made that file.
"""

import functools
from collections.abc import Iterable
from importlib.resources import files
from typing import Final


def synonyms(stems: Iterable[str]) -> tuple[str, ...]:
    """The stems of words that often mean the same as the word with one of `stems`."""
    known = _table()
    return tuple(other for stem in stems if stem in known for other in known[stem][1])


def commonness(stems: Iterable[str]) -> float:
    """The share of English passages that have a word with one of `stems`, 0 to 0.5."""
    known = _table()
    times = max((known[stem][0] for stem in stems if stem in known), default=0)
    return min(0.5, times / _PASSAGES)


# How many passages of a thousand characters the texts have that WordNet counted senses in. Fewer
# and more than this were measured too: it changes little.
_PASSAGES: Final = 8000


@functools.cache
def _table() -> dict[str, tuple[int, tuple[str, ...]]]:
    text = files(__package__).joinpath("english.txt").read_text(encoding="utf-8")
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return {stem: (int(times), tuple(others)) for stem, times, *others in lines}
