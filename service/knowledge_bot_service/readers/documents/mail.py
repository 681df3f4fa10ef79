"""Mail: one message (EML, MSG), a mailbox (mbox), and pages that are kept as messages (MHTML)."""

import email.policy
import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage, MIMEPart
from typing import TYPE_CHECKING, Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument, Read
from knowledge_bot_service.readers.documents.markdown import read_text
from knowledge_bot_service.readers.documents.text import decode, tidy

if TYPE_CHECKING:
    from olefile import OleFileIO


def read_eml(data: bytes, read: Read) -> ParsedDocument:
    """A message: its subject, people and date, its readable part once, and what is attached to it.

    A page that a browser kept as a message is that page.
    """
    message = _parsed(data)
    warnings: list[str] = []
    if message.get_content_type() == "multipart/related" and not message["To"]:
        page = message.get_body(("html",))
        if page is not None:
            return read(_payload(page), "page.html", str(page["Content-Type"]))
    return ParsedDocument(_message(message, read, warnings), _header(message, "Subject"), warnings)


def read_mbox(data: bytes, read: Read) -> ParsedDocument:
    """The messages of a mailbox, as `read_eml`."""
    found = [*_FROM_LINE.finditer(data)]
    # One without such a line is a message.
    starts = [one.end() for one in found] or [0]
    ends = [*(one.start() for one in found[1:]), len(data)]
    warnings: list[str] = []
    blocks = (
        block
        for start, end in zip(starts, ends, strict=True)
        for block in _message(_parsed(data[start:end]), read, warnings)
    )
    return ParsedDocument(blocks, None, warnings)


def read_msg(ole: "OleFileIO", read: Read) -> ParsedDocument:
    """A message of Outlook, as `read_eml`."""
    message, warnings = _Outlook(ole, []), list[str]()
    return ParsedDocument(message.blocks(read, warnings), message.text("0037"), warnings)


# Attachments of a message, and messages in each other.
_MAX_ATTACHMENTS: Final = 100
_FROM_LINE: Final = re.compile(rb"(?:\A|(?<=\n)\r?\n?)From [^\n]*\d\d:\d\d[^\n]*\n")
_PEOPLE: Final = ("From", "To", "Cc", "Date")
_SHORT: Final = 20


def _parsed(data: bytes) -> EmailMessage:
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert isinstance(message, EmailMessage)  # noqa: S101 - by its policy; for the type checker
    return message


def _header(message: EmailMessage, name: str) -> str:
    # What the standard library meets in a damaged header is not always an error of its own.
    with suppress(Exception):
        return " ".join(str(message.get(name, "")).split())
    return ""


def _payload(part: MIMEPart) -> bytes:
    if part.get_content_type() == "message/rfc822":
        inside = part.get_payload(0) if part.is_multipart() else None
        return inside.as_bytes() if isinstance(inside, EmailMessage) else b""
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""


def _head(subject: str, fields: Iterable[tuple[str, str]]) -> Iterator[Block]:
    if subject:
        yield Block("heading", subject, 1)
    if told := "; ".join(f"{name}: {value}" for name, value in fields if value):
        yield Block("paragraph", told)


def _message(message: EmailMessage, read: Read, warnings: list[str]) -> Iterator[Block]:
    yield from _head(_header(message, "Subject"), ((one, _header(message, one)) for one in _PEOPLE))
    plain, page = message.get_body(("plain",)), message.get_body(("related", "html"))
    if plain is not None and plain.is_attachment():
        plain = None
    text = "" if plain is None else _plain(_payload(plain), plain)
    if page is not None and page.get_content_type() != "text/html":
        page = None
    if page is not None and len(text.strip()) < _SHORT:
        yield from _read(read, _payload(page), "page.html", str(page["Content-Type"]), warnings)
    else:
        yield from read_text(text)
    attachments = [part for part in message.walk() if _is_attached(part)]
    for part in attachments[:_MAX_ATTACHMENTS]:
        name = part.get_filename() or ""
        if part.get_content_type() == "message/rfc822":
            name = name or "message.eml"
        yield from _attachment(read, _payload(part), name, part.get_content_type(), warnings)


def _is_attached(part: EmailMessage) -> bool:
    kind = part.get_content_maintype()
    if part.get_content_type() == "message/rfc822":
        return True
    return part.is_attachment() and kind not in {"multipart", "image", "audio", "video"}


def _plain(data: bytes, part: MIMEPart) -> str:
    charset = part.get_content_charset()
    text = tidy(decode(data, [charset] if charset else ()))
    if part.get_param("format") == "flowed":  # RFC 3676
        text = re.sub(r"(?<=\S) \n(?!>|-- )", " ", text)
    return text


def _read(read: Read, data: bytes, name: str, kind: str, warnings: list[str]) -> Iterator[Block]:
    try:
        document = read(data, name, kind)
        yield from document.blocks
        warnings += document.warnings
    except ExtractionError as error:
        warnings.append(f"{name!r} is not read: {error}")


def _attachment(
    read: Read, data: bytes, name: str, kind: str, warnings: list[str]
) -> Iterator[Block]:
    for number, block in enumerate(_read(read, data, name, kind, warnings)):
        if not number:
            yield Block("heading", name, 2)
        yield block


