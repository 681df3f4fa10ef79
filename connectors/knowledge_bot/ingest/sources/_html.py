"""Reads HTML pages: their links, their directives for crawlers, and the version of their text."""

import contextlib
import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from knowledge_bot.ingest.sources._addresses import cleaned
from knowledge_bot_web.html import article, main_text, parsed

if TYPE_CHECKING:
    from lxml.html import HtmlElement

LINKS = 5000
"""Most links of one page that are followed; even large index pages have fewer."""

# Characters above which trafilatura is not used: 2 million would take it 15 s.
_TOO_LONG_TO_EXTRACT = 1_000_000

_REFRESH = re.compile(r"\s*\d+(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"']+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Document:
    """What was read from an HTML page.

    Attributes:
        links: the addresses that it links to, in order, without those marked `nofollow`.
        more_links: whether there were more than are followed.
        canonical: the canonical address that it names, or None.
        robots: directives for crawlers in its `meta` elements: an agent's name, and directives.
        text: its main text, as the plain reader finds it.
    """

    links: tuple[str, ...]
    more_links: bool
    canonical: str | None
    robots: tuple[tuple[str, str], ...]
    text: str


def read_page(text: str, url: str, encoding: str) -> Document:
    """Read a page.

    Args:
        text: the page, decoded.
        url: its address.
        encoding: the encoding that it was in, which its links are escaped in.

    Raises:
        PageError: its tags are nested more than 2,000 deep.
    """
    root = parsed(text, deep=True)
    bases = (each.get("href") for each in root.iter("base"))
    base = cleaned(next(filter(None, bases), ""), url, encoding) or url
    links: dict[str, None] = {}
    for link in _links(root):
        if len(links) <= LINKS and (address := cleaned(link, base, encoding)):
            links[address] = None
    canonicals = (
        cleaned(each.get("href", ""), base, encoding)
        for each in root.iter("link")
        if each.get("href") and "canonical" in each.get("rel", "").lower().split()
    )
    robots = ((_word(each, "name"), each.get("content", "")) for each in root.iter("meta"))
    return Document(
        tuple(links)[:LINKS],
        len(links) > LINKS,
        next(filter(None, canonicals), None),
        tuple((name, content) for name, content in robots if name),
        main_text(text, root),
    )


def _links(root: "HtmlElement") -> Iterator[str]:
    for element in root.iter("a", "area", "meta"):
        if element.tag == "meta":
            refreshes = _word(element, "http-equiv") == "refresh"
            if refreshes and (to := _REFRESH.match(element.get("content", ""))):
                yield to[1]
        elif "nofollow" not in element.get("rel", "").lower().split() and (
            link := element.get("href")
        ):
            yield link


def _word(element: "HtmlElement", name: str) -> str:
    return str(element.get(name, "")).strip().lower()


def extractors() -> list[str]:
    """Return the names of the installed extractors of main text, the best one first."""
    return ["trafilatura", "plain"] if _has_trafilatura() else ["plain"]


def version_of(text: str, document: Document, extractor: str) -> str | None:
    """Return a hash of a page's main text; None for a page without text.

    Extractors find different texts, so a version begins with the extractor's name.
    """
    found = ""
    if extractor == "trafilatura" and len(text) < _TOO_LONG_TO_EXTRACT:
        with contextlib.suppress(Exception):  # main_text reads every page
            found = article(text)
    # Without white space, so that a new layout is no change.
    main = "".join((found or document.text).split())
    if not main:
        return None
    digest = hashlib.sha256(main.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{extractor}:{digest}"


@functools.cache
def _has_trafilatura() -> bool:
    return find_spec("trafilatura") is not None
