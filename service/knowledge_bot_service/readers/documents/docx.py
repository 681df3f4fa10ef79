"""DOCX: a zip file with the text in an XML file, read with bounds against bombs."""

import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Literal

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import (
    ExtractionError,
    ParsedDocument,
    joined_names,
)
from knowledge_bot_service.readers.documents.xml import fault

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


def read_docx(path: Path) -> ParsedDocument:
    """The blocks of a Word document; its title is that of its properties, or its first line's.

    A style tells what a paragraph is: by the name that Word gives it in every language, or by its
    outline level. A table of contents, which repeats the headings, is left out.

    Raises:
        ExtractionError: it is not a Word document, damaged, encrypted, larger inside than is
            believable, or has no text.
    """
    from lxml import etree

    try:
        with zipfile.ZipFile(path) as archive:
            if _BODY not in archive.namelist():
                raise ExtractionError(f"the file is {_other_kind(archive)}")
            with _member(archive, _BODY) as body:
                blocks = list(_DocxBody(_Styles(archive), _notes(archive)).blocks(body))
            properties = _part(archive, _PROPERTIES)
    except zipfile.BadZipFile:
        raise ExtractionError("the Word document is damaged or cut off") from None
    except etree.XMLSyntaxError as error:
        raise fault(error, "the Word document's text is damaged") from None
    except (EOFError, NotImplementedError, RuntimeError, zlib.error):
        # RuntimeError is zipfile's word for encryption, NotImplementedError for odd compression.
        raise ExtractionError("the Word document is encrypted or packed in an odd way") from None
    if not blocks:
        raise ExtractionError("the Word document has no text")
    title = None if properties is None else properties.findtext(_DC_TITLE)
    headings = (block for block in blocks if block.kind == "heading" and block.level <= _TITLES)
    heading = next((block.text for block in headings), None)
    return ParsedDocument(blocks, title or heading)


_BODY: Final = "word/document.xml"
_STYLES: Final = "word/styles.xml"
_NUMBERING: Final = "word/numbering.xml"
_NOTES: Final = {"footnote": "word/footnotes.xml", "endnote": "word/endnotes.xml"}
_PROPERTIES: Final = "docProps/core.xml"

# Other documents that are ZIP archives, by a member that every one has, or by how the type begins
# that an OpenDocument has in a member of its own.
_TYPE: Final = "mimetype"
_SPREADSHEET: Final = "a spreadsheet; save each of its sheets as CSV, or it as PDF"
_SLIDES: Final = "a presentation; save it as PDF"
_OTHER_KINDS: Final = {
    "xl/workbook.xml": _SPREADSHEET,
    "xl/workbook.bin": _SPREADSHEET,
    "application/vnd.oasis.opendocument.spreadsheet": _SPREADSHEET,
    "ppt/presentation.xml": _SLIDES,
    "application/vnd.oasis.opendocument.presentation": _SLIDES,
    "application/vnd.oasis.opendocument.text": "an OpenDocument text; save it as .docx or PDF",
}

# Bounds of a member's size, in bytes, and of what it grows to. Word's own XML shrinks to a fiftieth
# at most; a bomb to a thousandth.
_MAX_SIZE: Final = 64 * 1024 * 1024
_MAX_RATIO: Final = 200
_SMALL: Final = 1024 * 1024

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
# A fallback repeats, for old programs, what is before it.
_UNSEEN: Final = (
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
    f"{_W}del",
    f"{_W}moveFrom",
)
# What is between words, and in code between its lines.
_LINE_END: Final = "\n"
_SPACES: Final = {"tab": "\t", "br": _LINE_END, "cr": _LINE_END, "noBreakHyphen": "-"}

# Names of styles: those of Word, of LibreOffice and of Pandoc.
_HEADING: Final = re.compile(r"heading ([1-9])")
_CONTENTS: Final = re.compile(r"toc (?:[1-9]|heading)|contents [1-9]|contents heading")
_LIST: Final = re.compile(r"list (?:bullet|number) ([2-5])")
_CODE: Final = frozenset({"code", "html preformatted", "preformatted text", "source code"})
_TITLES: Final = 2
_MAX_LEVEL: Final = 6
_OUTLINE_LEVELS: Final = frozenset("012345678")
# A style may be based on itself.
_MAX_INHERITED: Final = 20
# A table has so many columns at most (Word's own bound).
_MAX_COLUMNS: Final = 63
# What a table's look says of its first row, as an attribute and as a bit (ISO/IEC 29500-1 and -4,
# 17.4.55).
_TRUE: Final = frozenset({"1", "true", "on"})
_FIRST_ROW: Final = 0x0020
_HIDING: Final = ("vanish", "strike", "dstrike")
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


