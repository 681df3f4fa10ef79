"""DOCX: the text of a Word document, by what its styles and lists make of it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import (
    ParsedDocument,
    joined_names,
    linked,
    titled,
)
from knowledge_bot_service.readers.documents.numbering import numeral
from knowledge_bot_service.readers.documents.package import Package, relation

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


def read_docx(package: Package) -> ParsedDocument:
    """The blocks of a Word document; its title is that of its properties, or its first line's.

    A style tells what a paragraph is: by the name that Word gives it in every language, or by its
    outline level. A table of contents, which repeats the headings, is left out.
    """
    return titled([*_DocxBody(package, package.main()).blocks()], package.title())


_NOTES: Final = {"footnote": "footnotes", "endnote": "endnotes"}

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_VALUE: Final = f"{_W}val"
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
_HIDING: Final = frozenset({f"{_W}vanish", f"{_W}strike", f"{_W}dstrike"})
_HEXADECIMAL: Final = re.compile(r"[0-9A-Fa-f]{1,8}")
_PLACE: Final = re.compile("%([1-9])")
_EQUATION: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/math}t"
_PICTURE: Final = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}docPr"
_WORDS: Final = frozenset({"t", "footnoteReference", "endnoteReference", _EQUATION, _PICTURE})
_HYPERLINK: Final = re.compile(r'\s*HYPERLINK\s+"([^"\s]+)"')


def _notes(package: Package, main: str) -> dict[tuple[str, str | None], str]:
    """The words of a document's notes, by their kinds and numbers."""
    found = {}
    for kind, name in _NOTES.items():
        for note in _each(_companion(package, main, name), kind):
            words = " ".join(
                text.text or ""
                for text in _each(note, "t")
                if not (_is_in(text, *_UNSEEN) or _hidden(text.find(f"../{_W}rPr")))
            )
            found[kind, note.get(f"{_W}id")] = " ".join(words.split())
    return found


def _companion(package: Package, main: str, kind: str) -> "Element | None":
    """What belongs to the main part, by its type, or by its usual name."""
    names = [*package.of_type(main, kind), f"word/{kind}.xml"]
    return package.part(names[0])


def _each(element: "Element | None", name: str) -> "Iterable[Element]":
    """What is of this name in an element; nothing where there is none."""
    return () if element is None else element.iter(f"{_W}{name}")


def _value(element: "Element | None", path: str) -> str | None:
    """The value of what is at a path of names below an element; None where nothing is."""
    found = None if element is None else element.find(_qualified(path))
    return None if found is None else found.get(_VALUE)


@cache
def _qualified(path: str) -> str:
    return "/".join(f"{_W}{one}" for one in path.split("/"))


@dataclass(frozen=True, slots=True)
class _Numbering:
    """How a level of a list is numbered, from which number on, and the text around the numbers."""

    kind: str = "bullet"
    start: int = 1
    text: str = ""


@dataclass(frozen=True, slots=True)
class _Level:
    """A level of a list: what counts its items, and how it is numbered and those above it."""

    counter: str
    forms: tuple[_Numbering, ...]


@dataclass(frozen=True, slots=True)
class _Role:
    """What a paragraph is: a heading or an item of this level, from 1 on, code, or a text."""

    kind: Literal["heading", "item", "code", "contents", "text"] = "text"
    level: int = 1
    list: "_Level | None" = None


