"""Text from documents of many kinds.

The kind is decided by content, then by content type, then by file name. What is read here may come
from anybody: `knowledge_bot_service.readers.reading` calls it in a process with limits.
"""

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from email.message import Message
from importlib import import_module
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from knowledge_bot_service.readers.analyzer import Block
from knowledge_bot_service.readers.documents.document import (
    ExtractionError,
    ParsedDocument,
    Read,
    addressed,
)
from knowledge_bot_service.readers.documents.markdown import read_markdown, read_plain
from knowledge_bot_service.readers.documents.text import decode, is_binary, tidied, tidy
from knowledge_bot_web.kinds import BY_SUFFIX, BY_TYPE, KINDS

if TYPE_CHECKING:
    from knowledge_bot_service.readers.documents.package import Package

__all__ = ["ExtractionError", "ParsedDocument", "extract", "extract_text"]


def extract(path: Path, *, filename: str, content_type: str | None = None) -> ParsedDocument:
    """Take the text out of a document.

    Args:
        path: where its content is.
        filename: what its sender calls it.
        content_type: what its sender says it is, a Content-Type as in HTTP.

    Returns:
        Its blocks, read as they are taken: NFC, without NULs and lone surrogates.

    Raises:
        ExtractionError: it is empty, of no kind that can be read, damaged, without text, or larger
            than is read.
    """
    with path.open("rb") as file:
        return _extracted(file, filename, content_type, 0)


def _extracted(
    file: IO[bytes], filename: str, content_type: str | None, depth: int
) -> ParsedDocument:
    """A document that is in so many others."""

    def read(data: bytes, name: str, content_type: str) -> ParsedDocument:
        if depth == _MAX_DEPTH:
            raise ExtractionError("it is in too many documents that are in each other")
        return _extracted(BytesIO(data), name, content_type or None, depth + 1)

    start = file.read(_START)
    file.seek(0)
    if not start.strip(_BLANK):
        raise ExtractionError("the file is empty")
    header = _header(content_type)
    kind = _kind(start, header.get_content_type() if content_type else "", filename)
    return _checked(_parsed(file, kind, _charset(header), read))


def _parsed(file: IO[bytes], kind: str, charset: str | None, read: Read) -> ParsedDocument:
    document: ParsedDocument
    match kind:
        case "zip":
            document = _read_package(file, read)
        case "ole":
            document = _read_compound(file, read)
        case "pdf":
            document = _reader("pdf.read_pdf")(file.read())
        case "html":
            document = _reader("html.read_html")(file, charset)
        case "xml":
            document = _reader("xml.read_xml")(file)
        case "rtf":
            document = _reader("rtf.read_rtf")(_bounded_data(file))
        case "mail" | "mbox":
            document = _reader(f"mail.read_{kind}")(_bounded_data(file), read)
        case _:
            text = tidy(decode(_bounded_data(file), [charset] if charset else ()))
            document = _reader(_OF_TEXTS.get(kind, "markdown.read_plain"))(text)
    return document


def _reader(place: str) -> Callable[..., ParsedDocument]:
    """A reader, which is loaded by the first document of its kind."""
    module, _, name = place.partition(".")
    return getattr(import_module(f"knowledge_bot_service.readers.documents.{module}"), name)  # type: ignore[no-any-return]


def _bounded_data(file: IO[bytes]) -> bytes:
    data = file.read(_MAX_TEXT + 1)
    if len(data) > _MAX_TEXT:
        raise ExtractionError(f"the text is larger than {_MAX_TEXT // 1024**2} MiB")
    return data


# The readers of texts, and of what is packed, by kind.
_OF_TEXTS: Final = {
    "cards": "records.read_cards",
    "csv": "tables.read_csv",
    "json": "records.read_json",
    "markdown": "markdown.read_markdown",
    "notebook": "records.read_notebook",
    "subtitles": "records.read_subtitles",
}
_OF_PACKAGES: Final = {
    "epub": "epub.read_epub",
    "opendocument": "odf.read_odf",
    "presentation": "pptx.read_pptx",
    "spreadsheet": "spreadsheets.read_xlsx",
    "word": "docx.read_docx",
}


def extract_text(content: str) -> ParsedDocument:
    """Take the text out of what was sent as a text.

    A text with headings was written as Markdown. In any other, marks may be meant as they stand.

    Raises:
        ExtractionError: there is no text in it.
    """
    content = tidy(content)
    is_markdown = _HEADING.search(content)
    return _checked(read_markdown(content) if is_markdown else read_plain(content))


# How much of a document is read to find its kind, in bytes.
_START: Final = 64 * 1024

# A longer text would need more memory than a reader may use.
_MAX_TEXT: Final = 64 * 1024**2

_BLANK: Final = b" \t\r\n\f\v\0\xef\xbb\xbf"

