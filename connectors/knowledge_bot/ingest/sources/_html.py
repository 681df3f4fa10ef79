"""Reads HTML pages: their links, their directives for crawlers, and their main text."""

import codecs
import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from importlib.util import find_spec

from knowledge_bot.ingest.sources._addresses import cleaned

LINKS = 5000
"""Most links of one page that are followed; even large index pages have fewer."""

# How browsers read these names: WHATWG, Encoding Standard.
_READ_AS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "utf-7": "cp1252",
}
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Bytes in which a `meta` charset is looked for; more than the standard, for long heads.
_HEAD = 8192
_META = re.compile(rb"""<meta[^>]{0,500}?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]+)""")

# Characters above which trafilatura is not used: 2 million would take it 15 s.
_TOO_LONG_TO_EXTRACT = 1_000_000

# What surrounds the main text, or is no text: by element name, and by `role`.
_AROUND = {"aside", "dialog", "footer", "header", "nav"}
_AROUND |= {"button", "noscript", "object", "select", "svg", "template"}
_ROLES = {"alert", "alertdialog", "banner", "complementary", "contentinfo", "dialog"}
_ROLES |= {"navigation", "search"}
_TAG = re.compile(r"<(/?[a-zA-Z][^\s/>]*)")
_ATTRIBUTE = re.compile(r"[\s/]*([^\s/>][^\s/>=]*)(\s*=\s*)?")
_UNQUOTED = re.compile(r"[^\s>]*")
# Elements without markup inside, whose content is not text.
_RAW = {
    name: re.compile(f"</{name}(?=[\\s/>])", re.IGNORECASE)
    for name in ("iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp")
}
_REFRESH = re.compile(r"\s*\d+(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?([^\"']+)", re.IGNORECASE)


@dataclass
class Document:
    """What was read from an HTML page.

    Attributes:
        links: the addresses that it links to, in order, without those marked `nofollow`.
        more_links: whether there were more than are followed.
        canonical: the canonical address that it names, or None.
        robots: directives for crawlers in its `meta` elements: an agent's name, and directives.
        text: its main text, as the plain reader finds it.
    """

    links: dict[str, None] = field(default_factory=dict)
    more_links: bool = False
    canonical: str | None = None
    robots: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""


def decoded(content: bytes, declared: str | None) -> tuple[str, str]:
    """Return a page as text, and its encoding: from its first bytes, its header or its `meta`."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace"), encoding
    found = _known(declared)
    if found is None:
        head = content[:_HEAD]
        inside = _META.search(head) or _XML.match(head)
        found = _known(inside[1].decode("ascii", "replace")) if inside else None
        if found is not None and found.startswith(("utf-16", "utf-32")):
            found = "utf-8"  # the declaration itself was read as ASCII
    if found is not None:
        return content.decode(found, "replace"), found
    try:
        return content.decode(), "utf-8"
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace"), "cp1252"


def parsed(text: str, url: str, encoding: str) -> Document:
    """Read a page; no content makes it fail."""
    reader = _Reader(url, encoding)
    for tag, content in _tokens(text):
        if isinstance(content, str):
            reader.take_text(content)
        elif tag.startswith("/"):
            reader.end(tag[1:])
        else:
            reader.start(tag, content)
    reader.document.text = reader.main_text()
    return reader.document


def extractors() -> list[str]:
    """Return the names of the installed extractors of main text, the best one first."""
    return ["trafilatura", "plain"] if _has_trafilatura() else ["plain"]


def version_of(text: str, document: Document, extractor: str) -> str | None:
    """Return a hash of a page's main text; None for a page without text.

    Extractors find different texts, so a version begins with the extractor's name.
    """
    found = None
    if extractor == "trafilatura" and len(text) < _TOO_LONG_TO_EXTRACT:
        found = _extracted(text)
    # Without white space, so that a new layout is no change.
    main = "".join((found or document.text).split())
    if not main:
        return None
    digest = hashlib.sha256(main.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{extractor}:{digest}"


@functools.cache
def _has_trafilatura() -> bool:
    return find_spec("trafilatura") is not None


def _extracted(text: str) -> str | None:
    try:
        import trafilatura

        found = trafilatura.extract(text, include_comments=False, deduplicate=False)
    except Exception:  # noqa: BLE001 - the plain reader reads every page
        return None
    return str(found) if found else None


def _known(name: str | None) -> str | None:
    """Return the Python name of a text encoding; None for an unknown one."""
    if not name:
        return None
    try:
        found = codecs.lookup(name.strip(" \"'"))
    except (LookupError, ValueError):
        return None
    if not found._is_text_encoding:  # noqa: SLF001 - as open() asks
        return None
    return _READ_AS.get(found.name, found.name)


# html.parser would need two minutes for 100 KB of `<a <a <a`, and hours for a megabyte. This takes
# linear time for any input.
def _tokens(text: str) -> Iterator[tuple[str, dict[str, str] | str]]:
    """Yield the tags with their attributes, `/` before the name of an end tag, and the texts."""
    at = 0
    while (begin := text.find("<", at)) >= 0:
        if begin > at:
            yield "", text[at:begin]
        name = _TAG.match(text, begin)
        if name is None:
            at = _after_markup(text, begin)
            if at == begin + 1:  # not markup
                yield "", "<"
        else:
            tag = name[1].lower()
            attributes, at = _attributes(text, name.end())
            if at < 0:  # the page ends inside
                return
            yield tag, attributes
            if tag in _RAW:
                ended = _RAW[tag].search(text, at)
                at = ended.start() if ended else len(text)
    if at < len(text):
        yield "", text[at:]


def _after_markup(text: str, begin: int) -> int:
    """Return the end of a comment or declaration, or the next position if `<` begins neither."""
    if text.startswith("<!--", begin):
        end, length = text.find("-->", begin + 2), 3
    elif text.startswith(("<!", "<?", "</"), begin):
        end, length = text.find(">", begin), 1
    else:
        return begin + 1
    return end + length if end >= 0 else len(text)


def _attributes(text: str, at: int) -> tuple[dict[str, str], int]:
    """Return a tag's attributes, the first of each name, and where the tag ends."""
    found: dict[str, str] = {}
    while name := _ATTRIBUTE.match(text, at):
        at = name.end()
        value = ""
        if name[2]:
            quote = text[at : at + 1]
            if quote in ('"', "'") and quote:
                end = text.find(quote, at + 1)
                if end < 0:
                    return found, -1
                value, at = text[at + 1 : end], end + 1
            elif unquoted := _UNQUOTED.match(text, at):
                value, at = unquoted[0], unquoted.end()
        found.setdefault(name[1].lower(), unescape(value))
    end = text.find(">", at)
    return found, end + 1 if end >= 0 else -1


