"""Pages of a feed: RSS, Atom and RDF."""

import io
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from knowledge_bot.ingest._items import Skipped, WebPage
from knowledge_bot.ingest.sources._comparing import Compared, compared
from knowledge_bot.ingest.sources._documents import (
    Found,
    UnreadableError,
    check_document,
    opening,
    refused,
)

if TYPE_CHECKING:
    from knowledge_bot.ingest.sources._pages import Compare


def from_feed(
    address: str,
    *,
    compare: "Compare" = "lastmod",
    rate: float = 2.0,
    allow_private: bool = False,
) -> Found | Compared:
    """Find the pages that a feed links to, in its order.

    A page is named by its title. The feed is fetched without any key, of at most 50 MiB, and is not
    read when it declares entities.

    Args:
        address: the feed's `https://` address, or the path of a file.
        compare: what tells that a page changed, and is its version: the time that the feed names
            (`lastmod`), without which no later change of the page is seen; or the page's main text
            (`content`), for which each page is read, as `from_site` reads it.
        rate: how many pages are asked for a second, at most.
        allow_private: whether a public feed or page may lead to addresses that are not.

    Returns:
        An iterable of a `WebPage` for each page, and a `Skipped` for what cannot be read.

    Raises:
        ConfigurationError: an option cannot be used, or there is no such file.
    """
    check_document(address)
    return compared(
        Found(partial(_pages, address, allow_private=allow_private), None),
        compare,
        dated_by=address,
        rate=rate,
        allow_private=allow_private,
    )


def _pages(address: str, *, allow_private: bool) -> Iterator[WebPage | Skipped]:
    try:
        with opening(address, allow_private=allow_private) as opened, opened(address) as stream:
            feed = _parsed(stream.read(), address)
    except UnreadableError as error:
        yield Skipped(address, f"the feed cannot be read: {error}", invalid=True)
        return
    for parsed in feed.entries:
        entry = dict(parsed)  # without feedparser's warnings about names that it maps
        url = entry.get("link", "")
        title = " ".join(entry.get("title", "").split())
        if not url:
            told = title or entry.get("id") or "an entry without a title"
            yield Skipped(told, f"{address}: the entry links to no web page", invalid=True)
        elif (wrong := refused(url, address)) is not None:
            yield wrong
        else:
            version = entry.get("updated") or entry.get("published") or None
            yield WebPage(name=title or url, url=url, version=version)


def _parsed(content: bytes, address: str) -> Any:
    import feedparser  # type: ignore[import-untyped] # ships no types
    from defusedxml import DefusedXmlException  # type: ignore[import-untyped] # ships no types
    from defusedxml.ElementTree import (  # type: ignore[import-untyped] # ships no types
        ParseError,
        fromstring,
    )

    try:
        fromstring(content)
    except DefusedXmlException as error:
        raise UnreadableError("it declares entities, as attacks do") from error
    except (ParseError, ValueError, LookupError):
        pass  # many feeds are not well-formed, and feedparser reads them all the same
    # A file object: feedparser would take text for an address and fetch it.
    feed = feedparser.parse(io.BytesIO(content), response_headers={"content-location": address})
    if not feed.get("version") and not feed.entries:
        raise UnreadableError("it is neither RSS nor Atom")
    return feed
