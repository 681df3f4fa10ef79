"""Cutting a document into passages: what is found, scored and quoted as one."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowledge_bot_service.readers.analyzer import Block, index_terms, sentences
from knowledge_bot_service.readers.analyzer.blocks import (
    dumped,
    grouped,
    more,
    pieces,
    rejoined,
    text_of,
    told,
)
from knowledge_bot_service.readers.statements import indexed

# Paragraphs are joined up to this many characters, and cut above it. Measured: up to 1,000 costs no
# answers against paragraphs as they are, 2,500 does; overlaps cost some as well.
LIMIT: Final = 1000

# Code of which only a half is there cannot be used: up to so many characters, with what introduces
# it, it stays whole.
MAX_CODE: Final = 1200

# A section begins a new passage when the one before it has so many characters.
_ENOUGH: Final = 700

# How much of a passage may be headings that it stands under, and how much of it may introduce it.
_MAX_PATH: Final = 240
_MAX_LEAD: Final = LIMIT // 2

# How many characters separate two blocks, and a list's level indents a line by.
_GAP: Final = 2
_INDENT: Final = 3


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A passage as it is stored: its text, its title and body analysed, its blocks as JSON.

    `vectors` are those of its parts, one after another.
    """

    text: str
    title: str
    body: str
    blocks: str
    vectors: bytes


def index_entries(passages: Iterable[Sequence[Block]], title: str) -> Iterator[IndexEntry]:
    """Analyse passages for the index, lazily: a long text is never held analysed as a whole."""
    analysed_title = " ".join(index_terms(title))
    for blocks in passages:
        body, vectors = indexed(blocks)
        yield IndexEntry(text_of(blocks), analysed_title, body, dumped(blocks), vectors)


def passages(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """Cut a document into passages of at most `LIMIT` characters, more only where there is code.

    They are in the document's order. Whole paragraphs stay together as far as they fit; a longer
    one is cut between sentences, a longer sentence between words, and a longer word anywhere. A
    heading, and a sentence that introduces a list, a table or code, stay with what follows them.
    These are cut between items, rows and lines, with "…" where they go on; each part of a table has
    the names of its columns. Code is cut where it has more than `MAX_CODE` characters. Before a
    passage that begins inside of a section stand the section's headings; nothing else is repeated.
    """
    path: list[Block] = []
    together: list[Block] = []
    size = 0
    for unit in _units(grouped(blocks)):
        begins_section = unit[0].kind == "heading"
        if begins_section:
            path = _above(path, unit[0])
        for piece, length in _fitting(unit, LIMIT - _MAX_PATH if path else LIMIT):
            if together and (size + _GAP + length > LIMIT or (begins_section and size >= _ENOUGH)):
                yield together
                together, size = [], 0
            if not together:
                together = _headings_shown(path)
                size = len(text_of(together)) + (_GAP if together else -_GAP)
            together += piece
            size += _GAP + length
            if begins_section:
                begins_section = False
                for block in unit:
                    if block.kind == "heading":
                        path = [*_above(path, block), block]
    if together:
        yield together


def _units(groups: Iterable[list[Block]]) -> Iterator[list[Block]]:
    """Blocks that stay together: a heading or an introduction, and the block after it."""
    unit: list[Block] = []
    for group, following in _with_next(groups):
        block = group[0]
        leads = following is not None and len(group) == 1 and block.leads_to(following[0])
        if leads and len(block.text) > _MAX_LEAD:
            # Its last sentence is what leads to the next block.
            *before, last = sentences(block.text)
            if before:
                yield [*unit, replace(block, text=" ".join(before))]
                unit = []
            unit.append(replace(block, text=last))
        else:
            unit += group
        if not leads or sum(len(one.text) for one in unit) > _MAX_LEAD:
            yield unit
            unit = []


def _with_next(groups: Iterable[list[Block]]) -> Iterator[tuple[list[Block], list[Block] | None]]:
    before: list[Block] | None = None
    for group in groups:
        if before is not None:
            yield before, group
        before = group
    if before is not None:
        yield before, None


def _above(path: Sequence[Block], heading: Block) -> list[Block]:
    return [one for one in path if one.level < heading.level]


def _headings_shown(path: Sequence[Block]) -> list[Block]:
    """As many of the headings, from the innermost on, as there is room for."""
    shown: list[Block] = []
    length = 0
    for heading in reversed(path):
        length += len(text_of([heading])) + _GAP
        if length > _MAX_PATH:
            break
        shown.insert(0, heading)
    return shown


def _fitting(unit: Sequence[Block], limit: int) -> Iterator[tuple[list[Block], int]]:
    """A unit, in parts of at most `limit` characters, each with how many it has."""
    length = len(text_of(unit))
    *_, body = grouped(unit)
    leads = [*unit[: len(unit) - len(body)]]
    if length <= (MAX_CODE if body[0].kind == "code" else limit):
        yield [*unit], length
    elif body[0].kind == "row" and _is_wide(body, limit):
        for row in body:
            yield from _fitting([*leads, told(row.names, row.cells)], limit)
            leads = []
    else:
        yield from ((part, len(text_of(part))) for part in _parts(leads, body, limit))


def _parts(leads: list[Block], body: Sequence[Block], limit: int) -> Iterator[list[Block]]:
    goes_on = more(body)
    before: list[list[Block]] = []
    together: list[list[Block]] = []
    size = around = len(text_of([*leads, *rejoined(body, [goes_on, goes_on])]))
    for piece in pieces(body):
        for part in [piece] if _size(piece) <= limit - around else _cut(piece, limit - around):
            length = _size(part)
            if together and size + length > limit:
                yield [*leads, *rejoined(body, [*before, *together, goes_on])]
                leads, before, together = [], [goes_on], []
                size = around = len(text_of(rejoined(body, [goes_on, goes_on])))
            together.append(part)
            size += length
    yield [*leads, *rejoined(body, [*before, *together])]


def _is_wide(table: Sequence[Block], limit: int) -> bool:
    """Whether a passage would have a part of a row, or hardly more than the columns' names.

    The rows of such a table are told one by one, each cell with its column's name: a part of a row
    says nothing of its columns.
    """
    names = table[0].names
    is_long = any(sum(map(len, row.cells)) > limit // 2 for row in table)
    return bool(names) and (sum(map(len, names)) > limit // 4 or is_long)


def _size(piece: Sequence[Block]) -> int:
    """How many characters a piece adds to those that it is among."""
    indented = sum(block.level * (block.text.count("\n") + 1) for block in piece if block.is_listed)
    return sum(len(_words(block)) + 1 for block in piece) + indented * _INDENT


def _words(block: Block) -> str:
    return " | ".join(block.cells) if block.kind == "row" else block.text


def _cut(piece: Sequence[Block], limit: int) -> Iterator[list[Block]]:
    """The blocks of a piece that is too long; what is too long of them, cut between words."""
    for block in piece:
        text = _words(block)
        if len(text) <= limit:
            yield [block]
            continue
        # By index: a "sentence" may be 50 MB without a space, and cutting it off piece by piece
        # would copy the rest each time.
        start = 0
        while start < len(text):
            space = text.rfind(" ", start + limit // 2, start + limit)
            end = space if space > 0 and start + limit < len(text) else start + limit
            is_item = block.kind == "item" and not start
            kind = block.kind if is_item or block.kind in {"code", "record"} else "paragraph"
            yield [replace(block, kind=kind, text=text[start:end], cells=())]
            start = end + 1 if end == space else end
