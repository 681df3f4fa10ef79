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

# A page of fewer characters may be none: one that a program fills, or a gate before the others.
_FEW = 300
_ROOTS = ("root", "app", "__next", "__nuxt", "___gatsby")
_WANTS_SCRIPTS = re.compile(
    r"(enable|activate|requires?|without|needs?) javascript"
    r"|javascript (is |to be |must be )?(disabled|required|enabled|aktivieren|erforderlich)"
    r"|(activer|activez|habilite|active) javascript",
    re.IGNORECASE,
)
_WANTS_CONSENT = re.compile(r"cookies?\b|consent|einwillig|zustimm|captcha|robot", re.IGNORECASE)

_REFRESH = re.compile(r"\s*\d+(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"']+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """What was read from an HTML page.

    Attributes:
        links: the addresses that it links to, in order, without those marked `nofollow`.
        canonical: the canonical address that it names, or None.
        robots: directives for crawlers in its `meta` elements: an agent's name, and directives.
        texts: its main text, as the plain reader finds it, piece by piece.
        hollow: why there is nothing to read in it; empty if there is.
        gate: what it asks for before others are shown, if a redirect led to it; empty if nothing.
    """

    links: tuple[str, ...]
    canonical: str | None
    robots: tuple[tuple[str, str], ...]
    texts: list[str]
    hollow: str = ""
    gate: str = ""


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
    texts = main_texts(text, root)
    hollow, gate = _nothing_said(root, " ".join(texts))
    return ParsedPage(
        tuple(links),
        next(filter(None, canonicals), None),
        tuple((name, content) for name, content in robots if name),
        texts,
        hollow,
        gate,
    )


def _nothing_said(root: "HtmlElement", said: str) -> tuple[str, str]:
    """Return why a page is hollow, and what kind of gate it may be."""
    if len(said) >= _FEW:
        return "", ""
    notes = [str(each.text_content()) for each in root.iter("noscript")]
    is_filled = any(
        each.get("id") in _ROOTS and not each.text_content().strip() for each in root.iter("div")
    )
    has_script = next(root.iter("script"), None) is not None
    wants = any(map(_WANTS_SCRIPTS.search, (said, *notes)))
    if has_script and (wants or (is_filled and not said.strip())):
        return "it needs JavaScript, so there is nothing to read in it", ""
    if any(_word(each, "type") == "password" for each in root.iter("input")):
        return "", "it asks to sign in"
    return "", "it asks for consent" if _WANTS_CONSENT.search(said) else ""


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
