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
    Read,
    joined_names,
    linked,
    titled,
)
from knowledge_bot_service.readers.documents.numbering import numeral
from knowledge_bot_service.readers.documents.package import Package, relation

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


def read_docx(package: Package, read: Read) -> ParsedDocument:
    """The blocks of a Word document; its title is that of its properties, or its first line's.

    A style tells what a paragraph is: by the name that Word gives it in every language, or by its
    outline level. A table of contents, which repeats the headings, is left out. What is put in from
    a file of another kind is read by `read`.
    """
    main = package.main()
    body = _DocxBody(package, main, read)
    return titled([*body.blocks(package.tree(main))], package.title())


_NOTES: Final = {"footnote": "footnotes", "endnote": "endnotes"}

_W: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_VALUE: Final = f"{_W}val"
# A fallback repeats, for old programs, what is before it.
_UNSEEN: Final = (
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
    f"{_W}del",
    f"{_W}moveFrom",
)
_BETWEEN: Final = {
    **dict.fromkeys(("br", "cr", "p", "tab", "txbxContent"), " "),
    "noBreakHyphen": "-",
}

# Names of styles: those of Word, of LibreOffice and of Pandoc.
_HEADING: Final = re.compile(r"heading ([1-9])")
_CONTENTS: Final = re.compile(r"toc (?:[1-9]|heading)|contents [1-9]|contents heading")
_LIST: Final = re.compile(r"list (?:bullet|number) ([2-5])")
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
# Boxes of Word's fonts of symbols, ticked and empty.
_SYMBOLS: Final = {
    **dict.fromkeys(("F0FE", "F0FD", "F052", "F053", "F054", "F078"), "☒"),
    **dict.fromkeys(("F0A8", "F06F", "F071", "F0A3"), "☐"),
    "F0FC": "✓",
    "F0FB": "✗",
}
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
    """What a paragraph is: a heading or an item of this level, from 1 on, or a text."""

    kind: Literal["heading", "item", "contents", "text"] = "text"
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

    def sets_off_first_row(self, properties: "Element | None") -> bool:
        """Whether the style of a table sets its first row off, and the table has that done."""
        look = None if properties is None else properties.find(f"{_W}tblLook")
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
    return _Role("contents") if _CONTENTS.fullmatch(name) else None


