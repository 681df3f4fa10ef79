"""Plain text: which encoding it is in, and what is cleaned away from every text."""

import codecs
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from knowledge_bot_service.documents.document import ExtractionError


def decode(data: bytes, declared: Iterable[str] = ()) -> str:
    """Decode text: by its byte order mark, a declared encoding, as UTF-8, or by what fits.

    Args:
        data: the encoded text.
        declared: names of encodings that the sender or the text itself claims, the best first.

    Raises:
        ExtractionError: no encoding fits.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    claimed = [codec for name in declared if (codec := _codec(name))]
    trusted = [codec for codec in claimed if codec != _WINDOWS]
    # Who claims the Windows code page often never looked; valid UTF-8 is hardly anything else.
    for codec in (*trusted, "utf-8", *([_WINDOWS] if _WINDOWS in claimed else [])):
        try:
            return data.decode(codec)
        except UnicodeDecodeError:
            continue
    return _nearly_utf8(data) or _guessed(data)


def is_binary(data: bytes) -> bool:
    """Whether data is no text in any encoding: it has NULs, or other characters nobody types."""
    if data.startswith(tuple(mark for mark, _ in _MARKS)):
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


# The longer mark first: UTF-32's begins with UTF-16's.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# How much of a text is looked at to guess its encoding, in bytes.
_SAMPLE: Final = 200_000

# More of these make data binary; a tenth of random bytes are control characters.
_MAX_NULS: Final = 0.001
_MAX_CONTROLS: Final = 0.05
_TYPED: Final = bytes(
    byte for byte in range(256) if byte in b"\0\t\n\v\f\r\x1a\x1b" or byte >= 0x20
)

# Shorter texts give a guess too little to go by, unless most of their letters are foreign to it.
_SHORT: Final = 1000
_MOSTLY_ASCII: Final = 0.2

# What the Windows code page adds to ASCII in English texts: quotes, dashes, dots, bullets, signs.
_WINDOWS_PUNCTUATION: Final = bytes([0x80, 0x85, *range(0x91, 0x98), 0x99, 0xA0, 0xA9, 0xAE, 0xB0])

# Text whose invalid bytes are fewer than one in ten of its other non-ASCII characters is UTF-8 with
# damage; another encoding hardly ever looks so.
_DAMAGE: Final = 10

# Pages that claim ISO-8859-1 or ASCII mean the Windows code page (WHATWG Encoding Standard, 4.2).
_WINDOWS: Final = "cp1252"
_MEANT: Final = {"iso8859-1": _WINDOWS, "ascii": _WINDOWS}

# No encodings of texts; decoding the first two takes quadratic time.
_NO_CHARSETS: Final = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
)

_LINE_END: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_INVISIBLE: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u200b\u2060\ufeff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_BLANK_LINES: Final = re.compile(r"\n{3,}")


def _codec(name: str) -> str | None:
    try:
        codec = codecs.lookup(name.strip("\"' ")).name
        "".encode(codec)
    except (LookupError, ValueError):
        return None
    return None if codec in _NO_CHARSETS else _MEANT.get(codec, codec)


def _nearly_utf8(data: bytes) -> str | None:
    text = data.decode("utf-8", "replace")
    damaged = text.count("\ufffd")
    foreign = sum(not character.isascii() for character in text[:_SAMPLE]) - damaged
    return text if foreign > damaged * _DAMAGE else None


def _guessed(data: bytes) -> str:
    sample = data[:_SAMPLE]
    foreign = sample.translate(None, bytes(range(0x80)))
    is_western = len(sample) < _SHORT and len(foreign) < len(sample) * _MOSTLY_ASCII
    if is_western or not foreign.translate(None, _WINDOWS_PUNCTUATION):
        return data.decode(_WINDOWS, "replace")

    import charset_normalizer

    best = charset_normalizer.from_bytes(sample).best()
    if best is None:
        raise ExtractionError("the text's encoding could not be recognised; save it as UTF-8")
    return data.decode(best.encoding, "replace")
