"""Markdown, and plain texts, whose lists, tables and code have the same form."""

# Lists of words read best as words.
# ruff: noqa: SIM905

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final

from knowledge_bot_service.readers.analyzer.blocks import COLONS, Block
from knowledge_bot_service.readers.documents.document import ParsedDocument, linked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token


# Directives of Sphinx, in MyST as well: those of code, those without text, and those whose text is
# told without what it is about.
CODE: Final = frozenset(
    "code code-block code-cell doctest ipython math parsed-literal prompt sourcecode testcode"
    " testoutput".split()
)
WITHOUT_TEXT: Final = frozenset(
    "autosummary contents currentmodule default-domain graphviz highlight image include index"
    " inheritance-diagram literalinclude mermaid meta module program-output py:currentmodule raw"
    " sectionauthor tabularcolumns toctree".split()
)
TEXT_ALONE: Final = frozenset(
    "autoclass autodata autoexception autofunction automethod automodule figure".split()
)


def read_markdown(source: str) -> ParsedDocument:
    """The blocks of a Markdown document, without marks; its first heading is the title.

    What MkDocs, MyST and Docusaurus add is read as their readers see it: a note or a tab is text
    like any other, after its title, and what would be put in from elsewhere is left out. What would
    take too long (more than 8 MiB) is read as a plain text.
    """
    title, source = _front_matter(source)
    if len(source) > _MAX_SIZE:
        return ParsedDocument(read_text(source), title)
    blocks = list(_blocks(_markdown(), _without_comments(source)))
    heading = next((block.text for block in blocks if block.kind == "heading"), None)
    return ParsedDocument(blocks, title or heading)


def read_text(source: str) -> Iterator[Block]:
    """The blocks of a plain text, as they are taken: its headings, lists, tables and code.

    Its lines are as they stand: what marks a word in Markdown may be meant.
    """
    marked: list[str] = []
    size, fence = 0, ""
    for paragraph in source.split("\n\n"):
        goes_on = bool(fence) or (bool(marked) and paragraph[:1] in {" ", "\t"})
        for mark in _FENCE.findall(paragraph):
            fence = mark if not fence else "" if mark.startswith(fence) else fence
        if marked and not (goes_on and (fence or size < _MAX_RUN)):
            yield from _marked(marked)
            marked, size = [], 0
        if goes_on or _MARKED.search(paragraph):
            marked.append(paragraph)
            size += len(paragraph)
        elif underlined := _UNDERLINED.fullmatch(paragraph):
            yield Block("heading", underlined[1].strip(), 2)
        elif paragraph.strip():
            yield Block("paragraph", paragraph.strip())
    yield from _marked(marked)


def reference(text: str) -> str:
    """What a reader sees of a reference in Sphinx's form, in MyST as well.

    That is its title, "guide" of `guide <../guide>`, or the last part of a target, "read" of
    `~files.read`.
    """
    match = _TITLED.fullmatch(text) or _SHORT.fullmatch(text)
    return match[1].strip() if match else text.strip()


def _marked(paragraphs: list[str]) -> Iterator[Block]:
    text = "\n\n".join(paragraphs)
    text = text if _FENCE.search(text) else _BULLET.sub(r"\1-", text)
    return _blocks(_plain(), text, _MAX_DIRECTIVES)


# markdown-it reads some 500 KB a second, and a document may take 30 seconds.
_MAX_SIZE: Final = 8 * 1024**2

# So much of a plain text is parsed at once, where it has marks.
_MAX_RUN: Final = 100_000

# Lists in each other, and directives in each other, are read to such a depth.
_MAX_NESTING: Final = 100
_MAX_DIRECTIVES: Final = 10

# With more brackets, which may be links in each other, a paragraph is read as it stands.
_MAX_BRACKETS: Final = 500

# A longer line with a heading's mark is none: headings go along with everything below them.
_MAX_HEADING: Final = 120

_FENCE: Final = re.compile(r"^[ \t]*(`{3,})[^`\n]*$", re.MULTILINE)
# What a paragraph of a plain text has that may be more than that.
_MARKED: Final = re.compile(
    r"^(?: {4}|\t|[ \t]*(?:`{3}|[-*+•‣–—][ \t]|\d{1,3}[.)][ \t]|#{1,6}[ \t]|\||[^|\n]*[^|\s] \| ))",  # noqa: RUF001
    re.MULTILINE,
)
_UNDERLINED: Final = re.compile(r"(.+)\n([=~^\"*+#-])\2{2,}")
# Marks of items that Markdown does not know.
_BULLET: Final = re.compile(r"^([ \t]*)[•‣–—](?=[ \t])", re.MULTILINE)  # noqa: RUF001

