"""The pages of a list, each read and compared with the last run."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from knowledge_bot._endpoints import check_number
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._items import WebPage
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.ingest.sources._addresses import site
from knowledge_bot.ingest.sources._documents import check_document
from knowledge_bot.ingest.sources._found import FoundItems, check_flag, is_web_address, pattern_of
from knowledge_bot.ingest.sources._unpacking import UnreadableError

if TYPE_CHECKING:
    from knowledge_bot.ingest.sources._found import Memory
    from knowledge_bot.ingest.sources._pages import Compare, PageReader

# Bytes that are read of a page.
_LARGEST = 5_000_000
# Unanswered requests in a row after which the other pages of a host are left alone.
_FAILURES = 10


def compared(
    found: FoundItems,
    compare: "Compare | None",
    *,
    dated_by: str | None = None,
    rate: float,
    allow_private: bool,
    ignore: str | None,
    reread: bool,
) -> FoundItems:
    """Return the pages of a list, each with a version once it was read.

    The options are those of `from_sitemap`. `dated_by` is the address or path of a list that has
    times of change itself.

    Raises:
        ConfigurationError: an option cannot be used.
    """
    if compare not in ("content", "lastmod") and not (compare is None and dated_by is None):
        raise ConfigurationError.of("compare", f"expected 'content' or 'lastmod', not {compare!r}")
    check_number("rate", rate, 0.001)
    check_flag("allow_private", allow_private)
    check_flag("reread", reread)
    pattern = pattern_of(ignore)
    if compare is None or (dated_by is not None and compare == "lastmod"):
        return found
    # The addresses in the caller's own file or list are as good as given by the caller.
    named_by = dated_by if dated_by is not None and is_web_address(dated_by) else ""

    def read(items: Iterator[Any], memory: "Memory | None") -> Iterator[Any]:
        from knowledge_bot.ingest.sources._fetching import PoliteFetcher
        from knowledge_bot.ingest.sources._pages import PageReader

        fetcher = PoliteFetcher(named_by, rate, allow_private=allow_private)
        reader = PageReader(
            fetcher,
            compare=compare,
            memory=memory,
            largest=_LARGEST,
            documents=None,
            ignore=pattern,
            reread=reread,
        )
        unanswered = Counter[str]()
        with closing(fetcher):
            for item in items:
                if isinstance(item, WebPage):
                    if not named_by:
                        fetcher.begin_at(item.url)
                    yield _compared(item, reader, unanswered)
                else:
                    yield item

    return replace(found, compare=read)


def listed_in(
    address: str,
    find: Callable[..., Iterator[Any]],
    compare: "Compare",
    *,
    complete: bool,
    allow_private: bool,
    **how: Any,
) -> FoundItems:
    """Return the pages that a document lists, such as a sitemap; the options are as for `compared`.

    Args:
        address: of the document, or its path.
        find: yields them, given `address` and `allow_private`.
        compare: what a page's version is made of.
        complete: whether the document lists all pages of its origin.
        allow_private: whether it may lead to private addresses.
        how: the other options.

    Raises:
        ConfigurationError: an option cannot be used, or there is no such file.
    """
    check_document(address)
    take = partial(find, address, allow_private=allow_private)
    found = FoundItems(take, address if complete else None)
    return compared(found, compare, dated_by=address, allow_private=allow_private, **how)


def _compared(page: WebPage, reader: "PageReader", unanswered: Counter[str]) -> WebPage | Skipped:
    """Return a page with its version, or a `Skipped` with the reason why it cannot be read.

    Without its version the page would count as changed, so it is not sent.
    """
    from knowledge_bot.ingest.sources._fetching import UnreachableError
    from knowledge_bot.ingest.sources._pages import NoPageError

    host = site(page.url)
    if unanswered[host] >= _FAILURES:
        reason = f"it was not read, since {_FAILURES} requests in a row to its host had no answer"
        return Skipped(page.url, reason, invalid=True, gone="unread")
    before, unanswered[host] = unanswered[host], 0
    try:
        version = _version(page.url, reader)
    except NoPageError as error:
        return Skipped(page.url, str(error), invalid=True, gone=error.gone or "unread")
    except UnreadableError as error:
        if isinstance(error, UnreachableError):
            unanswered[host] = before + 1
        return Skipped(page.url, str(error), invalid=True, gone="unread")
    return page.model_copy(update={"version": version})


def _version(url: str, reader: "PageReader") -> str | None:
    """Return a page's version, following redirects."""
    from knowledge_bot.ingest.sources._pages import Moved, NoPageError
    from knowledge_bot_web.fetching import REDIRECTS

    for _ in range(REDIRECTS + 1):
        found = reader.read(url)
        if not isinstance(found, Moved):
            return found.known.version
        url = found.to
    raise NoPageError(f"it redirects more than {REDIRECTS} times")