def _other_kind(archive: zipfile.ZipFile) -> str:
    """What an archive is that is no Word document, and what helps."""
    names, kind = archive.namelist(), ""
    if _TYPE in names:
        with _member(archive, _TYPE) as member:
            kind = member.read(100).decode("ascii", "replace")
    for mark, what in _OTHER_KINDS.items():
        if mark in names or kind.startswith(mark):
            return what
    return "a ZIP archive but not a Word document (.docx)"


def _part(archive: zipfile.ZipFile, name: str) -> "Element | None":
    """A part that the text can do without: None where it is not there, or damaged."""
    from lxml import etree

    if name not in archive.namelist():
        return None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        with _member(archive, name) as part:
            return etree.parse(part, parser).getroot()
    except etree.XMLSyntaxError:
        return None


def _notes(archive: zipfile.ZipFile) -> dict[tuple[str, str | None], str]:
    """The words of a document's notes, by their kinds and numbers."""
    found = {}
    for kind, name in _NOTES.items():
        for note in _each(_part(archive, name), kind):
            words = " ".join(text.text or "" for text in _each(note, "t") if _is_shown(text))
            found[kind, note.get(f"{_W}id")] = " ".join(words.split())
    return found


def _each(element: "Element | None", name: str) -> "Iterable[Element]":
    """What is of this name in an element; nothing where there is none."""
    return () if element is None else element.iter(f"{_W}{name}")


def _value(element: "Element | None", path: str) -> str | None:
    """The value of what is at a path of names below an element; None where nothing is."""
    found = (
        None if element is None else element.find("/".join(f"{_W}{one}" for one in path.split("/")))
    )
    return None if found is None else found.get(f"{_W}val")


@dataclass(frozen=True, slots=True)
class _Role:
    """What a paragraph is: a heading or an item of this level, from 1 on, code, or a text."""

    kind: Literal["heading", "item", "code", "contents", "term", "text"] = "text"
    level: int = 1
    list: str = ""
    is_numbered: bool = False


