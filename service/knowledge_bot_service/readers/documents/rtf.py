"""RTF, as striprtf tells it: its headings, texts and lists, and its tables by rows."""

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

    source = _with_marks(_PICTURE.sub(b"", data)).decode("latin-1")
    try:
        text = rtf_to_text(source, errors="replace")  # type: ignore[no-untyped-call]
    except (ValueError, LookupError):
        raise ExtractionError("the Rich Text is damaged") from None
    return ParsedDocument(_blocks(_LINK.sub(r" (\1)", text)))


def _with_marks(data: bytes) -> bytes:
    """A document whose headings begin with a mark and their levels, as their styles have them."""
    levels = dict(_STYLE.findall(data))

    def mark(found: re.Match[bytes]) -> bytes:
        level = levels.get(found[1], b"") if found[1] else b"%d" % (int(found[2]) + 1)
        return found[0] + (b" \x01" + level if level else b"")

    return _STYLED.sub(mark, data)


def _blocks(text: str) -> Iterator[Block]:
    for kind, run in groupby(_CELL_END.sub("|", text).split("\n"), key=_kind):
        if kind == "heading":
            for line in run:
                level = min(int(line.partition("\x01")[2][0]) + 1, 6)
                yield Block("heading", _MARK.sub("", line).strip(), level)
        elif kind == "row":
            rows = [_MARK.sub("", line).removesuffix("|").split("|") for line in run]
            yield from table_blocks([[" ".join(cell.split()) for cell in row] for row in rows])
        else:
            yield from read_text(tidy("\n\n".join(line.strip() for line in run)))


def _kind(line: str) -> str:
    return "row" if line.endswith("|") else "heading" if _MARK.search(line) else "text"


# striprtf goes through pictures, which are hexadecimal digits, one by one.
_PICTURE: Final = re.compile(rb"(?:[0-9a-fA-F]{2}[\r\n]*){100,}")
_STYLE: Final = re.compile(rb"\\s(\d+)\b[^{};]*heading ([1-9]);", re.IGNORECASE)
_STYLED: Final = re.compile(rb"\\s(\d+)\b|\\outlinelevel([0-8])\b")
_MARK: Final = re.compile("\x01[1-9]")
_LINK: Final = re.compile(r'\("((?:https?://|mailto:)[^"\s]+)"\)')
_CELL_END: Final = re.compile(r"\n+\|")
