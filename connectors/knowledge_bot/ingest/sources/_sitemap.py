"""Pages of a sitemap (sitemaps.org, protocol 0.9), nested ones included."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import IO, TypeAlias
from urllib.parse import urljoin
from xml.etree.ElementTree import Element, ParseError

from knowledge_bot.ingest._items import Skipped, WebPage
from knowledge_bot.ingest.sources._documents import Found, UnreadableError, is_web_address, opened

# The protocol allows one index of 50,000 sitemaps; some sites nest once more.
_DEPTH = 3
_SITEMAPS = 50_000

Opening: TypeAlias = Callable[[str], AbstractContextManager[IO[bytes]]]
"""Opens a document by its address."""


def from_sitemap(address: str) -> Found:
    """Find the pages of a sitemap, and of the sitemaps that it names.

    A page is named by its address, and its `lastmod` is its version, so that a page for which it
    differs from the last run's is created again. Sitemaps may be compressed. They are fetched
    without any key, of at most 50 MiB each, and are not read when they declare entities.

    Args:
        address: the sitemap's `https://` address, or the path of a file.

    Returns:
        An iterable of a `WebPage` for each page, and a `Skipped` for what cannot be read.
    """
    return Found(sitemap_pages(address, opened), address)


def sitemap_pages(
    address: str, opening: Opening, depth: int = 0, seen: set[str] | None = None
) -> Iterator[WebPage | Skipped]:
    """Yield the pages of a sitemap and of those that it names, each opened with `opening`."""
    seen = set() if seen is None else seen
    if depth > _DEPTH or len(seen) >= _SITEMAPS:
        reason = "sitemaps are nested too deeply, or too many"
        yield Skipped(address, reason, invalid=True, partial=True)
        return
    if address in seen:
        return
    seen.add(address)
    nested = []
    try:
        for kind, location, modified in _entries(address, opening):
            target = _joined(address, location)
            if not is_web_address(target):
                yield Skipped(location[:500], f"{address}: it is no web address", invalid=True)
            elif kind == "sitemap":
                nested.append(target)
                if len(nested) > _SITEMAPS:
                    raise UnreadableError("it names too many sitemaps")
            else:
                yield WebPage(name=target, url=target, version=modified)
    except UnreadableError as error:
        reason = f"the sitemap ends there: {error}"
        yield Skipped(address, reason, invalid=True, partial=True)
    for sitemap in nested:
        yield from sitemap_pages(sitemap, opening, depth + 1, seen)


def _entries(address: str, opening: Opening) -> Iterator[tuple[str, str, str | None]]:
    from defusedxml import DefusedXmlException  # type: ignore[import-untyped] # ships no types
    from defusedxml.ElementTree import iterparse  # type: ignore[import-untyped] # ships no types

    with opening(address) as stream:
        root: Element | None = None
        try:
            for event, element in iterparse(stream, events=("start", "end")):
                if root is None:
                    root = element
                    if _local(element) not in ("urlset", "sitemapindex"):
                        raise UnreadableError(f"it is no sitemap but <{_local(element)[:80]}>")
                elif event == "end" and _local(element) in ("url", "sitemap"):
                    if location := _text(element, "loc"):
                        yield _local(element), location, _text(element, "lastmod")
                    root.clear()  # or a million pages would gather in it
        except ParseError as error:
            raise UnreadableError(f"it is not well-formed XML: {error}") from error
        except DefusedXmlException as error:
            raise UnreadableError("it declares entities, as attacks do") from error
        except (ValueError, LookupError) as error:
            raise UnreadableError(f"its encoding is not known: {error}") from error


def _joined(address: str, location: str) -> str:
    try:
        return urljoin(address, location)
    except ValueError:  # the location is no address
        return location


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: Element, name: str) -> str | None:
    for child in element:
        if _local(child) == name and child.text and child.text.strip():
            return child.text.strip()
    return None
