"""What several sources of items share: documents that are fetched or opened."""

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._listings import Skipped

if TYPE_CHECKING:
    from knowledge_bot.ingest.sources._pages import Memory

TOO_LARGE = 50 * 1024 * 1024
"""Most bytes of a document, unpacked: sitemaps.org, protocol, "Using Sitemap index files"."""

# The most documents fetched per second, such as the sitemaps of a sitemap index.
_RATE = 20.0
_GZIP = b"\x1f\x8b"
_LAYERS = 2  # a compressed file, sent compressed


class UnreadableError(Exception):
    """A document that cannot be opened, or is not what it should be."""


@dataclass(frozen=True)
class Found:
    """The items of one source.

    Attributes:
        take: yields the items, each time from the beginning.
        origin: the source's name in the ledger; None if it does not yield all its items.
        local_keys: whether keys are unique within the source only, as those of a table's rows are;
            then they are prefixed with the origin.
        compare: compares pages with what a memory holds of them; None: they are taken as listed.
    """

    take: Callable[[], Iterator[Any]]
    origin: str | None
    local_keys: bool = False
    compare: "Callable[[Iterator[Any], Memory | None], Iterator[Any]] | None" = None
    _memory: "Memory | None" = None

    def named(self, origin: str) -> "Found":
        """Return the same items under another name of their origin."""
        return replace(self, origin=origin)

    def remembering(self, memory: "Memory") -> "Found":
        """Return the same items, pages among them compared with what a memory holds of them."""
        return replace(self, _memory=memory)

    def __iter__(self) -> Iterator[Any]:
        items = self.take() if self.compare is None else self.compare(self.take(), self._memory)
        if self.origin is None or not self.local_keys:
            return items
        return (self._with_origin(item) for item in items)

    def _with_origin(self, item: Any) -> Any:
        if not isinstance(item, Skipped):
            return item.model_copy(update={"key": f"{self.origin}/{item.identity}"})
        return replace(item, name=f"{self.origin}/{item.name}") if item.gone else item


def once(items: Iterator[Any], what: str) -> Callable[[], Iterator[Any]]:
    """Return a function that yields items once and raises when it is called again.

    Otherwise the second call would yield nothing, and all items would seem to be gone.
    """
    left = [items]

    def take() -> Iterator[Any]:
        if not left:
            raise ConfigurationError(
                f"{what}: they have been read already, and can be read only once"
            )
        return left.pop()

    return take


Opening: TypeAlias = Callable[[str], AbstractContextManager[IO[bytes]]]
"""Opens a document by its address, or raises `UnreadableError`."""


@contextmanager
def opening(start: str, *, allow_private: bool) -> Iterator[Opening]:
    """Open documents by their `http(s)://` addresses or paths.

    They are fetched without the API key, and redirects are followed. If the first one is public, no
    private one is opened, unless that is allowed.
    """
    from knowledge_bot.ingest.sources._fetching import PoliteFetcher

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


def check_document(address: object) -> None:
    """Check the address or the path of a document.

    Raises:
        ConfigurationError: it is neither, or there is no such file.
    """
    if not isinstance(address, str) or not address.strip():
        raise ConfigurationError.of("address", f"expected an address or a path, not {address!r}")
    if not _is_fetched(address) and not Path(address).is_file():
        if "://" in address:
            raise ConfigurationError.of(
                "address", f"{address} is not an http:// or https:// address"
            )
        raise ConfigurationError.of("address", f"there is no file {address}")


def check_flag(name: str, value: object) -> None:
    """Check an option that is true or false.

    Raises:
        ConfigurationError: it is neither.
    """
    if not isinstance(value, bool):
        raise ConfigurationError.of(name, f"expected True or False, not {value!r}")


def patterns_of(name: str, given: str | Iterable[str]) -> list[str]:
    """Return one pattern or several as a list.

    Raises:
        ConfigurationError: it is something else.
    """
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, Iterable):
        raise ConfigurationError.expected(name, "a pattern or a list of patterns", given)
    found = list(several)
    if not all(isinstance(pattern, str) for pattern in found):
        raise ConfigurationError.of(name, "expected patterns as strings")
    return found


def pattern_of(ignore: str | None) -> "re.Pattern[str] | None":
    """Return the expression for what does not count in a page's main text.

    Raises:
        ConfigurationError: it is none.
    """
    if ignore is None:
        return None
    try:
        return re.compile(ignore)
    except (re.error, TypeError, RecursionError, OverflowError) as error:
        problem = f"{ignore!r} is not a regular expression: {error}"
        raise ConfigurationError.of("ignore", problem) from None


def skipped_address(address: str, place: str) -> Skipped | None:
    """Return a `Skipped` for an address that cannot be a page's; None for one that can."""
    shown = address[:500]
    from knowledge_bot.ingest._items import holds_login  # with pydantic, which a folder is spared

    if holds_login(address):
        reason = f"{place}: it holds a login, which is never stored; use headers of `from_site`"
        return Skipped(f"…@{shown.rpartition('@')[2]}", reason, invalid=True, partial=True)
    if not is_web_address(address):
        return Skipped(shown, f"{place}: it is not a web address", invalid=True)
    return None


def is_web_address(address: str) -> bool:
    """Return whether this is an `http(s)://` address with a host."""
    try:
        parts = urlsplit(address)
    except ValueError:  # such as half of an IPv6 address
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
