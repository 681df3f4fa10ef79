"""DOCX: a zip file with the text in an XML file, read with bounds against bombs."""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from knowledge_bot_service.documents.document import Document, ExtractionError
from knowledge_bot_service.documents.xml import fault


def read_docx(path: Path) -> Document:
    """The text of a Word document: its paragraphs, and the rows of its tables.

    Raises:
        ExtractionError: it is not a Word document, damaged, encrypted, larger inside than is
            believable, or has no text.
    """
    from lxml import etree

    try:
        with zipfile.ZipFile(path) as archive:
            if _BODY not in archive.namelist():
                raise ExtractionError("the file is a ZIP archive but not a Word document (.docx)")
            with _member(archive, _BODY) as body:
                text = "\n\n".join(_paragraphs(body))
            title = _title(archive)
    except zipfile.BadZipFile:
        raise ExtractionError("the Word document is damaged or cut off") from None
    except etree.XMLSyntaxError as error:
        raise fault(error, "the Word document's text is damaged") from None
    except (EOFError, NotImplementedError, RuntimeError, zlib.error):
        # RuntimeError is zipfile's word for encryption, NotImplementedError for odd compression.
        raise ExtractionError("the Word document is encrypted or packed in an odd way") from None
    if not text:
        raise ExtractionError("the Word document has no text")
    return Document(text, title)


_BODY: Final = "word/document.xml"
_PROPERTIES: Final = "docProps/core.xml"

# Bounds of a member's size, in bytes, and of what it grows to. Word's own XML shrinks to a fiftieth
# at most; a bomb to a thousandth.
_MAX_SIZE: Final = 64 * 1024 * 1024
_MAX_RATIO: Final = 200
_SMALL: Final = 1024 * 1024

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK: Final = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_DC_TITLE: Final = "{http://purl.org/dc/elements/1.1/}title"


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    # Reading stops at the declared size, whatever the compressed data would give.
    info = archive.getinfo(name)
    is_bomb = info.file_size > max(_SMALL, info.compress_size * _MAX_RATIO)
    if info.file_size > _MAX_SIZE or is_bomb:
        raise ExtractionError(
            f"the Word document is not read: it unpacks from {info.compress_size:,} to"
            f" {info.file_size:,} bytes"
        )
    return archive.open(info)


def _paragraphs(body: IO[bytes]) -> Iterator[str]:
    """The paragraphs of the body; a table's row is one."""
    from lxml import etree

    text: list[str] = []
    rows: list[list[str]] = []
    for _, element in etree.iterparse(
        body, events=("end",), resolve_entities=False, no_network=True, load_dtd=False
    ):
        tag = element.tag
        if tag == f"{_W}t":
            # A fallback repeats, for old programs, what is before it.
            if not _is_in(element, _FALLBACK):
                text.append(element.text or "")
        elif tag in {f"{_W}tab", f"{_W}br", f"{_W}cr"}:
            text.append(" ")
        elif tag == f"{_W}p":
            paragraph = "".join(text).strip()
            text.clear()
            element.clear()
            if _is_in(element, f"{_W}tc"):
                rows.append([paragraph] if paragraph else [])
            elif paragraph:
                yield paragraph
        elif tag == f"{_W}tr":
            cells = [cell for row in rows for cell in row]
            rows.clear()
            element.clear()
            if cells:
                yield " | ".join(cells)


def _is_in(element: object, tag: str) -> bool:
    return next(element.iterancestors(tag), None) is not None  # type: ignore[attr-defined]


def _title(archive: zipfile.ZipFile) -> str | None:
    from lxml import etree

    if _PROPERTIES not in archive.namelist():
        return None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        with _member(archive, _PROPERTIES) as properties:
            return etree.parse(properties, parser).getroot().findtext(_DC_TITLE)
    except etree.XMLSyntaxError:
        return None
