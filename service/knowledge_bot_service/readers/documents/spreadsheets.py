"""Spreadsheets (XLSX and XLS): each sheet a section, each row with the names of its columns."""

import os
import re
from collections.abc import Iterable, Iterator
from datetime import date, time, timedelta
from itertools import islice
from typing import IO, TYPE_CHECKING, Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument
from knowledge_bot_service.readers.documents.package import Package
from knowledge_bot_service.readers.documents.tables import table_blocks

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet
    from xlrd.book import Book
    from xlrd.sheet import Cell, Sheet


def sheet_blocks(name: str, rows: Iterable[list[str]]) -> Iterator[Block]:
    """The blocks of a sheet, as they are taken; none if it has no text."""
    blocks = table_blocks([*islice(rows, _MAX_ROWS)])
    for first in islice(blocks, 1):
        yield Block("heading", name, 2)
        yield first
        yield from blocks


def read_xlsx(package: Package) -> ParsedDocument:
    """The rows of a workbook. Sheets, rows and columns that are hidden are left out.

    A row that a filter hides is there.

    Raises:
        ExtractionError: it is damaged.
    """
    import openpyxl

    try:
        book = openpyxl.load_workbook(package.usual(), data_only=True)
    except (ExtractionError, MemoryError):
        raise
    except Exception:  # noqa: BLE001 (what openpyxl meets is not always an error of its own)
        raise ExtractionError("the spreadsheet is damaged") from None
    sheets = (sheet for sheet in book.worksheets if sheet.sheet_state == "visible")
    blocks = (block for sheet in sheets for block in sheet_blocks(sheet.title, _rows(sheet)))
    return ParsedDocument(blocks, book.properties.title)


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
                # Otherwise a cell at the end of the sheet makes all those before it.
                ragged_rows=True,
            )
        sheets = (sheet for sheet in book.sheets() if not sheet.visibility)
        blocks = [one for sheet in sheets for one in sheet_blocks(sheet.name, _old_rows(sheet))]
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 (what xlrd meets is not always an error of its own)
        is_protected = "encrypted" in str(error).lower()
        how = "protected by a password" if is_protected else "damaged, or older than Excel 5"
        raise ExtractionError(f"the spreadsheet is {how}") from None
    return ParsedDocument(blocks)


def _old_rows(sheet: "Sheet") -> Iterator[list[str]]:
    """The rows of a sheet, and none that is hidden unless by a filter."""
    book = sheet.book
    filtered = {one.scope for one in book.name_obj_list if one.name == _FILTER}
    columns = {at for at, one in sheet.colinfo_map.items() if one.hidden}
    rows = {at for at, one in sheet.rowinfo_map.items() if one.hidden}
    for number in range(sheet.nrows):
        if number not in rows or sheet.number in filtered:
            cells = enumerate(sheet.row(number))
            yield [_old_words(book, cell) for at, cell in cells if at not in columns]


# What xlrd calls the name of what a filter is for.
_FILTER: Final = "_FilterDatabase"


def _old_words(book: "Book", cell: "Cell") -> str:
    from xlrd import XL_CELL_BOOLEAN, XL_CELL_DATE, XL_CELL_ERROR, error_text_from_code
    from xlrd.xldate import xldate_as_datetime

    value: object = cell.value
    if cell.ctype == XL_CELL_BOOLEAN:
        value = bool(value)
    elif cell.ctype == XL_CELL_ERROR:
        value = error_text_from_code.get(value)
    elif cell.ctype == XL_CELL_DATE:
        moment = xldate_as_datetime(cell.value, book.datemode)
        value = moment if cell.value >= 1 else moment.time()
    at = cell.xf_index
    key = book.xf_list[at].format_key if at is not None and at < len(book.xf_list) else 0
    form = book.format_map.get(key)
    return _shown(value, _OF_THE_PLACE.get(key, form.format_str if form else ""))


# A sheet has so many rows and columns at most that are told.
_MAX_ROWS: Final = 200_000
_MAX_COLUMNS: Final = 500


def _rows(sheet: "Worksheet") -> list[list[str]]:
    """The rows of a sheet, those between them that are empty as one."""
    found: dict[int, dict[int, str]] = {}
    # What has no cell would be made by asking for it, up to the end of the sheet.
    for (number, column), cell in sorted(sheet._cells.items()):  # noqa: SLF001
        if column <= _MAX_COLUMNS and (words := _shown(cell.value, cell.number_format)):
            found.setdefault(number, {})[column] = words
    # A cell that is merged with those below it is told in their rows as well.
    for area in sheet.merged_cells.ranges:
        words = found.get(area.min_row, {}).get(area.min_col, "")
        for number in range(area.min_row + 1, area.max_row + 1):
            if words and number in found:
                found[number].setdefault(area.min_col, words)
    hidden = {
        column
        for one in sheet.column_dimensions.values()
        if one.hidden
        for column in range(one.min or 0, min(one.max or 0, _MAX_COLUMNS) + 1)
    }
    folded = {number for number, row in sheet.row_dimensions.items() if row.hidden}
    rows: list[list[str]] = []
    before = 0
    for number in sorted(found.keys() if sheet.auto_filter.ref else found.keys() - folded):
        rows += [[]] if number > before + 1 and rows else []
        row, before = found[number], number
        rows.append([row.get(at, "") for at in range(1, max(row) + 1) if at not in hidden])
    return rows


