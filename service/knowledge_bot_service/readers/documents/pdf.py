"""PDF, read with pypdf, page by page."""

import io
import logging
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument

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
        raise ExtractionError(_DAMAGED) from None
    if not count:
        raise ExtractionError("the PDF has no pages")
    warnings: list[str] = []
    blocks = _titled(_blocks(reader, count, warnings))
    # The title may be the null object of PDF.
    return ParsedDocument(blocks, title if isinstance(title, str) else None, warnings)


_DAMAGED: Final = "the PDF is damaged: its structure cannot be read"
_TOO_LARGE: Final = "the PDF is not read: one of its pages unpacks to more than a page can need"

# A page may take so many seconds of computing.
_PAGE_SECONDS: Final = 10.0


class _TooSlowError(Exception):
    """A page took longer than it may."""


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
                text = page.extract_text()
                fields = [*_fields(page)]
        except _faults(_TooSlowError) as error:
            reason = reason or (_TOO_LARGE if isinstance(error, LimitReachedError) else _DAMAGED)
            unread.append(str(number + 1))
            continue
        found = [*_unwrapped(text), *fields]
        empty += [] if found else [str(number + 1)]
        unclear += [str(number + 1)] if _is_unclear(text) else []
        yield from found
    if len(unread) == count:
        raise ExtractionError(reason)
    if len(empty) + len(unread) == count:
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


@contextmanager
def _limited() -> Iterator[None]:
    """Ends what takes longer than a page may, where the system can tell."""
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def end(*_: object) -> None:
        raise _TooSlowError

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, _PAGE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _fields(page: "PageObject") -> Iterator[Block]:
    """What is filled into the fields of a page's form."""
    for reference in page.get("/Annots") or []:
        field = reference.get_object()
        if not isinstance(field, dict) or field.get("/Subtype") != "/Widget":
            continue
        kind, value, name = (_inherited(field, key) for key in ("/FT", "/V", "/T"))
        if value in {None, "", "/Off"} or kind not in {"/Tx", "/Ch", "/Btn"}:
            continue
        words = " ".join(str(value).lstrip("/").split())
        yield Block("paragraph", f"{field.get('/TU') or name or ''}: {words}".lstrip(": "))


def _inherited(field: Any, key: str) -> Any:
    for _ in range(_MAX_INHERITED):
        if key in field:
            value = field[key]
            return value if isinstance(value, str) else None
        if "/Parent" not in field:
            return None
        field = field["/Parent"]
    return None


_MAX_INHERITED: Final = 20


def _is_unclear(text: str) -> bool:
    """Whether many of a page's letters are none, or stand apart from one another."""
    words = text.split()
    odd = len(_ODD.findall(text))
    apart = sum(len(word) == 1 and word.isalpha() for word in words)
    return odd * 20 > len(text) or (len(words) > _SOME and apart * 2 > len(words))


_SOME: Final = 40
_ODD: Final = re.compile("[\ufffd\ue000-\uf8ff\0-\x08]|/[A-Z]\\d\\d|/g\\d+|\\(cid:\\d+\\)")


def _titled(blocks: Iterator[Block]) -> Iterator[Block]:
    """Blocks of which the first is a heading, if it is a title above another one."""
    first, second = next(blocks, None), next(blocks, None)
    if first and second and all(one.is_prose and one.is_title for one in (first, second)):
        first = Block("heading", first.text, 1)
    yield from filter(None, (first, second))
    yield from blocks


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
            together = f"{together} {line}"
        else:
            together = line
        if len(line) < width:
            yield from (together,) if together else ()
            together = ""
    if together:
        yield together
