"""Pages of a list, compared with what they were at the last run."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from knowledge_bot._endpoints import check_number
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._items import Skipped, WebPage
from knowledge_bot.ingest.sources._addresses import site
from knowledge_bot.ingest.sources._documents import (
    Found,
    UnreadableError,
    check_flag,
    is_web_address,
)

if TYPE_CHECKING:
    from knowledge_bot.ingest.sources._pages import Compare, Memory, PageReader

# Bytes that are read of a page.
_LARGEST = 5_000_000
# Requests in a row that a host leaves unanswered before its other pages are not asked for.
_FAILURES = 10


def compared(
    found: Found,
    compare: "Compare | None",
    *,
    dated_by: str | None = None,
    rate: float,
    allow_private: bool,
) -> "Found | Compared":
    """Return the pages of a list, with what tells that they changed.

    Args:
        found: the list.
        compare: what tells it, as `from_sitemap` and `from_urls` say.
        dated_by: the address or path of a list that names times of change itself.
        rate: requests a second, at most.
        allow_private: whether what is public may lead to private addresses.

    Raises:
        ConfigurationError: an option cannot be used.
    """
    if compare not in ("content", "lastmod") and not (compare is None and dated_by is None):
        raise ConfigurationError(f"compare: expected 'content' or 'lastmod', not {compare!r}")
    check_number("rate", rate, 0.001)
    check_flag("allow_private", allow_private)
    if compare is None or (dated_by is not None and compare == "lastmod"):
        return found
    # What a list of the caller's own names, the caller names.
    stranger = dated_by if dated_by is not None and is_web_address(dated_by) else ""
    return Compared(found, compare, rate, stranger, allow_private)


@dataclass(frozen=True)
class Compared:
    """The pages of a list, each read to tell whether it changed.

    Attributes:
        found: the list.
        compare: what tells that a page changed.
        rate: requests a second, at most.
    """

    found: Found
    compare: "Compare"
    rate: float
    _stranger: str
    _allow_private: bool
    _memory: "Memory | None" = None

    @property
    def origin(self) -> str | None:
        """What the ledger knows the list by."""
        return self.found.origin

    def named(self, origin: str) -> "Compared":
        """Return the same pages under another name of their origin."""
        return replace(self, found=self.found.named(origin))

    def remembering(self, memory: "Memory") -> "Compared":
        """Return the same pages, compared with what a memory knows of them."""
        return replace(self, _memory=memory)

    def __iter__(self) -> Iterator[WebPage | Skipped]:
        from knowledge_bot.ingest.sources._fetching import Fetcher
        from knowledge_bot.ingest.sources._pages import PageReader

        fetcher = Fetcher(self._stranger, self.rate, allow_private=self._allow_private)
        reader = PageReader(
            fetcher,
            compare=self.compare,
            memory=self._memory,
            largest=_LARGEST,
            documents=True,
        )
        unanswered = Counter[str]()
        with closing(fetcher):
            for item in self.found:
                if isinstance(item, WebPage):
                    if not self._stranger:
                        fetcher.begin_at(item.url)
                    yield _compared(item, reader, unanswered)
                else:
                    yield item


def _compared(page: WebPage, reader: "PageReader", unanswered: Counter[str]) -> WebPage | Skipped:
    """Return a page with its version, or why it has none today.

    One that cannot be read is no item of this run: sent without its version it would count as
    changed.
    """
    from knowledge_bot.ingest.sources._fetching import UnreachableError
    from knowledge_bot.ingest.sources._pages import NoPageError

    host = site(page.url)
    if unanswered[host] >= _FAILURES:
        told = f"{_FAILURES} requests in a row to its host were not answered; it was not asked for"
        return Skipped(page.url, told, invalid=True, partial=True)
    before, unanswered[host] = unanswered[host], 0
    try:
        version = _version(page.url, reader)
    except NoPageError as error:
        return Skipped(page.url, str(error), invalid=True, partial=not error.gone)
    except UnreadableError as error:
        if isinstance(error, UnreachableError):
            unanswered[host] = before + 1
        return Skipped(page.url, str(error), invalid=True, partial=True)
    return page.model_copy(update={"version": version})


def _version(url: str, reader: "PageReader") -> str | None:
    """Return a page's version, wherever its address leads to."""
    from knowledge_bot.ingest.sources._fetching import REDIRECTS
    from knowledge_bot.ingest.sources._pages import Moved, NoPageError

    for _ in range(REDIRECTS + 1):
        found = reader.read(url)
        if not isinstance(found, Moved):
            return found.known.version
        url = found.to
    raise NoPageError(f"it redirects more than {REDIRECTS} times")
