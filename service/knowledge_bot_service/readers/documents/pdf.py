"""PDF, read with pypdf."""

import io
import logging
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument


def read_pdf(path: Path) -> ParsedDocument:
    """The text of a PDF file.

    Raises:
        ExtractionError: it is encrypted, damaged, cut off, larger inside than is read, or has no
            text.
    """
    import pypdf
    from pypdf.errors import DependencyError, LimitReachedError, PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    data = path.read_bytes()
    if b"%%EOF" not in data:
        raise ExtractionError("the PDF is cut off: its end is missing")
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ExtractionError("the PDF is encrypted and needs a password")
        if not len(reader.pages):
            raise ExtractionError("the PDF has no pages")
        pages = [list(_unwrapped(page.extract_text())) for page in reader.pages]
        title = reader.metadata.title if reader.metadata else None
    except DependencyError:
        raise ExtractionError("the PDF is encrypted in a way that cannot be read") from None
    except LimitReachedError:
        raise ExtractionError(
            "the PDF is not read: one of its pages unpacks to more than a page can need"
        ) from None
    except (PyPdfError, AttributeError, KeyError, TypeError, ValueError, IndexError):
        # What pypdf meets in a damaged file is not always an error of its own.
        raise ExtractionError("the PDF is damaged: its structure cannot be read") from None
    if not any(pages):
        raise ExtractionError(f"the PDF has no text in its {len(pages)} pages (a scan?)")
    empty = [str(number) for number, page in enumerate(pages, start=1) if not page]
    # It may be the null object of PDF.
    title = title if isinstance(title, str) else None
    return ParsedDocument(_titled([*chain(*pages)]), title, _without_text(empty) if empty else ())


def _titled(blocks: list[Block]) -> list[Block]:
    """Blocks of which the first is a heading, if it is a title above another one."""
    if len(blocks) > 1 and all(one.is_prose and one.is_title for one in blocks[:2]):
        blocks[0] = Block("heading", blocks[0].text, 1)
    return blocks


def _without_text(pages: list[str]) -> tuple[str, ...]:
    named = ", ".join(pages[:_NAMED]) + (", …" if len(pages) > _NAMED else "")
    return (f"{len(pages)} of its pages have no text (scans?): {named}",)


# How many pages a warning names.
_NAMED: Final = 20

# A line that fills less of the page's width than this ends its paragraph.
_FULL: Final = 0.75

_MARK: Final = re.compile(r"[-*+•‣–—▪◦]|\(?\d{1,3}[.)]|[a-z][.)]")  # noqa: RUF001


def _unwrapped(page: str) -> Iterator[Block]:
    """A page's lines joined to paragraphs and items, and words joined that a line end parts."""
    lines = [line.strip() for line in page.split("\n")]
    width = max(map(len, lines), default=0) * _FULL
    for text in _paragraphs(lines, width):
        mark, _, words = text.partition(" ")
        if words and _MARK.fullmatch(mark):
            yield Block("item", words, 1, (mark,))
        else:
            yield Block("paragraph", text)


def _paragraphs(lines: list[str], width: float) -> Iterator[str]:
    together = ""
    for line in lines:
        if together.endswith("-") and line[:1].islower():
            together = together[:-1] + line
        elif together:
            together = f"{together} {line}"
        else:
            together = line
        if len(line) < width:
            yield from (together,) if together else ()
            together = ""
    if together:
        yield together
