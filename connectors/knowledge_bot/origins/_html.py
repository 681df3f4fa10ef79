"""Reads HTML pages: their links, their directives for crawlers, and their main text."""

import contextlib
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from knowledge_bot.origins._addresses import cleaned
from knowledge_bot_web.html import article, main_texts, parsed

if TYPE_CHECKING:
    from lxml.html import HtmlElement

# Characters above which trafilatura is not used: 2 million would take it 15 s.
_TOO_LONG_TO_EXTRACT = 1_000_000

_REFRESH = re.compile(r"\s*\d+(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"']+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """What was read from an HTML page.

    Attributes:
        links: the addresses that it links to, in order, without those marked `nofollow`.
        canonical: the canonical address that it names, or None.
        robots: directives for crawlers in its `meta` elements: an agent's name, and directives.
        texts: its main text, as the plain reader finds it, piece by piece.
    """

    links: tuple[str, ...]
    canonical: str | None
    robots: tuple[tuple[str, str], ...]
    texts: list[str]


def read_page(text: str, url: str, encoding: str) -> ParsedPage:
    """Read a page.

    Its links are escaped in the encoding that it was in.

    Raises:
        PageError: its tags are nested more than 2,000 deep.
    """
    root = parsed(text, deep=True)
    bases = (each.get("href") for each in root.iter("base"))
    base = cleaned(next(filter(None, bases), ""), url, encoding) or url
    links: dict[str, None] = {}
    for link in _links(root):
        if address := cleaned(link, base, encoding):
            links[address] = None
    canonicals = (
        cleaned(each.get("href", ""), base, encoding)
        for each in root.iter("link")
        if each.get("href") and "canonical" in each.get("rel", "").lower().split()
    )
    robots = ((_word(each, "name"), each.get("content", "")) for each in root.iter("meta"))
    return ParsedPage(
        tuple(links),
        next(filter(None, canonicals), None),
        tuple((name, content) for name, content in robots if name),
        main_texts(text, root),
    )


def _links(root: "HtmlElement") -> Iterator[str]:
    for element in root.iter("a", "area", "frame", "iframe", "meta"):
        if element.tag == "meta":
            refreshes = _word(element, "http-equiv") == "refresh"
            if refreshes and (to := _REFRESH.match(element.get("content", ""))):
                yield to[1]
        elif "nofollow" not in element.get("rel", "").lower().split() and (
            link := element.get("href") or element.get("src")
        ):
            yield link


def _word(element: "HtmlElement", name: str) -> str:
    return str(element.get(name, "")).strip().lower()


def extractors() -> list[str]:
    """Return the names of the installed extractors of main text, the best one first."""
    return ["trafilatura", "plain"] if _has_trafilatura() else ["plain"]


def blocks_of(text: str, document: ParsedPage, extractor: str) -> list[str]:
    """Return the blocks of a page's main text, such as paragraphs, as an extractor finds them."""
    found = ""
    if extractor == "trafilatura" and len(text) < _TOO_LONG_TO_EXTRACT:
        with contextlib.suppress(Exception):  # the plain reader reads every page
            found = article(text)
    return found.split("\n") if found.strip() else document.texts


@functools.cache
def _has_trafilatura() -> bool:
    return find_spec("trafilatura") is not None
