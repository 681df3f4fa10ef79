"""Text from documents of many kinds.

The kind is decided by content, then by content type, then by file name. What is read here may come
from anybody: `knowledge_bot_service.readers.reading` calls it in a process with limits.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from email.message import Message
from itertools import chain
from pathlib import Path
from typing import Final, Literal

from knowledge_bot_service.readers.analyzer import Block
from knowledge_bot_service.readers.documents.csv import read_csv
from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument
from knowledge_bot_service.readers.documents.docx import read_docx
from knowledge_bot_service.readers.documents.html import read_html
from knowledge_bot_service.readers.documents.markdown import read_markdown, read_text
from knowledge_bot_service.readers.documents.pdf import read_pdf
from knowledge_bot_service.readers.documents.text import decode, is_binary, tidied, tidy
from knowledge_bot_service.readers.documents.xml import read_xml

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
        start = file.read(_START)
    if not start.strip(_BLANK):
        raise ExtractionError("the file is empty")
    header = _header(content_type)
    kind = _kind(start, header.get_content_type() if content_type else "", filename)
    match kind:
        case "pdf":
            document = read_pdf(path)
        case "docx":
            document = read_docx(path)
        case "html":
            document = read_html(path, _charset(header))
        case "xml":
            document = read_xml(path)
        case _:
            document = _read_text(path, kind, header)
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


_Kind = Literal["csv", "docx", "html", "markdown", "pdf", "text", "xml"]

# How much of a document is read to find its kind, in bytes.
_START: Final = 64 * 1024

# A longer text would need more memory than a reader may use.
_MAX_TEXT: Final = 64 * 1024**2

_BLANK: Final = b" \t\r\n\f\v\0\xef\xbb\xbf"

# Where a PDF's first line may be (ISO 32000-1, annex H.3.4.1).
_PDF_START: Final = 1024
_PDF: Final = re.compile(rb"(?:^|[\r\n\0])%PDF-\d")

_HEADING: Final = re.compile(r"^#{1,6} \S", re.MULTILINE)

# A longer title, in characters, would outweigh the passages that it stands for.
_MAX_TITLE: Final = 300

# Splitting a longer paragraph into sentences would be one step of many seconds, in characters.
_MAX_PARAGRAPH: Final = 50_000

_KNOWN_BINARIES: Final = {
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old Office document; save it as .docx or PDF",
    b"{\\rtf": "a Rich Text document; save it as .docx or PDF",
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

_HTML_STARTS: Final = (b"<!doctype html", b"<html", b"<head", b"<body")
_KINDS_BY_TYPE: Final[dict[str, _Kind]] = {
    "application/xhtml+xml": "html",
    "application/xml": "xml",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "markdown",
    "text/tab-separated-values": "csv",
    "text/xml": "xml",
}
_KINDS_BY_SUFFIX: Final[dict[str, _Kind]] = {
    ".csv": "csv",
    ".htm": "html",
    ".html": "html",
    ".markdown": "markdown",
    ".md": "markdown",
    ".tsv": "csv",
    ".xhtml": "html",
    ".xml": "xml",
}

# What has such a name and is text was never written, or is an error message in its place.
_NEVER_TEXT: Final = re.compile(r"\.(?:docx?|gif|gz|jpe?g|od[pst]|pdf|png|pptx?|xlsx?|zip)")


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


def _kind(start: bytes, content_type: str, filename: str) -> _Kind:
    if _PDF.search(start[:_PDF_START]):
        return "pdf"
    if start.startswith(b"PK\x03\x04"):
        return "docx"
    for magic, what in _KNOWN_BINARIES.items():
        if start.startswith(magic):
            raise ExtractionError(f"the file is {what}")
    if is_binary(start):
        raise ExtractionError("the file is binary data of a kind that cannot be read")
    if start.lstrip(_BLANK)[:64].lower().startswith(_HTML_STARTS):
        return "html"
    suffix = Path(filename).suffix.lower()
    by_type = _KINDS_BY_TYPE.get(content_type)
    if (
        by_type is None
        and content_type.startswith("application/")
        and content_type.endswith("+xml")
    ):
        by_type = "xml"
    kind = by_type or _KINDS_BY_SUFFIX.get(suffix) or "text"
    if kind == "text" and _NEVER_TEXT.fullmatch(suffix):
        raise ExtractionError(f"the file is called {suffix}, but holds nothing of that kind")
    return "html" if kind == "xml" and b"<html" in start[:_PDF_START] else kind


def _read_text(path: Path, kind: _Kind, header: Message) -> ParsedDocument:
    if path.stat().st_size > _MAX_TEXT:
        raise ExtractionError(f"the text is larger than {_MAX_TEXT // 1024**2} MiB")
    charset = _charset(header)
    source = decode(path.read_bytes(), [charset] if charset else ())
    match kind:
        case "markdown":
            return read_markdown(tidy(source))
        case "csv":
            return read_csv(tidy(source))
        case _:
            return ParsedDocument(read_text(tidy(source)))


def _checked(document: ParsedDocument) -> ParsedDocument:
    """The document with its texts cleaned and bounded. Its first block is read for that."""
    blocks = (part for block in document.blocks for part in _bounded(tidied(block)))
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
