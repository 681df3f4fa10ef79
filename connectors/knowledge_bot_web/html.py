"""A page's tree, and the text that it is about.

lxml and trafilatura are loaded by whoever reads a page, in the process that reads it.
"""

# Lists of words read best as words.
# ruff: noqa: SIM905

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lxml.html import HtmlElement


class PageError(ValueError):
    """A page's tree cannot be read. `str()` is the reason."""


def parsed(page: str, *, deep: bool = False) -> "HtmlElement":
    """The tree of a page, without comments; that of an empty page has no text.

    Args:
        page: the page, decoded.
        deep: whether its tags may be 2,048 levels deep, and its texts longer than 10 MB; otherwise
            they may be 256.

    Raises:
        PageError: its tags are nested deeper. The parser stopped there, so whatever came before is
            not the page.
        MemoryError: there is no room for the tree.
    """
    import lxml.html
    from lxml import etree

    parser = lxml.html.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=deep
    )
    content = _XML_DECLARATION.sub("", page).encode("utf-8", "replace")
    try:
        root = lxml.html.document_fromstring(content, parser=parser)
    except etree.ParserError:  # there is nothing in it
        return lxml.html.document_fromstring("<html></html>")
    except etree.XMLSyntaxError as error:
        if error.code == _NO_MEMORY:  # type: ignore[attr-defined]  # the stubs lack it
            raise MemoryError from None
        raise PageError("the page's HTML cannot be read") from None
    if any(_TOO_DEEP in error.message for error in parser.error_log):
        raise PageError(f"the page's tags are nested more than {2000 if deep else 250} deep")
    return root


def article(page: str) -> str:
    """The text that trafilatura takes for a page's article; empty if it finds none."""
    import trafilatura

    return str(trafilatura.extract(page, include_comments=False) or "")


def main_texts(page: str, root: "HtmlElement") -> list[str]:
    """The blocks of a page's main part, such as paragraphs; of all of it where no part is marked.

    What surrounds the main part is left out, and so are adverts and banners, unless nothing would
    be left. An element of the page's frame that is not closed everywhere surrounds nothing: nobody
    knows what would be in it.
    """
    from lxml import etree

    tags = Counter(tag.lower() for tag in _FRAME.findall(page))
    surrounding = {tag for tag in _AROUND if tags[f"<{tag}"] <= tags[f"</{tag}"]}
    found: list[tuple[int, str]] = []
    around: HtmlElement | None = None
    main: HtmlElement | None = None
    words: list[str] = []

    def end_block() -> None:
        if text := "".join(words).strip():
            found.append((0 if around is not None else 1 if main is None else 2, text))
        words.clear()

    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            if element is around or element.tag not in INLINE:
                end_block()
            around = None if element is around else around
            main = None if element is main else main
            words.append(element.tail or "")
            continue
        surrounds = element.tag in surrounding or _is_set_off(element)
        if surrounds or element.tag not in INLINE:
            end_block()
        if element.tag in _NO_TEXT:
            walk.skip_subtree()
            continue
        around = element if surrounds and around is None else around
        if main is None and "main" in {element.tag, _role(element)}:
            main = element
        words.append(element.text or "")
    end_block()
    best = max((place for place, _ in found), default=0)
    return [text for place, text in found if place == best]


def _is_set_off(element: "HtmlElement") -> bool:
    """Whether an element is beside the text by its role, or by how it is called."""
    named = f"{element.get('id', '')} {element.get('class', '')}".lower()
    is_advert = element.tag in _BOXES and _ADVERT.search(named) is not None
    return is_advert or _role(element) in _ROLES


def _role(element: "HtmlElement") -> str:
    return str(element.get("role", "")).lower()


INLINE: Final = frozenset(
    "a abbr b bdi bdo big cite code data del dfn em font i ins kbd label mark q s samp small span"
    " strike strong sub sup time tt u var wbr"
    " area button img input map noscript picture script select source style svg template".split()
)
"""The tags that are within a paragraph; of those in the second line nothing is read."""

_XML_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]*\?>")

# What libxml2 says of more tags in each other than it takes, and its XML_ERR_NO_MEMORY.
_TOO_DEEP: Final = "Excessive depth"
_NO_MEMORY: Final = 2

# What surrounds the main text, or is no text: by tag, and by `role`.
_AROUND: Final = frozenset(
    "aside button dialog footer header nav object select svg template".split()
)
_ROLES: Final = frozenset(
    "alert alertdialog banner complementary contentinfo dialog navigation search".split()
)
_FRAME: Final = re.compile(r"</?(?:aside|dialog|footer|header|nav)(?=[\s/>])", re.IGNORECASE)
# Boxes that are no part of the text, by how their ids and classes begin.
_BOXES: Final = frozenset({"div", "section", "ul"})
_ADVERT: Final = re.compile(
    r"(?<!\S)(?:ads?|advert\w*|related|sponsored|cookie[_-]?(?:banner|bar|consent|notice))(?![^\W_])"
)
_NO_TEXT: Final = frozenset(
    "iframe noembed noframes noscript script style textarea title xmp".split()
)
