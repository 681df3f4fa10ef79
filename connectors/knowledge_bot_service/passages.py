"""Cutting a text into passages: what is found, scored and quoted as one."""

import re
from collections.abc import Iterator
from typing import Final

from knowledge_bot_service.analyzer import sentences

# Paragraphs are joined up to this many characters, and cut above it. Measured: up to 1,000 costs no
# answers against paragraphs as they are, 2,500 does; overlaps cost some as well.
LIMIT: Final = 1000

_PARAGRAPH_END: Final = re.compile(r"\n[ \t\r]*\n\s*")


def passages(text: str) -> Iterator[str]:
    """Cut a text into passages of at most `LIMIT` characters, in order, without overlap.

    Whole paragraphs (separated by blank lines) stay together as far as they fit; a longer one is
    cut between sentences, a longer sentence between words, and a longer word anywhere.
    """
    yield from _joined(_paragraphs(text), separator="\n\n")


def _paragraphs(text: str) -> Iterator[str]:
    start = 0
    for end in _PARAGRAPH_END.finditer(text):
        yield from _fitting(text[start : end.start()].strip())
        start = end.end()
    yield from _fitting(text[start:].strip())


def _fitting(paragraph: str) -> Iterator[str]:
    if len(paragraph) <= LIMIT:
        if paragraph:
            yield paragraph
        return
    pieces = (piece for sentence in sentences(paragraph) for piece in _cut(sentence))
    yield from _joined(pieces, separator=" ")


def _cut(sentence: str) -> Iterator[str]:
    # By index: a "sentence" may be 50 MB without a space, and cutting it off piece by piece would
    # copy the rest each time.
    start = 0
    while len(sentence) - start > LIMIT:
        space = sentence.rfind(" ", start + LIMIT // 2, start + LIMIT)
        end = space if space > 0 else start + LIMIT
        yield sentence[start:end]
        start = end + 1 if end == space else end
    yield sentence[start:]


def _joined(pieces: Iterator[str], *, separator: str) -> Iterator[str]:
    together = ""
    for piece in pieces:
        if together and len(together) + len(separator) + len(piece) > LIMIT:
            yield together
            together = piece
        else:
            together = together + separator + piece if together else piece
    if together:
        yield together
