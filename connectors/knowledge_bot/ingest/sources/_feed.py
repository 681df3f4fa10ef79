"""Pages of a feed: RSS, Atom and RDF."""

import io
from collections.abc import Iterator
from typing import Any

from knowledge_bot.ingest._items import Skipped, WebPage
from knowledge_bot.ingest.sources._documents import UnreadableError, is_web_address, opened


def from_feed(address: str) -> Iterator[WebPage | Skipped]:
    """Yield the pages that a feed links to, in its order.

    A page is named by its title, and the time of its last change is its version. The feed is
    fetched without any key, of at most 50 MiB, and is not read when it declares entities.

    Args:
        address: the feed's `https://` address, or the path of a file.

    Yields:
        A `WebPage`, or a `Skipped` for what cannot be read.
    """
    try:
        with opened(address) as stream:
            feed = _parsed(stream.read(), address)
    except UnreadableError as error:
        yield Skipped(address, f"the feed cannot be read: {error}", invalid=True)
        return
    for parsed in feed.entries:
        entry = dict(parsed)  # without feedparser's warnings about names that it maps
        url = entry.get("link", "")
        title = " ".join(entry.get("title", "").split())
        if is_web_address(url):
            version = entry.get("updated") or entry.get("published") or None
            yield WebPage(name=title or url, url=url, version=version)
        else:
            told = title or entry.get("id") or "an entry without a title"
            yield Skipped(told, f"{address}: the entry links to no web page", invalid=True)


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