class _Outlook:
    """A message in a folder of a compound file (MS-OXMSG): its properties are streams by number."""

    def __init__(self, ole: "OleFileIO", folder: list[str]) -> None:
        self._ole = ole
        self._folder = folder
        self._numbers = self._fixed(folder, 24 if folder else 32)
        codepage = self._numbers.get("3FFD") or self._numbers.get("3FDE") or b"\xe4\x04"
        self._charset = f"cp{struct.unpack_from('<H', codepage)[0]}"

    def text(self, number: str) -> str:
        """A property that is a text; "" where there is none."""
        wide = self._stream(self._folder, number, "001F")
        if wide:
            return wide.decode("utf-16-le", "replace").rstrip("\0")
        narrow = self._stream(self._folder, number, "001E").rstrip(b"\0")
        return decode(narrow, [self._charset]) if narrow else ""

    def blocks(self, read: Read, warnings: list[str]) -> Iterator[Block]:
        """The blocks of the message, and of what is attached to it."""
        sender = [self.text("0C1A"), self.text("5D01") or self.text("0C1F")]
        sender = [one for one in sender if one and not one.startswith("/")]
        people = [("From", " ".join(sender)), ("To", self.text("0E04")), ("Cc", self.text("0E03"))]
        yield from _head(self.text("0037"), [*people, ("Date", self._date())])
        yield from self._body(read, warnings)
        folders = {tuple(path[: len(self._folder) + 1]) for path in self._ole.listdir()}
        attached = sorted(
            path
            for path in folders
            if [*path[:-1]] == self._folder and path[-1].startswith("__attach_version1.0")
        )
        for path in attached[:_MAX_ATTACHMENTS]:
            yield from self._attached([*path], read, warnings)

    def _attached(self, folder: list[str], read: Read, warnings: list[str]) -> Iterator[Block]:
        inside = [*folder, "__substg1.0_3701000D"]
        if self._ole.exists([*inside, "__properties_version1.0"]):
            if len(folder) < _MAX_DEPTH:
                yield from _Outlook(self._ole, inside).blocks(read, warnings)
            return
        name = "".join(
            self._stream(folder, number, "001F").decode("utf-16-le", "replace")
            or self._stream(folder, number, "001E").decode("cp1252", "replace")
            for number in ("3707",)
        ).rstrip("\0")
        data = self._stream(folder, "3701", "0102")
        if data and not name.lower().endswith(_PICTURES):
            yield from _attachment(read, data, name, "", warnings)

    def _body(self, read: Read, warnings: list[str]) -> Iterator[Block]:
        text, page = self.text("1000"), self._stream(self._folder, "1013", "0102")
        if len(text.strip()) >= _SHORT or (text.strip() and not page):
            yield from read_text(tidy(text))
        elif page or (page := self.text("1013").encode()):
            yield from _read(read, page, "page.html", "text/html", warnings)
        elif packed := self._stream(self._folder, "1009", "0102"):
            yield from _read(read, unpacked_rtf(packed), "body.rtf", "", warnings)

    def _date(self) -> str:
        """When it was sent: in 100 ns since 1601."""
        raw = self._numbers.get("0039") or self._numbers.get("0E06")
        if not raw:
            return ""
        moment = datetime(1601, 1, 1, tzinfo=UTC)
        with suppress(OverflowError):
            moment += timedelta(microseconds=struct.unpack("<Q", raw)[0] // 10)
        return f"{moment:%Y-%m-%d %H:%M} UTC"

    def _fixed(self, folder: list[str], start: int) -> dict[str, bytes]:
        """The properties of a message that have a fixed size, by their numbers."""
        path = [*folder, "__properties_version1.0"]
        data = self._ole.openstream(path).read() if self._ole.exists(path) else b""
        rows = (data[at : at + 16] for at in range(start, len(data) - 15, 16))
        return {f"{struct.unpack_from('<H', row, 2)[0]:04X}": row[8:] for row in rows}

    def _stream(self, folder: list[str], number: str, kind: str) -> bytes:
        path = [*folder, f"__substg1.0_{number}{kind}"]
        return bytes(self._ole.openstream(path).read()) if self._ole.exists(path) else b""


_MAX_DEPTH: Final = 20
_PICTURES: Final = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".wmf", ".emf")


def unpacked_rtf(data: bytes) -> bytes:
    """The Rich Text of a message, which Outlook packs (MS-OXRTFCP); b"" if it is damaged."""
    if len(data) < _PACKED or data[8:12] != b"LZFu":
        return data[_PACKED:] if data[8:12] == b"MELA" else b""
    window = bytearray(_RTF_WORDS.ljust(_WINDOW, b"\0"))
    end, found, packed = len(_RTF_WORDS), bytearray(), iter(data[_PACKED:])
    with suppress(StopIteration):
        while True:
            control = next(packed)
            for bit in range(8):
                run = bytearray()
                if control >> bit & 1:
                    reference = next(packed) << 8 | next(packed)
                    start, size = reference >> 4, (reference & 15) + 2
                    if start == end:
                        return bytes(found)
                    for at in range(start, start + size):
                        run.append(byte := window[at % _WINDOW])
                        window[end] = byte
                        end = (end + 1) % _WINDOW
                else:
                    run.append(byte := next(packed))
                    window[end] = byte
                    end = (end + 1) % _WINDOW
                found += run
    return bytes(found)


_PACKED: Final = 16
_WINDOW: Final = 4096
_RTF_WORDS: Final = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript"
    rb" \fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
