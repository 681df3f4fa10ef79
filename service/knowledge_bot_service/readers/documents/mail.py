"""Mail: one message (EML, MSG), a mailbox (mbox), and pages that are kept as messages (MHTML)."""

import email.policy
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from email.header import decode_header, make_header
from email.message import EmailMessage, MIMEPart
from typing import IO, TYPE_CHECKING, Final, TypeVar, cast

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import ExtractionError, ParsedDocument, Read
from knowledge_bot_service.readers.documents.markdown import read_text
from knowledge_bot_service.readers.documents.text import decode, tidy

if TYPE_CHECKING:
    from oxmsg import Message
    from oxmsg.attachment import Attachment
    from oxmsg.storage import Storage

T = TypeVar("T")


def read_mail(data: bytes, read: Read) -> ParsedDocument:
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
    """The messages of a mailbox, as `read_mail`."""
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


def read_msg(file: IO[bytes], read: Read) -> ParsedDocument:
    """A message of Outlook, as `read_mail`."""
    from oxmsg import Message

    message, warnings = Message.load(file), list[str]()
    return ParsedDocument([*_outlook(message, read, warnings)], message.subject, warnings)


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
    for part in _first(attachments, warnings):
        name = part.get_filename() or ""
        if part.get_content_type() == "message/rfc822":
            name = name or "message.eml"
        yield from _attachment(read, _payload(part), name, part.get_content_type(), warnings)


def _first(attachments: Sequence[T], warnings: list[str]) -> Sequence[T]:
    """Return the attachments that are read, and tell of the others."""
    if len(attachments) > _MAX_ATTACHMENTS:
        warnings.append(f"of {len(attachments)} attachments the first {_MAX_ATTACHMENTS} are read")
    return attachments[:_MAX_ATTACHMENTS]


def _is_attached(part: EmailMessage) -> bool:
    kind = part.get_content_maintype()
    if part.get_content_type() == "message/rfc822":
        return True
    return part.is_attachment() and kind not in {"multipart", "image", "audio", "video"}


def _plain(data: bytes, part: MIMEPart) -> str:
    charset = part.get_content_charset()
    return tidy(decode(data, [charset] if charset else ()))


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


def _messages(attachment: "Attachment") -> "list[Storage]":
    """The message that an attachment is, if it is one."""
    inside = cast("Storage", attachment._storage).storages  # noqa: SLF001
    return [one for one in inside if any(_PROPERTIES in stream.path for stream in one.streams)]


def _inside(storage: "Storage") -> "Message":
    """A message that is attached to another one, whose properties begin elsewhere (MS-OXMSG)."""
    from oxmsg import Message
    from oxmsg.properties import Properties

    class Inside(Message):
        @property
        def properties(self) -> Properties:
            return Properties(storage, properties_header_offset=_INSIDE)

    return Inside(storage)


def _outlook(
    message: "Message", read: Read, warnings: list[str], depth: int = 0
) -> Iterator[Block]:
    told = message.properties
    sender = str(make_header(decode_header(message.sender or "")))
    sent = message.sent_date or told.date_prop_value(_RECEIVED)
    people = [
        ("From", _SERVER.sub("", sender)),
        ("To", told.str_prop_value(_TO) or ""),
        ("Cc", told.str_prop_value(_CC) or ""),
        ("Date", f"{sent:%Y-%m-%d %H:%M} UTC" if sent else ""),
    ]
    yield from _head(message.subject, ((name, value.strip(" \0")) for name, value in people))
    text, page = message.body or "", told.binary_prop_value(_PAGE)
    if page and len(text.strip()) < _SHORT:
        yield from _read(read, page, "page.html", "text/html", warnings)
    else:
        yield from read_text(tidy(text))
    for one in _first(message.attachments, warnings):
        name = one.file_name or ""
        for storage in _messages(one) if depth < _MAX_DEPTH else ():
            yield from _outlook(_inside(storage), read, warnings, depth + 1)
        if not name.lower().endswith(_PICTURES):
            yield from _attachment(read, one.file_bytes or b"", name, "", warnings)


# The numbers of properties (MS-OXPROPS), and the address of a sender on a server of Exchange.
_TO: Final = 0x0E04
_CC: Final = 0x0E03
_PROPERTIES: Final = "__properties_version1.0"
_INSIDE: Final = 24
_MAX_DEPTH: Final = 5
_RECEIVED: Final = 0x0E06
_PAGE: Final = 0x1013
_SERVER: Final = re.compile(r" ?</[^>]*>")
_PICTURES: Final = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".wmf", ".emf")
