"""Web pages: the article that trafilatura finds, or the text without its furniture."""

# Lists of words read best as words.
# ruff: noqa: SIM905

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from knowledge_bot_service.documents.document import Document, ExtractionError
from knowledge_bot_service.documents.text import decode
from knowledge_bot_service.documents.xml import fault

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


def read_html(path: Path, charset: str | None = None) -> Document:
    """The text of a page: what it is about, without navigation, forms and the like.

    Args:
        path: the page.
        charset: the encoding that the page was sent with.

    Raises:
        ExtractionError: it is larger than 5 MiB, nested too deep, or has no text.
    """
    import lxml.html
    import trafilatura
    from lxml import etree

    data = _read(path)
    declared = [charset] if charset else []
    declared += [name.decode("ascii") for name in _META_CHARSET.findall(data[:_HEAD])]
    page = _XML_DECLARATION.sub("", decode(data, declared))
    parser = lxml.html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    if not page.strip():
        raise ExtractionError("the page is empty")
    try:
        root = lxml.html.document_fromstring(page.encode("utf-8", "replace"), parser=parser)
    except etree.ParserError:
        raise ExtractionError("the page has no text") from None
    except etree.XMLSyntaxError as error:
        raise fault(error, "the page's HTML cannot be read") from None
    if any(_TOO_DEEP in error.message for error in parser.error_log):
        # The parser stopped there: whatever text came before is not the page's.
        raise ExtractionError("the page's tags are nested more than 250 deep")
    _prepare(root)
    title = root.findtext(".//title")
    article = trafilatura.extract(root, include_comments=False, fast=True) or ""
    text = "\n\n".join(line for line in article.split("\n") if line.strip())
    if len(text) < _MIN_ARTICLE:
        text = _main_text(root) or text
    if not text:
        scripted = next(root.iter("script"), None) is not None
        raise ExtractionError(
            "the page has no text without JavaScript" if scripted else "the page has no text"
        )
    return Document(text, title)


# trafilatura took 32 s for a page of 10 MB.
_MAX_SIZE: Final = 5 * 1024 * 1024

# What libxml2 says of more than 256 tags in each other.
_TOO_DEEP: Final = "Excessive depth"

# Below this many characters, what trafilatura found is often not the article.
_MIN_ARTICLE: Final = 250

# A page must declare its encoding in its first 1,024 bytes (HTML, section 4.2.5.4); not all do.
_HEAD: Final = 4096
_META_CHARSET: Final = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE
)
_XML_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]*\?>")

_FURNITURE: Final = frozenset(
    "button footer form head header iframe nav noscript script select style svg template".split()
)
_INLINE: Final = frozenset(
    "a abbr b bdi bdo cite code del dfn em font i ins kbd label mark q s samp small span"
    " strong sub sup time tt u var wbr".split()
)


def _read(path: Path) -> bytes:
    if path.stat().st_size > _MAX_SIZE:
        raise ExtractionError(f"the page is larger than {_MAX_SIZE // 1024**2} MiB")
    return path.read_bytes()


def _prepare(root: "Element") -> None:
    """Make up for trafilatura, which drops folded text and may take links for an article."""
    from lxml import etree

    for summary in root.iter("summary"):
        summary.tag = "p"
    etree.strip_tags(root, "details")
    etree.strip_elements(root, "nav", "footer", with_tail=False)


def _main_text(root: "Element") -> str:
    """The text of the page's main part, without navigation, headers, footers and forms."""
    for tag in ("main", "article", "body"):
        # A part inside another one, as a comment's article is, comes with it.
        parts = (part for part in root.iter(tag) if next(part.iterancestors(tag), None) is None)
        text = "\n\n".join(paragraph for part in parts for paragraph in _paragraphs(part))
        if text:
            return text
    return ""


def _paragraphs(part: "Element") -> Iterator[str]:
    from lxml import etree

    words: list[str] = []
    walk = etree.iterwalk(part, events=("start", "end"))
    for event, element in walk:
        is_block = element.tag not in _INLINE
        if is_block and words:
            yield from _joined(words)
        if event == "start":
            if element.tag in _FURNITURE:
                walk.skip_subtree()
            else:
                words.append(element.text or "")
        elif element is not part:
            words.append(element.tail or "")
    yield from _joined(words)


def _joined(words: list[str]) -> Iterator[str]:
    paragraph = " ".join("".join(words).split())
    words.clear()
    if paragraph:
        yield paragraph
