"""Spreadsheets (XLSX and XLS): each sheet a section, each row with the names of its columns."""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, TYPE_CHECKING, Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument
from knowledge_bot_service.readers.documents.numberformats import BUILT_IN, shown
from knowledge_bot_service.readers.documents.package import Package, local, named, relation
from knowledge_bot_service.readers.documents.tables import table_blocks

if TYPE_CHECKING:
    from lxml.etree import _Element as Element
    from xlrd.book import Book
    from xlrd.sheet import Cell


def sheet_blocks(name: str, rows: Iterable[list[str]]) -> list[Block]:
    """The blocks of a sheet; none if it has no text."""
    blocks = [*table_blocks([*islice(rows, _MAX_ROWS)])]
    return [Block("heading", name, 2), *blocks] if blocks else []


def read_xlsx(package: Package) -> ParsedDocument:
    """The rows of a workbook. Sheets, rows and columns that are hidden are left out.

    A row that a filter hides is there.
    """
    book = _Workbook(package)
    blocks = [
        block for name, part in book.sheets() for block in sheet_blocks(name, book.rows(part))
    ]
    return ParsedDocument(blocks, package.title())


def read_xls(file: IO[bytes]) -> ParsedDocument:
    """The rows of a workbook of Excel before 2007, as `read_xlsx`.

    Raises:
        ExtractionError: it is damaged, or protected by a password.
    """
    import xlrd

    try:
        with open(os.devnull, "w") as log:  # noqa: PTH123 (no file of anybody's)
            book = xlrd.open_workbook(
                file_contents=file.read(),
                logfile=log,
                formatting_info=True,
                ignore_workbook_corruption=True,
            )
        blocks: list[Block] = []
        for sheet in book.sheets():
            if not sheet.visibility:
                rows = (
                    [_old_words(book, one) for one in sheet.row(at)] for at in range(sheet.nrows)
                )
                blocks += sheet_blocks(sheet.name, rows)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 (what xlrd meets is not always an error of its own)
        is_protected = "encrypted" in str(error).lower()
        how = "protected by a password" if is_protected else "damaged, or older than Excel 5"
        raise ExtractionError(f"the spreadsheet is {how}") from None
    return ParsedDocument(blocks)


def _old_words(book: "Book", cell: "Cell") -> str:
    from xlrd import XL_CELL_BOOLEAN, XL_CELL_DATE, XL_CELL_ERROR, XL_CELL_NUMBER
    from xlrd import error_text_from_code as errors

    match cell.ctype:
        case kind if kind in {XL_CELL_NUMBER, XL_CELL_DATE}:
            at = cell.xf_index
            key = book.xf_list[at].format_key if at is not None and at < len(book.xf_list) else 0
            own = book.format_map.get(key)
            code = BUILT_IN.get(key) or (own.format_str if own else "")
            return shown(cell.value, code, since_1904=bool(book.datemode))
        case kind if kind == XL_CELL_BOOLEAN:
            return "TRUE" if cell.value else "FALSE"
        case kind if kind == XL_CELL_ERROR:
            return str(errors.get(cell.value, ""))
    return " ".join(str(cell.value).split())


# A sheet has so many rows and columns at most that are told.
_MAX_ROWS: Final = 200_000
_MAX_COLUMNS: Final = 500
# Cells that are merged down over more rows are for the looks.
_MAX_MERGED: Final = 1000

_PLACE: Final = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")
_TRUE: Final = frozenset({"1", "true"})


