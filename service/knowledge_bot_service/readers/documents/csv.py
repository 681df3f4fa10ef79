"""CSV: every row as a paragraph that can be read, and found, by itself."""

import csv
import io
import re
from collections.abc import Iterator
from typing import Final

from knowledge_bot_service.readers.analyzer.blocks import told
from knowledge_bot_service.readers.documents.document import ParsedDocument
from knowledge_bot_service.readers.documents.markdown import read_text


def read_csv(source: str) -> ParsedDocument:
    """The text of a table: each row a paragraph, each cell after the heading of its column.

    What the csv module cannot read is left as it is.
    """
    try:
        rows = [row for row in _rows(source) if any(row)]
    except csv.Error:
        return ParsedDocument(read_text(source))
    headings, rows = (rows[0], rows[1:]) if _has_headings(rows) else ([], rows)
    return ParsedDocument(told(headings[: len(row)], row) for row in rows)


# How much is read to detect the delimiter, in characters.
_SAMPLE: Final = 8192
_DELIMITERS: Final = ",;\t|"

_NUMBER: Final = re.compile(r"[+-]?[\d.,\s]+[%€$£]?")


def _rows(source: str) -> Iterator[list[str]]:
    try:
        dialect = csv.Sniffer().sniff(source[:_SAMPLE], _DELIMITERS)
    except csv.Error:
        dialect = csv.excel
    for row in csv.reader(io.StringIO(source, newline=""), dialect):
        yield [" ".join(cell.split()) for cell in row]


def _has_headings(rows: list[list[str]]) -> bool:
    """Whether the first row names columns: several different texts, none of them a number."""
    if len(rows) < 2:
        return False
    first = rows[0]
    return (
        len(first) > 1
        and all(first)
        and len(set(first)) == len(first)
        and not any(_NUMBER.fullmatch(cell) for cell in first)
    )