# Admonitions and tabs, as MkDocs and Docusaurus have them: what is inside of them is indented.
_SET_OFF: Final = re.compile(r"(?:!!!|\?\?\?\+?|===\+?)[ \t]+(?:[\w -]*?)(?:\"([^\"]*)\")?")
_INDENT: Final = 4
# Lines that are not shown: what begins and ends a note of Docusaurus, what a reference of MyST
# refers to, and what mkdocstrings puts the documentation of code in place of, with its options.
_UNSEEN: Final = re.compile(r":{3,}.*|\([\w:. -]+\)=")
_INSERTED: Final = re.compile(r":::[ \t]+\w+(?:\.\w+)+")

_TABLE_RULE: Final = re.compile(r"(?=.*-)[ \t:|-]++")
# A bar after a backslash is a cell's own (GFM, section 4.10), and so is one without spaces in a row
# that has others.
_BARS: Final = re.compile(r"(?<!\\)\|")
_SPACED_BARS: Final = re.compile(r"(?<=\s)\|(?=\s)")
_ROW: Final = re.compile(r"\||(?![-*+] |\d+[.)] )[^|]*[^|\s] \| ")

# MyST's directives stand between fences. Those that set a text off are text like any other; what
# others have is code, in the language after them.
_DIRECTIVE: Final = re.compile(r"\{([\w:-]+)\}[ \t]*(.*)")
_OPTIONS: Final = re.compile(r"(?:[ \t]*:[\w-]+:(?: .*)?(?:\n|\Z))+")
_TEXTS: Final = frozenset(
    "admonition attention caution danger deprecated details dropdown error hint important note"
    " seealso tab-item tip topic versionadded versionchanged warning".split()
)
_LANGUAGE: Final = re.compile(r"[\w+#][^\s{}]*")

# What no parser takes for a mark: a link to a name that is not defined, a footnote's number, the
# classes and the name that a heading or an image has for the page's style, and its icons.
_MARK: Final = re.compile(r"[]{]|:[a-z]")
_MARKS: Final = re.compile(rf"[*_`<&\\~[\xa0]|{_MARK.pattern}")
_LINE_START: Final = re.compile(r"\n[ \t]+")
_DECORATION: Final = (
    (re.compile(r"\[([^\[\]]+)\]\[[^\[\]]*\]"), r"\1"),
    (re.compile(r"\[\^[^\[\]\s]+\](?:: ?)?"), ""),
    (re.compile(r"(?:(?<![ \t])[ \t]+)?\{:?[ \t]*[.#][^{}\n]*\}"), ""),
    (re.compile(r"(?<![\w:]):[a-z\d]+(?:-[a-z\d]+)+:(?![\w:])"), ""),
)
# What stands for code while a line is made plain, after one of MyST's roles: no text has a NUL.
_CODE: Final = re.compile(r"(\{[a-z][\w:+-]*\})?\0(\d+)\0")
# Marks that close a heading; those that follow a word at once are its own (CommonMark, 4.2).
_CLOSING: Final = re.compile(r"(?:[ \t]+#+)?[ \t]*$")
_TITLE: Final = re.compile(r"title:[ \t]*(.+)")

_TITLED: Final = re.compile(r"([^<>]+)<[^<>]+>")
_SHORT: Final = re.compile(r"!?~(?:[^<>]*[./])?([^<>./]+)")


def _front_matter(source: str) -> tuple[str | None, str]:
    """The title in a YAML block at the start, and what comes after the block."""
    if not source.startswith("---\n"):
        return None, source
    block, end, rest = source[4:].partition("\n---\n")
    if not end:
        return None, source
    title = next((match[1] for line in block.split("\n") if (match := _TITLE.match(line))), None)
    return (title.strip("\"' ") or None) if title else None, rest


def _without_comments(source: str) -> str:
    start, *commented = source.split("<!--")
    return start + "".join(
        rest if end else comment
        for comment, end, rest in (part.partition("-->") for part in commented)
    )


