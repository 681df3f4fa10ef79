"""PDF, read with pypdf, page by page."""

import io
import logging
import re
import signal
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import (
    ExtractionError,
    ParsedDocument,
    linked,
)
from knowledge_bot_service.readers.documents.tables import table_blocks

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader


def read_pdf(data: bytes) -> ParsedDocument:
    """The text of a PDF file, with what is filled into its forms.

    A page that cannot be read, or takes too long, is a warning.

    Raises:
        ExtractionError: it is encrypted, damaged, or cut off; or, when its blocks are read, none of
            its pages can be read or has text.
    """
    import pypdf
    from pypdf.errors import DependencyError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    if b"%%EOF" not in data:
        raise ExtractionError("the PDF is cut off: its end is missing")
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise ExtractionError("the PDF is encrypted and needs a password")
        count = len(reader.pages)
        title = reader.metadata.title if reader.metadata else None
    except DependencyError:
        raise ExtractionError("the PDF is encrypted in a way that cannot be read") from None
    except _faults():
        # What is said of places in it may not count what was put before it.
        if (start := data.find(b"%PDF-")) > 0:
            return read_pdf(data[start:])
        raise ExtractionError(_DAMAGED) from None
    if not count:
        raise ExtractionError("the PDF has no pages")
    warnings: list[str] = []
    blocks = _blocks(reader, count, warnings)
    # The title may be the null object of PDF.
    return ParsedDocument(blocks, title if isinstance(title, str) else None, warnings)


_DAMAGED: Final = "the PDF is damaged: its structure cannot be read"
_TOO_LARGE: Final = "the PDF is not read: one of its pages unpacks to more than a page can need"


