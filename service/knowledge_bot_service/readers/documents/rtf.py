"""RTF, as striprtf tells it: its texts and lists, and its tables by rows."""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument
from knowledge_bot_service.readers.documents.markdown import read_text
from knowledge_bot_service.readers.documents.tables import table_blocks
from knowledge_bot_service.readers.documents.text import tidy


def read_rtf(data: bytes) -> ParsedDocument:
    """The blocks of a Rich Text document.

    Raises:
        ExtractionError: it is damaged.
    """
    from striprtf.striprtf import rtf_to_text

    try:
        text = rtf_to_text(_PICTURE.sub(b"", data).decode("latin-1"), errors="replace")  # type: ignore[no-untyped-call]
    except (ValueError, LookupError):
        raise ExtractionError("the Rich Text is damaged") from None
    return ParsedDocument(_blocks(_LINK.sub(r" (\1)", text)))


def _blocks(text: str) -> Iterator[Block]:
    lines = _CELL_END.sub("|", text).split("\n")
    for is_table, run in groupby(lines, key=lambda line: line.endswith("|")):
        if is_table:
            rows = [line.removesuffix("|").split("|") for line in run]
            yield from table_blocks([[" ".join(cell.split()) for cell in row] for row in rows])
        else:
            yield from read_text(tidy("\n\n".join(line.strip() for line in run)))


# striprtf goes through pictures, which are hexadecimal digits, one by one.
_PICTURE: Final = re.compile(rb"(?:[0-9a-fA-F]{2}[\r\n]*){100,}")
_LINK: Final = re.compile(r'\("((?:https?://|mailto:)[^"\s]+)"\)')
_CELL_END: Final = re.compile(r"\n+\|")
