"""Documents that list pages, such as a sitemap or a feed: unpacked, and bounded."""

import gzip
import io
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import IO, Any, TypeAlias

Opened: TypeAlias = "io.BufferedReader[Any]"
"""A document, from its beginning on."""

Opening: TypeAlias = Callable[[str], AbstractContextManager[Opened]]
"""Opens a document by its address, or raises `UnreadableError`."""


TOO_LARGE = 50 * 1024 * 1024
"""Most bytes of a document, unpacked: sitemaps.org, protocol, "Using Sitemap index files"."""

_GZIP = b"\x1f\x8b"
_LAYERS = 2  # a compressed file, sent compressed


class UnreadableError(Exception):
    """A document that cannot be opened, or is not what it should be."""


def unpacked(file: IO[bytes]) -> Opened:
    """Return a document uncompressed; at most `TOO_LARGE` bytes of it are read."""
    opened = _bounded(file)
    for _ in range(_LAYERS):
        if opened.peek(len(_GZIP)).startswith(_GZIP):
            opened = _bounded(gzip.GzipFile(fileobj=opened))
    return opened


def _bounded(stream: Any) -> "io.BufferedReader[Any]":
    raw: Any = _Bounded(stream)
    return io.BufferedReader(raw)


class _Bounded(io.RawIOBase):
    """What a stream holds, up to `TOO_LARGE` bytes."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._left = stream, TOO_LARGE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override] # a writable buffer
        try:
            piece: bytes = self._stream.read(len(buffer))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UnreadableError(f"it cannot be unpacked: {error}") from None
        self._left -= len(piece)
        if self._left < 0:
            raise UnreadableError(too_large_reason())
        buffer[: len(piece)] = piece
        return len(piece)


def too_large_reason() -> str:
    """Return the reason why a large document is not read to its end."""
    return f"it is larger than {TOO_LARGE // (1024 * 1024)} MiB"
