"""Web pages: the article that trafilatura finds, or the text without its furniture."""

# Lists of words read best as words.
# ruff: noqa: SIM905

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from knowledge_bot_service.analyzer.blocks import COLONS, joined_names, table_heading, table_row
from knowledge_bot_service.documents.document import Document, ExtractionError
from knowledge_bot_service.documents.text import decode
from knowledge_bot_service.documents.xml import fault

if TYPE_CHECKING:
    from lxml.etree import _Element as Element
    from lxml.html import HtmlElement


def read_html(path: Path, charset: str | None = None) -> Document:
    """The text of a page: what it is about, without navigation, forms and the like.

    Headings, lists, tables and code are as in Markdown.

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
    parts = list(_parts(root))
    article = trafilatura.extract(root, include_comments=False, fast=True) or ""
    text = _text(_article(parts, article))
    if _size(text) < _size(article) * _MIN_FOUND:
        text = "\n\n".join(line for line in article.split("\n") if line.strip())
    if len(text) < _MIN_ARTICLE:
        text = _main_text(root) or text
    if not text:
        scripted = next(root.iter("script"), None) is not None
        raise ExtractionError(
            "the page has no text without JavaScript" if scripted else "the page has no text"
        )
    return Document(text, title)


def main_text(page: str) -> Document:
    """The text of a page that has no furniture: the whole of its main part, and its title."""
    import lxml.html

    root: HtmlElement = lxml.html.document_fromstring(page)
    # "Note" is no heading of what comes after it, and the name of a field gets another colon.
    for element in [*root.iterdescendants("p", "span")]:
        if element.get("class") in {"admonition-title", "colon"}:
            element.drop_tree()
    heading = next((part.text for part in _parts(root) if part.tag == "h"), "")
    return Document(_main_text(root), heading.lstrip("# ") or None)


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

# A cell is in so many columns at most (HTML, section 4.9.11), and here in so many rows.
_MAX_SPAN: Final = 1000
_NUMBER: Final = re.compile(r"\s*(\d{1,5})\s*", re.ASCII)

# A cell with one of these may be for the layout of a page; what has so many characters is.
_BLOCKS: Final = ("table", "pre", "ul", "ol", "dl")
_MAX_CELL: Final = 200

# An article's text is found again in the page, or taken as it is when less than this share is.
_MIN_FOUND: Final = 0.7

# Parts are known again by this many characters of their beginning.
_KEY: Final = 24
_LINES: Final = 4

# These are the article's where its paragraphs are around them.
_AMONG: Final = frozenset({"h", "pre", "tr"})

# What generators of documentation put behind a heading.
_PERMALINKS: Final = " ¶#🔗\uf0c1"

_NO_WORD: Final = re.compile(r"[\W_]+")
_FENCES: Final = re.compile(r"`{3,}")

_FURNITURE: Final = frozenset(
    "button footer form head header iframe nav noscript script select style svg template".split()
)
_LISTS: Final = frozenset({"ul", "ol", "menu"})
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
# These are within a paragraph. Of those in the second line nothing is read.
_INLINE: Final = frozenset(
    "a abbr b bdi bdo big cite code dfn em font i ins kbd mark samp small span strong sub sup tt u"
    " var wbr area button img input map noscript picture script select source style svg template"
    "".split()
)
# trafilatura drops the words in some of these, and breaks the line at others.
_MISREAD: Final = "label maction math mfrac mi mn mo mrow mstyle msub msup mtext q time".split()
# What is struck out no longer holds.
_STRUCK: Final = "del s strike".split()


def _read(path: Path) -> bytes:
    if path.stat().st_size > _MAX_SIZE:
        raise ExtractionError(f"the page is larger than {_MAX_SIZE // 1024**2} MiB")
    return path.read_bytes()


def _prepare(root: "HtmlElement") -> None:
    """Leave what a visitor reads, in tags that trafilatura neither drops nor takes for a break."""
    from lxml import etree

    for summary in root.iter("summary"):
        summary.tag = "p"
    etree.strip_tags(root, "details", *_MISREAD)
    etree.strip_elements(root, "nav", "footer", *_STRUCK, with_tail=False)
    for hidden in [one for one in root.iterdescendants("*") if _is_hidden(one)]:
        hidden.drop_tree()


def _is_hidden(element: "Element") -> bool:
    style = element.get("style", "").replace(" ", "").lower()
    return (
        element.get("hidden", "until-found").lower() != "until-found"
        or "display:none" in style
        or "visibility:hidden" in style
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A paragraph of a page, or what stands for one.

    Attributes:
        tag: "h", "pre", "li", "tr", or "p" for whatever is no heading, code, item or row.
        text: as Markdown.
        key: the beginning of its words, without spaces and bars.
        is_first: whether it is the first row of a table.
    """

    tag: str
    text: str
    key: str
    is_first: bool = False


