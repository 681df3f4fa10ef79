"""A page's tree, and the text that it is about.

lxml and trafilatura are loaded by whoever reads a page, in the process that reads it.
"""

# Lists of words read best as words.
# ruff: noqa: SIM905

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, Union

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


def article(page: Union[str, "HtmlElement"], *, fast: bool = False) -> str:
    """The text that trafilatura takes for a page's article; empty if it finds none.

    Args:
        page: the page, or its tree, which is not kept as it is.
        fast: whether to do without the other extractors that it compares with.
    """
    import trafilatura

    return str(trafilatura.extract(page, include_comments=False, fast=fast) or "")


def main_texts(page: str, root: "HtmlElement") -> list[str]:
    """The texts of a page's main part, without a layout; of all of it where no part is marked.

    What surrounds the main part is left out, unless nothing would be left. An element of the page's
    frame that is not closed everywhere surrounds nothing: nobody knows what would be in it.

    Args:
        page: the page.
        root: its tree.
    """
    from lxml import etree

    tags = Counter(tag.lower() for tag in _FRAME.findall(page))
    surrounding = {tag for tag in _AROUND if tags[f"<{tag}"] <= tags[f"</{tag}"]}
    in_main, in_body, everywhere = [], [], []
    around: HtmlElement | None = None
    main: HtmlElement | None = None
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            around = None if element is around else around
            main = None if element is main else main
            text = element.tail
        elif element.tag in _NO_TEXT:
            walk.skip_subtree()
            continue
        else:
            role = element.get("role", "").lower()
            if around is None and (element.tag in surrounding or role in _ROLES):
                around = element
            if main is None and (element.tag == "main" or role == "main"):
                main = element
            text = element.text
        if text and not text.isspace():
            everywhere.append(text)
            if around is None:
                in_body.append(text)
                if main is not None:
                    in_main.append(text)
    return in_main or in_body or everywhere


_XML_DECLARATION: Final = re.compile(r"^\s*<\?xml[^>]*\?>")

# What libxml2 says of more tags in each other than it takes, and its XML_ERR_NO_MEMORY.
_TOO_DEEP: Final = "Excessive depth"
_NO_MEMORY: Final = 2

# What surrounds the main text, or is no text: by tag, and by `role`.
_AROUND: Final = frozenset(
    "aside button dialog footer header nav noscript object select svg template".split()
)
_ROLES: Final = frozenset(
    "alert alertdialog banner complementary contentinfo dialog navigation search".split()
)
_FRAME: Final = re.compile(r"</?(?:aside|dialog|footer|header|nav)(?=[\s/>])", re.IGNORECASE)
_NO_TEXT: Final = frozenset("iframe noembed noframes script style textarea title xmp".split())
