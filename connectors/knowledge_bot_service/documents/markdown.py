"""Markdown: its text, without the marks that would be in the middle of sentences."""

import re
from collections.abc import Iterator
from typing import Final

from knowledge_bot_service.documents.document import Document


def read_markdown(source: str) -> Document:
    """The text of a Markdown document; its first heading is the title.

    Marks of headings, emphasis and quotes go; links become their text; lists, tables and code stay
    readable as they are.
    """
    title, source = _front_matter(source)
    lines = list(_lines(_without_comments(source)))
    heading = next((line for kind, line in lines if kind == "heading"), None)
    text = "\n".join(f"\n{line}\n" if kind == "heading" else line for kind, line in lines)
    return Document(text, title or heading)


_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]+(.*)")
_UNDERLINE: Final = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
_RULE: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|(?:-[ \t]*){3,})")
_TABLE_RULE: Final = re.compile(r"(?=.*--)[ \t:|-]++")
_QUOTE: Final = re.compile(r" {0,3}>[ \t]?")
_DEFINITION: Final = re.compile(r" {0,3}\[[^\]]+\]:[ \t]*\S")
_TITLE: Final = re.compile(r"title:[ \t]*(.+)")

_MARK: Final = re.compile(r"[]*_<`~\\]")

# In this order: an image may be inside a link, and emphasis around both. Nothing in them nests, so
# that each takes time in proportion to the line.
_INLINE: Final = (
    (re.compile(r"!\[([^\[\]]*)\]\([^()]*\)"), r"\1"),
    (re.compile(r"\[([^\[\]]*)\]\((?:[^()]|\([^()]*\))*+\)"), r"\1"),
    (re.compile(r"!?\[([^\[\]]+)\]\[[^\[\]]*\]"), r"\1"),
    (re.compile(r"<((?:https?://|mailto:)[^<>\s]+)>"), r"\1"),
    (re.compile(r"</?[a-zA-Z][^<>]*>"), ""),
    (re.compile(r"(?<!\\)(\*{1,3})(?=[^\s*])([^*]*[^\s*])\1"), r"\2"),
    (re.compile(r"(?<![\w\\])(_{1,3})(?=[^\s_])([^_]*[^\s_])\1(?!\w)"), r"\2"),
    (re.compile(r"~~([^~]+)~~"), r"\1"),
    (re.compile(r"`+([^`]+)`+"), r"\1"),
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
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
    fence = ""
    lines = source.split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif fence:
            yield "code", line
        elif heading := _HEADING.fullmatch(line):
            yield "heading", _plain(_without_closing_marks(heading[1]))
        elif _is_underlined(line, following):
            yield "heading", _plain(line)
        elif not _is_decoration(line):
            yield "text", _plain(line)


def _without_closing_marks(heading: str) -> str:
    heading = heading.rstrip(" \t")
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
        )
    )


def _plain(line: str) -> str:
    while quote := _QUOTE.match(line):
        line = line[quote.end() :]
    if line.lstrip().startswith("|"):
        line = line.strip().strip("|").strip()
    if _MARK.search(line):
        for pattern, replacement in _INLINE:
            line = pattern.sub(replacement, line)
    return line