def _main_text(root: "Element") -> str:
    """The text of the page's main part, without navigation, headers, footers and forms."""
    for tag in ("main", "article", "body"):
        # A part inside another one, as a comment's article is, comes with it.
        found = (part for part in root.iter(tag) if next(part.iterancestors(tag), None) is None)
        if text := _text([part for element in found for part in _parts(element)]):
            return text
    return ""


def _article(parts: Sequence[_Part], article: str) -> list[_Part]:
    """Those parts that are in an article's text, and the headings, code and tables among them.

    trafilatura knows what a page's article is, but leaves out headings, and the lines of code.
    """
    lines = [line.removeprefix("- ") for line in article.split("\n") if line.strip()]
    keys = {_key(line) for line in lines}
    # A paragraph keeps the lines of the page's source there, and the first may be a short one.
    keys |= {_key(" ".join(lines[number : number + _LINES])) for number in range(len(lines))}
    there = [part.key in keys for part in parts]
    if not any(there):
        return []
    # A list is there as a whole: trafilatura writes an item with code in it in its own way.
    for _, run in groupby(range(len(parts)), key=lambda number: parts[number].tag == "li"):
        items = list(run)
        if parts[items[0]].tag == "li" and any(there[number] for number in items):
            there[items[0] : items[-1] + 1] = [True] * len(items)
    first = there.index(True)
    last = len(there) - there[::-1].index(True)
    # What is above the first paragraph, after the page's furniture, is the article's too, and so is
    # code or a table below the last one, with its headings.
    while first and parts[first - 1].tag in _AMONG:
        first -= 1
    # A list there may be a menu, but not one that the last paragraph introduces.
    if parts[last - 1].text.endswith(COLONS):
        last = next((at for at in range(last, len(parts)) if parts[at].tag != "li"), len(parts))
    below = next((at for at in range(last, len(parts)) if parts[at].tag not in _AMONG), len(parts))
    while below > last and parts[below - 1].tag == "h":
        below -= 1
    last = below
    # Lists between paragraphs are the article's, which trafilatura leaves out of plain pages.
    return [
        part
        for part, is_there in zip(parts[first:last], there[first:last], strict=True)
        if is_there or part.tag in _AMONG or part.tag == "li"
    ]


def _size(text: str) -> int:
    """How many characters of words a text has."""
    return len(_NO_WORD.sub("", text))


def _key(text: str) -> str:
    return "".join(text.replace("|", " ").split())[:_KEY]


def _text(parts: Iterable[_Part]) -> str:
    """The parts as one text; items and rows in lines one after the other."""
    text: list[str] = []
    before = ""
    for part in parts:
        goes_on = part.tag == before and part.tag in {"li", "tr"} and not part.is_first
        text += ["\n" if goes_on else "\n\n", part.text]
        before = part.tag
    return "".join(text).strip("\n")


def _parts(root: "Element") -> Iterator[_Part]:
    """The parts of an element, in order, without the page's furniture."""
    from lxml import etree

    reader = _Reader()
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if element.tag not in _INLINE:
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


class _Reader:
    """What is read of a page so far, and is no part yet."""

    def __init__(self) -> None:
        self._words: list[str] = []
        # What stands before the next paragraph: the mark of an item, the term of a definition.
        self._mark = ""
        # For each of the lists that are open, the number of its last item.
        self._items: list[int] = []
        self._tables: list[_Table] = []

    def begin(self, element: "Element") -> None:
        if element.tag in _LISTS:
            self._items.append(0)
        elif element.tag == "li" and self._items:
            self._items[-1] += 1
            is_numbered = next(element.iterancestors("ol", "ul", "menu")).tag == "ol"
            mark = f"{self._items[-1]}. " if is_numbered else "- "
            self._mark = "  " * (len(self._items) - 1) + mark
        elif element.tag == "table":
            self._tables.append(_Table())
        elif element.tag == "dd":
            self._mark = self._mark or "- "
        self._words.append(element.text or "")

    def end(self, element: "Element", *, is_last: bool) -> None:
        if element.tag in _LISTS and self._items:
            self._items.pop()
        elif element.tag == "table" and self._tables:
            self._tables.pop()
        if not is_last:
            self._words.append(element.tail or "")

    def paragraph(self, tag: str) -> Iterator[_Part]:
        """The words so far, which an element of this kind ends."""
        text = " ".join("".join(self._words).split())
        self._words.clear()
        if text:
            yield _paragraph(text, tag, self._mark, len(self._items))
            self._mark = ""

    def whole(self, element: "Element") -> list[_Part] | None:
        """The parts of an element that is read in one go; None for any other."""
        match element.tag:
            case "pre":
                return [_code(element, len(self._items))]
            case "tr" if self._tables:
                return self._tables[-1].row(element)
            case "dt":
                # Of several terms in a row each has the definition.
                before = f"{self._mark[:-2]}, " if self._mark.endswith(": ") else "- "
                self._mark = f"{before}{_words(element).rstrip(_PERMALINKS)}: "
                return []
            case _:
                return None


