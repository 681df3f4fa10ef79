"""Vectors of short texts: how near they are in meaning, whatever their words.

The vector of a text is the mean of those of its pieces of words, from a static table. That one is
WordLlama's (https://github.com/dleemiller/WordLlama, MIT), as `scripts/vectors` wrote it down: the
pieces, in the order in which they are put together, and a row of bytes for each.
"""

import functools
import math
import re
import threading
from array import array
from collections.abc import Sequence
from importlib.resources import files
from itertools import pairwise
from operator import mul
from typing import Final

DIMENSIONS: Final = 128
"""The bytes of a vector. Each is a signed number."""

# The bytes of the table are as much above zero as this.
_ZERO: Final = 128

# Rows are added as whole numbers with 32 bits for each dimension, and for how many they are: far
# faster than one by one.
_LANE: Final = 4
_ONE: Final = 1 << (8 * _LANE * DIMENSIONS)

# A number of a vector of length 1 is stored as so many times itself: hardly any is above a half.
_SCALE: Final = 254

_HIGHEST: Final = 127


# The sums of so many words are remembered, 12 MB; and those of so many texts: a heading is that of
# many statements, and documents repeat themselves.
_REMEMBERED: Final = 20_000
_REMEMBERED_TEXTS: Final = 1000

# A long run of letters, such as Chinese, is cut: the time for it grows as the square of its length.
_WORD: Final = re.compile(r"\w{1,24}")
_BEGINS: Final = "\u2581"

_loading = threading.Lock()


def vector(*texts: str) -> bytes:
    """The vector of texts together; all zeros where nothing is known of their words."""
    total = sum(map(_sum, texts))
    *sums, count = array("I", total.to_bytes(_LANE * (DIMENSIONS + 1), "little"))
    zero = _ZERO * count
    # The sum of the squares of what is above zero, without a list of that.
    square = sum(map(mul, sums, sums)) + zero * (DIMENSIONS * zero - 2 * sum(sums))
    if not square:
        return bytes(DIMENSIONS)
    factor = _SCALE / math.sqrt(square)
    scaled = [int((one - zero) * factor) for one in sums]
    try:
        return array("b", scaled).tobytes()
    except OverflowError:
        return array("b", (max(-_HIGHEST, min(one, _HIGHEST)) for one in scaled)).tobytes()


def similarities(one: bytes, others: bytes) -> list[float]:
    """The cosine of a vector to each of some others that stand one after another."""
    numbers = array("b", one)
    return [
        sum(map(mul, numbers, array("b", other))) / (_SCALE * _SCALE) for other in parted(others)
    ]


def parted(vectors: bytes) -> list[bytes]:
    """Vectors that stand one after another, one by one."""
    starts = range(0, len(vectors), DIMENSIONS)
    return [vectors[start : start + DIMENSIONS] for start in starts]


@functools.lru_cache(maxsize=_REMEMBERED_TEXTS)
def _sum(text: str) -> int:
    return sum(map(_of_word, _WORD.findall(text)))


@functools.lru_cache(maxsize=_REMEMBERED)
def _of_word(word: str) -> int:
    """The sum of the rows of a word's pieces, and how many these are, as one number."""
    known, rows = _table()
    total = 0
    for piece in _pieces(f"{_BEGINS}{word}", known):
        if (number := known.get(piece)) is not None:
            wide = bytearray(_LANE * DIMENSIONS)
            wide[::_LANE] = rows[DIMENSIONS * number : DIMENSIONS * (number + 1)]
            total += int.from_bytes(wide, "little") + _ONE
    return total


def _pieces(word: str, known: dict[str, int]) -> Sequence[str]:
    """The pieces of a word: of those side by side, the ones known first are put together."""
    pieces, never = list(word), len(known)
    known_at = [known.get(one + other, never) for one, other in pairwise(pieces)]
    while (first := min(known_at, default=never)) < never:
        place = known_at.index(first)
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
        del known_at[place]
        for near in range(max(place - 1, 0), min(place + 1, len(known_at))):
            known_at[near] = known.get(pieces[near] + pieces[near + 1], never)
    return pieces


def _table() -> tuple[dict[str, int], memoryview]:
    with _loading:
        return _loaded()


@functools.cache
def _loaded() -> tuple[dict[str, int], memoryview]:
    """The pieces with their numbers, and the rows."""
    table = memoryview(files(__package__).joinpath("words.vectors").read_bytes())
    size = int.from_bytes(table[:4], "little")
    pieces = bytes(table[4 : 4 + size]).decode().split("\n")
    return dict(zip(pieces, range(len(pieces)), strict=True)), table[4 + size :]
