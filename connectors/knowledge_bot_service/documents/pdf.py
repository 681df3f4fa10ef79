"""PDF, read with pypdf."""

import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from knowledge_bot_service.documents.document import Document, ExtractionError


def read_pdf(path: Path) -> Document:
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
        pages = [_unwrapped(page.extract_text()) for page in reader.pages]
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
    text = "\n\n".join(page for page in pages if page)
    if not text:
        raise ExtractionError(f"the PDF has no text in its {len(pages)} pages (a scan?)")
    return Document(text, title)


# A line that fills less of the page's width than this ends its paragraph.
_FULL: Final = 0.75


def _unwrapped(page: str) -> str:
    """A page's lines joined to paragraphs, and words that were hyphenated at a line end joined."""
    lines = [line.strip() for line in page.split("\n")]
    width = max(map(len, lines), default=0) * _FULL
    return "\n\n".join(_paragraphs(lines, width))


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