def _paragraph(text: str, tag: str, mark: str, depth: int) -> _Part:
    if tag in _HEADINGS:
        return _Part("h", f"{'#' * int(tag[1])} {text.rstrip(_PERMALINKS)}", _key(text))
    if mark or depth:
        return _Part("li", f"{mark}{text}" if mark else f"\n{'  ' * depth}{text}", _key(text))
    return _Part("p", text, _key(text))


def _code(element: "Element", depth: int) -> _Part:
    for line_end in element.iter("br"):
        line_end.text = "\n"
    code = str(element.xpath("string()")).strip("\n")
    fence = "`" * max([3, *(len(run) + 1 for run in _FENCES.findall(code))])
    indent = "  " * depth
    lines = [f"{indent}{line}" for line in (fence, *code.split("\n"), fence)]
    key = _key(code.strip().partition("\n")[0])
    return _Part("li" if depth else "pre", "\n".join(["", *lines] if depth else lines), key)


class _Table:
    """The rows of a table.

    Below a row of names, every cell stays in its column: an empty one is there too, and one that
    spans columns or rows is in each of them. Any other table may have cells for its layout.
    """

    def __init__(self) -> None:
        # The columns' names, in the first row or two; they are told with the first row below them,
        # and again below a title.
        self._names: list[str] = []
        self._are_told = False
        self._goes_on = False
        self._has_rows = False
        # For a column, what spans the next rows, and how many they are.
        self._spanning: dict[int, tuple[str, int]] = {}

    def row(self, row: "Element") -> list[_Part] | None:
        """What is read of a row; None where it is for the page's layout."""
        cells = [cell for cell in row if cell.tag in {"td", "th"}]
        if not (self._names or _is_data(cells)):
            return None
        words = [_words(cell) for cell in cells]
        told = [text for text in words if text]
        if not told:
            return []
        if len(told) == 1 and (not self._names or len(cells) == 1):
            self._are_told = False
            return [_part_of("p", told[0])]
        may_name = not self._has_rows and (not self._names or self._goes_on)
        if may_name and all(cell.tag == "th" for cell in cells) and _has_values(row):
            columns = len(self._names) or sum(_span(cell, "colspan") for cell in cells)
            names = self._in_columns(zip(cells, words, strict=True), min(columns, _MAX_SPAN))
            self._names = joined_names(self._names, names)
            # What spans columns or rows has other names below it.
            self._goes_on = any(
                _span(cell, name) > 1 for cell in cells for name in ("colspan", "rowspan")
            )
            return []
        if self._names:
            told = self._in_columns(zip(cells, words, strict=True), len(self._names))
        text = table_row(told)
        if self._names and not self._are_told:
            text = f"{table_heading(self._names)}\n{text}"
        is_first = not self._has_rows
        self._are_told = self._has_rows = True
        return [_part_of("tr", text, is_first=is_first)]

    def _in_columns(self, cells: Iterator[tuple["Element", str]], columns: int) -> list[str]:
        """The words of cells, in so many columns at least."""
        texts: list[str] = []
        while len(texts) < columns:
            text, left = self._spanning.pop(len(texts), ("", 0))
            if left:
                texts.append(text)
                if left > 1:
                    self._spanning[len(texts) - 1] = text, left - 1
            elif (following := next(cells, None)) is not None:
                cell, text = following
                for _ in range(min(_span(cell, "colspan"), columns - len(texts))):
                    if (rows := _span(cell, "rowspan")) > 1:
                        self._spanning[len(texts)] = text, rows - 1
                    texts.append(text)
            else:
                texts.append("")
        return [*texts, *(text for _, text in cells if text)]


def _is_data(cells: Sequence["Element"]) -> bool:
    """Whether cells without names above them are a row of a table: nothing long is in them."""
    if not any(next(cell.iter(*_BLOCKS), None) is not None for cell in cells):
        return True
    return len(cells) > 1 and all(
        next(cell.iter("table", "pre"), None) is None and len(_words(cell)) <= _MAX_CELL
        for cell in cells
    )


def _has_values(row: "Element") -> bool:
    """Whether the table of a row of names has cells that are no names."""
    table = next(row.iterancestors("table"), row)
    return next(table.iter("td"), None) is not None


def _part_of(tag: str, text: str, *, is_first: bool = False) -> _Part:
    return _Part(tag, text, _key(text), is_first)


def _span(cell: "Element", name: str) -> int:
    """How many columns or rows a cell is in."""
    found = _NUMBER.fullmatch(cell.get(name, ""))
    return max(1, min(int(found[1]), _MAX_SPAN)) if found else 1


def _words(element: "Element") -> str:
    return " ".join("".join(_texts(element)).split())


def _texts(element: "Element") -> Iterator[str]:
    """The texts in an element, apart where a line or a paragraph ends between them."""
    yield element.text or ""
    for child in element:
        gap = "" if child.tag in _INLINE else " "
        yield gap
        if child.tag not in _FURNITURE:
            yield from _texts(child)
        yield gap
        yield child.tail or ""
