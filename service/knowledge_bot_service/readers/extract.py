"""Text from documents of many kinds.

The kind is decided by content, then by content type, then by file name. What is read here may come
from anybody: `knowledge_bot_service.readers.reading` calls it in a process with limits.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from email.message import Message
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import IO, Final

from knowledge_bot_service.readers.analyzer import Block
from knowledge_bot_service.readers.documents.document import (
    ExtractionError,
    ParsedDocument,
    Read,
    addressed,
)
from knowledge_bot_service.readers.documents.markdown import read_markdown, read_text
from knowledge_bot_service.readers.documents.text import decode, is_binary, tidied, tidy
from knowledge_bot_web.kinds import BY_SUFFIX, BY_TYPE, KINDS

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
    # A reader is loaded by the first document of its kind.
    match kind:
        case "pdf":
            from knowledge_bot_service.readers.documents.pdf import read_pdf

            document = read_pdf(file.read())
        case "zip":
            document = _read_package(file, read)
        case "ole":
            document = _read_compound(file, read)
        case "html":
            from knowledge_bot_service.readers.documents.html import read_html

            document = read_html(file, _charset(header))
        case "xml":
            from knowledge_bot_service.readers.documents.xml import read_xml

            document = read_xml(file)
        case _:
            document = _read_text(file, kind, _charset(header), read)
    return _checked(document)


def extract_text(content: str) -> ParsedDocument:
    """Take the text out of what was sent as a text.

    A text with headings was written as Markdown. In any other, marks may be meant as they stand.

    Raises:
        ExtractionError: there is no text in it.
    """
    content = tidy(content)
    is_markdown = _HEADING.search(content)
    return _checked(read_markdown(content) if is_markdown else ParsedDocument(read_text(content)))


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
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"GIF8": "an image",
    b"II*\0": "an image",
    b"MM\0*": "an image",
    b"\x1f\x8b": "a compressed file (gzip)",
    b"BZh": "a compressed file (bzip2)",
    b"\xfd7zXZ": "a compressed file (xz)",
    b"\x28\xb5\x2f\xfd": "a compressed file (zstd)",
    b"7z\xbc\xaf": "an archive (7z)",
    b"Rar!": "an archive (rar)",
    b"\x7fELF": "a program",
    b"SQLite format 3\0": "a database",
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
    what = next((what for magic, what in _KNOWN_BINARIES.items() if start.startswith(magic)), "")
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
    """A document that is an archive: by the type that an OpenDocument has, or by its main part."""
    from knowledge_bot_service.readers.documents.package import opened

    with opened(file) as package:
        names, main = package.names, package.main()
        type_of = package.read("mimetype")[:100] if "mimetype" in names else b""
        is_open = type_of.startswith(_OPEN_DOCUMENT)
        if "META-INF/container.xml" in names and not is_open:
            from knowledge_bot_service.readers.documents.epub import read_epub

            return read_epub(package)
        if "content.xml" in names and (is_open or "META-INF/manifest.xml" in names):
            from knowledge_bot_service.readers.documents.odf import read_odf

            return read_odf(package)
        kind = main.partition("/")[0]
        if main and kind not in _OFFICE and (root := _ROOT.search(package.read(main)[:_START])):
            kind = root[1].decode()
        match _OFFICE.get(kind):
            case "word":
                from knowledge_bot_service.readers.documents.docx import read_docx

                return read_docx(package, read)
            case "ppt":
                from knowledge_bot_service.readers.documents.pptx import read_pptx

                return read_pptx(package)
            case "xl":
                from knowledge_bot_service.readers.documents.spreadsheets import read_xlsx

                return read_xlsx(package)
    what = next((what for one, what in _OTHER_ARCHIVES.items() if one in names), None)
    raise ExtractionError(f"the file is {what or 'a ZIP archive, and no document that is known'}")


# The folders of Office's documents, which a main part somewhere else has the name of as its tag.
_OFFICE: Final = {
    **{folder: folder for folder in ("word", "ppt", "xl")},
    "document": "word",
    "presentation": "ppt",
    "workbook": "xl",
}
_ROOT: Final = re.compile(rb"<(?:\w+:)?(document|presentation|workbook)[\s>]")
_OPEN_DOCUMENT: Final = b"application/vnd.oasis.opendocument"


def _read_compound(file: IO[bytes], read: Read) -> ParsedDocument:
    """A file of Office or Outlook in the form that these had before 2007."""
    import olefile

    from knowledge_bot_service.readers.documents.mail import read_msg
    from knowledge_bot_service.readers.documents.spreadsheets import read_xls

    try:
        with olefile.OleFileIO(file) as ole:
            # Some programs write them in capitals.
            names = {_STREAMS.get(path[0].lower(), "") for path in ole.listdir()}
            if _MESSAGE in names:
                file.seek(0)
                return read_msg(file, read)
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
        return read_xls(file)
    if _MESSAGE in names:
        raise ExtractionError("the mail (.msg) is damaged")
    raise ExtractionError(
        "the file is an old Office document; save it in a newer format, or as PDF"
    )


def _read_text(file: IO[bytes], kind: str, charset: str | None, read: Read) -> ParsedDocument:
    data = file.read(_MAX_TEXT + 1)
    if len(data) > _MAX_TEXT:
        raise ExtractionError(f"the text is larger than {_MAX_TEXT // 1024**2} MiB")
    match kind:
        case "rtf":
            from knowledge_bot_service.readers.documents.rtf import read_rtf

            return read_rtf(data)
        case "mail" | "mbox":
            from knowledge_bot_service.readers.documents.mail import read_eml, read_mbox

            return read_eml(data, read) if kind == "mail" else read_mbox(data, read)
    source = tidy(decode(data, [charset] if charset else ()))
    match kind:
        case "csv":
            from knowledge_bot_service.readers.documents.tables import read_csv

            return read_csv(source)
        case "markdown":
            return read_markdown(source)
        case "cards" | "json" | "notebook" | "subtitles":
            from knowledge_bot_service.readers.documents import records

            return records.READERS[kind](source)
    return ParsedDocument(read_text(source))


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
