"""Tells a change of a page from what changes by itself: a clock, a counter, the quote of the day.

A page is a list of blocks, its paragraphs, each kept as a hash. What stands between two blocks that
stay is a place. A place is noise if it differs between two readings of the same minute, or changed
on three runs running; if only its numbers changed, on two, and at once where its words speak of the
page itself ("last edited 5 minutes ago"). Noise no longer counts, unless there is more of it than
before, or it has stayed the same for a week of runs.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

_SIZE = 8
# Runs running on which a place changes until it is noise, and stays the same until it is none.
_RUNS = 3
_STEADY = 7
# Pages of more blocks, such as lists without end, are compared as a whole.
_MOST_BLOCKS = 2000

_DIGITS = re.compile(r"\d+")
# Words of short blocks that tell of the page itself, and not of what it is about.
_OF_THE_PAGE = re.compile(
    r"\b(?:generated|rendered|retrieved|updated|edited|modified|ago|today is|views|visits|visitors"
    r"|have read this|aktualisiert|geändert|bearbeitet|erstellt am|heute ist|aufrufe"
    r"|mis à jour|modifié|il y a|vues|actualizado|modificado|hace|visitas)\b",
    re.IGNORECASE,
)
_SHORT_BLOCK = 120
_MARK = "-"

Places = dict[str, tuple[int, int, int]]
"""For a place, known by the block before it: most blocks, runs with a change, and runs without."""


def digest_of(texts: Iterable[str]) -> str | None:
    """Return a hash of texts; None if there is no text.

    White space is left out, so that a new layout is no change.
    """
    text = "".join("".join(texts).split()).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:32] if text else None


def hashed(blocks: Iterable[str]) -> tuple[str, ...]:
    """Return a hash of each block; nothing for too many blocks."""
    found = tuple(_hashed(block) for block in blocks if not block.isspace() and block)
    return found if len(found) <= _MOST_BLOCKS else ()


def alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether nearly all blocks of a page stand on another one."""
    there = set(other)
    return bool(one) and sum(block in there for block in one) >= 0.9 * len(one)


def differences(
    before: Sequence[str], now: Sequence[str], among: Iterable[Sequence[str]] = ()
) -> "dict[str, _Gap] | None":
    """Return the places where two readings of a page differ.

    Between them are the blocks that these two and all further readings (`among`) have.

    Returns:
        The places; None if the readings do not have the same blocks around them.
    """
    if not before or not now:  # one of them is compared as a whole
        return None
    steady = set(before).intersection(now, *among)
    gaps, gaps_now = dict(_gaps(before, steady)), dict(_gaps(now, steady))
    if list(gaps) != list(gaps_now):  # something was moved
        return None
    return {
        place: _Gap((blocks, gaps_now[place]))
        for place, blocks in gaps.items()
        if blocks != gaps_now[place]
    }


class _Gap(tuple[tuple[str, ...], tuple[str, ...]]):
    """What stands in a place, in two readings."""

    __slots__ = ()

    @property
    def size(self) -> int:
        return max(map(len, self))

    @property
    def enough(self) -> int:
        """How many runs with such a change make the place noise."""
        one, other = ([block[:-_SIZE] for block in blocks] for blocks in self)
        if one != other:
            return _RUNS
        return 1 if all(words.startswith(_MARK) for words in one) else 2


def counted(places: Mapping[str, tuple[int, int, int]], changed: Mapping[str, _Gap]) -> Places:
    """Return how often each place changed, after one more run."""
    found = dict[str, tuple[int, int, int]]()
    for place, (size, runs, steady) in places.items():
        if place not in changed and runs >= _RUNS and steady + 1 < _STEADY:
            found[place] = size, runs, steady + 1
    for place, gap in changed.items():
        size, runs, _ = places.get(place, (0, 0, 0))
        if gap.size > size:  # there is more than noise, or than is known as such
            size, runs = gap.size, 0
        runs += 1
        found[place] = size, _RUNS if runs >= gap.enough else runs, 0
    return found


def as_noise(gaps: Mapping[str, _Gap]) -> Places:
    """Return places that are noise from now on."""
    return {place: (gap.size, _RUNS, 0) for place, gap in gaps.items()}


def is_noise(places: Mapping[str, tuple[int, int, int]], gaps: Mapping[str, _Gap]) -> bool:
    """Return whether all these differences are noise."""
    return all(
        runs >= _RUNS and gap.size <= size
        for place, gap in gaps.items()
        for size, runs, _ in [places.get(place, (0, 0, 0))]
    )


def _gaps(blocks: Sequence[str], steady: set[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each place, and what stands there: between two steady blocks, or at an end."""
    seen, at = Counter[str](), [-1, *(n for n, each in enumerate(blocks) if each in steady)]
    for start, end in pairwise([*at, len(blocks)]):
        before = blocks[start] if start >= 0 else ""
        seen[before] += 1
        yield f"{before}{seen[before]}", tuple(blocks[start + 1 : end])


def _hashed(block: str) -> str:
    """Return a hash of a block's words without their numbers, and one of all of it."""
    text = "".join(block.split())
    mark = _MARK if len(block) <= _SHORT_BLOCK and _OF_THE_PAGE.search(block) else ""
    return mark + _short(_DIGITS.sub("0", text)) + _short(text)


def _short(text: str) -> str:
    content = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=_SIZE // 2).hexdigest()