class _Workbook:
    """The texts, formats and sheets of a workbook."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._main = package.main()
        self._book = package.tree(self._main)
        self._texts = [
            _text(one)
            for part in package.of_type(self._main, "sharedStrings")
            for one in named(package.part(part), "si")
        ]
        self._formats: list[str] = []
        for part in package.of_type(self._main, "styles"):
            styles = package.part(part)
            codes = {
                one.get("numFmtId"): one.get("formatCode", "") for one in named(styles, "numFmt")
            }
            for form in (one for group in named(styles, "cellXfs") for one in named(group, "xf")):
                number = form.get("numFmtId", "0")
                built_in = BUILT_IN.get(int(number), "") if number.isdecimal() else ""
                self._formats.append(codes.get(number, built_in))
        self._since_1904 = any(
            one.get("date1904") in _TRUE for one in named(self._book, "workbookPr")
        )

    def sheets(self) -> Iterator[tuple[str, str]]:
        """The sheets that are shown: their names and members."""
        related = self._package.related(self._main)
        for sheet in named(self._book, "sheet"):
            part = related.get(relation(sheet), ("", ""))[1]
            if part in self._package.names and sheet.get("state", "visible") == "visible":
                yield sheet.get("name", ""), part

    def rows(self, part: str) -> list[list[str]]:
        """The rows of a sheet, those between them that are empty as one."""
        found: dict[int, list[str]] = {}
        folded: set[int] = set()
        hidden: set[int] = set()
        merged: list[str] = []
        has_filter, number = False, 0
        tags = [f"{{*}}{one}" for one in ("row", "col", "mergeCell", "autoFilter")]
        for _, element in self._package.walk(part, tags=tags):
            match local(element):
                case "row":
                    number = _number(element.get("r", ""), number + 1)
                    found[number] = self._row(element)
                    folded |= {number} if element.get("hidden") in _TRUE else set()
                    if len(found) >= _MAX_ROWS:
                        break
                case "col" if element.get("hidden") in _TRUE:
                    first, last = (_number(element.get(one, ""), 0) for one in ("min", "max"))
                    hidden |= {*range(first - 1, min(last, _MAX_COLUMNS))}
                case "mergeCell":
                    merged.append(element.get("ref", ""))
                case "autoFilter":
                    has_filter = True
            element.clear()
        _fill(found, merged)
        rows: list[list[str]] = []
        before = 0
        for number, row in sorted(found.items()):
            if number in folded and not has_filter:
                continue
            rows += [[]] if number > before + 1 and rows else []
            rows.append(
                [cell for at, cell in enumerate(row) if at not in hidden] if hidden else row
            )
            before = number
        return rows

    def _row(self, row: "Element") -> list[str]:
        cells: list[str] = []
        for cell in row:
            if local(cell) != "c":
                continue
            place = _PLACE.fullmatch(cell.get("r", ""))
            at = _column(place[1]) if place else len(cells)
            if at >= _MAX_COLUMNS:
                break
            cells += [""] * (at + 1 - len(cells))
            cells[at] = self._words(cell)
        return cells

    def _words(self, cell: "Element") -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            return _text(cell)
        value = next((one.text or "" for one in cell if local(one) == "v"), "")
        try:
            match kind:
                case "s":
                    return self._texts[int(value)]
                case "b":
                    return "TRUE" if value in _TRUE else "FALSE"
                case "n" if value:
                    style = cell.get("s", "0")
                    code = self._formats[int(style)] if int(style) < len(self._formats) else ""
                    return shown(float(value), code, since_1904=self._since_1904)
        except (IndexError, ValueError):
            return value
        return " ".join(value.split())


def _text(element: "Element") -> str:
    """The words of a text, without how they are pronounced."""
    words = (
        one.text or ""
        for one in named(element, "t")
        if next(one.iterancestors("{*}rPh"), None) is None
    )
    return " ".join("".join(words).split())


def _fill(rows: dict[int, list[str]], merged: Iterable[str]) -> None:
    """Tell a cell that is merged with those below it in their rows as well."""
    for area in merged:
        first, last = (_PLACE.fullmatch(part) for part in (area.partition(":")[::2]))
        if not (first and last):
            continue
        top, bottom, at = int(first[2]), int(last[2]), _column(first[1])
        above = rows.get(top, [])
        if at >= len(above) or not above[at] or bottom - top > _MAX_MERGED:
            continue
        for number in range(top + 1, bottom + 1):
            if (row := rows.get(number)) and any(row):
                row += [""] * (at + 1 - len(row))
                row[at] = row[at] or above[at]


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("@")
    return number - 1


def _number(value: str, otherwise: int) -> int:
    return int(value[:8]) if value.isdecimal() else otherwise
