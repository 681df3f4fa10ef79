"""Pages of a feed: RSS, Atom, RDF and JSON Feed."""

import io
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

from knowledge_bot.ingest._items import WebPage
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.origins._documents import BLANK, UnreadableError
from knowledge_bot.origins._fetching import opening
from knowledge_bot.origins._origin import skipped_address


def feed_pages(address: str, *, allow_private: bool) -> Iterator[WebPage | Skipped]:
    """Yield the pages that a feed links to."""
    try:
        with opening(address, allow_private=allow_private) as read:
            entries = _entries(read(address), address)
    except UnreadableError as error:
        yield Skipped(address, f"the feed cannot be read: {error}", invalid=True)
        return
    for entry in entries:
        url, title = entry.get("link", ""), " ".join(entry.get("title", "").split())
        if not url:
            name = title or entry.get("id") or "an entry without a title"
            yield Skipped(name, f"{address}: the entry links to no web page")
        elif (wrong := skipped_address(url, address)) is not None:
            yield wrong
        else:
            version = entry.get("updated") or entry.get("published") or None
            yield WebPage(name=title or url, url=url, version=version)


def _entries(content: bytes, address: str) -> list[dict[str, Any]]:
    """The entries of a feed, by feedparser's names."""
    if content.lstrip(BLANK).startswith(b"{"):
        return list(_entries_of_json(content, address))
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
    # As plain ones, which do not warn of fields that were renamed.
    return [dict(entry) for entry in feed.entries]


def _entries_of_json(content: bytes, address: str) -> Iterator[dict[str, Any]]:
    """The entries of a JSON Feed (jsonfeed.org, version 1.1)."""
    try:
        feed = json.loads(content)
    except (ValueError, RecursionError):
        feed = {}
    if "jsonfeed.org/version/" not in str(feed.get("version")):
        raise UnreadableError("it is neither RSS nor Atom, nor a JSON Feed")
    for item in feed.get("items") or ():
        if isinstance(item, dict):
            entry = {ours: str(item.get(theirs) or "") for ours, theirs in _NAMES.items()}
            yield entry | {"link": entry["link"] and urljoin(address, entry["link"])}


_NAMES = {
    "id": "id",
    "link": "url",
    "title": "title",
    "updated": "date_modified",
    "published": "date_published",
}
