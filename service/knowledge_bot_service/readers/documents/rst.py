"""reStructuredText, as Sphinx has it: docutils reads it, and its tree has the blocks."""

# Lists of words read best as words.
# ruff: noqa: SIM905

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from knowledge_bot_service.readers.analyzer.blocks import Block
from knowledge_bot_service.readers.documents.document import Columns, Document, joined_names
from knowledge_bot_service.readers.documents.markdown import (
    CODE,
    TEXT_ALONE,
    WITHOUT_TEXT,
    read_text,
    reference,
)

if TYPE_CHECKING:
    from docutils import nodes
    from docutils.parsers.rst import Directive


def read_rst(source: str) -> Document:
    """The blocks of a document in reStructuredText; its first heading is the title.

    What a directive sets off is text like any other, after what it is about: an option, a version.
    Nothing is included from other files, and what docutils cannot read (or not at once: more than
    2 MiB) is read as a plain text.
    """
    from docutils import ApplicationError
    from docutils.core import publish_doctree

    if len(source) > _MAX_SIZE:
        return Document(read_text(source))
    _know(_ROLE.findall(source), _DIRECTIVE.findall(source))
    try:
        tree: Any = publish_doctree(source, source_path="", settings=_settings().copy())
        for unseen in [node for node in tree.findall() if node.tagname in _UNSEEN]:
            unseen.parent.remove(unseen)
        blocks = list(_Reader().blocks(tree))
    except (ApplicationError, RecursionError):
        return Document(read_text(source))
    title = next((block.text for block in blocks if block.kind == "heading"), None)
    return Document(blocks, title)


# docutils reads some 200 KB a second, and a document may take 30 seconds.
_MAX_SIZE: Final = 2 * 1024 * 1024

_SETTINGS: Final[Mapping[str, Any]] = {
    "_disable_config": True,
    "docinfo_xform": False,
    "doctitle_xform": False,
    "file_insertion_enabled": False,
    "halt_level": 6,
    "input_encoding": "unicode",
    "line_length_limit": _MAX_SIZE,
    "raw_enabled": False,
    "report_level": 6,
    "syntax_highlight": "none",
    "toc_backlinks": False,
    "traceback": True,
}

# What is no text of the document's.
_UNSEEN: Final = frozenset(
    "comment footnote_reference image label pending raw substitution_definition"
    " system_message transition".split()
)
_PARAGRAPHS: Final = frozenset("attribution caption line_block paragraph rubric title".split())
_CODE: Final = frozenset("doctest_block literal_block math_block".split())
_LISTS: Final = frozenset(
    "bullet_list definition_list enumerated_list field_list option_list".split()
)
_ITEMS: Final = frozenset("definition_list_item field list_item option_list_item".split())
# What an item of a list is about, which is told before its text.
_TERMS: Final = frozenset("classifier field_name option_group term".split())
_MAX_LEVEL: Final = 6

# The parts of a table that have rows, how a cell says that it is in more columns or rows, and what
# cells have that are there for the layout of a page.
_ROWS: Final = frozenset({"thead", "tbody"})
_MORE: Final = ("morecols", "morerows")
_BLOCKS: Final = _CODE | _LISTS | {"table"}
_LEAVES: Final = _CODE | _PARAGRAPHS | {"table"}

_ROLE: Final = re.compile(r"(?<!\w):([a-zA-Z][\w.+:-]*):`")
_DIRECTIVE: Final = re.compile(
    r"^[ \t]*\.\.[ \t]+(?:\|[^|\n]+\|[ \t]+)?([a-zA-Z][\w.+:-]*)::", re.MULTILINE
)

# What is told before the text of some directives.
_SINCE: Final = {
    "deprecated": "Deprecated since ",
    "versionadded": "New in ",
    "versionchanged": "Changed in ",
    "versionremoved": "Removed in ",
}


