"""Pages of a sitemap (sitemaps.org, protocol 0.9), nested ones and lists of addresses included."""

import io
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from urllib.parse import urljoin
from xml.etree.ElementTree import Element, ParseError

from knowledge_bot.ingest._items import WebPage
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.origins._documents import BLANK, Opening, UnreadableError
from knowledge_bot.origins._origin import is_web_address, skipped_address

# The protocol allows one index of 50,000 sitemaps; some sites nest once more.
_DEPTH = 3
_SITEMAPS = 50_000

_START = 256  # bytes that show whether a sitemap is a text
_NO_REFERENCE = re.compile(rb"&(?!#?\w{1,10};)")


def sitemap_pages(
    address: str,
    opening: Opening,
    depth: int = 0,
    seen: set[str] | None = None,
    on_read: Callable[[str], None] | None = None,
) -> Iterator[WebPage | Skipped]:
    """Yield the pages of a sitemap and of those that it names.

    `on_read` is called with the address of each that was read to its end.
    """
    seen = set() if seen is None else seen
    if depth > _DEPTH or len(seen) >= _SITEMAPS:
        reason = "sitemaps are nested too deeply, or there are too many"
        yield Skipped(address, reason, invalid=True, partial=True)
        return
    if address in seen:
        return
    seen.add(address)
    nested = []
    kind = ""
    try:
        for kind, location, modified in _entries(address, opening):
            target = _joined(address, location)
            if (skipped := skipped_address(target, address)) is not None:
                yield skipped
            elif kind == "sitemap":
                nested.append(target)
                if len(nested) > _SITEMAPS:
                    raise UnreadableError("it names too many sitemaps")
            else:
                yield WebPage(name=target, url=target, version=_time(modified))
        if on_read is not None:
            on_read(address)
    except UnreadableError as error:
        reason = f"the sitemap {'ends there' if kind else 'cannot be read'}: {error}"
        yield Skipped(address, reason, invalid=True, partial=True)
    for sitemap in nested:
        yield from sitemap_pages(sitemap, opening, depth + 1, seen, on_read)


def _entries(address: str, opening: Opening) -> Iterator[tuple[str, str, str | None]]:
    from defusedxml import DefusedXmlException  # type: ignore[import-untyped] # ships no types
    from defusedxml.ElementTree import iterparse  # type: ignore[import-untyped] # ships no types

    content = opening(address)
    if not content[:_START].lstrip(BLANK).startswith(b"<"):
        yield from _lines(content)
        return
    root: Element | None = None
    try:
        for event, element in iterparse(io.BytesIO(_escaped(content)), events=("start", "end")):
            if root is None:
                root = element
                if _local(element) not in ("urlset", "sitemapindex"):
                    raise UnreadableError(
                        f"it is not a sitemap but <{_local(element)[:80]}>; a site that has none "
                        "is read as a site"
                    )
            elif event == "end" and _local(element) in ("url", "sitemap"):
                if location := _text(element, "loc"):
                    yield _local(element), location, _text(element, "lastmod")
                root.clear()  # otherwise it would collect a million pages
    except ParseError as error:
        raise UnreadableError(f"it is not well-formed XML: {error}") from error
    except DefusedXmlException as error:
        raise UnreadableError("it declares entities, which attacks use") from error
    except (ValueError, LookupError) as error:
        raise UnreadableError(f"its encoding is not known: {error}") from error


def _escaped(content: bytes) -> bytes:
    """Return XML with those `&` escaped that begin no reference, as addresses often have them."""
    return content if b"\0" in content[:_START] else _NO_REFERENCE.sub(b"&amp;", content)


def _lines(content: bytes) -> Iterator[tuple[str, str, None]]:
    """The pages of a sitemap that is a text with an address on each line."""
    for number, line in enumerate(content.splitlines() or [b""]):
        address = line.decode("utf-8-sig", "replace").strip()
        if number == 0 and not is_web_address(address):
            raise UnreadableError("it is neither XML nor a list of addresses")
        if address:
            yield "url", address, None


def _time(lastmod: str | None) -> str | None:
    """Return a time (W3C, "Date and Time Formats") in UTC; anything else unchanged."""
    try:
        time = datetime.fromisoformat(lastmod or "")
    except ValueError:
        return lastmod
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def _joined(address: str, location: str) -> str:
    try:
        return urljoin(address, location)
    except ValueError:  # the location is not an address
        return location


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: Element, name: str) -> str | None:
    for child in element:
        if _local(child) == name and child.text and child.text.strip():
            return child.text.strip()
    return None
