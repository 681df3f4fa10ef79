"""Plain text: which encoding it is in, and what is cleaned away from every text."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import ExtractionError
from knowledge_bot_web.charsets import MARKS, decoded


def decode(data: bytes, declared: Iterable[str] = ()) -> str:
    """Decode text: by its byte order mark, a declared encoding, as UTF-8, or by what fits.

    `declared` are encodings that the sender or the text itself claims, the best first.

    Raises:
        ExtractionError: no encoding fits.
    """
    try:
        return decoded(data, declared)[0]
    except ValueError:
        raise ExtractionError(
            "the text's encoding could not be recognised; save it as UTF-8"
        ) from None


def is_binary(data: bytes) -> bool:
    """Whether data is no text in any encoding: it has NULs, or other characters nobody types."""
    if data.startswith(MARKS):
        return False
    start = data[:_SAMPLE]
    controls = len(start.translate(None, _TYPED))
    return start.count(0) > len(start) * _MAX_NULS or controls > len(start) * _MAX_CONTROLS


def tidy(text: str) -> str:
    """NFC, without control characters, lone surrogates and invisible marks; one kind of line end.

    Paragraphs are separated by one blank line each.
    """
    text = unicodedata.normalize("NFC", text)
    text = _LINE_END.sub("\n", text)
    text = _SURROGATE.sub("\ufffd", _INVISIBLE.sub("", text))
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", text).strip("\n")


def tidied(block: Block) -> Block:
    """A block with its words as `tidy` leaves them."""
    if all(map(_is_tidy, (block.text, *block.names, *block.cells))):
        return block
    names, cells = (tuple(map(tidy, found)) for found in (block.names, block.cells))
    return replace(block, text=tidy(block.text), names=names, cells=cells)


def _is_tidy(text: str) -> bool:
    if text.isascii() and text.isprintable():  # as nearly all are, which is quick to see
        return True
    return not _UNTIDY.search(text) and unicodedata.is_normalized("NFC", text)


# How much of a text is looked at, in bytes.
_SAMPLE: Final = 200_000

# More of these make data binary; a tenth of random bytes are control characters.
_MAX_NULS: Final = 0.001
_MAX_CONTROLS: Final = 0.05
_TYPED: Final = bytes(
    byte for byte in range(256) if byte in b"\0\t\n\v\f\r\x1a\x1b" or byte >= 0x20
)

_LINE_END: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_INVISIBLE: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b\u2060\ufeff]")
_UNTIDY: Final = re.compile(f"{_LINE_END.pattern}|{_INVISIBLE.pattern}|[\ud800-\udfff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BLANK_LINES: Final = re.compile(r"\n{3,}")
