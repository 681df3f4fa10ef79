"""Documents that list pages, by their addresses or paths."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from knowledge_bot.origins._documents import TOO_LARGE, Opening, UnreadableError, unpacked
from knowledge_bot.origins._fetching import PoliteFetcher
from knowledge_bot.origins._origin import is_web_address

# The most documents fetched per second, such as the sitemaps of a sitemap index.
_RATE = 20.0


@contextmanager
def opening(start: str, *, allow_private: bool) -> Iterator[Opening]:
    """Read documents by their `http(s)://` addresses or paths.

    They are fetched without the API key, and redirects are followed. If the first one is public, no
    private one is read, unless that is allowed.
    """
    named_by = start if is_web_address(start) else ""
    allowed = allow_private or not named_by  # the caller's own file may name any address
    with closing(PoliteFetcher(named_by, _RATE, allow_private=allowed)) as fetcher:
        yield lambda address: fetcher.document(address) if _is_fetched(address) else _file(address)


def _is_fetched(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))


def _file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return unpacked(file.read(TOO_LARGE + 1))
    except OSError as error:
        raise UnreadableError(f"it cannot be read: {error.strerror or error}") from error
