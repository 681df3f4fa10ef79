"""Markdown, and plain texts, whose lists, tables and code have the same form."""

import functools
import re
from collections.abc import Iterator
from textwrap import dedent
from typing import TYPE_CHECKING, Final

from knowledge_bot_service.readers.analyzer.blocks import COLONS, Block
from knowledge_bot_service.readers.documents.document import ParsedDocument, linked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token


def read_markdown(source: str) -> ParsedDocument:
    """The blocks of a Markdown document, without marks; its first heading is the title.

    The notes and tabs of MkDocs and Docusaurus are text like any other, after their titles. What
    would take too long (more than 8 MiB) is read as a plain text.
    """
    title, source = _front_matter(source)
    if len(source) > _MAX_SIZE:
        return ParsedDocument(read_text(source), title)
    blocks = list(_blocks(_markdown(), _without_comments(source)))
    heading = next((block.text for block in blocks if block.kind == "heading"), None)
    return ParsedDocument(blocks, title or heading)


def read_plain(source: str) -> ParsedDocument:
    """A plain text, as `read_text`."""
    return ParsedDocument(read_text(source))


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


def _marked(paragraphs: list[str]) -> Iterator[Block]:
    text = "\n\n".join(paragraphs)
    text = text if _FENCE.search(text) else _BULLET.sub(r"\1-", text)
    return _blocks(_plain(), text)


# markdown-it reads some 500 KB a second, and a document may take 30 seconds.
_MAX_SIZE: Final = 8 * 1024**2

# So much of a plain text is parsed at once, where it has marks.
_MAX_RUN: Final = 100_000

# Lists in each other are read to such a depth.
_MAX_NESTING: Final = 100

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
# What such a line ends.
_ENDED: Final = ["paragraph", "reference", "blockquote", "list"]
# What begins and ends a note of Docusaurus is not shown.
_UNSEEN: Final = re.compile(r":{3,}.*")
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
# Marks that close a heading; those that follow a word at once are its own (CommonMark, 4.2).
_CLOSING: Final = re.compile(r"(?:[ \t]+#+)?[ \t]*$")
_TITLE: Final = re.compile(r"title:[ \t]*(.+)")


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
    parser = MarkdownIt("commonmark", {"maxNesting": 2 * _MAX_NESTING})
    parser.enable(["strikethrough", "table"]).disable("html_block")
    parser.core.ruler.at("inline", _inline)
    # Where a link goes is told as it stands.
    parser.normalizeLink = str  # type: ignore[assignment,method-assign]
    parser.validateLink = bool  # type: ignore[assignment,method-assign]
    parser.block.ruler.before("list", "own", _own, {"alt": _ENDED})
    return parser


@functools.cache
def _plain() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("zero", {"maxNesting": 2 * _MAX_NESTING}).disable("inline")
    return parser.enable(["code", "fence", "heading", "list", "table"])


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


def _own(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """What is no block of CommonMark; a line that begins otherwise is left at once."""
    at = state.bMarks[start] + state.tShift[start]
    rule = _RULES.get(state.src[at : at + 1])
    return rule is not None and not state.is_code_block(start) and rule(state, start, end, silent)


def _set_off(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """A note or a tab: its text, after its title."""
    found = _SET_OFF.fullmatch(_line(state, start))
    if found and not silent:
        if found[1]:
            state.push("inline", "", 0).content = f"{found[1]}:"
        outside = state.blkIndent
        state.blkIndent = state.sCount[start] + _INDENT
        after = start + 1
        while after < end and (state.isEmpty(after) or state.sCount[after] >= state.blkIndent):
            after += 1
        state.md.block.tokenize(state, start + 1, after)
        state.blkIndent, state.line = outside, after
    return bool(found)


def _unseen(state: "StateBlock", start: int, _: int, silent: bool) -> bool:
    """A line that is not shown."""
    is_unseen = _UNSEEN.fullmatch(_line(state, start))
    if is_unseen and not silent:
        state.line = start + 1
    return bool(is_unseen)


def _html_table(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """A table in HTML, up to its end."""
    if not _line(state, start).lower().startswith("<table"):
        return False
    last = next((n for n in range(start, end) if "</table>" in _line(state, n).lower()), None)
    if last is not None and not silent:
        state.push("html_table", "", 0).content = state.getLines(start, last + 1, 0, False)
        state.line = last + 1
    return last is not None


# By how their lines begin.
_RULES: "Final[dict[str, Callable[[StateBlock, int, int, bool], bool]]]" = {
    **dict.fromkeys("!?=", _set_off),
    ":": _unseen,
    "<": _html_table,
}


def _blocks(parser: "MarkdownIt", source: str) -> Iterator[Block]:
    lists = level = 0
    mark, before = "", Block("paragraph")
    tokens = iter(parser.parse(source))
    for token in tokens:
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
            case "table_open" | "html_table":
                found = _rows(token, tokens)
            case "inline":
                if words := _words(token):
                    found = [_text(words, level, lists, mark)]
                    mark = ""
                level = 0
            case "fence" | "code_block":
                # An item introduces the code after it, also where that is not indented.
                under = lists or int(before.kind == "item" and before.text.endswith(COLONS))
                found = [*_code(token, under)]
                mark = ""
        yield from found
        before = found[-1] if found else before


def _rows(table: "Token", tokens: "Iterator[Token]") -> list[Block]:
    """The rows of a table: one in HTML, or that of the following tokens, up to its end."""
    if table.content:
        from knowledge_bot_service.readers.documents.html import page_blocks

        return page_blocks(table.content.encode())
    rows: list[list[str]] = []
    for token in tokens:
        match token.type:
            case "tr_open":
                rows.append([])
            case "inline":
                rows[-1].append(_words(token))
            case "table_close":
                break
    names, *cells = map(tuple, rows)
    return [Block("row", "", 0, names, one) for one in cells or [names]]


def _text(words: str, level: int, lists: int, mark: str) -> Block:
    if level and len(words) <= _MAX_HEADING:
        return Block("heading", _CLOSING.sub("", words), level)
    return Block("item", words, lists, (mark,)) if mark else Block("paragraph", words, lists)


def _code(token: "Token", lists: int) -> Iterator[Block]:
    code = dedent(token.content).rstrip("\n")
    if code.strip():
        found = _LANGUAGE.match(token.info.strip())
        yield Block("code", code, lists, (found[0],) if found else ())


def _words(token: "Token") -> str:
    """The words of a line or a cell, without marks; within code nothing is one."""
    if not token.children:
        return token.content.strip()
    said = _said(token.children)
    return "\n".join(line.strip() for line in said.replace("\xa0", " ").strip().split("\n"))


def _plainly(text: str) -> str:
    if _MARK.search(text):
        for pattern, replacement in _DECORATION:
            text = pattern.sub(replacement, text)
    return text


def _said(tokens: "Sequence[Token]") -> str:
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
                words.append(token.content.strip())
            case "softbreak" | "hardbreak":
                words.append("\n")
            case "link_open" | "link_close":
                links.append((len(words), str(token.attrs.get("href", ""))))
                if token.type == "link_close":
                    _, (start, address) = links.pop(), links.pop()
                    words[start:] = [linked("".join(words[start:]), address)]
            case "image":
                words.append(_said(token.children or []))
            case "html_inline":
                words += [" "] if token.content.lower().startswith("<br") else []
            case _:
                words.append(_plainly(token.content))
    return "".join(words)
