"""What a reader returns and raises, and the rows of tables whose cells span columns or rows."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final

from knowledge_bot_service.readers.analyzer.blocks import Block


class ExtractionError(Exception):
    """No text could be taken from a document. `str()` is the reason, in one sentence."""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A document's blocks, which may be read as they are taken, and its title if it has one.

    `warnings` say, in sentences, what of it could not be read; they are all once its blocks are
    taken.
    """

    blocks: Iterable[Block]
    title: str | None = None
    warnings: Sequence[str] = ()


def titled(blocks: Sequence[Block], title: str | None) -> ParsedDocument:
    """A document with its own title, or the first that stands above its texts."""
    headings = (one.text for one in blocks if one.kind == "heading" and one.level <= _TITLES)
    return ParsedDocument(blocks, title or next(headings, None))


# So deep are the headings that may be a document's title.
_TITLES: Final = 2

Read = Callable[[bytes, str, str], ParsedDocument]
"""Reads what is in a document: its content, its name, and its content type."""


def linked(text: str, address: str | None) -> str:
    """The words of a link, and between marks the address that it leads to, for `addressed`."""
    shown = _MARKS.sub("", (address or "").strip())
    if not shown.lower().startswith(_OUTSIDE) or len(shown) > _MAX_ADDRESS or not text.strip():
        return text
    shown = shown.partition("?")[0][len("mailto:") :] if shown[:7].lower() == "mailto:" else shown
    bare = shown.partition("://")[2].removesuffix("/") or shown
    end = text[len(text.rstrip()) :]
    return text if bare in text else f"{text.rstrip()}{_OPEN}{shown}{_CLOSE}{end}"


def addressed(block: Block) -> Block:
    """A block with the addresses of its links in brackets, unless there are many of them.

    A text full of links is about what they are called, and a heading stands for what is below it.
    """
    if _OPEN not in block.text and not any(_OPEN in cell for cell in block.cells):
        return block
    links = sum(part.count(_OPEN) for part in (block.text, *block.cells))
    is_told = block.kind != "heading" and links <= _MAX_LINKS
    told = r" (\1)" if is_told else ""
    return replace(
        block,
        text=_ADDRESS.sub(told, block.text),
        cells=tuple(_ADDRESS.sub(told, cell) for cell in block.cells),
    )


_OUTSIDE: Final = ("http://", "https://", "mailto:")
# A longer address is one for machines, in characters.
_MAX_ADDRESS: Final = 300
_MAX_LINKS: Final = 3
# No text has these characters, which `tidy` takes away.
_OPEN: Final = "\x0e"
_CLOSE: Final = "\x0f"
_MARKS: Final = re.compile(f"[{_OPEN}{_CLOSE}]")
_ADDRESS: Final = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")


Cell = tuple[str, int, int]
"""The words of a cell, and how many columns and rows it is in."""


class Columns:
    """Puts the cells of a table's rows into its columns, those that span several into each."""

    def __init__(self) -> None:
        # For a column, what spans the next rows, and how many they are.
        self._spanning: dict[int, tuple[str, int]] = {}

    @property
    def goes_on(self) -> bool:
        """Whether the next row has a cell of a row before it."""
        return bool(self._spanning)

    def row(self, cells: Iterable[Cell], columns: int) -> tuple[str, ...]:
        """The words of a row, in so many columns at least."""
        following = iter(cells)
        texts: list[str] = []
        while len(texts) < columns:
            text, left = self._spanning.pop(len(texts), ("", 0))
            if left:
                texts.append(text)
                if left > 1:
                    self._spanning[len(texts) - 1] = text, left - 1
                continue
            text, across, down = next(following, ("", 1, 1))
            for _ in range(min(across, columns - len(texts))):
                if down > 1:
                    self._spanning[len(texts)] = text, down - 1
                texts.append(text)
        return (*texts, *(text for text, _, _ in following if text))


def joined_names(above: Sequence[str], below: Sequence[str]) -> tuple[str, ...]:
    """The names of columns in two rows: "Price" over "small" is "Price small"."""
    pairs = zip_longest(above, below, fillvalue="")
    return tuple(" ".join(dict.fromkeys(filter(None, pair))) for pair in pairs)
