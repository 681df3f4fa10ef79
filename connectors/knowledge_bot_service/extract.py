"""Text from documents of many kinds, without risk for the process that asks for it.

The kind is decided by content, then by content type, then by file name. What needs a parser is read
in a child process with limits; it costs half a second, and a document that would make the service
hang, swell or crash becomes a reason.
"""

import json
import math
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Final, Literal

from knowledge_bot_service.documents.csv import read_csv
from knowledge_bot_service.documents.document import OUT_OF_MEMORY, Document, ExtractionError
from knowledge_bot_service.documents.markdown import read_markdown
from knowledge_bot_service.documents.text import decode, is_binary, tidy

__all__ = ["Document", "ExtractionError", "Limits", "extract"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What reading a document may take: seconds of time, and bytes of memory in the child."""

    seconds: float = 30.0
    memory: int = 1024**3


def extract(
    path: Path, *, filename: str, content_type: str | None = None, limits: Limits = Limits()
) -> Document:
    """Take the text out of a document.

    Args:
        path: where its content is.
        filename: what its sender calls it.
        content_type: what its sender says it is, a Content-Type as in HTTP.
        limits: for a document that is read in a child process.

    Returns:
        The text: NFC, without NULs and lone surrogates, paragraphs separated by blank lines.

    Raises:
        ExtractionError: it is empty, of no kind that can be read, damaged, without text, or over a
            limit.
    """
    with path.open("rb") as file:
        start = file.read(_START)
    if not start.strip(_BLANK):
        raise ExtractionError("the file is empty")
    header = _header(content_type)
    kind = _kind(start, header.get_content_type() if content_type else "", filename)
    match kind:
        case "text" | "markdown" | "csv":
            document = _read_text(path, kind, header)
        case _:
            document = _read_in_child(path.resolve(), kind, _charset(header), limits)
    text = tidy(document.text)
    if not text.strip():
        raise ExtractionError("there is no text in it")
    return Document(text, " ".join(tidy(document.title or "").split()) or None)


_TextKind = Literal["text", "markdown", "csv"]
_ParsedKind = Literal["pdf", "docx", "html", "xml"]

# How much of a document tells its kind, in bytes.
_START: Final = 64 * 1024

# A longer text is not held in the service's memory.
_MAX_TEXT: Final = 64 * 1024**2

_BLANK: Final = b" \t\r\n\f\v\0\xef\xbb\xbf"

# Where a PDF's first line may be (ISO 32000-1, annex H.3.4.1).
_PDF_START: Final = 1024
_PDF: Final = re.compile(rb"(?:^|[\r\n\0])%PDF-\d")

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
_KINDS_BY_TYPE: Final[dict[str, _TextKind | _ParsedKind]] = {
    "application/xhtml+xml": "html",
    "application/xml": "xml",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "markdown",
    "text/tab-separated-values": "csv",
    "text/xml": "xml",
}
_KINDS_BY_SUFFIX: Final[dict[str, _TextKind | _ParsedKind]] = {
    ".csv": "csv",
    ".htm": "html",
    ".html": "html",
    ".markdown": "markdown",
    ".md": "markdown",
    ".tsv": "csv",
    ".xhtml": "html",
    ".xml": "xml",
}

# How a child ends at the end of its CPU time (resource.RLIMIT_CPU), where there is such a limit.
_OUT_OF_TIME: Final = -signal.SIGXCPU if hasattr(signal, "SIGXCPU") else None

# What the child needs of the environment; the service's may hold keys. Coverage measures children
# through its own variables.
_ENVIRONMENT: Final = frozenset(
    {"HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR"}
)
_ENVIRONMENT_PREFIXES: Final = ("PYTHON", "COVERAGE_")


def _header(content_type: str | None) -> Message:
    header = Message()
    header["Content-Type"] = " ".join((content_type or "text/plain").split())
    return header


def _charset(header: Message) -> str | None:
    # Escapes (RFC 2231) may hold a NUL, which neither `codecs` nor a command line takes.
    try:
        charset = header.get_content_charset()
    except ValueError:
        return None
    return None if charset is None or "\0" in charset else charset


def _kind(start: bytes, content_type: str, filename: str) -> _TextKind | _ParsedKind:
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
    return "html" if kind == "xml" and b"<html" in start[:_PDF_START] else kind


def _read_text(path: Path, kind: _TextKind, header: Message) -> Document:
    if path.stat().st_size > _MAX_TEXT:
        raise ExtractionError(f"the text is larger than {_size(_MAX_TEXT)}")
    charset = _charset(header)
    source = decode(path.read_bytes(), [charset] if charset else ())
    match kind:
        case "markdown":
            return read_markdown(tidy(source))
        case "csv":
            return read_csv(tidy(source))
        case _:
            return Document(source)


def _read_in_child(path: Path, kind: _ParsedKind, charset: str | None, limits: Limits) -> Document:
    arguments = [kind, str(path), charset or "", str(limits.seconds), str(limits.memory)]
    # The child ends when its input does: it never gets any, and we hold the other end.
    reading, writing = os.pipe()
    try:
        child = subprocess.run(  # noqa: S603 (our own module)
            [sys.executable, "-P", "-m", "knowledge_bot_service.documents", *arguments],
            stdin=reading,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=limits.seconds,
            env=_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _too_slow(limits) from None
    finally:
        os.close(reading)
        os.close(writing)
    if child.returncode == OUT_OF_MEMORY:
        raise ExtractionError(f"reading it needed more than {_size(limits.memory)} of memory")
    if child.returncode == _OUT_OF_TIME:
        raise _too_slow(limits)
    if child.returncode:
        raise ExtractionError(f"its parser broke down ({_ending(child.returncode)})")
    result = json.loads(child.stdout)
    if "reason" in result:
        raise ExtractionError(result["reason"])
    return Document(result["text"], result["title"])


def _too_slow(limits: Limits) -> ExtractionError:
    return ExtractionError(f"reading it took longer than {limits.seconds:g} s")


def _ending(returncode: int) -> str:
    return f"signal {-returncode}" if returncode < 0 else f"exit code {returncode}"


def _environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in _ENVIRONMENT or name.startswith(_ENVIRONMENT_PREFIXES)
    }


def _size(size: int) -> str:
    """A size in the largest binary unit that it is a whole number of: "1 GiB", "512 MiB"."""
    exponent = min(int(math.log2(size & -size) // 10), 3) if size else 0
    return f"{size // 1024**exponent} {('bytes', 'KiB', 'MiB', 'GiB')[exponent]}"