class _DocxBody:
    """The text of a document. Each note is told where it is referred to."""

    def __init__(self, package: Package, main: str, read: Read) -> None:
        self._package, self._read = package, read
        self._related = package.related(main)
        self._styles = _Styles(
            _companion(package, main, "styles"), _companion(package, main, "numbering")
        )
        self._notes = _notes(package, main)
        # A letter that is set larger before its word.
        self._letter = ""
        # The numbers of the last items, by what counts them.
        self._numbers: dict[str, list[int]] = {}

    def blocks(self, element: "Element") -> Iterator[Block]:
        for child in element:
            if child.tag == f"{_W}p":
                yield from self._paragraph(child)
            elif child.tag == f"{_W}tbl":
                yield from self._table(child)
            elif child.tag == f"{_W}altChunk":
                if (name := self._target(child)) in self._package.names:
                    yield from self._read(self._package.read(name), name, "").blocks
            elif child.tag not in _UNSEEN:
                yield from self.blocks(child)

    def _paragraph(self, paragraph: "Element") -> Iterator[Block]:
        text, role = self._words(paragraph), self._styles.role(paragraph)
        frame = paragraph.find(f"{_W}pPr/{_W}framePr")
        if frame is not None and frame.get(f"{_W}dropCap", "none") != "none":
            self._letter = text
            return
        text, self._letter = f"{self._letter}{text}", ""
        if not text or role.kind == "contents":
            return
        mark = self._mark(role)
        match role.kind:
            case "heading":
                text = f"{mark} {text}" if mark != "-" else text
                yield Block("heading", text, min(role.level, _MAX_LEVEL))
            case "item":
                yield Block("item", text, role.level, (mark,))
            case _:
                yield Block("paragraph", text)

    def _target(self, element: "Element") -> str:
        return self._related.get(relation(element), ("", ""))[1]

    def _words(self, paragraph: "Element") -> str:
        """The words of a paragraph, with those of what stands in it."""
        from lxml import etree

        words: list[str] = []
        # Where the words of links begin, and where these lead; what a field does.
        links: list[tuple[int, str]] = []
        field = ""
        walk = etree.iterwalk(paragraph, events=("start", "end"))
        for event, one in walk:
            name = str(one.tag).removeprefix(_W)
            kind = one.get(f"{_W}fldCharType") if name == "fldChar" else name
            if event == "end":
                if kind in {"hyperlink", "end"} and links:
                    start, target = links.pop()
                    words[start:] = [linked("".join(words[start:]), target)]
            elif self._is_unseen(one, name, paragraph):
                walk.skip_subtree()
            elif kind == "hyperlink":
                links.append((len(words), self._target(one)))
            elif kind == "separate":
                found = _HYPERLINK.match(field)
                links.append((len(words), found[1] if found else ""))
            elif name in {"fldChar", "instrText"}:
                field = field + (one.text or "") if name == "instrText" else ""
            else:
                words.append(self._said(one, name))
        return " ".join("".join(words).split())

    def _is_unseen(self, element: "Element", name: str, paragraph: "Element") -> bool:
        """Whether it is deleted, moved away, hidden or struck out, or says how something looks."""
        if name != "r":
            return name == "pPr" or element.tag in _UNSEEN
        own = element.find(f"{_W}rPr")
        if (is_hidden := _hidden(own)) is not None:
            return is_hidden
        look = paragraph.find(f"{_W}pPr") if self._styles.hide else None
        return self._styles.hides(own, "rStyle") or self._styles.hides(look, "pStyle")

    def _said(self, element: "Element", name: str) -> str:
        """What an element says before those in it."""
        if element.tag in {f"{_W}t", _EQUATION}:
            return element.text or ""
        match name:
            case "sym":
                return _SYMBOLS.get(element.get(f"{_W}char", "").upper(), "")
            case "checkBox":
                marks = [element.find(f"{_W}{one}") for one in ("checked", "default")]
                said = [mark.get(_VALUE, "1") in _TRUE for mark in marks if mark is not None]
                return "☒ " if said[:1] == [True] else "☐ "
            case "footnoteReference" | "endnoteReference":
                key = name.removesuffix("Reference"), element.get(f"{_W}id")
                return f" ({self._notes[key]})" if self._notes.get(key) else ""
        if element.tag == _PICTURE:  # what it shows, as its author says
            return f" {element.get('descr', '')} "
        return _BETWEEN.get(name, "")

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

    def _table(self, table: "Element") -> Iterator[Block]:
        """The rows of a table; one that is a single cell is a title, and no row.

        Every cell stays in its column. The first row has names where it is a heading, where its
        words are bold, or where the table's style sets it off. More rows have if they are headings
        as well.
        """
        is_set_off = self._styles.sets_off_first_row(table.find(f"{_W}tblPr"))
        names: tuple[str, ...] = ()
        above: list[str] = []
        has_rows = False
        for row in _outermost(table, "tr"):
            parts = [*_outermost(row, "tc")]
            cells = self._cells(row, parts, above)
            if not any(cells):
                continue
            if len(parts) == 1 and cells[0]:
                yield Block("paragraph", cells[0])
                continue
            is_named = not (names or has_rows) and (is_set_off or _is_bold(row))
            if not has_rows and (is_named or row.find(f"{_W}trPr/{_W}tblHeader") is not None):
                names = joined_names(names, cells)
            else:
                has_rows = True
                yield Block("row", "", 0, names, tuple(cells))
            above = cells
        if names and not has_rows:
            yield Block("row", "", 0, (), names)

    def _cells(self, row: "Element", parts: list["Element"], above: list[str]) -> list[str]:
        """The words of a row by column; those of a cell that goes on are those above it."""
        cells = [""] * _number(_value(row, "trPr/gridBefore"), 0)
        for cell in parts:
            text = " ".join(filter(None, map(self._words, _outermost(cell, "p"))))
            merged = cell.find(f"{_W}tcPr/{_W}vMerge")
            if merged is not None and merged.get(_VALUE) != "restart" and len(cells) < len(above):
                text = text or above[len(cells)]
            cells += [text] * max(1, _number(_value(cell, "tcPr/gridSpan"), 1))
        return cells


def _outermost(element: "Element", name: str) -> "Iterator[Element]":
    """What is of this name in an element, without what is of it in one of those."""
    for child in element:
        if child.tag == f"{_W}{name}":
            yield child
        elif child.tag not in _UNSEEN:
            yield from _outermost(child, name)


def _is_bold(row: "Element") -> bool:
    runs = [run for run in row.iter(f"{_W}r") if run.find(f"{_W}t") is not None]
    bold = [run.find(f"{_W}rPr/{_W}b") for run in runs]
    return all(one is not None and one.get(_VALUE, "1") in _TRUE for one in bold)


def _number(value: str | None, otherwise: int) -> int:
    """A number of columns."""
    is_number = value is not None and value.isdecimal()
    return min(int((value or "")[:4]), _MAX_COLUMNS) if is_number else otherwise


def _is_in(element: "Element", *tags: str) -> bool:
    return next(element.iterancestors(*tags), None) is not None