def _shown(value: object, code: str) -> str:
    """A value in the format of its cell, such as `0.0%` or `d.m.yyyy` (ECMA-376-1, 18.8.31).

    Dates in the format of the place are as in ISO 8601, and names of months in English.
    """
    match value:
        case None:
            return ""
        case bool():
            return str(value).upper()
        case int() | float():
            return _number(value, _LITERAL.sub(_said, code).split(";"))
        case date() | time():
            return _moment(value, _OF_THE_PLACE.get(code, code))
        case timedelta():
            minutes = round(value.total_seconds() / 60)
            return f"{minutes // 60}:{minutes % 60:02}"
    return " ".join(str(value).split())


# Words in quotes, a character after a backslash, a gap as wide as a character or filled with one,
# and in brackets a colour, a condition, a currency.
_LITERAL: Final = re.compile(r'"([^"]*)"|\\(.)|_.|\*.|\[\$([^\]-]*)[^\]]*\]|\[[^\]]*\]')
_DIGITS: Final = re.compile(r"[#0?][#0?,]*(?:\.([#0?]*))?(,*)(E[+-]0+)?", re.IGNORECASE)
_LARGE: Final = 1e15


def _said(found: re.Match[str]) -> str:
    return found[1] or found[2] or found[3] or ""


def _number(value: float, forms: list[str]) -> str:
    has_own_sign = value < 0 and len(forms) > 1
    form = forms[1] if has_own_sign else forms[0]
    found = _DIGITS.search(form)
    if found is None or "/" in form:
        is_whole = value == int(value) and abs(value) < _LARGE
        return str(int(value)) if is_whole else f"{value:.11g}"
    places, thousands, exponent = found.groups()
    size = abs(value) * (100 if "%" in form else 1) / 1000 ** len(thousands)
    form_of = f"{',' * (',' in found[0])}.{len(places or '')}{'E' if exponent else 'f'}"
    number = f"{size:{form_of}}"
    if places and places.endswith("#"):
        number = number.rstrip("0").removesuffix(".")
    sign = "-" if value < 0 and not has_own_sign else ""
    return " ".join(f"{sign}{form[: found.start()]}{number}{form[found.end() :]}".split())


def _moment(value: date | time, code: str) -> str:
    in_half = re.search("am/pm", code, re.IGNORECASE)

    def told(found: re.Match[str]) -> str:
        if minutes := found["minutes"]:
            return "%M" if len(minutes) > 1 else "%-M"
        part = (found["part"] or "").lower()
        part = part.replace("h", "i") if in_half else part
        return _PARTS.get(part) or _said(found).replace("%", "%%")

    form = _MOMENT.sub(told, code).partition(";")[0].replace("@", "")
    return " ".join(value.strftime(form).split())


# What Excel shows as the place has it, by its code, or by its number in older files.
_OF_THE_PLACE: Final[dict[str | int, str]] = {
    **dict.fromkeys(("mm-dd-yy", 14), "yyyy-mm-dd"),
    **dict.fromkeys(("m/d/yy h:mm", 22), "yyyy-mm-dd hh:mm"),
}
# Parts of a date as `strftime` names them, and "i" for the hours of half a day.
_PARTS: Final = {
    "yyyy": "%Y",
    "yy": "%y",
    "mmmmm": "%b",
    "mmmm": "%B",
    "mmm": "%b",
    "mm": "%m",
    "m": "%-m",
    "dddd": "%A",
    "ddd": "%a",
    "dd": "%d",
    "d": "%-d",
    "ss": "%S",
    "s": "%-S",
    "hh": "%H",
    "h": "%-H",
    "ii": "%I",
    "i": "%-I",
    "am/pm": "%p",
}
_MOMENT: Final = re.compile(
    rf"{_LITERAL.pattern}|(?P<minutes>(?<=h:)mm?|mm?(?=:s))"
    r"|(?P<part>yyyy|yy|m{1,5}|d{1,4}|hh?|ss?|am/pm)(?:\.0+)?",
    re.IGNORECASE,
)
