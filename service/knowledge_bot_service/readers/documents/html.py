"""Web pages: what they are about, without their furniture, which trafilatura knows by its names."""

# Lists of words read best as words.
# ruff: noqa: SIM905

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final, cast
from urllib.parse import urljoin

from knowledge_bot_service.readers.analyzer.blocks import Block, text_of
from knowledge_bot_service.readers.documents.document import (
    Columns,
    ExtractionError,
    ParsedDocument,
    joined_names,
    linked,
)
from knowledge_bot_service.readers.documents.text import decode
from knowledge_bot_web.charsets import declared_in
from knowledge_bot_web.html import INLINE, PageError, parsed

if TYPE_CHECKING:
    from lxml.etree import XPath
    from lxml.etree import _Element as Element
    from lxml.html import HtmlElement


def read_html(file: IO[bytes], charset: str | None = None) -> ParsedDocument:
    """The blocks of a page: what it is about, without navigation, forms and the like.

    What a control of the page opens is text like any other. The `charset` is what the page was sent
    with.

    Raises:
        ExtractionError: it is larger than 5 MiB, nested too deep, or has no text.
    """
    data = file.read(_MAX_SIZE + 1)
    if len(data) > _MAX_SIZE:
        raise ExtractionError(f"the page is larger than {_MAX_SIZE // 1024**2} MiB")
    root = _root(data, charset)
    title = root.findtext(".//title")
    blocks = _content(root)
    if not blocks:
        scripted = next(root.iter("script"), None) is not None
        raise ExtractionError(
            "the page has no text without JavaScript" if scripted else "the page has no text"
        )
    return ParsedDocument(blocks, title)


def page_blocks(data: bytes) -> list[Block]:
    """All blocks of a page that is of one piece, such as a chapter of a book."""
    return _main_part(_root(data[:_MAX_SIZE]))


def _root(data: bytes, charset: str | None = None) -> "HtmlElement":
    declared = [charset] if charset else []
    try:
        root = parsed(decode(data, declared + declared_in(data)))
    except PageError as error:
        raise ExtractionError(str(error)) from None
    _prepare(root)
    return root


# Of a larger page the tree takes too much memory.
_MAX_SIZE: Final = 5 * 1024 * 1024

# A part with fewer characters is often not what the page is about.
_MIN_ARTICLE: Final = 250

# A cell is in so many columns at most (HTML, section 4.9.11), and here in so many rows.
_MAX_SPAN: Final = 1000
_NUMBER: Final = re.compile(r"\s*(\d{1,5})\s*", re.ASCII)

# A cell with one of these may be for the layout of a page; what has so many characters is.
_BLOCKS: Final = ("table", "pre", "ul", "ol", "dl")
_MAX_CELL: Final = 200

# What generators of documentation put behind a heading.
_PERMALINKS: Final = " ¶#🔗\uf0c1"

_FURNITURE: Final = frozenset(
    "button footer form head header iframe nav noscript script select style svg template".split()
)
_LISTS: Final = frozenset({"ul", "ol", "menu"})
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_MATH: Final = "maction math mfrac mi mn mo mrow mstyle msub msup mtext".split()
_CONTROLS: Final = "button input select textarea".split()
# Characters of text for each control, below which a form is one to be filled in and no more.
_MIN_PER_CONTROL: Final = 40
_MIN_FORM: Final = 20
# How a control says what it opens, and what may be one.
_TARGETS: Final = ("aria-controls", "data-bs-target", "data-target")
_MAY_OPEN: Final = (
    "descendant::*[@aria-controls or @aria-expanded or @data-bs-target or @data-bs-toggle"
    " or @data-target or @role='tab']"
)
# What is struck out no longer holds.
_STRUCK: Final = "del s strike".split()


def _prepare(root: "HtmlElement") -> None:
    """Leave what a visitor reads."""
    from lxml import etree

    base = root.find(".//base[@href]")
    own = root.find(".//link[@rel='canonical'][@href]") if base is None else base
    if own is not None and own.get("href", "").startswith(("http://", "https://")):
        root.getroottree().docinfo.URL = own.get("href")
    _open(root)
    for part in [*root.iter("header", "form")]:
        is_inside = next(part.iterancestors("main", "article", "section"), None) is not None
        if is_inside if part.tag == "header" else _is_told(part):
            part.tag = "div"
    for note in [*root.iter("sup")]:
        if any(
            link.get("href", "#")[:1] == "#" for link in (*note.iter("a"), *note.iterancestors("a"))
        ):
            note.drop_tree()
    etree.strip_tags(root, *_MATH)
    etree.strip_elements(root, "nav", "footer", *_STRUCK, with_tail=False)
    for hidden in [
        one for one in root.xpath("descendant::*[@hidden or @style]") if _is_hidden(one)
    ]:
        hidden.drop_tree()


