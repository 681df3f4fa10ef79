"""Markdown: its text, without the marks that would be in the middle of sentences."""

# Lists of words read best as words.
# ruff: noqa: SIM905

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from html import unescape
from itertools import pairwise
from typing import Final

from knowledge_bot_service.analyzer.blocks import table_row, table_rule
from knowledge_bot_service.documents.document import Document
from knowledge_bot_service.documents.rst import CODE, WITHOUT_TEXT, reference


def read_markdown(source: str) -> Document:
    """The text of a Markdown document; its first heading is the title.

    Marks of emphasis and quotes go; links become their text. Headings, lists, tables and code stay
    as `analyzer.blocks` knows them: headings with marks, code between fences, tables with bars
    between their cells.
    """
    title, source = _front_matter(source)
    lines = list(_lines(_without_comments(source)))
    heading = next((line.lstrip("# ") for kind, line in lines if kind == "heading"), None)
    text = "\n".join(f"\n{line}\n" if kind == "heading" else line for kind, line in lines)
    return Document(text, title or heading)


_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")

# Admonitions and tabs, as MkDocs and Docusaurus have them: what is inside of them is indented.
_ADMONITION: Final = re.compile(
    r"([ \t]*)(?:!!!|\?\?\?\+?|===\+?)[ \t]+(?:[\w -]*?)(?:\"([^\"]*)\")?"
)
_ADMITTED: Final = 4
_UNDERLINE: Final = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_RULE: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|(?:-[ \t]*){3,})")
_TABLE_RULE: Final = re.compile(r"(?=.*--)[ \t:|-]++")
# A bar after a backslash is a cell's own (GFM, section 4.10).
_BARS: Final = re.compile(r"(?<!\\)\|")
_AROUND: Final = re.compile(r"^\||(?<!\\)\|$")
_QUOTE: Final = re.compile(r" {0,3}>[ \t]?")
_DEFINITION: Final = re.compile(r" {0,3}\[([^\]^][^\]]*)\]:[ \t]*\S")
# What is only between brackets is a link if it is defined somewhere (CommonMark, section 6.3).
_SHORTCUT: Final = re.compile(r"(?<!\\)\[([^\[\]]+)\](?![\[(:])")
# What a reference of MyST refers to.
_TARGET: Final = re.compile(r"\([\w:. -]+\)=[ \t]*")
# What begins and ends a note that Docusaurus and others set off.
_COLONS: Final = re.compile(r" {0,3}:{3,}.*")

# MyST's directives stand between fences. Those that set a text off are text like any other; what
# others have is code, in the language after them.
_DIRECTIVE: Final = re.compile(r"[ \t]*(?:`{3,}|~{3,})\{([\w:-]+)\}[ \t]*(.*)")
_OPTION: Final = re.compile(r"[ \t]*:[\w-]+:(?: .*)?")
_SET_OFF: Final = frozenset(
    "admonition attention caution danger deprecated details dropdown error hint important note"
    " seealso tab-item tip topic versionadded versionchanged warning".split()
)
# What mkdocstrings puts the documentation of code in place of; its options are indented.
_INSERTED: Final = re.compile(r":::[ \t]+\w+(?:\.\w+)+")
_INDENTED: Final = re.compile(r"(?: {4}|\t).*|[ \t]*")

# The classes and the name that a heading or an image has for the page's style, and its icons.
_ATTRIBUTES: Final = re.compile(r"(?:(?<![ \t])[ \t]+)?\{:?[ \t]*[.#][^{}\n]*\}")
_ICON: Final = re.compile(r"(?<![\w:]):[a-z\d]+(?:-[a-z\d]+)+:(?![\w:])")
_TITLE: Final = re.compile(r"title:[ \t]*(.+)")

_MARK: Final = re.compile(r"[]*_<~{\\]|:[a-z]")
# Before the backtick may be one of MyST's roles.
_CODE: Final = re.compile(r"(?<![`\\])(\{[a-z][\w:+-]*\})?`++([^`]+)`++")
_ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z][a-zA-Z\d]{1,31});")

# What stands for code while a line is made plain: no text has a NUL.
_KEPT: Final = re.compile(r"\0(\d+)\0")

# In this order: an image may be inside a link, and emphasis around both. Nothing in them nests, so
# that each takes time in proportion to the line.
_INLINE: Final = (
    (re.compile(r"!\[([^\[\]]*)\]\([^()]*\)"), r"\1"),
    (re.compile(r"\[([^\[\]]*)\]\((?:[^()]|\([^()]*\))*+\)"), r"\1"),
    (re.compile(r"!?\[([^\[\]]+)\]\[[^\[\]]*\]"), r"\1"),
    (re.compile(r"<((?:https?://|mailto:)[^<>\s]+)>"), r"\1"),
    (re.compile(r"\[\^[^\[\]\s]+\](?:: ?)?"), ""),
    (re.compile(r"<br ?/?>", re.IGNORECASE), " "),
    (re.compile(r"</?[a-zA-Z][^<>]*>"), ""),
    (re.compile(r"(?<!\\)(\*{1,3})(?=[^\s*])([^*]*[^\s*])\1"), r"\2"),
    (re.compile(r"(?<![\w\\])(_{1,3})(?=[^\s_])([^_]*[^\s_])\1(?!\w)"), r"\2"),
    # What is struck out no longer holds.
    (re.compile(r"~~[^~]+~~"), ""),
    (_ATTRIBUTES, ""),
    (_ICON, ""),
    (re.compile(r"\\([!-/:-@\[-`{-~]|$)"), r"\1"),
)


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


