"""What several places that items come from share: documents that are fetched or opened."""

import gzip
import io
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from knowledge_bot import __version__

TOO_LARGE = 50 * 1024 * 1024
"""Bytes of a document once unpacked: sitemaps.org, protocol, "Using Sitemap index files"."""

_TIMEOUT = 30.0
_REDIRECTS = 5
_IN_MEMORY = 1024 * 1024
_GZIP = b"\x1f\x8b"
_LAYERS = 2  # a compressed file, sent compressed


class UnreadableError(Exception):
    """A document that cannot be had, or is not what it should be."""


@dataclass(frozen=True)
class Found:
    """The items of one place, to be taken once.

    Attributes:
        items: the items.
        origin: what the ledger knows the place by; None where what it yields is not the whole.
    """

    items: Iterator[Any]
    origin: str | None

    def named(self, origin: str) -> "Found":
        """Return the same items under another name of their origin."""
        return replace(self, origin=origin)

    def __iter__(self) -> Iterator[Any]:
        return self.items


@contextmanager
def opened(address: str) -> Iterator[IO[bytes]]:
    """Open a document by its `http(s)://` address or its path.

    It is fetched without any key, so redirects are followed.

    Raises:
        UnreadableError: it cannot be had, or it is too large.
    """
    if address.lower().startswith(("http://", "https://")):
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            _fetch(address, file)
            file.seek(0)
            yield unpacked(file)
        return
    try:
        with Path(address).open("rb") as file:
            yield unpacked(file)
    except OSError as error:
        raise UnreadableError(f"it cannot be read: {error.strerror or error}") from error


def _fetch(address: str, into: IO[bytes]) -> None:
    import httpx

    headers = {
        "User-Agent": f"knowledge-bot/{__version__}",
        "Accept-Encoding": "gzip",
        # Otherwise a redirect may be followed over a connection that is just being closed.
        "Connection": "close",
    }
    received = 0
    try:
        with (
            httpx.Client(
                follow_redirects=True, max_redirects=_REDIRECTS, timeout=_TIMEOUT, headers=headers
            ) as client,
            client.stream("GET", address) as response,
        ):
            if response.status_code != 200:
                raise UnreadableError(f"it was answered with {response.status_code}")
            for piece in response.iter_raw():  # unpacked later, piece by piece
                received += len(piece)
                if received > TOO_LARGE:
                    raise UnreadableError(_told_too_large())
                into.write(piece)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnreadableError(
            f"it cannot be fetched: {str(error) or type(error).__name__}"
        ) from error


def unpacked(file: IO[bytes]) -> IO[bytes]:
    """Return a document without its compression, of which at most `TOO_LARGE` bytes are read."""
    stream: IO[bytes] = file
    for _ in range(_LAYERS):
        start = _bounded(stream)
        if start.peek(2)[:2] != _GZIP:
            return start
        stream = gzip.GzipFile(fileobj=start)  # type: ignore[assignment] # it reads as a stream
    return _bounded(stream)


def _bounded(stream: IO[bytes]) -> io.BufferedReader:
    raw: Any = _Raw(stream)
    return io.BufferedReader(raw, 65536)


class _Raw(io.RawIOBase):
    """A stream that may be read up to `TOO_LARGE` bytes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._left = stream, TOO_LARGE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override] # a writable buffer
        try:
            piece = self._stream.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            raise UnreadableError(f"it cannot be unpacked: {error}") from error
        self._left -= len(piece)
        if self._left < 0:
            raise UnreadableError(_told_too_large())
        buffer[: len(piece)] = piece
        return len(piece)


def _told_too_large() -> str:
    return f"it is larger than {TOO_LARGE // (1024 * 1024)} MiB"


def is_web_address(address: str) -> bool:
    """Tell whether this is an `http(s)://` address with a host."""
    try:
        parts = urlsplit(address)
    except ValueError:  # such as half of an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