class _Styles:
    """What a document's styles and lists make of its paragraphs."""

    def __init__(self, styles: "Element | None", numbering: "Element | None") -> None:
        self._styles = {style.get(f"{_W}styleId", ""): style for style in _each(styles, "style")}
        may_hide = styles is not None and next(styles.iter(*_HIDING), None) is not None
        self.hide = {name for name in self._styles if may_hide and self._hides(name)}
        self._lists = {one.get(f"{_W}numId"): one for one in _each(numbering, "num")}
        self._forms = {
            one.get(f"{_W}abstractNumId"): one for one in _each(numbering, "abstractNum")
        }
        self._numbered = cache(self._numbering)

    def hides(self, properties: "Element | None", style: str) -> bool:
        """Whether the style that these properties name hides what has it."""
        return bool(self.hide) and _value(properties, style) in self.hide

    def _hides(self, name: str) -> bool:
        for style in self._inherited(name):
            if (own := _hidden(style.find(f"{_W}rPr"))) is not None:
                return own
        return False

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
        properties = [own, *(style.find(f"{_W}pPr") for style in styles)]
        level = self._level(properties, names)
        for name in names:
            if role := _role_of(name):
                return replace(role, list=level)
        for one in properties:
            outline = _value(one, "outlineLvl") or ""
            if outline in _OUTLINE_LEVELS:
                return _Role("heading", int(outline) + 2, level)
        return _Role("item", len(level.forms), level) if level else _Role()

    def _level(self, properties: "Iterable[Element | None]", names: Iterable[str]) -> _Level | None:
        """The level of a list that a paragraph is in; None for none."""
        for one in properties:
            if (number := _value(one, "numPr/numId")) is not None:
                below = next((found for found in map(_LIST.fullmatch, names) if found), None)
                level = str(int(below[1]) - 1) if below else "0"
                level = _value(one, "numPr/ilvl") or level
                if number == "0" or level not in _OUTLINE_LEVELS:  # taken out of the style's list
                    return None
                forms = (self._numbered(number, str(at)) for at in range(int(level) + 1))
                listed = self._lists.get(number)
                # Lists of one form go on with its numbers, unless they have some of their own.
                is_own = next(iter(_each(listed, "lvlOverride")), None) is not None
                base = None if is_own else _value(listed, "abstractNumId")
                return _Level(base or number, tuple(forms))
        return None

    def _numbering(self, number: str, level: str) -> _Numbering:
        """How a level of a list is numbered."""
        listed = self._lists.get(number)
        override = next(_of_level(listed, "lvlOverride", level), None)
        form = self._forms.get(_value(listed, "abstractNumId"))
        one = next(chain(_each(override, "lvl"), _of_level(form, "lvl", level)), None)
        if one is None:
            return _Numbering()
        start = _value(override, "startOverride") or _value(one, "start")
        kind = _value(one, "numFmt") or "decimal"
        return _Numbering(kind, _number(start, 1), _value(one, "lvlText") or "")

    def sets_off_first_row(self, properties: "Element") -> bool:
        """Whether the style of a table sets its first row off, and the table has that done."""
        look = properties.find(f"{_W}tblLook")
        if look is None:
            return False
        bits = look.get(_VALUE, "0")
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


def _of_level(element: "Element | None", name: str, level: str) -> "Iterator[Element]":
    return (one for one in _each(element, name) if one.get(f"{_W}ilvl") == level)


def _hidden(properties: "Element | None") -> bool | None:
    """Whether properties hide words or strike them out; None where they do not say."""
    if properties is None:
        return None
    said = [one.get(_VALUE, "1") in _TRUE for one in properties if one.tag in _HIDING]
    return any(said) if said else None


def _role_of(name: str) -> _Role | None:
    """What the name of a style says; names are the same in every language (17.7.4.9)."""
    if found := _HEADING.fullmatch(name):
        return _Role("heading", int(found[1]) + 1)
    if name in _CODE:
        return _Role("code")
    return _Role("contents") if _CONTENTS.fullmatch(name) else None


