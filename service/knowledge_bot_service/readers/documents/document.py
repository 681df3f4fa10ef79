"""What a reader returns and raises, and the rows of tables whose cells span columns or rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from knowledge_bot_service.readers.analyzer.blocks import Block


class ExtractionError(Exception):
    """No text could be taken from a document. `str()` is the reason, in one sentence."""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A document's blocks, which may be read as they are taken, and its title if it has one.

    `warnings` say, in sentences, what of it could not be read.
    """

    blocks: Iterable[Block]
    title: str | None = None
    warnings: tuple[str, ...] = ()


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
