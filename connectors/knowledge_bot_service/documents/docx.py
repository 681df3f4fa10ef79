"""DOCX: a zip file with the text in an XML file, read with bounds against bombs."""

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from knowledge_bot_service.analyzer import table_row
from knowledge_bot_service.documents.document import Document, ExtractionError
from knowledge_bot_service.documents.xml import fault

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


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
# A table has so many columns at most (Word's own bound).
_MAX_COLUMNS: Final = 63
# What a table's look says of its first row, as an attribute and as a bit (ISO/IEC 29500-1 and -4,
# 17.4.55).
_TRUE: Final = frozenset({"1", "true", "on"})
_FIRST_ROW: Final = 0x0020
_HEXADECIMAL: Final = re.compile(r"[0-9A-Fa-f]{1,8}")
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
    """The paragraphs of the body; the rows of a table are lines of one."""
    from lxml import etree

    text: list[str] = []
    table = _Table()
    for _, element in etree.iterparse(
        body, events=("end",), resolve_entities=False, no_network=True, load_dtd=False
    ):
        tag = element.tag
        # A fallback repeats, for old programs, what is before it.
        if tag == f"{_W}t" and not _is_in(element, _FALLBACK):
            text.append(element.text or "")
        elif tag in {f"{_W}tab", f"{_W}br", f"{_W}cr"}:
            text.append(" ")
        elif tag == f"{_W}p":
            paragraph = "".join(text).strip()
            text.clear()
            element.clear()
            if paragraph and _is_in(element, f"{_W}tc"):
                table.words.append(paragraph)
            elif paragraph:
                yield paragraph
        elif tag == f"{_W}tc":
            table.end_cell(element)
        elif tag == f"{_W}tr":
            yield from table.end_row(element)
            element.clear()
        elif tag == f"{_W}tbl":
            yield from table.end()


class _Table:
    """A table that is read. Every cell stays in its column, also an empty one or a merged one."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._cells: list[str] = []
        self._above: list[str] = []
        self._names: list[str] = []
        self._rows: list[str] = []

    def end_cell(self, cell: "Element") -> None:
        """The words so far are a cell's; of one that is merged with that above, are that one's."""
        text = " ".join(self.words)
        self.words.clear()
        at = len(self._cells)
        if not text and _goes_on(cell) and at < len(self._above):
            text = self._above[at]
        self._cells += [text] * _columns(cell)

    def end_row(self, row: "Element") -> Iterator[str]:
        """The cells so far are a row's. One that is a single cell is a title, and no row."""
        cells, self._cells = self._cells, []
        if not any(cells):
            return
        if len(row.findall(f"{_W}tc")) == 1:
            yield from self._block()
            self._rows = [*self._names]
            yield cells[0]
            return
        self._rows.append(table_row(cells))
        if not self._above and _names_columns(row):
            self._rows.append(" | ".join("---" for _ in cells))
            self._names = [*self._rows]
        self._above = cells

    def end(self) -> Iterator[str]:
        """The rows so far are all."""
        yield from self._block()
        self._above, self._names, self._rows = [], [], []

    def _block(self) -> Iterator[str]:
        if self._rows != self._names:
            yield "\n".join(self._rows)


def _goes_on(cell: "Element") -> bool:
    merged = cell.find(f"{_W}tcPr/{_W}vMerge")
    return merged is not None and merged.get(f"{_W}val") != "restart"


def _columns(cell: "Element") -> int:
    """How many columns a cell is in."""
    span = cell.find(f"{_W}tcPr/{_W}gridSpan")
    value = "1" if span is None else span.get(f"{_W}val", "1")
    return max(1, min(int(value[:4]), _MAX_COLUMNS)) if value.isdecimal() else 1


def _names_columns(row: "Element") -> bool:
    """Whether the first row of a table is set off: as a heading, or by the table's style."""
    if row.find(f"{_W}trPr/{_W}tblHeader") is not None:
        return True
    look = row.find(f"../{_W}tblPr/{_W}tblLook")
    if look is None:
        return False
    bits = look.get(f"{_W}val", "0")
    is_set = bool(_HEXADECIMAL.fullmatch(bits)) and bool(int(bits, 16) & _FIRST_ROW)
    return is_set or look.get(f"{_W}firstRow") in _TRUE


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