class _Reader:
    """Reads a tree of docutils."""

    def __init__(self) -> None:
        # What stands before the next text: the mark of an item, and what the item is about.
        self._mark = ""
        self._term = ""

    def blocks(self, node: Any, sections: int = 0, lists: int = 0) -> Iterator[Block]:
        """The blocks of a node of docutils, which is in so many sections and lists."""
        for number, child in enumerate(node.children, node.get("start", 1)):
            kind = child.tagname
            if kind in _LISTS:
                yield from self._text("", lists)
                yield from self.blocks(child, sections, lists + 1)
            elif kind in _TERMS:
                self._term = ", ".join(filter(None, [self._term, _words(child)]))
            elif kind in _LEAVES:
                yield from self._leaf(child, sections, lists)
            elif kind != "#text":
                if kind in _ITEMS:
                    self._mark = f"{number}." if node.tagname == "enumerated_list" else "-"
                yield from self.blocks(child, sections + (kind == "section"), lists)
        if node.tagname == "option_list_item":
            yield from self._text("", lists)
        elif node.tagname == "field":
            # Without a text it is for Sphinx.
            self._mark = self._term = ""

    def _leaf(self, node: Any, sections: int, lists: int) -> Iterator[Block]:
        if node.tagname == "title" and node.parent.tagname == "section":
            yield Block("heading", _words(node), min(sections, _MAX_LEVEL))
        elif node.tagname in _PARAGRAPHS:
            yield from self._text(_words(node), lists)
        else:
            yield from self._text("", lists)
            if node.tagname == "table":
                yield from self._table(node, sections, lists)
            else:
                yield Block("code", node.astext().strip("\n"), lists)

    def _text(self, words: str, lists: int) -> Iterator[Block]:
        text = f"{self._term}: {words}" if self._term and words else self._term or words
        if text and self._mark:
            yield Block("item", text, lists, (self._mark,))
        elif text:
            yield Block("paragraph", text, lists)
        self._mark = self._term = ""

    def _table(self, table: Any, sections: int, lists: int) -> Iterator[Block]:
        columns = Columns()
        names: tuple[str, ...] = ()
        *title, group = table.children
        for one in title:
            yield Block("paragraph", _words(one), lists)
        rows = [row for part in group.children if part.tagname in _ROWS for row in part.children]
        for row in rows:
            if not names and any(one.tagname in _BLOCKS for one in row.findall()):
                yield from self.blocks(row, sections, lists)
                continue
            cells = [
                (_words(one), *(1 + one.get(more, 0) for more in _MORE)) for one in row.children
            ]
            words = columns.row(cells, group["cols"])
            told = [*filter(None, words)]
            if row.parent.tagname == "thead":
                names = joined_names(names, words)
            elif len(told) == 1 and (not names or len(cells) == 1):
                yield Block("paragraph", told[0], lists)
            elif told:
                yield Block("row", "", 0, names, words)


def _words(node: Any) -> str:
    return " ".join(node.astext().split())


@functools.cache
def _settings() -> Any:
    """Those of docutils, which take longer to make than a short document to read."""
    from docutils.frontend import get_default_settings
    from docutils.parsers.rst import Parser
    from docutils.readers.standalone import Reader

    settings = get_default_settings(Parser, Reader)
    for name, value in _SETTINGS.items():
        setattr(settings, name, value)
    return settings


def _know(roles: Iterable[str], directives: Iterable[str]) -> None:
    """Tell docutils of the roles and directives of a document that it does not know itself."""
    from docutils.parsers.rst.directives import register_directive
    from docutils.parsers.rst.languages import en
    from docutils.parsers.rst.roles import register_local_role

    for role in {*roles} - {*en.roles}:
        register_local_role(role, _read_role)  # type: ignore[arg-type] # any node may be made
    for name in {*directives}:
        if name in WITHOUT_TEXT | CODE or name not in en.directives:
            register_directive(name, _any_directive())


def _read_role(
    _name: str,
    markup: str,
    text: str,
    *_: object,
) -> "tuple[list[nodes.Node], list[nodes.system_message]]":
    """What a reader sees of a role's text, which is a reference mostly."""
    from docutils import nodes
    from docutils.utils import unescape

    return [nodes.inline(markup, reference(unescape(text)))], []


@functools.cache
def _any_directive() -> "type[Directive]":
    """The directive that stands for any that docutils does not know.

    Made when it is needed: nobody who reads other documents loads docutils.
    """
    from docutils import nodes
    from docutils.parsers.rst import Directive
    from docutils.parsers.rst.directives import unchanged

    class AnyDirective(Directive):
        """Its text, after what it is about."""

        optional_arguments = 1
        final_argument_whitespace = True
        has_content = True
        # Every option is taken, and none of them read.
        option_spec = defaultdict(lambda: unchanged, name=unchanged)  # noqa: RUF012 - as docutils has it

        def run(self) -> list[nodes.Node]:
            if self.name in WITHOUT_TEXT:
                return []
            if self.name in CODE:
                code = "\n".join(self.content)
                return [nodes.literal_block(code, code)] if code.strip() else []
            is_told = self.arguments and self.name not in TEXT_ALONE
            about = self.arguments[0] if is_told else ""
            if self.name in _SINCE:
                version, _, words = about.partition("\n" if "\n" in about else " ")
                about = f"{_SINCE[self.name]}{version}{words and ': '}{words}"
            told, _ = self.state.inline_text(about, self.lineno)
            whole = nodes.container()
            self.state.nested_parse(self.content, self.content_offset, whole)
            if about and whole.children and isinstance(whole[0], nodes.paragraph):
                whole[0].insert(0, [*told, nodes.Text(": ")])
            elif about:
                whole.insert(0, nodes.paragraph("", "", *told))
            return [whole]

    return AnyDirective
