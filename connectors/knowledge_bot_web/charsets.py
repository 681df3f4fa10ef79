"""Which encoding a text from the web is in."""

import codecs
import re
from collections.abc import Iterable
from typing import Final


def decoded(data: bytes, declared: Iterable[str] = (), *, guess: bool = True) -> tuple[str, str]:
    """Decode text: by its byte order mark, a declared encoding, as UTF-8, or by what fits.

    Args:
        data: the encoded text.
        declared: names of encodings that the sender or the text itself claims, the best first.
        guess: whether to look at the text for which encoding fits, which takes up to seconds;
            otherwise the Windows code page of Western Europe is the last resort.

    Returns:
        The text without its mark, and the encoding's name in Python.

    Raises:
        ValueError: no encoding fits.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace"), encoding
    claimed = [codec for name in declared if (codec := _codec(name))]
    # Who claims the Windows code page often never looked; valid UTF-8 is hardly anything else.
    trusted = [*(codec for codec in claimed if codec != _WINDOWS), "utf-8"]
    for codec in (*trusted, *([_WINDOWS] if _WINDOWS in claimed else [])):
        try:
            return data.decode(codec), codec
        except UnicodeDecodeError:
            continue
    for codec in trusted:
        if _is_damaged(text := data.decode(codec, "replace")):
            return text, codec
    codec = _guessed(data) if guess else _WINDOWS
    return data.decode(codec, "replace"), codec


def declared_in(page: bytes) -> list[str]:
    """The encodings that a page of HTML or XML declares for itself, the first one first."""
    head = page[:_HEAD]
    names = [name.decode("ascii") for name in (*_META.findall(head), *_XML.findall(head))]
    # The declaration itself was read as ASCII.
    return [name for name in names if not name.lower().startswith(("utf-16", "utf-32"))]


# The longer mark first: UTF-32's begins with UTF-16's.
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
MARKS: Final = tuple(mark for mark, _ in _MARKS)
"""What a text begins with that says its encoding."""

# A page must declare its encoding in its first 1,024 bytes (HTML, section 4.2.5.4); not all do.
_HEAD: Final = 8192
_META: Final = re.compile(
    rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([a-z0-9_.:-]+)", re.IGNORECASE
)
_XML: Final = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([a-zA-Z0-9_.:-]+)")

# How much of a text is looked at to guess its encoding, in bytes.
_SAMPLE: Final = 200_000

# Shorter texts give a guess too little to go by, unless most of their letters are foreign to it.
_SHORT: Final = 1000
_MOSTLY_ASCII: Final = 0.2

# What the Windows code page adds to ASCII in English texts: quotes, dashes, dots, bullets, signs.
_WINDOWS_PUNCTUATION: Final = bytes([0x80, 0x85, *range(0x91, 0x98), 0x99, 0xA0, 0xA9, 0xAE, 0xB0])

# Text whose invalid bytes are fewer than one in ten of its other non-ASCII characters is in the
# encoding, with damage; another encoding hardly ever looks so.
_DAMAGE: Final = 10

# What pages mean by these names, as browsers read them: mostly more letters (WHATWG Encoding
# Standard, 4.2).
_WINDOWS: Final = "cp1252"
_MEANT: Final = {
    "ascii": _WINDOWS,
    "iso8859-1": _WINDOWS,
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}

# No encodings of texts; decoding the first two takes quadratic time.
_NO_CHARSETS: Final = frozenset(
    {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
)


def _codec(name: str) -> str | None:
    try:
        codec = codecs.lookup(name.strip("\"' ")).name
        "".encode(codec)
    except (LookupError, ValueError):
        return None
    return None if codec in _NO_CHARSETS else _MEANT.get(codec, codec)


def _is_damaged(text: str) -> bool:
    """Whether a text that was decoded is one, apart from some bytes."""
    damaged = text.count("\ufffd")
    foreign = sum(not character.isascii() for character in text[:_SAMPLE]) - damaged
    return foreign > damaged * _DAMAGE


def _guessed(data: bytes) -> str:
    sample = data[:_SAMPLE]
    foreign = sample.translate(None, bytes(range(0x80)))
    is_western = len(sample) < _SHORT and len(foreign) < len(sample) * _MOSTLY_ASCII
    if is_western or not foreign.translate(None, _WINDOWS_PUNCTUATION):
        return _WINDOWS

    import charset_normalizer

    best = charset_normalizer.from_bytes(sample).best()
    if best is None:
        raise ValueError("no encoding fits")
    return best.encoding
