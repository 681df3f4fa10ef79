"""The parts of a text: headings, paragraphs, lists, tables and code.

A text is light Markdown, as the readers of documents write it, or plain: a heading has its marks or
is underlined, code stands between fences or is indented, bars part the cells of a table's row.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, Literal

from knowledge_bot_service.analyzer.sentences import sentences

BlockKind = Literal["heading", "paragraph", "list", "table", "code"]


MORE: Final[dict[str, str]] = {"list": "- …", "table": "… | …", "code": "…"}
"""What stands in a part of a block for the items, rows or lines that come before it or after it."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a text, as it stands there; code has fences, a heading its marks in front."""

    kind: BlockKind
    text: str

    @property
    def level(self) -> int:
        """How deep a heading is, 1 to 6; 0 for everything else."""
        return len(self.text) - len(self.text.lstrip("#")) if self.kind == "heading" else 0

    def leads_to(self, following: "Block") -> bool:
        """Whether it says what the next block is, so that neither is of use alone.

        A heading does; a paragraph that ends with a colon; one before code, which hardly ever
        stands without words about it; and a title before a list or a table.
        """
        if self.kind != "paragraph" or following.kind == "heading":
            return self.kind == "heading"
        return (
            self.text.endswith(COLONS)
            or following.kind == "code"
            or (following.kind != "paragraph" and self.is_title)
        )

    @property
    def is_title(self) -> bool:
        """Whether it is a short line that no sentence ends."""
        return (
            "\n" not in self.text
            and len(self.text) <= _MAX_TITLE
            and not self.text.endswith(_SENTENCE_ENDS)
        )

    @property
    def pieces(self) -> list[str]:
        """The items of a list, the rows of a table, the lines of code between its fences.

        An item has what is under it as far as that is indented or introduced by a colon. A line of
        code has the lines that it goes on in after a backslash.
        """
        lines = self.text.split("\n")
        match self.kind:
            case "list":
                return _items(lines)
            case "table":
                return [
                    table_row(_cells(line)) for line in lines if not _TABLE_RULE.fullmatch(line)
                ]
            case "code":
                return _commands(lines[1:-1])
            case _:
                return [self.text]

    @property
    def has_names(self) -> bool:
        """Whether the first row of a table names its columns: a rule is under it."""
        second = self.text.split("\n", 2)[1:2]
        return self.kind == "table" and any(map(_TABLE_RULE.fullmatch, second))

    def shortened(self, limit: int) -> str:
        """As many of its pieces as fit in `limit` characters, then "…".

        Where not even the first one fits, there is nothing but "…": half a command is none.
        """
        if len(self.text) <= limit:
            return self.text
        head, tail = "", ""
        if self.kind == "code":
            fence, _, _ = self.text.partition("\n")
            head, tail = f"{fence}\n", "\n```"
        kept = ""
        for piece in self.pieces:
            if len(head) + len(kept) + len(piece) + len(tail) + len("\n…") > limit:
                break
            kept += f"{piece}\n"
        return f"{head}{kept}…{tail}"


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a text, in order. Nothing is lost but blank lines and what rules a table."""
    kind: BlockKind = "paragraph"
    together: list[str] = []
    fence = ""
    end = 0
    for found in _LINE.finditer(text):
        line = found[0].rstrip()
        gap = found.start() - end > 1
        end = found.end()
        if fence:
            together += ["", line] if gap else [line]
            if line.strip(" \t`") or not line.strip().startswith(fence):
                continue
            fence = ""
            if kind == "code":
                yield Block(kind, "\n".join(_dedented(together)))
                together = []
            continue
        mark = _FENCE.match(line)
        leads = bool(together) and together[-1].endswith(COLONS)
        follows = _kind_of(line, kind if together else None, gap=gap, leads=leads)
        if together and (
            follows != kind or (gap and kind not in _LOOSE) or (mark and kind == "code")
        ):
            yield _block(kind, together)
            together = []
        kind = follows
        together += ["", line] if gap and together else [line]
        fence = mark[1] if mark else ""
        if kind == "heading":
            yield _block(kind, together)
            together = []
    if fence:
        together.append(fence)
    if together:
        yield Block(kind, "\n".join(_dedented(together))) if fence else _block(kind, together)


def captions(text: str) -> list[str]:
    """What the parts of a text are called: its headings, and the comments in its code."""
    return [found[1] for found in _CAPTION.finditer(text)]


def rows(table: Block) -> Iterator[str]:
    """The rows of a table as sentences: each cell after what names it.

    That is the first row's word for the column, where a rule is under the first row, and else the
    row's first cell.
    """
    lines = [_cells(row) for row in table.pieces if row != MORE["table"]]
    if not table.has_names:
        told = ([row[0], "; ".join(filter(None, row[1:]))] for row in lines)
        yield from (": ".join(filter(None, parts)) for parts in told)
        return
    for row in lines[1:]:
        cells = zip_longest(lines[0], row, fillvalue="")
        yield told_row(cells)


def told_row(cells: Iterable[tuple[str, str]]) -> str:
    """A row as a sentence, of its cells and the names of their columns.

    That a cell is empty is an answer too, and without it the row would not be found.
    """
    return "; ".join(
        f"{name}: {cell or _NOTHING}" if name else cell for name, cell in cells if name or cell
    )


def is_told_row(text: str) -> bool:
    """Whether a text is a row as `told_row` tells it: values after their names.

    A sentence may have two such parts, and others come after it; a row of two has one sentence.
    """
    parts = text.split("; ")
    named = sum(_NAMED.match(part) is not None for part in parts)
    return len(parts) < 2 * named and (named > 2 or (named == 2 and len(sentences(text)) == 1))


def unmarked(item: str) -> str:
    """An item of a list without its mark; what is under it no longer indented."""
    mark = _MARK.match(item)
    if mark is None:
        return item
    first, *others = item[mark.end() :].split("\n")
    return "\n".join([first, *_dedented(others)])


def table_row(cells: Iterable[str]) -> str:
    """Cells as a row of a table: bars between them, and around them where one at an end is empty.

    A bar between spaces inside of a cell loses these, so that the columns stay what they are.
    """
    kept = [cell.strip().replace(" | ", "|") for cell in cells]
    row = " | ".join(kept)
    return row if all([kept[0], kept[-1]]) else f"| {row} |"


def table_heading(names: Sequence[str]) -> str:
    """The columns' names as the first row of a table, and the rule that tells them from a row."""
    return f"{table_row(names)}\n{table_rule(len(names))}"


