"""What several places that items come from share: documents that are fetched or opened."""

import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TypeAlias
from urllib.parse import urlsplit

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._items import Skipped, holds_login

TOO_LARGE = 50 * 1024 * 1024
"""Bytes of a document once unpacked: sitemaps.org, protocol, "Using Sitemap index files"."""

# Documents that are fetched a second at most, such as the sitemaps that one names.
_RATE = 20.0
_GZIP = b"\x1f\x8b"
_LAYERS = 2  # a compressed file, sent compressed


class UnreadableError(Exception):
    """A document that cannot be had, or is not what it should be."""


@dataclass(frozen=True)
class Found:
    """The items of one place.

    Attributes:
        take: gives the items, each time from the beginning.
        origin: what the ledger knows the place by; None where what it yields is not the whole.
        keys_of_its_own: whether the items are numbered within the place alone, as rows of a table
            are: then their keys begin with the name that it was given.
    """

    take: Callable[[], Iterator[Any]]
    origin: str | None
    keys_of_its_own: bool = False

    def named(self, origin: str) -> "Found":
        """Return the same items under another name of their origin."""
        return replace(self, origin=origin)

    def __iter__(self) -> Iterator[Any]:
        if self.origin is None or not self.keys_of_its_own:
            return self.take()
        return self._below(self.origin)

    def _below(self, origin: str) -> Iterator[Any]:
        for item in self.take():
            if isinstance(item, Skipped):
                yield item
            else:
                yield item.model_copy(update={"key": f"{origin}/{item.identity}"})


def once(items: Iterator[Any], what: str) -> Callable[[], Iterator[Any]]:
    """Return what gives items that can be taken only once.

    Taken again they would be none at all, and all of them gone.
    """
    left = [items]

    def take() -> Iterator[Any]:
        if not left:
            raise ConfigurationError(f"{what}: they were taken already, and can be taken only once")
        return left.pop()

    return take


Opening: TypeAlias = Callable[[str], AbstractContextManager[IO[bytes]]]
"""Opens a document by its address, or raises `UnreadableError`."""


@contextmanager
def opening(start: str, *, allow_private: bool) -> Iterator[Opening]:
    """Open documents by their `http(s)://` addresses, and one by its path.

    They are fetched without any key, and redirects are followed.

    Args:
        start: the document that names the others; where it is public, no private one is opened.
        allow_private: whether one is opened all the same.
    """
    from knowledge_bot.ingest.sources._fetching import Fetcher

    named_by = start if is_web_address(start) else ""
    allowed = allow_private or not named_by  # a file of the caller's own may name any address
    with closing(Fetcher(named_by, _RATE, allow_private=allowed)) as fetcher:
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
            raise UnreadableError(told_too_large())
        buffer[: len(piece)] = piece
        return len(piece)


def told_too_large() -> str:
    """Return why a document is not read to its end."""
    return f"it is larger than {TOO_LARGE // (1024 * 1024)} MiB"


def check_document(address: object) -> None:
    """Check the address or the path of a document.

    Raises:
        ConfigurationError: it is none, or there is no such file.
    """
    if not isinstance(address, str) or not address.strip():
        raise ConfigurationError(f"address: expected an address or a path, not {address!r}")
    if not _is_fetched(address) and not Path(address).is_file():
        if "://" in address:
            raise ConfigurationError(f"address: {address} is no http:// or https:// address")
        raise ConfigurationError(f"address: there is no file {address}")


def check_flag(name: str, value: object) -> None:
    """Check an option that is true or false.

    Raises:
        ConfigurationError: it is neither.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name}: expected True or False, not {value!r}")


def patterns_of(name: str, given: str | Iterable[str]) -> list[str]:
    """Return an option of one pattern or several as a list.

    Raises:
        ConfigurationError: it is something else.
    """
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, Iterable):
        told = f"expected a pattern or several, not {type(given).__name__}"
        raise ConfigurationError(f"{name}: {told}")
    found = list(several)
    if not all(isinstance(pattern, str) for pattern in found):
        raise ConfigurationError(f"{name}: expected patterns as texts")
    return found


def refused(address: str, told: str) -> Skipped | None:
    """Return why an address in a list is no page's; None where it is one.

    Args:
        address: the address.
        told: where it stands.
    """
    shown = address[:500]
    if holds_login(address):
        reason = f"{told}: it holds a login, which is not kept; `from_site` takes headers"
        return Skipped(f"…@{shown.rpartition('@')[2]}", reason, invalid=True, partial=True)
    if not is_web_address(address):
        return Skipped(shown, f"{told}: it is no web address", invalid=True)
    return None


def is_web_address(address: str) -> bool:
    """Tell whether this is an `http(s)://` address with a host."""
    try:
        parts = urlsplit(address)
    except ValueError:  # such as half of an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
