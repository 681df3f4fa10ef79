"""Cutting a text into passages: what is found, scored and quoted as one."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from knowledge_bot_service.analyzer import Block, blocks, sentences
from knowledge_bot_service.analyzer.blocks import MORE, rows

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


def passages(text: str) -> Iterator[str]:
    """Cut a text into passages of at most `LIMIT` characters, more only where there is code.

    They are in the text's order. Whole paragraphs stay together as far as they fit; a longer one is
    cut between sentences, a longer sentence between words, and a longer word anywhere. A heading,
    and a sentence that introduces a list, a table or code, stay with what follows them. These are
    cut between items, rows and lines, with "…" where they go on; each part of a table has its first
    row. Code is cut where it has more than `MAX_CODE` characters: each part has its fences. Before
    a passage that begins inside of a section stand the section's headings; nothing else is
    repeated.
    """
    path: list[Block] = []
    together = ""
    for unit in _units(blocks(text)):
        begins_section = unit[0].kind == "heading"
        if begins_section:
            path = _above(path, unit[0])
        for piece in _fitting(unit, LIMIT - _MAX_PATH if path else LIMIT):
            is_full = len(together) + len(_PARAGRAPH) + len(piece) > LIMIT
            if together and (is_full or (begins_section and len(together) >= _ENOUGH)):
                yield together
                together = ""
            together = _PARAGRAPH.join(
                [together, piece] if together else [*_headings_shown(path), piece]
            )
            if begins_section:
                begins_section = False
                for block in unit:
                    if block.kind == "heading":
                        path = [*_above(path, block), block]
    if together:
        yield together


_PARAGRAPH: Final = "\n\n"
_MAX_FENCE: Final = 40


def _units(found: Iterable[Block]) -> Iterator[list[Block]]:
    """Blocks that stay together: a heading or an introduction, and the block after it."""
    unit: list[Block] = []
    for block, following in _with_next(found):
        leads = block.leads_to(following) if following is not None else False
        if leads and len(block.text) > _MAX_LEAD:
            # Its last sentence is what leads to the next block.
            *before, last = sentences(block.text)
            if before:
                yield [*unit, Block("paragraph", " ".join(before))]
                unit = []
            unit.append(Block("paragraph", last))
        else:
            unit.append(block)
        if not leads or sum(len(one.text) for one in unit) > _MAX_LEAD:
            yield unit
            unit = []


def _with_next(found: Iterable[Block]) -> Iterator[tuple[Block, Block | None]]:
    before: Block | None = None
    for block in found:
        if before is not None:
            yield before, block
        before = block
    if before is not None:
        yield before, None


def _above(path: Sequence[Block], heading: Block) -> list[Block]:
    return [one for one in path if one.level < heading.level]


def _headings_shown(path: Sequence[Block]) -> list[str]:
    """As many of the headings, from the innermost on, as there is room for."""
    shown: list[str] = []
    length = 0
    for heading in reversed(path):
        length += len(heading.text) + len(_PARAGRAPH)
        if length > _MAX_PATH:
            break
        shown.insert(0, heading.text)
    return shown


def _fitting(unit: Sequence[Block], limit: int) -> Iterator[str]:
    """The text of a unit, in pieces of at most `limit` characters."""
    *leads, body = unit
    text = _PARAGRAPH.join(block.text for block in unit)
    if len(text) <= (MAX_CODE if body.kind == "code" else limit):
        yield text
        return
    if body.kind == "table" and _is_wide(body, limit):
        for number, row in enumerate(rows(body)):
            told = Block("paragraph", row)
            yield from _fitting([told] if number else [*leads, told], limit)
        return
    lead = "".join(f"{block.text}{_PARAGRAPH}" for block in leads)
    head, tail, separator = "", "", "\n"
    goes_on = f"{MORE[body.kind]}\n" if body.kind in MORE else ""
    pieces: Iterable[str] = body.pieces
    match body.kind:
        case "code":
            head, tail = f"{body.text.partition(separator)[0][:_MAX_FENCE]}\n", "\n```"
        case "table" if body.has_names:
            names, *pieces = body.pieces
            head = f"{names}\n{body.text.split(separator, 2)[1]}\n"
        case "paragraph" | "heading":
            separator = " "
            pieces = sentences(body.text)
    room = limit - len(lead) - len(head) - len(tail) - 2 * len(goes_on)
    together = ""
    for piece in pieces:
        for part in [piece] if len(piece) <= room else _cut(piece, room):
            if (
                together
                and len(f"{lead}{head}{together}{separator}{part}\n{goes_on}{tail}") > limit
            ):
                yield f"{lead}{head}{together}{separator if goes_on else ''}{goes_on.strip()}{tail}"
                lead, together = "", f"{goes_on}{part}"
            else:
                together = f"{together}{separator}{part}" if together else part
    yield f"{lead}{head}{together}{tail}"


def _is_wide(table: Block, limit: int) -> bool:
    """Whether a passage would have a part of a row, or hardly more than the columns' names.

    The rows of such a table are told one by one, each cell with its column's name: a part of a row
    says nothing of its columns.
    """
    first, *others = map(len, table.pieces)
    return table.has_names and (first > limit // 4 or any(row > limit // 2 for row in others))


def _cut(text: str, limit: int) -> Iterator[str]:
    # By index: a "sentence" may be 50 MB without a space, and cutting it off piece by piece would
    # copy the rest each time.
    start = 0
    while len(text) - start > limit:
        space = text.rfind(" ", start + limit // 2, start + limit)
        end = space if space > 0 else start + limit
        yield text[start:end]
        start = end + 1 if end == space else end
    yield text[start:]
