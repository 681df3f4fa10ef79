"""What a passage says: sentences, items, rows and code, each with what it is under."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from knowledge_bot_service.readers.analyzer import Block, index_terms_of
from knowledge_bot_service.readers.analyzer.blocks import (
    MORE,
    grouped,
    pieces,
    row_text,
    text_of,
)
from knowledge_bot_service.readers.analyzer.vectors import vector

_QUESTION_ENDS: Final = ("?", "？", "؟")  # noqa: RUF001

# A heading that is the name of an option, a setting, a variable or a command, maybe of several. It
# has no capital as a title has, or marks that no word has.
_IDENTIFIER: Final = re.compile(
    r"(?:(?:-|[a-z]|(?=\S*[_.=(])[A-Z])[^\s,]*(?: [<\[A-Z][^\s,a-z]*)?(?:, | / |$))+"
)

# Where a link leads is quoted, and not looked for.
_ADDRESS: Final = re.compile(r" \(https?://\S+\)")

# The level of a heading that is a line by itself in a text without marks.
_LOWEST: Final = 7


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading in a passage; `depth` is 1 for one that is under no other."""

    text: str
    depth: int


@dataclass(frozen=True, slots=True)
class Statement:
    """What a passage says in one of its parts, which is shown whole.

    Attributes:
        blocks: a sentence, an item with what is under it, a row, or code.
        text: its words.
        headings: those that it is under.
        lead: what introduces it, or a question before it; "" for none.
        heading: the innermost headings above it; "" for none.
        name: the innermost one, if it is the name of an option, a setting or a command.
        section: the number of its section in the passage, from 0 on.
        group: the number of its paragraph, list or table in the passage.
        leads: whether it introduces the next group, and says little without it.
    """

    blocks: tuple[Block, ...]
    text: str
    headings: tuple[str, ...] = ()
    lead: str = ""
    heading: str = ""
    name: str = ""
    section: int = 0
    group: int = 0
    leads: bool = False

    @property
    def kind(self) -> str:
        """What it is: the kind of its first block."""
        return self.blocks[0].kind

    @property
    def quote(self) -> str:
        """It as it stands in the text of its passage: a row without the names of its columns."""
        return text_of(self.blocks).rpartition("\n")[2] if self.kind == "row" else self.text

    @property
    def is_lead(self) -> bool:
        """Whether what comes after it is understood with it: it introduces that, or asks."""
        return self.leads or (self.blocks[0].is_prose and self.text.endswith(_QUESTION_ENDS))


def statements(blocks: Sequence[Block]) -> list[Statement]:
    """The statements of a passage, in their order; its headings where there is nothing else."""
    found = [part for part in _parts(blocks) if isinstance(part, Statement)]
    return found or [Statement((block,), block.text, group=n) for n, block in enumerate(blocks)]


def indexed(blocks: Sequence[Block]) -> tuple[str, bytes]:
    """A passage's terms for the index, and the vectors of its statements one after another.

    Each heading and each statement is a line, with a mark that is nothing to the index: "#" as
    often as a heading is deep; "-" for a statement, ":" with it where those after it are understood
    with it, and ">" where it is understood with one before it.
    """
    parts = [*_parts(blocks)]
    if not any(isinstance(part, Statement) for part in parts):
        parts += statements(blocks)
    marks = [
        "#" * part.depth
        if isinstance(part, Heading)
        else f"-{':' * part.is_lead}{'>' * bool(part.lead)}"
        for part in parts
    ]
    texts = [_ADDRESS.sub("", part.text) for part in parts]
    terms = index_terms_of(texts)
    vectors = (
        vector(*part.headings, _ADDRESS.sub("", part.lead), text)
        for part, text in zip(parts, texts, strict=True)
        if isinstance(part, Statement)
    )
    lines = (" ".join([mark, *own]) for mark, own in zip(marks, terms, strict=True))
    return "\n".join(lines), b"".join(vectors)


Terms = list[str]


def parted(body: str) -> tuple[Terms, list[tuple[Terms, Terms]]]:
    """What `indexed` wrote: the headings' terms, and each statement's, with those above it."""
    headings: Terms = []
    path: list[Terms] = []
    lead: Terms = []
    found: list[tuple[Terms, Terms]] = []
    for line in body.split("\n"):
        mark, *terms = line.split(" ")
        if mark[0] == "#":
            path = [*path[: len(mark) - 1], terms]
            headings += terms
            continue
        under = list(chain.from_iterable(path))
        found.append(([*under, *lead] if ">" in mark else under, terms))
        if ":" in mark:
            lead = terms
    return headings, found


def _parts(blocks: Sequence[Block]) -> Iterator[Heading | Statement]:
    headings: list[tuple[int, str]] = []
    section, number = 0, -1
    lead = ""
    groups = [*grouped(blocks)]
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        number += 1
        block = group[0]
        if _is_heading(block, following):
            level = block.level or _LOWEST
            headings = [one for one in headings if one[0] < level] + [(level, block.text)]
            section, lead = number, ""
            yield Heading(block.text, len(headings))
            continue
        under = tuple(words for _, words in headings)
        # Without the heading above, "Added" does not say in which version.
        heading = ", ".join(words for level, words in headings[-2:] if level > 1)
        heading = heading or "".join(under[-1:])
        name = under[-1] if under and _IDENTIFIER.fullmatch(under[-1]) else ""
        leads = following is not None and len(group) == 1 and block.leads_to(following[0])
        said = [piece for piece in _pieces(group) if _text(piece) not in {"", MORE}]
        for place, piece in enumerate(said, start=1):
            one = Statement(
                tuple(piece),
                _text(piece),
                under,
                lead,
                heading,
                name,
                section,
                number,
                leads=leads and place == len(said),
            )
            yield one
            if block.is_prose:
                lead = one.text if one.is_lead else lead if place == 1 else ""
        if not block.is_prose:
            lead = ""


def _is_heading(block: Block, following: Sequence[Block] | None) -> bool:
    """Whether a block is a heading: a title before sentences is one in a text without marks."""
    if block.kind == "heading":
        return True
    is_before = following is not None and following[0].is_prose and not following[0].is_title
    return is_before and block.kind == "paragraph" and block.is_prose and block.is_title


def _pieces(group: Sequence[Block]) -> Sequence[Sequence[Block]]:
    return [group] if group[0].kind in {"code", "record"} else pieces(group)


def _text(piece: Sequence[Block]) -> str:
    if piece[0].kind == "row":
        return "" if piece[0].cells == (MORE, MORE) else row_text(piece[0])
    if len(piece) == 1:
        return piece[0].text
    return text_of(piece)
