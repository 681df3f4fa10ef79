"""Documents that list pages, such as a sitemap or a feed: unpacked, and bounded."""

import zlib
from collections.abc import Callable
from typing import TypeAlias

Opening: TypeAlias = Callable[[str], bytes]
"""Returns a document by its address, or raises `UnreadableError`."""

TOO_LARGE = 50 * 1024 * 1024
"""Most bytes of a document, unpacked: sitemaps.org, protocol, "Using Sitemap index files"."""

BLANK = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"
"""What may be before the first sign of a document, in UTF-8 or UTF-16: a mark of its encoding."""

_GZIP = b"\x1f\x8b"
_LAYERS = 2  # a compressed file, sent compressed


class UnreadableError(Exception):
    """A document that cannot be opened, or is not what it should be."""


def unpacked(content: bytes) -> bytes:
    """Return a document uncompressed.

    Raises:
        UnreadableError: it cannot be unpacked, or is larger than `TOO_LARGE`.
    """
    for _ in range(_LAYERS):
        if not content.startswith(_GZIP):
            break
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            content = unpacker.decompress(content, TOO_LARGE + 1)
        except zlib.error as error:
            raise UnreadableError(f"it cannot be unpacked: {error}") from None
        if not unpacker.eof and len(content) <= TOO_LARGE:
            raise UnreadableError("it cannot be unpacked: its end is missing")
    if len(content) > TOO_LARGE:
        raise UnreadableError(f"it is larger than {TOO_LARGE // (1024 * 1024)} MiB")
    return content
