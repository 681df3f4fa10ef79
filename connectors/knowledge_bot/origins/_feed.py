"""Pages of a feed: RSS, Atom and RDF."""

import io
from collections.abc import Iterator
from typing import Any

from knowledge_bot.ingest._items import WebPage
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.origins._documents import UnreadableError
from knowledge_bot.origins._opening import opening
from knowledge_bot.origins._origin import skipped_address


def feed_pages(address: str, *, allow_private: bool) -> Iterator[WebPage | Skipped]:
    """Yield the pages that a feed links to."""
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