def table_rule(columns: int) -> str:
    """What is under the names of so many columns."""
    return " | ".join(["---"] * columns)


def joined_names(above: Sequence[str], below: Sequence[str]) -> list[str]:
    """The names of columns in two rows: "Price" over "small" is "Price small"."""
    pairs = zip_longest(above, below, fillvalue="")
    return [" ".join(dict.fromkeys(filter(None, pair))) for pair in pairs]


def _cells(row: str) -> list[str]:
    """The cells of a row, which may have bars around it, and bars without spaces inside of one."""
    row = row.strip()
    inner = row[1:].removesuffix("|") if row.startswith("|") else row
    parted = _BAR.split(f" {inner} ")
    return [cell.strip() for cell in (parted if len(parted) > 1 else inner.split("|"))]


# What is told of an empty cell.
_NOTHING: Final = "–"  # noqa: RUF001

COLONS: Final = (":", "：")  # noqa: RUF001

_MAX_TITLE: Final = 100
_SENTENCE_ENDS: Final = (".", "!", "?", ":", ";", ",", "。", "！", "？", "：", "；", "”", '"')  # noqa: RUF001

# A longer line with a heading's mark is none: headings go along with everything below them.
_MAX_HEADING: Final = 120

_LINE: Final = re.compile(r"[^\n]*[^\s][^\n]*")
_FENCE: Final = re.compile(r"[ \t]*(`{3,})[^`]*$")
_HEADING: Final = re.compile(r"#{1,6}[ \t]+\S")
_CAPTION: Final = re.compile(r"^[ \t]*#{1,6}[ \t]+(\S.*)", re.MULTILINE)
_UNDERLINE: Final = re.compile(r"([=~^\"*+#-])\1{2,}")
_ITEM: Final = re.compile(
    r"[ \t]*(?:(?:[-*+•‣–—]|\(?\d{1,3}[.)]|[a-z][.)])[ \t]+\S|-[a-zA-Z][ ,]|--[a-z][\w-]*)"  # noqa: RUF001
)
_FIRST_ITEM: Final = re.compile(r"[ \t]*(?:[-*+•‣–—]|\(?1[.)])[ \t]+\S|[ \t]+--?[a-z]")  # noqa: RUF001
_MARK: Final = re.compile(r"(?:[-*+•‣–—]|\(?\d{1,3}[.)]|[a-z][.)])[ \t]+")  # noqa: RUF001
_BAR: Final = re.compile(r"(?<=\s)\|(?=\s)")
_TABLE_ROW: Final = re.compile(r"[ \t]*\||[^|]*[^|\s] \| ")
_NAMED: Final = re.compile(r"[^:\n]{1,80}: ")
_TABLE_RULE: Final = re.compile(r"(?=[^-=]*[-=])[ \t|:+=-]+")

