"""OpenDocument: texts, spreadsheets and presentations (ODT, ODS, ODP), packed or flat."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import (
    ExtractionError,
    ParsedDocument,
    linked,
    titled,
)
from knowledge_bot_service.readers.documents.numbering import numeral
from knowledge_bot_service.readers.documents.package import DC_TITLE, Package, local, named
from knowledge_bot_service.readers.documents.spreadsheets import sheet_blocks
from knowledge_bot_service.readers.documents.tables import table_blocks

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


def read_odf(package: Package) -> ParsedDocument:
    """The blocks of an OpenDocument file, without headers, footers, comments and what is hidden.

    Raises:
        ExtractionError: it is protected by a password.
    """
    if [*named(package.part("META-INF/manifest.xml"), "encryption-data")]:
        raise ExtractionError("the document is protected by a password")
    meta = package.part("meta.xml")
    content = package.tree("content.xml")
    title = None if meta is None else meta.findtext(f".//{DC_TITLE}")
    return _document(content, [package.part("styles.xml"), content], title)


def read_flat_odf(root: "Element") -> ParsedDocument:
    """The blocks of an OpenDocument file that is one XML file."""
    return _document(root, [root], root.findtext(f".//{DC_TITLE}"))


def _document(
    content: "Element", styles: "Sequence[Element | None]", title: str | None
) -> ParsedDocument:
    body = next(iter(named(content, "body")), None)
    return titled([] if body is None else [*_OdfBody(styles).blocks(body)], title)


# Without words of the document's own.
_SKIPPED: Final = frozenset(
    {
        *("annotation", "annotation-end", "bibliography", "dde-connections", "forms"),
        *("hidden-paragraph", "hidden-text", "illustration-index", "object-index", "ruby-text"),
        *("sequence-decls", "settings", "table-index", "table-of-content", "tracked-changes"),
        "text-box",
    }
)
# What repeats on every slide.
_REPEATED: Final = frozenset({"date-time", "footer", "header", "page", "page-number"})
_MAX_LEVEL: Final = 6
_MAX_COLUMNS: Final = 500
_MAX_ROWS: Final = 200_000
_MAX_REPEATED: Final = 100


class _OdfBody:
    """The blocks of a body, by what the styles make of its elements."""

    def __init__(self, styles: "Sequence[Element | None]") -> None:
        all_styles = [one for part in styles for one in named(part, "style", "list-style")]
        self._hidden = {
            _get(style, "name")
            for style in all_styles
            for one in named(style, "text-properties", "table-properties")
            if _get(one, "display") in {"none", "false"}
        }
        self._titles = {
            _get(style, "name")
            for style in all_styles
            if "Title" in {_get(style, "name"), _get(style, "parent-style-name")}
        }
        # For a list's style and each of its levels that has numbers, how these are.
        self._lists = {
            (_get(style, "name"), _get(level, "level")): level
            for style in all_styles
            for level in named(style, "list-level-style-number")
        }
        # The last number of each list and level, for lists that go on.
        self._numbers: dict[tuple[str, int], int] = {}

    def blocks(self, element: "Element") -> Iterator[Block]:
        for child in element:
            name, is_hidden = local(child), _get(child, "style-name") in self._hidden
            if name in {"h", "p"}:
                yield from self._paragraph(child)
            elif name == "list":
                yield from self._list(child)
            elif name == "page":
                yield from self._slide(child)
            elif name == "table" and not is_hidden:
                yield from self._table(child)
            elif (name == "text-box" or name not in _SKIPPED | {"table"}) and not (
                is_hidden or _get(child, "display") == "none"
            ):
                yield from self.blocks(child)

    def _paragraph(self, element: "Element", mark: str = "", depth: int = 0) -> Iterator[Block]:
        words, style = self._words(element), _get(element, "style-name")
        if not words or style in self._hidden:
            pass
        elif local(element) == "h":
            text = f"{mark} {words}" if mark.strip("-") else words
            level = _number(element, "outline-level", 1) + 1
            yield Block("heading", text, min(level, _MAX_LEVEL))
        elif mark:
            yield Block("item", words, depth, (mark,))
        elif style in self._titles:
            yield Block("heading", words, 1)
        else:
            yield Block("paragraph", words, depth)
        # Boxes that stand in a paragraph; what is in a box of theirs comes with them.
        for box in named(element, "text-box"):
            if next(box.iterancestors("{*}text-box", "{*}p"), None) is element:
                yield from self.blocks(box)

    def _slide(self, slide: "Element") -> Iterator[Block]:
        """A slide: its title, the rest, and its notes."""
        shapes = [one for one in slide if _get(one, "class") not in _REPEATED]
        for shape in shapes:
            if _get(shape, "class") == "title":
                words = " ".join(filter(None, map(self._words, named(shape, "h", "p"))))
                yield from [Block("heading", words, 2)] if words else []
        for shape in shapes:
            if _get(shape, "class") != "title":
                parts = shape if local(shape) == "notes" else [shape]
                for part in parts:
                    if _get(part, "class") not in _REPEATED:
                        yield from self.blocks(part)

    def _list(
        self, element: "Element", style: str = "", above: tuple[str, ...] = ()
    ) -> Iterator[Block]:
        style, level = _get(element, "style-name") or style, len(above) + 1
        form = self._lists.get((style, str(level)))
        number = 0 if form is None else _number(form, "start-value", 1) - 1
        if _get(element, "continue-numbering") == "true" or _get(element, "continue-list"):
            number = self._numbers.get((style, level), number)
        for item in element:
            number = _number(item, "start-value", number + (local(item) == "list-item"))
            own = "" if form is None else numeral(number, _get(form, "num-format"))
            mark = _mark(form, (*above, own)) if local(item) == "list-item" else ""
            for child in item:
                if local(child) == "list":
                    yield from self._list(child, style, (*above, own))
                elif local(child) in {"h", "p"}:
                    yield from self._paragraph(child, mark, level)
                    mark = ""
                elif local(child) == "table":
                    yield from self._table(child)
        self._numbers[style, level] = number

    def _table(self, table: "Element") -> Iterator[Block]:
        around = table.getparent()
        if around is not None and local(around) == "spreadsheet":
            yield from sheet_blocks(_get(table, "name"), self._rows(table))
        else:
            has_names = next(iter(named(table, "table-header-rows")), None) is not None
            yield from table_blocks([*self._rows(table)], is_named=has_names or None)

    def _rows(self, table: "Element") -> Iterator[list[str]]:
        count, hidden = 0, _hidden_columns(table)
        # What cells of the rows before say in their columns, and for how many rows more.
        merged: dict[int, tuple[str, int]] = {}
        for row in named(table, "table-row"):
            is_own = next(row.iterancestors("{*}table"), None) is table
            if not is_own or _get(row, "visibility") == "collapse" or count >= _MAX_ROWS:
                continue
            words: list[str] = []
            for cell in row:
                text = self._cell(cell, merged, len(words))
                times = _number(cell, "number-columns-repeated", 1)
                words += [text] * min(times, _MAX_COLUMNS - len(words))
            # Rows that are repeated are empty ones nearly always, up to the end of the sheet.
            times = min(_number(row, "number-rows-repeated", 1), _MAX_REPEATED)
            count += times
            words = [one for at, one in enumerate(words) if at not in hidden]
            yield from [words] * (times if any(words) else 1)

    def _cell(self, cell: "Element", merged: dict[int, tuple[str, int]], at: int) -> str:
        if local(cell) == "covered-table-cell":
            text, left = merged.pop(at, ("", 0))
            if left > 1:
                merged[at] = text, left - 1
            return text
        text = " ".join(filter(None, map(self._words, named(cell, "h", "p"))))
        if (rows := _number(cell, "number-rows-spanned", 1)) > 1:
            merged[at] = text, rows - 1
        return text

    def _words(self, element: "Element") -> str:
        return " ".join("".join(self._texts(element)).split())

    def _texts(self, element: "Element") -> Iterator[str]:
        yield element.text or ""
        for child in element:
            match local(child):
                case "s" | "tab" | "line-break":
                    yield " "
                case "note":
                    paragraphs = (
                        one for part in named(child, "note-body") for one in named(part, "p")
                    )
                    yield f" ({' '.join(map(self._words, paragraphs))})"
                case "a":
                    yield linked("".join(self._texts(child)), _get(child, "href"))
                case "frame":
                    # What a picture shows, as its author says.
                    yield " ".join(
                        one.text or "" for one in child if local(one) in {"title", "desc"}
                    )
                case name if name not in _SKIPPED:
                    if _get(child, "style-name") not in self._hidden:
                        yield from self._texts(child)
            yield child.tail or ""


def _hidden_columns(table: "Element") -> set[int]:
    found: set[int] = set()
    end = 0
    for column in named(table, "table-column"):
        start = end
        end = min(start + _number(column, "number-columns-repeated", 1), _MAX_COLUMNS)
        found |= {*range(start, end)} if _get(column, "visibility") == "collapse" else set()
    return found


def _mark(form: "Element | None", numbers: tuple[str, ...]) -> str:
    """The mark of an item that is the last of these numbers."""
    if form is None or not numbers[-1]:
        return "-"
    shown = ".".join(filter(None, numbers[-_number(form, "display-levels", 1) :]))
    return f"{_get(form, 'num-prefix')}{shown}{_get(form, 'num-suffix')}".strip()


def _get(element: "Element", name: str) -> str:
    """An attribute by its name, in any namespace; "" where there is none."""
    return next(
        (str(value) for key, value in element.items() if str(key).endswith(f"}}{name}")), ""
    )


def _number(element: "Element", name: str, otherwise: int) -> int:
    value = _get(element, name)
    return int(value[:8]) if value.isdecimal() else otherwise