# Where a page's first tag is, of XML that is one.
_PAGE_START: Final = 1024
_PDF: Final = re.compile(rb"(?:^|[\r\n\0])%PDF-\d")

_HEADING: Final = re.compile(r"^#{1,6} \S", re.MULTILINE)

# A longer title, in characters, would outweigh the passages that it stands for.
_MAX_TITLE: Final = 300

# Splitting a longer paragraph into sentences would be one step of many seconds, in characters.
_MAX_PARAGRAPH: Final = 50_000

_KNOWN_BINARIES: Final = {
    (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*"): "an image",
    (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"): "a compressed file",
    (b"7z\xbc\xaf", b"Rar!"): "an archive",
    (b"\x7fELF",): "a program",
    (b"SQLite format 3\0",): "a database",
}

# Other archives, by a member, and what is in a compound file (MS-CFB), by its streams.
_OTHER_ARCHIVES: Final = {
    "xl/workbook.bin": "a binary spreadsheet (.xlsb); save it as .xlsx",
    "Index/Document.iwa": "a document of Apple's iWork; export it as PDF",
    "Index.zip": "a document of Apple's iWork; export it as PDF",
}
_OLD: Final = {
    "EncryptedPackage": "a document that is protected by a password",
    "WordDocument": "an old Word document (.doc); save it as .docx or PDF",
    "PowerPoint Document": "an old presentation (.ppt); save it as .pptx or PDF",
}
_WORKBOOKS: Final = frozenset({"Workbook", "Book"})
_MESSAGE: Final = "__properties_version1.0"

_STREAMS: Final = {name.lower(): name for name in (*_OLD, *_WORKBOOKS, _MESSAGE)}

# Documents that are in each other.
_MAX_DEPTH: Final = 5

_STARTS: Final = (
    (re.compile(rb"<(?:!doctype html|html|head|body)", re.IGNORECASE), "html"),
    (re.compile(rb"WEBVTT\b"), "subtitles"),
    (re.compile(rb"BEGIN:V(?:CALENDAR|CARD)\b", re.IGNORECASE), "cards"),
    (re.compile(rb"From [^\n]*\d\d:\d\d[^\n]*\n[\w-]+:"), "mbox"),
    (
        re.compile(
            rb"(?:[\w-]+:[^\n]*\n(?:[ \t][^\n]*\n)*)*?"
            rb"(?:MIME-Version|Message-ID|Received|Return-Path|Delivered-To):",
            re.IGNORECASE,
        ),
        "mail",
    ),
)
# Kinds that show in their content.
_BINARY: Final = frozenset(
    {"epub", "message", "opendocument", "pdf", "presentation", "rtf", "spreadsheet", "word"}
)

# What has such a name and is text was never written, or is an error message in its place; but
# programs write tables and pages for Office under its names.
_NEVER_TEXT: Final = frozenset(
    {
        *(".doc", ".gif", ".gz", ".jpeg", ".jpg", ".png", ".ppt", ".zip"),
        *(suffix for kind in _BINARY for suffix in KINDS[kind].suffixes),
    }
)
_EXPORTED: Final = re.compile(rb"<(?:table|meta|div|style)\b", re.IGNORECASE)
_TABBED: Final = re.compile(rb"[^\t\n]*\t[^\n]*\r?\n[^\t\n]*\t")


def _header(content_type: str | None) -> Message:
    header = Message()
    header["Content-Type"] = " ".join((content_type or "text/plain").split())
    return header


def _charset(header: Message) -> str | None:
    # Escapes (RFC 2231) may hold a NUL, which `codecs` does not take.
    try:
        charset = header.get_content_charset()
    except ValueError:
        return None
    return None if charset is None or "\0" in charset else charset


def _kind(start: bytes, content_type: str, filename: str) -> str:
    suffix, text = Path(filename).suffix.lower(), start.lstrip(_BLANK)
    if kind := _binary_kind(start, text):
        return kind
    by_start = next((kind for mark, kind in _STARTS if mark.match(text)), None)
    by_suffix = _of_text(BY_SUFFIX.get(suffix)) or "text"
    if by_start and not (by_start == "mail" and by_suffix in {"markdown", "csv"}):
        return by_start
    by_type = _of_text(BY_TYPE.get(content_type)) if content_type != "text/plain" else None
    if content_type.startswith("application/") and content_type.endswith("+xml"):
        by_type = by_type or "xml"
    kind = by_type or by_suffix
    if kind == "text" and text.startswith(b"<?xml") and suffix != ".txt":
        kind = "xml"
    if kind == "text" and suffix in _NEVER_TEXT:
        return _exported(text, suffix)
    return "html" if kind == "xml" and b"<html" in start[:_PAGE_START] else kind


def _of_text(kind: str | None) -> str | None:
    """A kind that a text may be of, as its sender says."""
    return None if kind in _BINARY else kind


def _binary_kind(start: bytes, text: bytes) -> str:
    """The kind of what is no text, or looks like none; "" for a text."""
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if start.startswith(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
        return "ole"
    # Whatever else is before its first line, it is near the beginning (ISO 32000-1, annex H.3.4.1).
    if _PDF.search(start, 0, _PAGE_START) or (b"%PDF-" in start and is_binary(start)):
        return "pdf"
    if text.startswith(b"{\\rtf"):
        return "rtf"
    what = next((what for marks, what in _KNOWN_BINARIES.items() if start.startswith(marks)), "")
    if what or is_binary(start):
        raise ExtractionError(f"the file is {what or 'binary data of a kind that cannot be read'}")
    return ""


def _exported(text: bytes, suffix: str) -> str:
    """The kind of a text with the name of what is none, as a program wrote it for Office."""
    if suffix in {".doc", ".xls"} and _EXPORTED.match(text):
        return "html"
    if suffix == ".xls" and _TABBED.match(text):
        return "csv"
    raise ExtractionError(f"the file is called {suffix}, but holds nothing of that kind")


def _read_package(file: IO[bytes], read: Read) -> ParsedDocument:
    """A document that is an archive."""
    from knowledge_bot_service.readers.documents.package import opened

    with opened(file) as package:
        kind = _kind_of_package(package)
        if kind is not None:
            inside = [read] if kind == "word" else []
            return _reader(_OF_PACKAGES[kind])(package, *inside)
    what = next((what for one, what in _OTHER_ARCHIVES.items() if one in package.names), None)
    raise ExtractionError(f"the file is {what or 'a ZIP archive, and no document that is known'}")


def _kind_of_package(package: "Package") -> str | None:
    """What an archive holds, by the type that an OpenDocument has, or by the main part."""
    names, main = package.names, package.main()
    type_of = package.read("mimetype")[:100] if "mimetype" in names else b""
    is_open = type_of.startswith(_OPEN_DOCUMENT)
    if "META-INF/container.xml" in names and not is_open:
        return "epub"
    if "content.xml" in names and (is_open or "META-INF/manifest.xml" in names):
        return "opendocument"
    # The main part may be in another folder than that of its kind.
    root = _ROOT.search(package.read(main)[:_START]) if main else None
    return _OFFICE[root[1]] if root else None


_OFFICE: Final = {b"document": "word", b"presentation": "presentation", b"workbook": "spreadsheet"}
_ROOT: Final = re.compile(rb"<(?:\w+:)?(document|presentation|workbook)[\s>]")
_OPEN_DOCUMENT: Final = b"application/vnd.oasis.opendocument"


def _read_compound(file: IO[bytes], read: Read) -> ParsedDocument:
    """A file of Office or Outlook in the form that these had before 2007."""
    import olefile

    try:
        with olefile.OleFileIO(file) as ole:
            # Some programs write them in capitals.
            names = {_STREAMS.get(path[0].lower(), "") for path in ole.listdir()}
        if _MESSAGE in names:
            file.seek(0)
            return _reader("mail.read_msg")(file, read)
    except (OSError, ValueError, IndexError, KeyError, TypeError, AttributeError, struct.error):
        # What it meets in a damaged file is not always an error of its own.
        file.seek(0)
        data = file.read()
        names = {name for name in _STREAMS.values() if name.encode("utf-16-le") in data}
    for name, what in _OLD.items():
        if name in names:
            raise ExtractionError(f"the file is {what}")
    if names & _WORKBOOKS:
        file.seek(0)
        return _reader("spreadsheets.read_xls")(file)
    if _MESSAGE in names:
        raise ExtractionError("the mail (.msg) is damaged")
    raise ExtractionError(
        "the file is an old Office document; save it in a newer format, or as PDF"
    )


def _checked(document: ParsedDocument) -> ParsedDocument:
    """The document with its texts cleaned and bounded. Its first block is read for that."""
    blocks = (part for block in document.blocks for part in _bounded(tidied(addressed(block))))
    first = next(blocks, None)
    if first is None:
        raise ExtractionError("there is no text in it")
    title = " ".join(tidy(document.title or "").split())[:_MAX_TITLE].rstrip() or None
    return ParsedDocument(chain([first], blocks), title, document.warnings)


def _bounded(block: Block) -> Iterator[Block]:
    """A block, or parts of it that are no longer than a paragraph may be, cut at white space."""
    if len(block.text) <= _MAX_PARAGRAPH:
        if block.text.strip() or any(block.cells):
            yield block
        return
    start, text = 0, block.text
    while len(text) - start > _MAX_PARAGRAPH:
        middle, limit = start + _MAX_PARAGRAPH // 2, start + _MAX_PARAGRAPH
        end = max(text.rfind("\n", middle, limit), text.rfind(" ", middle, limit))
        yield replace(block, text=text[start : end if end > 0 else limit])
        start = end + 1 if end > 0 else limit
    yield replace(block, text=text[start:])