class _Reader:
    """Builds a `Document`.

    The text is collected three times: within `<main>`, within the body without what surrounds it,
    and everywhere. An omitted element ends with its matching end tag. If that never comes, nobody
    knows what surrounds the text, and all text is taken.
    """

    def __init__(self, url: str, encoding: str) -> None:
        self.document = Document()
        self._base, self._encoding = url, encoding
        self._has_base = False
        self._around, self._around_open = "", 0
        self._main, self._main_open = "", 0
        self._in_main: list[str] = []
        self._in_body: list[str] = []
        self._everywhere: list[str] = []

    def main_text(self) -> str:
        if self._around_open:
            return " ".join(self._everywhere)
        return " ".join(self._in_main or self._in_body or self._everywhere)

    def take_text(self, text: str) -> None:
        if not text.strip():
            return
        text = unescape(text)
        self._everywhere.append(text)
        if not self._around_open:
            self._in_body.append(text)
            if self._main_open:
                self._in_main.append(text)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._look_for_links(tag, attributes)
        role = attributes.get("role", "").lower()
        if self._around_open:
            self._around_open += tag == self._around
        elif tag in _AROUND or role in _ROLES:
            self._around, self._around_open = tag, 1
        if self._main_open:
            self._main_open += tag == self._main
        elif tag == "main" or role == "main":
            self._main, self._main_open = tag, 1

    def end(self, tag: str) -> None:
        if self._around_open and tag == self._around:
            self._around_open -= 1
        if self._main_open and tag == self._main:
            self._main_open -= 1

    def _look_for_links(self, tag: str, attributes: dict[str, str]) -> None:
        link = attributes.get("href")
        relations = attributes.get("rel", "").lower().split()
        if tag == "meta":
            self._look_at_meta(attributes)
        elif not link:
            return
        elif tag in ("a", "area"):
            if "nofollow" not in relations:
                self._add(link)
        elif tag == "base" and not self._has_base:
            self._has_base = True
            self._base = cleaned(link, self._base, self._encoding) or self._base
        elif tag == "link" and "canonical" in relations and self.document.canonical is None:
            self.document.canonical = cleaned(link, self._base, self._encoding)

    def _look_at_meta(self, attributes: dict[str, str]) -> None:
        content = attributes.get("content", "")
        if name := attributes.get("name", "").strip().lower():
            self.document.robots.append((name, content))
            return
        refreshes = attributes.get("http-equiv", "").strip().lower() == "refresh"
        if refreshes and (to := _REFRESH.match(content)):
            self._add(to[1])

    def _add(self, link: str) -> None:
        address = cleaned(link, self._base, self._encoding)
        if address is None or address in self.document.links:
            return
        if len(self.document.links) >= LINKS:
            self.document.more_links = True
        else:
            self.document.links[address] = None