class _DocxBody:
    """The text of a document, as it is read.

    Each note, by its kind and number, is told where it is referred to.
    """

    def __init__(self, package: Package, main: str) -> None:
        self._package, self._main = package, main
        self._related = package.related(main)
        self._styles = _Styles(
            _companion(package, main, "styles"), _companion(package, main, "numbering")
        )
        self._notes = _notes(package, main)
        self._words: list[str] = []
        self._table = _DocxTable()
        # Lines of code that follow from one another, and the numbers of items.
        self._code: list[str] = []
        self._numbers: dict[str, list[int]] = {}
        # What a field does, where the words of links begin, and where these lead.
        self._field = ""
        self._links: list[tuple[int, str]] = []

    def blocks(self) -> Iterator[Block]:
        """The blocks of the body."""
        for event, element in self._package.walk(self._main, ("start", "end")):
            name = str(element.tag).removeprefix(_W)
            if event == "start":
                # The paragraphs of a text box stand in the middle of another one.
                self._words += [" "] if name == "txbxContent" else []
                if name == "hyperlink":
                    self._links.append((len(self._words), self._target(element)))
            elif name in _WORDS:
                self._words += [self._said(name, element)] if self._is_shown(element) else []
            elif name in _SPACES and _is_in(element, f"{_W}r"):
                # A tab outside of a run is where tabs stop.
                self._words.append(_SPACES[name])
            elif name in {"instrText", "fldChar", "hyperlink", "fldSimple"}:
                self._end_of_field_part(name, element)
            elif name in {"p", "tblPr", "tc", "tr", "tbl"}:
                yield from self._end_of_part(name, element)
        yield from self._end_code()

    def _end_of_part(self, name: str, element: "Element") -> Iterator[Block]:
        if name == "p":
            yield from self._paragraph(element)
            element.clear()
        # A table in a cell is that cell's words.
        elif not _is_in(element, f"{_W}tc"):
            yield from self._end_of_table_part(name, element)

    def _said(self, name: str, element: "Element") -> str:
        """What a part of a run says."""
        match name:
            case "footnoteReference" | "endnoteReference":
                kind = name.removesuffix("Reference")
                note = self._notes.get((kind, element.get(f"{_W}id")))
                return f" ({note})" if note else ""
            case name if name == _PICTURE:  # what it shows, as its author says
                return f" {element.get('descr', '')} "
            case _:
                return element.text or ""

    def _is_shown(self, element: "Element") -> bool:
        """Whether words hold for a reader: they are not hidden, struck out, deleted, moved away."""
        if _is_in(element, *_UNSEEN):
            return False
        run = next(element.iterancestors(f"{_W}r"), None)
        own = None if run is None else run.find(f"{_W}rPr")
        if (is_hidden := _hidden(own)) is not None:
            return not is_hidden
        paragraph = next(element.iterancestors(f"{_W}p"), None) if self._styles.hide else None
        look = None if paragraph is None else paragraph.find(f"{_W}pPr")
        return not (self._styles.hides(own, "rStyle") or self._styles.hides(look, "pStyle"))

    def _target(self, element: "Element") -> str:
        return self._related.get(relation(element), ("", ""))[1]

    def _end_of_field_part(self, name: str, element: "Element") -> None:
        """Tell where a link leads, which is an element of its own, or a field with a result."""
        kind = element.get(f"{_W}fldCharType", "")
        if name == "instrText":
            self._field += element.text or ""
        elif kind == "separate":
            found = _HYPERLINK.match(self._field)
            self._links.append((len(self._words), found[1] if found else ""))
        elif kind == "begin" or name == "fldSimple":
            self._field = ""
        elif self._links and (kind == "end" or name == "hyperlink"):
            self._field = ""
            start, target = self._links.pop()
            words = "".join(self._words[start:])
            if target and start < len(self._words):
                self._words[start:] = [linked(words, target)]

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
        self._links.clear()
        text = " ".join(words.split())
        if _is_in(paragraph, f"{_W}tc"):
            self._table.add(text, paragraph)
            return
        role = self._styles.role(paragraph)
        # An empty line may be within code, and stands between paragraphs for the looks of it.
        if role.kind == "contents" or not (text or role.kind == "code"):
            return
        if role.kind == "code":
            self._code.append(words.rstrip())
            return
        yield from self._end_code()
        match role.kind:
            case "heading":
                mark = self._mark(role)
                text = f"{mark} {text}" if mark != "-" else text
                yield Block("heading", text, min(role.level, _MAX_LEVEL))
            case "item":
                yield Block("item", text, role.level, (self._mark(role),))
            case _:
                yield Block("paragraph", text)

    def _mark(self, role: _Role) -> str:
        forms = role.list.forms if role.list else ()
        if role.list is None or forms[-1].kind in {"bullet", "none"}:
            return "-"
        # An item of a higher level begins the numbers below it anew.
        numbers = self._numbers.get(role.list.counter, [])[: len(forms)]
        numbers += [form.start for form in forms[len(numbers) : -1]]
        numbers += [forms[-1].start - 1] if len(numbers) < len(forms) else []
        numbers[-1] += 1
        self._numbers[role.list.counter] = numbers
        shown = dict(enumerate(map(numeral, numbers, (form.kind for form in forms)), start=1))
        text = forms[-1].text or f"%{len(forms)}."
        return _PLACE.sub(lambda found: shown.get(int(found[1]), ""), text).strip() or "-"

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
    return all(one is not None and one.get(_VALUE, "1") in _TRUE for one in bold)


def _goes_on(cell: "Element") -> bool:
    merged = cell.find(f"{_W}tcPr/{_W}vMerge")
    return merged is not None and merged.get(_VALUE) != "restart"


def _columns(cell: "Element") -> int:
    """How many columns a cell is in."""
    return max(1, _number(_value(cell, "tcPr/gridSpan"), 1))


def _number(value: str | None, otherwise: int) -> int:
    """A number of columns."""
    is_number = value is not None and value.isdecimal()
    return min(int((value or "")[:4]), _MAX_COLUMNS) if is_number else otherwise


def _is_in(element: "Element", *tags: str) -> bool:
    return next(element.iterancestors(*tags), None) is not None
