"""The parts of a document, as its reader found them, and the text that is made of them."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final, Literal

from knowledge_bot_service.readers.analyzer.sentences import sentences

BlockKind = Literal["heading", "paragraph", "record", "item", "row", "code"]

COLONS: Final = (":", "：")  # noqa: RUF001

MORE: Final = "…"
"""What stands for the items, rows or lines that come before a part of a block, or after it."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a document.

    Attributes:
        kind: what it is; a list is its items, a table its rows. A record is a row as a sentence.
        text: its words without marks, or the lines of code; nothing for a row.
        level: how deep a heading is, 1 to 6; how many lists anything else is in.
        names: what the columns of a row are called; the mark of an item; the language of code.
        cells: those of a row.
    """

    kind: BlockKind
    text: str = ""
    level: int = 0
    names: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()

    @property
    def is_listed(self) -> bool:
        """Whether it is in a list: an item, or a paragraph or code under one."""
        return self.level > 0 and self.kind != "heading"

    @property
    def is_prose(self) -> bool:
        """Whether it is a paragraph, or a row that stands as one."""
        return self.kind in {"paragraph", "record"} and not self.level

    @property
    def is_title(self) -> bool:
        """Whether it is a short line that no sentence ends."""
        return (
            "\n" not in self.text
            and len(self.text) <= _MAX_TITLE
            and not self.text.endswith(_SENTENCE_ENDS)
        )

    def leads_to(self, following: "Block") -> bool:
        """Whether it says what the next block is, so that neither is of use alone.

        A heading does; a paragraph that ends with a colon; one before code, which hardly ever
        stands without words about it; and a title before a list or a table.
        """
        if not self.is_prose or following.kind == "heading":
            return self.kind == "heading"
        return (
            self.text.endswith(COLONS)
            or following.kind == "code"
            or (not following.is_prose and self.is_title)
        )


def grouped(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    """The blocks, those of one list or one table together, and any other by itself."""
    group: list[Block] = []
    for block in blocks:
        if group and not _goes_on(group[-1], block):
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def pieces(group: Sequence[Block]) -> list[list[Block]]:
    """What stays whole where a group is cut: items, rows, commands, sentences.

    An item has what is under it, other items only where a colon introduces them. A line of code has
    the lines that it goes on in after a backslash.
    """
    if len(group) == 1 and group[0].kind in _SEPARATORS:
        (block,) = group
        texts = _commands(block.text) if block.kind == "code" else sentences(block.text)
        return [[Block(block.kind, text, block.level, block.names)] for text in texts]
    found: list[list[Block]] = []
    for block in group:
        first = found[-1][0] if found else block
        is_under = block.level > first.level and first.text.endswith(COLONS)
        if found and (is_under or block.kind not in {"item", "row"}):
            found[-1].append(block)
        else:
            found.append([block])
    return found


def rejoined(group: Sequence[Block], kept: Iterable[Sequence[Block]]) -> list[Block]:
    """The pieces of a group that are kept, as a group like it."""
    blocks = [block for piece in kept for block in piece]
    if len(group) == 1 and group[0].kind in _SEPARATORS:
        separator = _SEPARATORS[group[0].kind]
        return [replace(group[0], text=separator.join(block.text for block in blocks))]
    return blocks


def more(group: Sequence[Block]) -> list[Block]:
    """What stands for the pieces of a group that are not there; nothing for those of prose."""
    match group[0].kind:
        case "row":
            return [replace(group[0], cells=(MORE, MORE))]
        case "code":
            return [replace(group[0], text=MORE)]
        case _ if group[0].is_listed:
            return [Block("item", MORE, 1, ("-",))]
        case _:
            return []


def shortened(group: Sequence[Block], limit: int) -> list[Block]:
    """As many of the pieces of a list, a table or code as fit in `limit` characters, then "…".

    Where not even the first one fits, there is nothing but "…": half a command is none.
    """
    if len(text_of(group)) <= limit:
        return [*group]
    kept: list[Sequence[Block]] = [more(group)]
    for piece in pieces(group):
        longer = [*kept[:-1], piece, kept[-1]]
        if len(text_of(rejoined(group, longer))) > limit:
            break
        kept = longer
    return rejoined(group, kept)


def told(names: Sequence[str], cells: Sequence[str]) -> Block:
    """A row as a sentence, of its cells and what they are called.

    That a cell is empty is an answer too, and without it the row would not be found. Where one name
    has several sentences after it, these are sentences like any other.
    """
    text = "; ".join(
        f"{name}: {cell or _NOTHING}" if name else cell
        for name, cell in zip_longest(names, cells, fillvalue="")
        if name or cell
    )
    is_one = len(names) > 2 or (len(names) == 2 and len(sentences(text)) == 1)
    return Block("record" if is_one else "paragraph", text)


def row_text(row: Block) -> str:
    """A row as a sentence; where its columns have no names, its first cell names the others."""
    if row.names:
        return told(row.names, row.cells).text
    return ": ".join(filter(None, [row.cells[0], "; ".join(filter(None, row.cells[1:]))]))


def text_of(blocks: Iterable[Block]) -> str:
    """The blocks as a text that people read: light Markdown."""
    text: list[str] = []
    # How far what is in lists is indented, by how many lists it is in.
    indents = [""]
    before: Block | None = None
    for block in blocks:
        shown, outside = _shown(block), block.level if block.is_listed else 0
        if block.kind == "item":
            outside -= 1
        del indents[outside + 1 :]
        while len(indents) <= outside:
            indents.append(f"{indents[-1]}  ")
        indent = indents[-1]
        if block.kind == "item":
            indents.append(f"{indent} {' ' * len(block.names[0])}")
            shown = f"{indent}{shown}".replace("\n", f"\n{indents[-1]}")
        elif indent:
            shown = _LINE.sub(rf"{indent}\g<0>", shown)
        if before is not None and _goes_on(before, block):
            text.append("\n" if before.kind == block.kind in {"item", "row"} else "\n\n")
        else:
            text.append("\n\n" if before else "")
            if block.kind == "row" and block.names:
                text += [_joined(block.names), "\n", " | ".join(["---"] * len(block.names)), "\n"]
        text.append(shown)
        before = block
    return "".join(text)


def dumped(blocks: Iterable[Block]) -> str:
    """The blocks as JSON, for the database; rows of one table have its names once."""
    values: list[list[Any]] = []
    before: Sequence[str] = ()
    for block in blocks:
        names = None if block.names and block.names == before else block.names
        fields = [block.kind, block.text, block.level, names, block.cells]
        # What is at the end and is nothing.
        while fields[-1] in _NONE:
            fields.pop()
        values.append(fields)
        before = block.names
    return json.dumps(values, ensure_ascii=False)


def loaded(stored: str) -> tuple[Block, ...]:
    """The blocks that `dumped` wrote."""
    found: list[Block] = []
    values: list[list[Any]] = json.loads(stored)
    for fields in values:
        kind, text, level, names, cells = (*fields, *_NONE[len(fields) - 1 :])
        known = found[-1].names if names is None else tuple(names)
        found.append(Block(kind, text, level, known, tuple(cells)))
    return tuple(found)


# What is told of an empty cell.
_NOTHING: Final = "–"  # noqa: RUF001

_LINE: Final = re.compile(r"[^\n]+")
_FENCES: Final = re.compile("`{3,}")
_MAX_TITLE: Final = 100
_SENTENCE_ENDS: Final = (".", "!", "?", ":", ";", ",", "。", "！", "？", "：", "；", "”", '"')  # noqa: RUF001

# What is between the pieces of blocks that are one text.
_SEPARATORS: Final[dict[BlockKind, str]] = {
    "code": "\n",
    "heading": " ",
    "paragraph": " ",
    "record": " ",
}

# The fields after the kind, where there is nothing in them.
_NONE: Final[tuple[Any, ...]] = ("", 0, (), ())


def _goes_on(before: Block, block: Block) -> bool:
    """Whether a block is of the same list, or the same table, as that before it."""
    if block.kind == "row":
        return before.kind == "row" and before.names == block.names
    return before.is_listed and block.is_listed


def _commands(code: str) -> list[str]:
    commands: list[str] = []
    goes_on = False
    for line in code.split("\n"):
        if goes_on:
            commands[-1] += f"\n{line}"
        else:
            commands.append(line)
        goes_on = line.endswith("\\")
    return commands


def _shown(block: Block) -> str:
    match block.kind:
        case "heading":
            return f"{'#' * block.level} {block.text}"
        case "item":
            return f"{block.names[0]} {block.text}"
        case "code":
            fence = "`" * max([3, *(len(run) + 1 for run in _FENCES.findall(block.text))])
            return f"{fence}{''.join(block.names)}\n{block.text}\n{fence}"
        case "row":
            return _joined(block.cells)
        case _:
            return block.text


def _joined(cells: Sequence[str]) -> str:
    """Cells with bars between them, and around them where one at an end is empty.

    A bar between spaces inside of a cell loses these, so that a reader sees the columns.
    """
    row = " | ".join(cell.replace(" | ", "|") for cell in cells)
    return row if cells[0] and cells[-1] else f"| {row} |"