def _faults(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """What pypdf raises on a damaged file; it is not always an error of its own."""
    from pypdf.errors import PyPdfError

    return (
        *others,
        *(PyPdfError, ArithmeticError, AssertionError, AttributeError, LookupError),
        *(NotImplementedError, OSError, TypeError, ValueError),
    )


def _blocks(reader: "PdfReader", count: int, warnings: list[str]) -> Iterator[Block]:
    from pypdf.errors import LimitReachedError

    empty, unread, unclear = list[str](), list[str](), list[str]()
    reason = ""
    for number in range(count):
        try:
            with _limited():
                page = reader.pages[number]
                fragments = _fragments(page, _links(page))
        except _faults(_TooSlowError) as error:
            reason = reason or (_TOO_LARGE if isinstance(error, LimitReachedError) else _DAMAGED)
            unread.append(str(number + 1))
            continue
        found = [*_laid_out(fragments)]
        empty += [] if found else [str(number + 1)]
        unclear += [str(number + 1)] if _is_unclear("".join(one.text for one in fragments)) else []
        yield from found
    fields = _fields(reader)
    yield from fields
    if len(unread) == count:
        raise ExtractionError(reason)
    if len(empty) + len(unread) == count and not fields:
        raise ExtractionError(f"the PDF has no text in its {count} pages (a scan?)")
    warnings += [
        f"{len(pages)} of its pages {what}: {_named(pages)}"
        for pages, what in (
            (empty, "have no text (scans?)"),
            (unread, "cannot be read"),
            (unclear, "have letters that their fonts do not name"),
        )
        if pages
    ]


# A page may take so many seconds of computing.
_PAGE_SECONDS: Final = 10.0


class _TooSlowError(Exception):
    """A page took longer than it may."""


@contextmanager
def _limited() -> Iterator[None]:
    """Ends what takes longer than a page may."""

    def end(*_: object) -> None:
        raise _TooSlowError

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, _PAGE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@dataclass(frozen=True, slots=True)
class _Fragment:
    """Words of a page that are drawn in one go, and where they begin, in points."""

    x: float
    y: float
    size: float
    text: str

    @property
    def end(self) -> float:
        """Where they end, roughly: a character is half as wide as high."""
        return self.x + len(self.text.strip()) * self.size / 2


@dataclass(frozen=True, slots=True)
class _Link:
    """Where a link leads, and the corners of what it is on."""

    address: str
    left: float
    bottom: float
    right: float
    top: float


def _fragments(page: "PageObject", links: Sequence[_Link]) -> list[_Fragment]:
    """The words of a page in the order in which they are read, with the addresses of links."""
    found: list[_Fragment] = []

    def add(
        text: str, around: Sequence[float], at: Sequence[float], _: object, size: float
    ) -> None:
        x = at[4] * around[0] + at[5] * around[2] + around[4]
        y = at[4] * around[1] + at[5] * around[3] + around[5]
        if found and not text.strip():
            found[-1] = replace(found[-1], text=found[-1].text + text)
        elif text:
            found.append(_Fragment(x, y, abs(size * at[0] * around[0]) or 1.0, text))

    page.extract_text(visitor_text=add)
    for link in links:
        on = [
            number
            for number, one in enumerate(found)
            if link.bottom - 2 <= one.y <= link.top and one.x <= link.right and one.text.strip()
        ]
        if on:
            one = found[on[-1]]
            # How wide a character is, roughly, tells where the words of the link end.
            end = one.text.find(" ", round((link.right - one.x) / one.size * 2) - 1)
            end = len(one.text.rstrip()) if end < 0 else end
            text = linked(one.text[:end], link.address) + one.text[end:]
            found[on[-1]] = replace(one, text=text)
    return found


def _laid_out(fragments: Sequence[_Fragment]) -> Iterator[Block]:
    """The paragraphs of a page, and its tables where what is drawn stands in rows and columns."""
    lines = [[*line] for _, line in groupby(fragments, lambda one: round(one.y / 2))]
    text: list[str] = []
    for is_grid, run in groupby(lines, lambda line: len(_cells(line)) > 1):
        rows = [*run]
        cells = _columns([_cells(line) for line in rows]) if is_grid and len(rows) > 1 else []
        if cells and _are_prose(cells):
            text += [f"{cell}\n" for column in zip(*cells, strict=True) for cell in column]
        elif cells:
            yield from _unwrapped("".join(text))
            yield from table_blocks(cells)
            text.clear()
        else:
            text += [one.text for line in rows for one in line]
    yield from _unwrapped("".join(text))


def _cells(line: Sequence[_Fragment]) -> list[_Fragment]:
    """The parts of a line that stand apart, in their order; one where they follow one another."""
    cells: list[_Fragment] = []
    for one in sorted(line, key=lambda one: one.x):
        if cells and one.x - cells[-1].end < _GAP:
            return cells[:1]
        cells.append(one)
    return cells


def _columns(rows: Sequence[Sequence[_Fragment]]) -> list[list[str]]:
    """The words of a grid by row and column; nothing where these cannot be told."""
    if len({len(row) for row in rows}) == 1 and all(map(_is_column, zip(*rows, strict=True))):
        return [[one.text.strip() for one in row] for row in rows]
    starts = sorted(one.x for row in rows for one in row)
    columns = [one for before, one in pairwise([-_GAP * 2, *starts]) if one - before > _GAP]
    found: list[list[str]] = []
    for row in rows:
        places = [bisect_right(columns, one.x) - 1 for one in row]
        if len(set(places)) < len(places):
            return []
        words = dict(zip(places, row, strict=True))
        found.append([words[at].text.strip() if at in words else "" for at in range(len(columns))])
    return found if len(columns) < _MAX_COLUMNS else []


def _is_column(cells: Sequence[_Fragment]) -> bool:
    """Whether cells begin, end, or have their middles below one another."""
    starts, ends = [one.x for one in cells], [one.end for one in cells]
    middles = [(start + end) / 2 for start, end in zip(starts, ends, strict=True)]
    return any(max(places) - min(places) < _GAP for places in (starts, ends, middles))


def _are_prose(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the columns of a grid are those of a text: long lines that go on below."""
    cells = [cell for row in rows for cell in row]
    goes_on = sum(cell[:1].islower() for row in rows[1:] for cell in row)
    return sum(map(len, cells)) > len(cells) * _LINE and goes_on * 2 > len(cells) - len(rows[0])


# Columns are so far apart, in points; the lines of one that is a text have so many characters.
_GAP: Final = 12.0
_LINE: Final = 18
_MAX_COLUMNS: Final = 30


def _links(page: "PageObject") -> list[_Link]:
    """The links of a page to other sites."""
    notes = [one.get_object() for one in page.get("/Annots") or []]
    return [
        _Link(str(one["/A"]["/URI"]), *map(float, one["/Rect"]))
        for one in notes
        if isinstance(one, dict) and one.get("/Subtype") == "/Link" and "/URI" in one.get("/A", {})
    ]


def _fields(reader: "PdfReader") -> list[Block]:
    """What is filled into the form of a document."""
    try:
        fields = reader.get_fields() or {}
    except _faults():
        return []
    told = (
        (field.get("/TU") or field.get("/T") or "", " ".join(str(value).lstrip("/").split()))
        for field in fields.values()
        if isinstance(value := field.get("/V"), str) and value not in {"", "/Off"}
    )
    return [Block("paragraph", f"{name}: {words}".lstrip(": ")) for name, words in told]


def _is_unclear(text: str) -> bool:
    """Whether many of a page's letters are none, or stand apart from one another."""
    words = text.split()
    odd = len(_ODD.findall(text))
    apart = sum(len(word) == 1 and word.isalpha() for word in words)
    return odd * 20 > len(text) or (len(words) > _SOME and apart * 2 > len(words))


_SOME: Final = 40
_ODD: Final = re.compile("[\ufffd\ue000-\uf8ff\0-\x08]|/[A-Z]\\d\\d|/g\\d+|\\(cid:\\d+\\)")


def _named(pages: list[str]) -> str:
    return ", ".join(pages[:_NAMED]) + (", …" if len(pages) > _NAMED else "")


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
            together = f"{together} {line}".rstrip()
        else:
            together = line
        if len(line) < width:
            yield from (together,) if together else ()
            together = ""
    if together:
        yield together
