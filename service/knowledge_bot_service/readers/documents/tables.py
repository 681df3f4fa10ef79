"""Tables as people write them: which row names the columns, and each row as it is told."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from knowledge_bot_service.readers.analyzer.blocks import Block, told
from knowledge_bot_service.readers.documents.document import ParsedDocument
from knowledge_bot_service.readers.documents.markdown import read_text

Row = Sequence[str]


def read_csv(source: str) -> ParsedDocument:
    """The text of a table: each row a paragraph, each cell after the heading of its column.

    What the csv module cannot read is left as it is.
    """
    declared = _SEPARATOR.match(source)
    source = source[declared.end() :] if declared else source
    delimiter = declared[1] if declared else _delimiter(source[:_SAMPLE])
    try:
        rows = [
            [" ".join(cell.split()) for cell in row]
            for row in csv.reader(
                io.StringIO(source, newline=""), delimiter=delimiter, skipinitialspace=True
            )
        ]
    except csv.Error:
        return ParsedDocument(read_text(source))
    return ParsedDocument(table_blocks([row for row in rows if any(row)]))


def table_blocks(rows: Sequence[Row], *, is_named: bool | None = None) -> Iterator[Block]:
    """The rows of a table, each told with the names of its columns, if it has any.

    Rows of one cell above the others are titles or comments. `is_named` says whether the first row
    names the columns, where that is known. Below empty rows a table goes on, unless the row there
    names other columns.
    """
    names: Row = ()
    for _, group in groupby(rows, any):
        part = _trimmed([row for row in group if any(row)])
        while part and max(map(len, part)) > 1 and _is_title(part[0]):
            yield Block("paragraph", " ".join(filter(None, part.pop(0))).lstrip("# "))
        if part and (has_names(part, is_sure=bool(names)) if is_named is None else is_named):
            names, part, is_named = part[0], part[1:] or part, None
        elif part and len(names) < max(map(len, part)):
            names = ()
        yield from (told(names[: len(row)], row) for row in part)


def has_names(rows: Sequence[Row], *, is_sure: bool = False) -> bool:
    """Whether the first row names the columns: it has texts, or years, and no other numbers.

    It is sure where a text stands over numbers. Empty and repeated names need that, but for an
    empty one at the beginning, which is above the names of rows.
    """
    if len(rows) < 2:
        return False
    first, below = rows[0], rows[1 : _LOOKED_AT + 1]
    numbers = [cell for cell in first if NUMBER.fullmatch(cell)]
    are_years = all(map(_YEAR.fullmatch, numbers)) and len(set(numbers)) == len(numbers)
    is_long = max(map(len, first)) > _MAX_NAME
    if len(first) < 2 or is_long or not are_years or sum(map(bool, first)) * 2 < len(first):
        return False
    over_numbers = sum(
        bool(name) and bool(values) and all(map(NUMBER.fullmatch, values))
        for at, name in enumerate(first)
        for values in [[row[at] for row in below if at < len(row) and row[at]]]
    )
    if numbers and not (
        len(numbers) < len(first) and any(not set(numbers) & set(row) for row in below)
    ):
        return False
    texts = [cell for cell in first[1:] if cell]
    is_plain = len(set(texts)) == len(first) - 1 and first[0] not in texts
    return over_numbers > 0 or (is_plain and not is_sure)


def _trimmed(rows: list[Row]) -> list[Row]:
    """Rows without the columns that are empty in all of them at the beginning and the end."""
    used = [at for row in rows for at, cell in enumerate(row) if cell]
    start, end = min(used, default=0), max(used, default=-1) + 1
    return [row[start:end] for row in rows]


def _is_title(row: Row) -> bool:
    is_comment = row[0].startswith("#") and len(row[0]) > 1
    return is_comment or sum(map(bool, row)) == 1


def _delimiter(sample: str) -> str:
    """What parts most rows of a sample into the same number of cells, more than one."""
    if len(sample) == _SAMPLE:
        sample = sample.rpartition("\n")[0] or sample
    best, delimiter = 0.0, ","
    for one in _DELIMITERS:
        try:
            counts = [len(row) for row in csv.reader(io.StringIO(sample), delimiter=one) if row]
        except csv.Error:
            continue
        common = Counter(count for count in counts if count > 1).most_common(1)
        share = common[0][1] / len(counts) if common else 0.0
        if share > best + _CLEAR:
            best, delimiter = share, one
    return delimiter


# How much is read to find the delimiter, in characters, and which there are, the best first: where
# a comma parts as well, it is that of decimals.
_SAMPLE: Final = 8192
_DELIMITERS: Final = "\t;|,"
_CLEAR: Final = 0.05
_SEPARATOR: Final = re.compile(r"\"?sep=(.)\"?\r?\n", re.IGNORECASE)

# What is longer is no name, in characters.
_MAX_NAME: Final = 80
# So many rows say what is in a column.
_LOOKED_AT: Final = 50

NUMBER: Final = re.compile(r"[$€£]?\s?[+(-]?\d[\d.,:/’'\s-]*(?:[eE][+-]?\d+)?\s?[%€$£)]?|[$€£]? ?-")  # noqa: RUF001
"""A number, an amount, a date or a time."""

_YEAR: Final = re.compile(r"(?:1[89]|20|21)\d\d(?:[/-]\d{2,4})?")
