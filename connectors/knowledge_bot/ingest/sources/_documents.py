"""Documents that list pages, such as a sitemap or a feed: fetched or opened, by their address."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import IO, TypeAlias

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest.sources._found import is_web_address
from knowledge_bot.ingest.sources._unpacking import UnreadableError, unpacked

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
