"""Tells a change of a page from what is no change of what it says.

A page is a list of blocks, its paragraphs. Left out is what differs between two readings of the
same minute, as adverts do. Whatever else differs from the last run is a change.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

_SIZE = 4
# More places than this that differ between two readings are not remembered: the page is sent.
_MOST_PLACES = 30

Place = tuple[str, str, int]
"""A place: the hashes of the blocks around it (empty at an end), and how many blocks it has."""


def digest_of(texts: Iterable[str]) -> str | None:
    """Return a hash of texts; None if there is no text.

    White space is left out, so that a new layout is no change.
    """
    text = "".join("".join(texts).split()).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:32] if text else None


def places_of(one: Sequence[str], other: Sequence[str]) -> list[Place]:
    """Return the places where two readings of the same minute differ; none where they are many.

    Nor where something was moved: then it is not known what belongs where.
    """
    first, second = tuple(map(_hashed, one)), tuple(map(_hashed, other))
    steady = set(first) & set(second)
    gaps, others = list(_gaps(first, steady)), list(_gaps(second, steady))
    if [gap[:2] for gap in gaps] != [gap[:2] for gap in others]:
        return []
    found = [
        (before, after, max(len(there), len(here)))
        for (before, after, there), (_, _, here) in zip(gaps, others, strict=True)
        if there != here
    ]
    known = len(found) <= _MOST_PLACES and without(one, found) == without(other, found)
    return found if known else []


def without(blocks: Sequence[str], places: Iterable[Sequence[object]]) -> list[str]:
    """Return the blocks that do not stand in one of these places.

    Where a place has more than it had, something else was added, and all of it counts.
    """
    hashes, left_out = ["", *map(_hashed, blocks), ""], set[int]()
    for before, after, size in places:
        for start, each in enumerate(hashes):
            end = start + 1
            while each == before and end < len(hashes) and hashes[end] != after:
                end += 1
            if each == before and end < len(hashes) and end - start - 1 <= int(str(size)):
                left_out.update(range(start + 1, end))
    return [block for number, block in enumerate(blocks, 1) if number not in left_out]


def _gaps(hashes: Sequence[str], steady: set[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield what stands between each two steady blocks, or at an end, and these two."""
    at = [-1, *(place for place, each in enumerate(hashes) if each in steady), len(hashes)]
    for start, end in pairwise(at):
        before = hashes[start] if start >= 0 else ""
        yield before, hashes[end] if end < len(hashes) else "", tuple(hashes[start + 1 : end])


def _hashed(block: str) -> str:
    text = "".join(block.split()).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=_SIZE).hexdigest()