# These have blank lines inside of them.
_LOOSE: Final = frozenset({"list", "code"})


def _kind_of(line: str, before: BlockKind | None, *, gap: bool, leads: bool) -> BlockKind:
    """What a line is a part of, after a block of a kind that it may go on.

    `leads`: whether the line before it ends with a colon.
    """
    indent = len(line) - len(line.lstrip(" \t"))
    is_indented = indent >= 4 or "\t" in line[:indent]
    if before == "list" and (indent >= 2 or not gap or (leads and _FENCE.match(line))):
        return "list"
    if _FENCE.match(line) or (is_indented and (gap or before in {None, "code", "heading"})):
        return "code"
    if _HEADING.match(line) and len(line) <= _MAX_HEADING:
        return "heading"
    # A row may begin as an item does, such as the name of an option.
    if before == "table" and not gap and ("|" in line or _TABLE_RULE.fullmatch(line)):
        return "table"
    # In the middle of a paragraph, a number with a point or a bracket is a wrapped line's.
    if (_ITEM if before != "paragraph" or gap else _FIRST_ITEM).match(line):
        return "list"
    # In the middle of a paragraph a bar is a sign of its author's.
    begins = before != "paragraph" or gap or line.lstrip().startswith("|")
    return "table" if begins and _TABLE_ROW.match(line) else "paragraph"


def _block(kind: BlockKind, lines: Sequence[str]) -> Block:
    match kind:
        case "code":
            return Block(kind, "\n".join(["```", *_dedented(lines), "```"]))
        case "paragraph" if len(lines) == 2 and _UNDERLINE.fullmatch(lines[1]):
            return Block("heading", f"## {lines[0].strip()}")
        case "paragraph" | "heading":
            return Block(kind, "\n".join(lines).strip())
        case "table" if len(lines) == 1:
            return Block("paragraph", lines[0].strip())
        case _:
            return Block(kind, "\n".join(_dedented(lines)))


def _dedented(lines: Sequence[str]) -> list[str]:
    indent = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    return [line[indent:] for line in lines]


def _items(lines: Sequence[str]) -> list[str]:
    items: list[list[str]] = []
    inner = 0
    in_code = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        is_under = in_code or (items and indent > inner and items[-1][0].endswith(COLONS))
        in_code ^= line.lstrip().startswith("```")
        if items and (is_under or not _ITEM.match(line)):
            items[-1].append(line)
        else:
            items.append([line])
            inner = indent
    return ["\n".join(_dedented(item)).strip() for item in items]


def _commands(lines: Sequence[str]) -> list[str]:
    commands: list[str] = []
    goes_on = False
    for line in lines:
        if goes_on:
            commands[-1] += f"\n{line}"
        else:
            commands.append(line)
        goes_on = line.endswith("\\")
    return commands
