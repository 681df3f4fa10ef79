"""Pages of a feed: RSS, Atom and RDF."""

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from knowledge_bot.ingest._items import WebPage
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.ingest.sources._comparing import listed_in
from knowledge_bot.ingest.sources._documents import opening
from knowledge_bot.ingest.sources._found import FoundItems, skipped_address
from knowledge_bot.ingest.sources._unpacking import UnreadableError

if TYPE_CHECKING:
    from knowledge_bot.ingest.sources._pages import Compare


def from_feed(
    address: str,
    *,
    compare: "Compare" = "lastmod",
    ignore: str | None = None,
    reread: bool = False,
    rate: float = 2.0,
    allow_private: bool = False,
) -> FoundItems:
    """Find the pages that a feed links to, in its order.

    A page is named by its title. The feed is fetched without the API key. One over 50 MiB, or with
    entity declarations, is not read.

    Args:
        address: the feed's `https://` address, or the path of a file.
        compare: what a page's version is made of: the time in the feed (`lastmod`; later changes of
            a page without one are not seen), or the page's main text (`content`; each page is read,
            as by `from_site`).
        ignore: what does not count in a main text, and
        reread: whether to read pages that their servers say are unchanged; see `from_site`.
        rate: the most pages read per second.
        allow_private: whether a public feed or page may lead to private addresses.

    Returns:
        An iterable of a `WebPage` for each page, and a `Skipped` for what cannot be read.

    Raises:
        ConfigurationError: an option cannot be used, or there is no such file.
    """
    return listed_in(
        address,
        _pages,
        compare,
        complete=False,
        rate=rate,
        allow_private=allow_private,
        ignore=ignore,
        reread=reread,
    )


def _pages(address: str, *, allow_private: bool) -> Iterator[WebPage | Skipped]:
    try:
        with opening(address, allow_private=allow_private) as opened, opened(address) as stream:
            feed = _parsed(stream.read(), address)
    except UnreadableError as error:
        yield Skipped(address, f"the feed cannot be read: {error}", invalid=True)
        return
    for parsed in feed.entries:
        entry = dict(parsed)  # avoids feedparser's warnings about renamed fields
        url = entry.get("link", "")
        title = " ".join(entry.get("title", "").split())
        if not url:
            name = title or entry.get("id") or "an entry without a title"
            yield Skipped(name, f"{address}: the entry links to no web page", invalid=True)
        elif (wrong := skipped_address(url, address)) is not None:
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
        raise UnreadableError("it declares entities, which attacks use") from error
    except (ParseError, ValueError, LookupError):
        pass  # many feeds are not well-formed, and feedparser reads them anyway
    # A file object, since feedparser may take bytes for an address and fetch it.
    feed = feedparser.parse(io.BytesIO(content), response_headers={"content-location": address})
    if not feed.get("version") and not feed.entries:
        raise UnreadableError("it is neither RSS nor Atom")
    return feed