def _open(root: "HtmlElement") -> None:
    """Show what a control of the page opens, such as a part of an accordion, and the control."""
    named = {one.get("id"): one for one in root.xpath("descendant::*[@id]")}
    for control in [*root.iter("button", "dt", *_HEADINGS), *root.xpath(_MAY_OPEN)]:
        heading = next(control.iterancestors(*_HEADINGS, "dt"), None)
        around = control if heading is None else heading
        targets = [control.get(name, "") for name in _TARGETS]
        if control.get("data-bs-toggle") or control.get("role") == "tab":
            targets.append(control.get("href", ""))
        panels = [named[one] for target in targets for one in [target.lstrip("#")] if one in named]
        following = around.getnext()
        may_open = control.get("aria-expanded") or around.tag in {*_HEADINGS, "dt"}
        if not panels and may_open and following is not None and _is_hidden(following):
            panels = [following]
        if control.tag == "button" and (heading is not None or panels):
            control.tag = "p" if heading is None else "span"
            _show(control)
        for panel in panels:
            _show(panel)
    for panel in root.xpath("descendant::*[@role='tabpanel']"):
        _show(panel)


def _show(panel: "Element") -> None:
    for name in ("aria-hidden", "class", "hidden", "style"):
        panel.attrib.pop(name, "")
    if panel.tag == "dialog":
        panel.tag = "div"


def _is_told(form: "Element") -> bool:
    """Whether a form has more to say than what its controls are called."""
    controls = [one for one in form.iter(*_CONTROLS) if one.get("type") != "hidden"]
    named = sum(len(_words(one)) for one in form.iter("label", "option", "button", "legend"))
    return len(_words(form)) - named > max(_MIN_FORM, len(controls) * _MIN_PER_CONTROL)


def _is_hidden(element: "Element") -> bool:
    style = element.get("style", "").replace(" ", "").lower()
    return (
        element.get("hidden", "until-found").lower() != "until-found"
        or "display:none" in style
        or "visibility:hidden" in style
    )


def _content(root: "HtmlElement") -> list[Block]:
    """The blocks of what a page is about.

    The names of classes and the like say what that is, and what is furniture. A part with less than
    half of what the page has without furniture is not it, and what leaves too little is not asked.
    """
    from trafilatura import xpaths

    whole = _main_part(root)
    for expression in (*xpaths.REMOVE_COMMENTS_AND_LISTS_XPATH, *xpaths.OVERALL_DISCARD_XPATH):
        for part in _parts_by(expression, root):
            # A section is called after its heading, which may be "Menus".
            is_section = part.tag == "section" or "section" in part.get("class", "").split()
            if not is_section and part.getparent() is not None:
                part.drop_tree()
    cleaned = _main_part(root)
    size = len(text_of(cleaned))
    for part in (
        one for expression in xpaths.BODY_XPATH for one in _parts_by(expression, root)[:1]
    ):
        blocks = [*_parts(part)]
        if len(text_of(blocks)) >= max(_MIN_ARTICLE, size / 2):
            return blocks
    return cleaned if size >= _MIN_ARTICLE else whole


def _parts_by(expression: "XPath", root: "HtmlElement") -> "list[HtmlElement]":
    return cast("list[HtmlElement]", expression(root))


def _main_part(root: "Element") -> list[Block]:
    """The page's main part, without navigation, headers, footers and forms."""
    for tag in ("main", "article", "body"):
        # A part inside another one, as a comment's article is, comes with it.
        found = (part for part in root.iter(tag) if next(part.iterancestors(tag), None) is None)
        if blocks := [block for element in found for block in _parts(element)]:
            return blocks
    return []


def _parts(root: "Element") -> Iterator[Block]:
    """The blocks of an element, in order, without the page's furniture."""
    from lxml import etree

    reader = _HtmlReader()
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if element.tag not in INLINE:
            yield from reader.paragraph(element.tag if event == "end" else "")
        if event == "end":
            reader.end(element, is_last=element is root)
        elif element.tag in _FURNITURE:
            walk.skip_subtree()
        elif (whole := reader.whole(element)) is not None:
            yield from whole
            walk.skip_subtree()
        else:
            reader.begin(element)
    yield from reader.paragraph("")