@functools.cache
def _markdown() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    # Tags go, and what is between them is Markdown all the same.
    parser = MarkdownIt("commonmark", {"maxNesting": 2 * _MAX_NESTING}).enable("strikethrough")
    parser.disable("html_block")
    parser.core.ruler.at("inline", _inline)
    # Where a link goes is told as it stands.
    parser.normalizeLink = str  # type: ignore[assignment,method-assign]
    parser.validateLink = bool  # type: ignore[assignment,method-assign]
    _add(parser, "too_deep", _too_deep)
    _add(parser, "table", _table)
    _add(parser, "set_off", _set_off)
    _add(parser, "unseen", _unseen)
    _add(parser, "html_table", _html_table)
    return parser


@functools.cache
def _plain() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("zero", {"maxNesting": 2 * _MAX_NESTING}).disable("inline")
    parser.enable(["code", "fence", "heading", "list"])
    _add(parser, "too_deep", _too_deep)
    _add(parser, "table", _table)
    return parser


def _add(
    parser: "MarkdownIt", name: str, rule: "Callable[[StateBlock, int, int, bool], bool]"
) -> None:
    ended = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("list", f"our_{name}", rule, {"alt": ended})


def _line(state: "StateBlock", number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _inline(state: "StateCore") -> None:
    """Find the marks within words, where that takes no time that grows with their square."""
    for token in state.tokens:
        if token.type != "inline":
            continue
        if _MARKS.search(token.content) and token.content.count("[") <= _MAX_BRACKETS:
            token.children = []
            state.md.inline.parse(token.content, state.md, state.env, token.children)
        else:
            token.content = _LINE_START.sub("\n", token.content)


def _too_deep(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """What is in too many lists: a text without marks, which the parser would leave out."""
    if silent or state.level < _MAX_NESTING:
        return False
    state.push("inline", "", 0).content = state.getLines(start, end, 0, False)
    state.line = end
    return True


def _table(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """A table, as GFM has it; a row keeps the cells that it has more than there are columns.

    Rows without names are one as well, if they are no part of a paragraph. One alone is a line.
    """
    if "|" not in _line(state, start):
        return False
    after = start + 1
    while after < end and "|" in _line(state, after) and state.sCount[after] >= state.blkIndent:
        after += 1
    rows = [_line(state, number) for number in range(start, after)]
    has_names = len(rows) > 1 and bool(_TABLE_RULE.fullmatch(rows[1]))
    is_table = has_names or (not silent and _ROW.match(rows[0]))
    if not is_table or state.is_code_block(start):
        return False
    if not silent:
        if len(rows) > 1:
            token = state.push("table", "", 0)
            token.meta.update(names=rows[:has_names], rows=rows[2 * has_names :])
        else:
            state.push("inline", "", 0).content = rows[0]
        state.line = after
    return True


def _set_off(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """A note or a tab: its text, after its title."""
    found = _SET_OFF.fullmatch(_line(state, start))
    if not found or state.is_code_block(start):
        return False
    if not silent:
        if found[1]:
            state.push("inline", "", 0).content = f"{found[1]}:"
        outside = state.blkIndent
        state.blkIndent = state.sCount[start] + _INDENT
        after = start + 1
        while after < end and (state.isEmpty(after) or state.sCount[after] >= state.blkIndent):
            after += 1
        state.md.block.tokenize(state, start + 1, after)
        state.blkIndent, state.line = outside, after
    return True


def _unseen(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """A line that is not shown."""
    line = _line(state, start)
    if not _UNSEEN.fullmatch(line) or state.is_code_block(start):
        return False
    if not silent:
        after = start + 1
        while _INSERTED.fullmatch(line) and after < end and not _ends_options(state, after):
            after += 1
        state.line = after
    return True


def _html_table(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """A table in HTML, up to its end."""
    if not _line(state, start).lower().startswith("<table") or state.is_code_block(start):
        return False
    last = next((n for n in range(start, end) if "</table>" in _line(state, n).lower()), None)
    if last is None:
        return False
    if not silent:
        state.push("table", "", 0).content = state.getLines(start, last + 1, 0, False)
        state.line = last + 1
    return True


def _ends_options(state: "StateBlock", number: int) -> bool:
    return not (state.isEmpty(number) or state.is_code_block(number))


def _blocks(parser: "MarkdownIt", source: str, depth: int = 0) -> Iterator[Block]:
    """The blocks of a text; `depth` is how many directives it is in."""
    env: dict[str, Any] = {}
    lists = level = 0
    mark, before = "", Block("paragraph")
    for token in parser.parse(source, env):
        found: list[Block] = []
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                lists += 1
            case "bullet_list_close" | "ordered_list_close":
                lists, mark = lists - 1, ""
            case "list_item_open":
                mark = f"{token.info}{token.markup}"
            case "heading_open":
                level = int(token.tag[1])
            case "inline":
                if words := _words(token):
                    found = [_text(words, level, lists, mark)]
                    mark = ""
                level = 0
            case "table":
                found = _rows(parser, token, env)
            case "fence" | "code_block":
                # An item introduces the code after it, also where that is not indented.
                under = lists or int(before.kind == "item" and before.text.endswith(COLONS))
                found = [_under(block, under) for block in _fenced(parser, token, depth)]
                mark = ""
        yield from found
        before = found[-1] if found else before


def _rows(parser: "MarkdownIt", token: "Token", env: dict[str, Any]) -> list[Block]:
    """The rows of a table, in Markdown or in HTML."""
    if token.content:
        from knowledge_bot_service.readers.documents.html import page_blocks

        return page_blocks(token.content.encode())
    names, *_ = [_cells(parser, row, env) for row in token.meta["names"]] or [()]
    cells = [_cells(parser, row, env) for row in token.meta["rows"]]
    return [Block("row", "", 0, names, one) for one in cells or [names]]


def _text(words: str, level: int, lists: int, mark: str) -> Block:
    if level and len(words) <= _MAX_HEADING:
        return Block("heading", _CLOSING.sub("", words), level)
    return Block("item", words, lists, (mark,)) if mark else Block("paragraph", words, lists)


def _under(block: Block, lists: int) -> Block:
    is_there = block.kind == "heading" or not lists
    return block if is_there else replace(block, level=block.level + lists)


def _fenced(parser: "MarkdownIt", token: "Token", depth: int) -> Iterator[Block]:
    """What is between fences: code, or what a directive of MyST sets off."""
    language, content = token.info.strip(), token.content
    if depth < _MAX_DIRECTIVES and (directive := _DIRECTIVE.fullmatch(language)):
        name, words = directive.groups()
        content = _OPTIONS.sub("", content, 1) if _OPTIONS.match(content) else content
        if name in WITHOUT_TEXT:
            return
        if name in _TEXTS | TEXT_ALONE:
            if words and name not in TEXT_ALONE:
                yield Block("paragraph", f"{words}:")
            yield from _blocks(parser, content, depth + 1)
            return
        language = words if name in CODE else name
    code = dedent(content).rstrip("\n")
    if code.strip():
        found = _LANGUAGE.match(language)
        yield Block("code", code, 0, (found[0],) if found else ())


def _cells(parser: "MarkdownIt", row: str, env: dict[str, Any]) -> tuple[str, ...]:
    has_bars = row.startswith("|")
    inner = row[1:].removesuffix("|") if has_bars else row
    parted = [] if has_bars else _SPACED_BARS.split(f" {inner} ")
    cells = parted if len(parted) > 1 else _BARS.split(inner)
    return tuple(
        _words(token)
        for cell in cells
        for token in parser.parseInline(cell.strip().replace("\\|", "|"), env)
    )


def _words(token: "Token") -> str:
    """The words of a line or a cell, without marks; within code nothing is one."""
    if not token.children:
        return token.content.strip()
    code: list[str] = []
    said = _said(token.children, code)
    if _MARK.search(said):
        for pattern, replacement in _DECORATION:
            said = pattern.sub(replacement, said)
    said = _CODE.sub(lambda found: _shown(code[int(found[2])], found[1]), said)
    return "\n".join(line.strip() for line in said.replace("\xa0", " ").strip().split("\n"))


def _shown(code: str, role: str) -> str:
    return reference(code) if role else code.strip()


def _said(tokens: "Sequence[Token]", code: list[str]) -> str:
    """The words of tokens; the number of what they add to the code stands for it."""
    words: list[str] = []
    links: list[tuple[int, str]] = []
    struck = 0
    for token in tokens:
        match token.type:
            # What is struck out no longer holds.
            case "s_open" | "s_close":
                struck += token.nesting
            case _ if struck:
                continue
            case "code_inline":
                words.append(f"\0{len(code)}\0")
                code.append(token.content)
            case "softbreak" | "hardbreak":
                words.append("\n")
            case "link_open" | "link_close":
                links.append((len(words), str(token.attrs.get("href", ""))))
                if token.type == "link_close":
                    _, (start, address) = links.pop(), links.pop()
                    words[start:] = [linked("".join(words[start:]), address)]
            case "image":
                words.append(_said(token.children or [], code))
            case "html_inline":
                words += [" "] if token.content.lower().startswith("<br") else []
            case _:
                words.append(token.content)
    return "".join(words)