def _lines(source: str) -> Iterator[tuple[str, str]]:
    """The lines of the text, each with its kind: "heading", "code" or "text"."""
    split = source.split("\n")
    links = {link[1].casefold() for link in map(_DEFINITION.match, split) if link}
    lines = _without_directives(_unfolded(split))
    for (line, is_code), (following, _) in pairwise([*lines, ("", False)]):
        if is_code:
            yield "code", line
        elif heading := _HEADING.fullmatch(line):
            if words := _plain(_without_closing_marks(heading[2]), links):
                yield "heading", f"{heading[1]} {words}"
        elif _is_underlined(line, following):
            marks = "#" if following.lstrip().startswith("=") else "##"
            yield "heading", f"{marks} {_plain(line, links)}"
        elif "|" in line and _TABLE_RULE.fullmatch(line):
            yield "text", table_rule(len(line.strip().strip("|").split("|")))
        elif not _is_decoration(line):
            yield "text", _plain(line, links)


def _unfolded(lines: Iterable[str]) -> Iterator[str]:
    """The lines, those inside of an admonition or a tab without the indentation that it gives."""
    inside: list[int] = []
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        while inside and line and indent < inside[-1]:
            inside.pop()
        unfolded = line[_ADMITTED * len(inside) :]
        if begins := _ADMONITION.fullmatch(unfolded):
            inside.append(len(begins[1]) + _ADMITTED * (len(inside) + 1))
            # The title of a tab or a note introduces it.
            yield f"{begins[1]}{begins[2]}:" if begins[2] else ""
        else:
            yield unfolded


def _without_directives(lines: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """The lines, and whether each is one of code or its fences.

    What directives set off is text like any other; what they would put in is left out.
    """
    fences: list[tuple[str, str]] = []
    begins = inserted = False
    for line in lines:
        fence, holds = fences[-1] if fences else ("", "text")
        mark = _FENCE.match(line)
        if mark and fence and mark[1].startswith(fence):
            fences.pop()
            yield (_fence(line), True) if holds == "code" else ("", False)
        elif mark and holds == "text":
            directive = _DIRECTIVE.fullmatch(line)
            name, words = directive.groups() if directive else ("", "")
            holds = "text" if name in _SET_OFF else "" if name in WITHOUT_TEXT else "code"
            fences.append((mark[1], holds))
            begins = bool(name)
            if holds == "text":
                yield (f"{words}:" if words else "", False)
            elif holds:
                language = words if name in CODE else name
                yield _fence(f"{mark[0]}{language}" if name else line), True
        elif begins and _OPTION.fullmatch(line):
            continue
        elif holds == "text" and _INSERTED.fullmatch(line):
            inserted = True
        elif inserted and not fence and _INDENTED.fullmatch(line):
            continue
        else:
            begins = inserted = False
            if holds:
                yield line, holds == "code"


def _fence(line: str) -> str:
    return line.replace("~", "`")


def _without_closing_marks(heading: str) -> str:
    heading = _ATTRIBUTES.sub("", heading).rstrip(" \t")
    bare = heading.rstrip("#")
    # Marks that follow a word at once are its own, as in C# (CommonMark, section 4.2).
    return bare.rstrip(" \t") if not bare or bare.endswith((" ", "\t")) else heading


def _is_underlined(line: str, following: str) -> bool:
    return bool(line.strip() and "|" not in line and _UNDERLINE.fullmatch(following)) and not (
        _UNDERLINE.fullmatch(line) or line.lstrip().startswith(("- ", "* ", "+ ", ">"))
    )


def _is_decoration(line: str) -> bool:
    return any(
        (
            _UNDERLINE.fullmatch(line),
            _RULE.fullmatch(line),
            _TABLE_RULE.fullmatch(line),
            _DEFINITION.match(line),
            _COLONS.fullmatch(line),
            _TARGET.fullmatch(line),
        )
    )


def _plain(line: str, links: AbstractSet[str]) -> str:
    while quote := _QUOTE.match(line):
        line = line[quote.end() :]
    if line.lstrip().startswith("|"):
        cells = _BARS.split(_AROUND.sub("", line.strip()))
        return table_row(_inline(cell.replace("\\|", "|"), links) for cell in cells)
    return _inline(line, links)


def _inline(line: str, links: AbstractSet[str]) -> str:
    """A line without marks; within code nothing is one. `links` are those that are defined."""
    kept: list[str] = []

    def keep(code: re.Match[str]) -> str:
        role, words = code.groups()
        kept.append(reference(words) if role else words.strip())
        return f"\0{len(kept) - 1}\0"

    line = _CODE.sub(keep, line)
    if _MARK.search(line):
        for pattern, replacement in _INLINE:
            line = pattern.sub(replacement, line)
        line = _SHORTCUT.sub(lambda one: one[1] if one[1].casefold() in links else one[0], line)
    line = _ENTITY.sub(lambda found: unescape(found[0]), line).replace("\xa0", " ")
    return _KEPT.sub(lambda found: kept[int(found[1])], line)