class _HtmlReader:
    """What is read of a page so far, and is no part yet."""

    def __init__(self) -> None:
        self._words: list[str] = []
        # Where the words of a link begin.
        self._link = 0
        # What stands before the next paragraph: the mark of an item, the term of a definition.
        self._mark = ""
        self._term = ""
        # For each of the lists that are open, the number of its last item.
        self._items: list[int] = []
        self._tables: list[_HtmlTable] = []

    def begin(self, element: "Element") -> None:
        if element.tag in _LISTS:
            self._items.append(0)
        elif element.tag == "li" and self._items:
            self._items[-1] += 1
            is_numbered = next(element.iterancestors("ol", "ul", "menu")).tag == "ol"
            self._mark = f"{self._items[-1]}." if is_numbered else "-"
        elif element.tag == "table":
            self._tables.append(_HtmlTable())
        elif element.tag == "dd":
            self._mark = self._mark or "-"
        elif element.tag == "a":
            self._link = len(self._words)
        self._words.append(element.text or "")

    def end(self, element: "Element", *, is_last: bool) -> None:
        if element.tag in _LISTS and self._items:
            self._items.pop()
        elif element.tag == "table" and self._tables:
            self._tables.pop()
        elif element.tag == "a" and (link := "".join(self._words[self._link :])):
            self._words[self._link :] = [linked(link, _address(element))]
        if not is_last:
            self._words.append(element.tail or "")

    def paragraph(self, tag: str) -> Iterator[Block]:
        """The words so far, which an element of this kind ends."""
        text = " ".join("".join(self._words).split())
        self._words.clear()
        self._link = 0
        if text:
            depth = len(self._items)
            if tag in _HEADINGS:
                yield Block("heading", text.rstrip(_PERMALINKS), int(tag[1]))
            elif self._mark:
                text = f"{self._term}: {text}" if self._term else text
                yield Block("item", text, max(depth, 1), (self._mark,))
            else:
                yield Block("paragraph", text, depth)
            self._mark = self._term = ""

    def whole(self, element: "Element") -> list[Block] | None:
        """The blocks of an element that is read in one go; None for any other."""
        match element.tag:
            case "pre":
                return [_code(element, len(self._items))]
            case "tr" if self._tables:
                return self._tables[-1].row(element)
            case "dt":
                # Of several terms in a row each has the definition.
                term = _words(element).rstrip(_PERMALINKS)
                self._term = f"{self._term}, {term}" if self._term else term
                self._mark = "-"
                return []
            case _:
                return None


def _code(element: "Element", depth: int) -> Block:
    for line_end in element.iter("br"):
        line_end.text = "\n"
    return Block("code", str(element.xpath("string()")).strip("\n"), depth)


class _HtmlTable:
    """The rows of a table.

    Below a row of names, every cell stays in its column: an empty one is there too, and one that
    spans columns or rows is in each of them. Any other table may have cells for its layout.
    """

    def __init__(self) -> None:
        self._columns = Columns()
        # The columns' names, in the first row or two.
        self._names: tuple[str, ...] = ()
        self._goes_on = False
        self._has_rows = False

    def row(self, row: "Element") -> list[Block] | None:
        """What is read of a row; None where it is for the page's layout."""
        elements = [cell for cell in row if cell.tag in {"td", "th"}]
        if not (self._names or _is_data(elements)):
            return None
        cells = [(_words(one), _span(one, "colspan"), _span(one, "rowspan")) for one in elements]
        told = [text for text, _, _ in cells if text]
        if not told:
            return []
        is_alone = len(cells) == 1 and not self._columns.goes_on
        if len(told) == 1 and (is_alone or not self._names):
            return [Block("paragraph", told[0])]
        may_name = not self._has_rows and (not self._names or self._goes_on)
        if may_name and _are_names(elements) and _has_values(row):
            columns = len(self._names) or sum(across for _, across, _ in cells)
            names = self._columns.row(cells, min(columns, _MAX_SPAN))
            self._names = joined_names(self._names, names)
            # What spans columns or rows has other names below it.
            self._goes_on = any(across > 1 or down > 1 for _, across, down in cells)
            return []
        self._has_rows = True
        words = self._columns.row(cells, len(self._names)) if self._names else tuple(told)
        return [Block("row", "", 0, self._names, words)]


def _is_data(cells: Sequence["Element"]) -> bool:
    """Whether cells without names above them are a row of a table: nothing long is in them."""
    if not any(next(cell.iter(*_BLOCKS), None) is not None for cell in cells):
        return True
    return len(cells) > 1 and all(
        next(cell.iter("table", "pre"), None) is None and len(_words(cell)) <= _MAX_CELL
        for cell in cells
    )


def _are_names(cells: Sequence["Element"]) -> bool:
    """Whether all cells are names, but for an empty one in the corner."""
    is_corner = len(cells) > 1 and cells[0].tag == "td" and not _words(cells[0])
    return all(cell.tag == "th" for cell in (cells[1:] if is_corner else cells))


def _has_values(row: "Element") -> bool:
    """Whether the table of a row of names has cells that are no names."""
    table = next(row.iterancestors("table"), row)
    return next(table.iter("td"), None) is not None


def _span(cell: "Element", name: str) -> int:
    """How many columns or rows a cell is in."""
    found = _NUMBER.fullmatch(cell.get(name, ""))
    return max(1, min(int(found[1]), _MAX_SPAN)) if found else 1


def _address(link: "Element") -> str:
    """Where a link leads, if that can be told: by itself, or as the page says where it is."""
    address = link.get("href", "")
    base = link.getroottree().docinfo.URL
    with suppress(ValueError):
        return urljoin(base, address) if base and address[:1] not in {"", "#"} else address
    return ""


def _words(element: "Element") -> str:
    return " ".join("".join(_texts(element)).split())


def _texts(element: "Element") -> Iterator[str]:
    """The texts in an element, apart where a line or a paragraph ends between them."""
    yield element.text or ""
    for child in element:
        gap = "" if child.tag in INLINE else " "
        yield gap
        if child.tag not in _FURNITURE:
            words = "".join(_texts(child))
            yield linked(words, _address(child)) if child.tag == "a" else words
        yield gap
        yield child.tail or ""