class _Styles:
    """What a document's styles and lists make of its paragraphs."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        styles, numbering = _part(archive, _STYLES), _part(archive, _NUMBERING)
        self._styles = {style.get(f"{_W}styleId", ""): style for style in _each(styles, "style")}
        self._levels = {
            (one.get(f"{_W}abstractNumId"), level.get(f"{_W}ilvl")): _value(level, "numFmt")
            for one in _each(numbering, "abstractNum")
            for level in _each(one, "lvl")
        }
        self._lists = {
            one.get(f"{_W}numId"): _value(one, "abstractNumId") for one in _each(numbering, "num")
        }

    def role(self, paragraph: "Element") -> _Role:
        """What a paragraph is, by its own properties or those of its style."""
        own = paragraph.find(f"{_W}pPr")
        if own is None:
            return _Role()
        styles = list(self._inherited(_value(own, "pStyle")))
        names = [(_value(style, "name") or "").lower() for style in styles]
        # Pandoc bases the styles of authors and dates on that of the title.
        if names[:1] == ["title"]:
            return _Role("heading")
        for name in names:
            if role := _role_of(name):
                return role
        properties = [own, *(style.find(f"{_W}pPr") for style in styles)]
        for one in properties:
            level = _value(one, "outlineLvl") or ""
            if level in _OUTLINE_LEVELS:
                return _Role("heading", int(level) + 2)
        for one in properties:
            if (number := _value(one, "numPr/numId")) is not None:
                below = next((found for found in map(_LIST.fullmatch, names) if found), None)
                level = str(int(below[1]) - 1) if below else "0"
                return self._item(number, _value(one, "numPr/ilvl") or level)
        return _Role()

    def sets_off_first_row(self, properties: "Element") -> bool:
        """Whether the style of a table sets its first row off, and the table has that done."""
        look = properties.find(f"{_W}tblLook")
        if look is None:
            return False
        bits = look.get(f"{_W}val", "0")
        is_set = bool(_HEXADECIMAL.fullmatch(bits)) and bool(int(bits, 16) & _FIRST_ROW)
        return (is_set or look.get(f"{_W}firstRow") in _TRUE) and any(
            part.get(f"{_W}type") == "firstRow"
            for style in self._inherited(_value(properties, "tblStyle"))
            for part in _each(style, "tblStylePr")
        )

    def _inherited(self, identifier: str | None) -> "Iterator[Element]":
        """A style and those that it is based on."""
        for _ in range(_MAX_INHERITED):
            if identifier not in self._styles:
                return
            yield self._styles[identifier]
            identifier = _value(self._styles[identifier], "basedOn")

    def _item(self, number: str, level: str) -> _Role:
        if number == "0" or level not in _OUTLINE_LEVELS:  # taken out of the style's list
            return _Role()
        form = self._levels.get((self._lists.get(number), level), "bullet")
        return _Role("item", int(level) + 1, number, form not in {None, "bullet", "none"})


def _role_of(name: str) -> _Role | None:
    """What the name of a style says; names are the same in every language (17.7.4.9)."""
    if found := _HEADING.fullmatch(name):
        return _Role("heading", int(found[1]) + 1)
    if name in _CODE:
        return _Role("code")
    if name == "definition term":
        return _Role("term")
    return _Role("contents") if _CONTENTS.fullmatch(name) else None


class _DocxBody:
    """The text of a document, as it is read.

    Each note, by its kind and number, is told where it is referred to.
    """

    def __init__(self, styles: _Styles, notes: Mapping[tuple[str, str | None], str]) -> None:
        self._styles = styles
        self._notes = notes
        self._words: list[str] = []
        # A term before its definition.
        self._term = ""
        self._table = _DocxTable()
        # Lines of code that follow from one another, and the numbers of items.
        self._code: list[str] = []
        self._numbers: dict[str, list[int]] = {}

    def blocks(self, body: IO[bytes]) -> Iterator[Block]:
        """The blocks of the body."""
        from lxml import etree

        for event, element in etree.iterparse(
            body, events=("start", "end"), resolve_entities=False, no_network=True, load_dtd=False
        ):
            name = str(element.tag).removeprefix(_W)
            if event == "start":
                # The paragraphs of a text box stand in the middle of another one.
                self._words += [" "] if name == "txbxContent" else []
            elif name == "t" and _is_shown(element):
                self._words.append(element.text or "")
            # A tab outside of a run is where tabs stop.
            elif name in _SPACES and _is_in(element, f"{_W}r"):
                self._words.append(_SPACES[name])
            elif name.endswith("noteReference"):
                note = self._notes.get((name.removesuffix("Reference"), element.get(f"{_W}id")))
                self._words += [f" ({note})"] if note else []
            elif name == "p":
                yield from self._paragraph(element)
                element.clear()
            # A table in a cell is that cell's words.
            elif name in {"tblPr", "tc", "tr", "tbl"} and not _is_in(element, f"{_W}tc"):
                yield from self._end_of_table_part(name, element)
        yield from self._end_code()
        if self._term:
            yield Block("paragraph", self._term)

    def _end_of_table_part(self, name: str, element: "Element") -> Iterator[Block]:
        match name:
            case "tblPr":
                self._table.is_set_off = self._styles.sets_off_first_row(element)
            case "tc":
                self._table.end_cell(element)
            case "tr":
                yield from self._end_code()
                yield from self._table.end_row(element)
                element.clear()
            case _:
                yield from self._table.end()
                self._table = _DocxTable()
                element.clear()

    def _paragraph(self, paragraph: "Element") -> Iterator[Block]:
        words = "".join(self._words)
        self._words.clear()
        text = " ".join(words.split())
        if _is_in(paragraph, f"{_W}tc"):
            self._table.add(text, paragraph)
            return
        role = self._styles.role(paragraph)
        # An empty line may be within code, and stands between paragraphs for the looks of it.
        if role.kind == "contents" or not (text or role.kind == "code"):
            return
        if role.kind == "term":
            self._term = f"{self._term}, {text}" if self._term else text
            return
        if self._term:
            role, text, self._term = _Role("item"), f"{self._term}: {text}", ""
        if role.kind == "code":
            self._code.append(words.rstrip())
            return
        yield from self._end_code()
        match role.kind:
            case "heading":
                yield Block("heading", text, min(role.level, _MAX_LEVEL))
            case "item":
                yield Block("item", text, role.level, (self._mark(role),))
            case _:
                yield Block("paragraph", text)

    def _mark(self, role: _Role) -> str:
        if not role.is_numbered:
            return "-"
        # An item of a higher level begins the numbers below it anew.
        numbers = self._numbers.get(role.list, [])[: role.level]
        numbers += [0] * (role.level - len(numbers))
        numbers[-1] += 1
        self._numbers[role.list] = numbers
        return f"{numbers[-1]}."

    def _end_code(self) -> Iterator[Block]:
        code = "\n".join(self._code).strip("\n")
        self._code.clear()
        if code:
            yield Block("code", code)


class _DocxTable:
    """A table that is read. Every cell stays in its column, also an empty one or a merged one."""

    def __init__(self) -> None:
        # Whether its style sets the first row off.
        self.is_set_off = False
        self._words: list[str] = []
        self._cells: list[str] = []
        self._count = 0
        self._above: list[str] = []
        # The columns' names, in the rows before all others.
        self._names: tuple[str, ...] = ()
        self._has_rows = False
        self._is_bold = True

    def add(self, text: str, paragraph: "Element") -> None:
        """A paragraph of the cell that is read."""
        if text:
            self._words.append(text)
            self._is_bold = self._is_bold and _is_bold(paragraph)

    def end_cell(self, cell: "Element") -> None:
        """The words so far are a cell's; of one that is merged with that above, are that one's."""
        text = " ".join(self._words)
        self._words.clear()
        at = len(self._cells)
        if not text and _goes_on(cell) and at < len(self._above):
            text = self._above[at]
        self._cells += [text] * _columns(cell)
        self._count += 1

    def end_row(self, row: "Element") -> Iterator[Block]:
        """The cells so far are a row's. One that is a single cell is a title, and no row.

        The first row has names where it is a heading, where its words are bold, or where the
        table's style sets it off. More rows have if they are headings as well.
        """
        cells, self._cells = [*[""] * _number(_value(row, "trPr/gridBefore"), 0), *self._cells], []
        count, self._count = self._count, 0
        is_heading = row.find(f"{_W}trPr/{_W}tblHeader") is not None
        is_first = not (self._names or self._has_rows)
        has_names = is_heading or (is_first and (self.is_set_off or self._is_bold))
        if not any(cells):
            return
        if count == 1 and cells[0]:
            yield Block("paragraph", cells[0])
            return
        self._above = cells
        if has_names and not self._has_rows:
            self._names = joined_names(self._names, cells)
            return
        self._has_rows = True
        yield Block("row", "", 0, self._names, tuple(cells))

    def end(self) -> Iterator[Block]:
        """The rows so far are all; names alone are a row like any other."""
        if self._names and not self._has_rows:
            yield Block("row", "", 0, (), self._names)


def _is_bold(paragraph: "Element") -> bool:
    runs = [run for run in paragraph.iter(f"{_W}r") if run.find(f"{_W}t") is not None]
    bold = [run.find(f"{_W}rPr/{_W}b") for run in runs]
    return all(one is not None and one.get(f"{_W}val", "1") in _TRUE for one in bold)


def _goes_on(cell: "Element") -> bool:
    merged = cell.find(f"{_W}tcPr/{_W}vMerge")
    return merged is not None and merged.get(f"{_W}val") != "restart"


def _columns(cell: "Element") -> int:
    """How many columns a cell is in."""
    return max(1, _number(_value(cell, "tcPr/gridSpan"), 1))


def _number(value: str | None, otherwise: int) -> int:
    """A number of columns."""
    is_number = value is not None and value.isdecimal()
    return min(int((value or "")[:4]), _MAX_COLUMNS) if is_number else otherwise


def _is_shown(text: "Element") -> bool:
    """Whether it holds for a reader: it is not hidden, struck out, deleted or moved away."""
    run = text.getparent()
    marks = [] if run is None else [run.find(f"{_W}rPr/{_W}{mark}") for mark in _HIDING]
    is_hidden = any(mark is not None and mark.get(f"{_W}val", "1") in _TRUE for mark in marks)
    return not (is_hidden or _is_in(text, *_UNSEEN))


def _is_in(element: "Element", *tags: str) -> bool:
    return next(element.iterancestors(*tags), None) is not None
