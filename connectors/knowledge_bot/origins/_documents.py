"""Documents that list pages, such as a sitemap or a feed: opened, unpacked, and bounded."""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

from knowledge_bot.origins._origin import is_web_address

# The most documents fetched per second, such as the sitemaps of a sitemap index.
_RATE = 20.0

Opening: TypeAlias = Callable[[str], AbstractContextManager[IO[bytes]]]
"""Opens a document by its address, or raises `UnreadableError`."""


@contextmanager
def opening(start: str, *, allow_private: bool) -> Iterator[Opening]:
    """Open documents by their `http(s)://` addresses or paths.

    They are fetched without the API key, and redirects are followed. If the first one is public, no
    private one is opened, unless that is allowed.
    """
    from knowledge_bot.origins._fetching import PoliteFetcher  # which imports this

    named_by = start if is_web_address(start) else ""
    allowed = allow_private or not named_by  # the caller's own file may name any address
    with closing(PoliteFetcher(named_by, _RATE, allow_private=allowed)) as fetcher:
        yield lambda address: fetcher.opened(address) if _is_fetched(address) else _file(address)


def _is_fetched(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))


@contextmanager
def _file(path: str) -> Iterator[IO[bytes]]:
    try:
        with Path(path).open("rb") as file:
            yield unpacked(file)
    except OSError as error:
        raise UnreadableError(f"it cannot be read: {error.strerror or error}") from error


TOO_LARGE = 50 * 1024 * 1024
"""Most bytes of a document, unpacked: sitemaps.org, protocol, "Using Sitemap index files"."""

_GZIP = b"\x1f\x8b"
_LAYERS = 2  # a compressed file, sent compressed


class UnreadableError(Exception):
    """A document that cannot be opened, or is not what it should be."""


def unpacked(file: IO[bytes]) -> IO[bytes]:
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
