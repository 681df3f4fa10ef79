"""What a passage says: sentences, items, rows and code, each with what it is under."""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from knowledge_bot_service.readers.analyzer import Block, index_terms_of
from knowledge_bot_service.readers.analyzer.blocks import (
    MORE,
    grouped,
    loaded,
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

# The level of a heading that is a line by itself in a text without marks.
_LOWEST: Final = 7

# The statements of so many passages are remembered, some 10 MB: questions go to the same ones.
_REMEMBERED: Final = 1000


@dataclass(frozen=True, slots=True)
class Statement:
    """What a passage says in one of its parts, which is shown whole.

    Attributes:
        blocks: a sentence, an item with what is under it, a row, or code.
        text: its words.
        under: what else says what it is about: the headings above it, what introduces it, and a
            question before it.
        heading: the innermost headings above it; "" for none.
        name: the innermost one, if it is the name of an option, a setting or a command.
        section: the number of its section in the passage, from 0 on.
        group: the number of its paragraph, list or table in the passage.
        leads: whether it introduces the next group, and says little without it.
    """

    blocks: tuple[Block, ...]
    text: str
    under: tuple[str, ...]
    heading: str
    name: str
    section: int
    group: int
    leads: bool

    @property
    def kind(self) -> str:
        """What it is: the kind of its first block."""
        return self.blocks[0].kind


def statements(blocks: Sequence[Block]) -> list[Statement]:
    """The statements of a passage, in their order; its headings where there is nothing else."""
    found = list(_statements(blocks))
    if found:
        return found
    return [
        Statement((block,), block.text, (), "", "", 0, n, leads=False)
        for n, block in enumerate(blocks)
    ]


def vectors_of(blocks: Sequence[Block]) -> bytes:
    """The vectors of a passage's statements, each with what it is under, one after another."""
    return b"".join(vector(" ".join([*one.under, one.text])) for one in statements(blocks))


@dataclass(frozen=True, slots=True)
class Analysed:
    """A passage's statements, and the terms that they are judged by.

    Attributes:
        statements: in their order.
        terms: of each statement, its own and those of what it is under.
        headings: the terms of the passage's headings.
    """

    statements: tuple[Statement, ...]
    terms: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    headings: tuple[str, ...]


@functools.lru_cache(maxsize=_REMEMBERED)
def analysed(stored: str) -> Analysed:
    """Analyse the blocks of a passage, as the database has them."""
    blocks = loaded(stored)
    found = statements(blocks)
    headings = [block.text for block in blocks if block.kind == "heading"]
    texts = dict.fromkeys([*headings, *(text for one in found for text in (*one.under, one.text))])
    terms = dict(zip(texts, map(tuple, index_terms_of(texts)), strict=True))

    def terms_of(texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(chain.from_iterable(terms[text] for text in texts))

    return Analysed(
        tuple(found),
        tuple((terms[one.text], terms_of(one.under)) for one in found),
        terms_of(headings),
    )


def _statements(blocks: Sequence[Block]) -> Iterator[Statement]:
    headings: list[tuple[int, str]] = []
    section, number = 0, -1
    lead: tuple[str, ...] = ()
    groups = [*grouped(blocks)]
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        number += 1
        block = group[0]
        if _is_heading(block, following):
            level = block.level or _LOWEST
            headings = [one for one in headings if one[0] < level] + [(level, block.text)]
            section, lead = number, ()
            continue
        under = tuple(words for _, words in headings)
        # Without the heading above, "Added" does not say in which version.
        heading = ", ".join(words for level, words in headings[-2:] if level > 1)
        heading = heading or "".join(under[-1:])
        name = under[-1] if under and _IDENTIFIER.fullmatch(under[-1]) else ""
        leads = following is not None and len(group) == 1 and block.leads_to(following[0])
        said = [piece for piece in _pieces(group) if _text(piece) not in {"", MORE}]
        for place, piece in enumerate(said, start=1):
            text, is_lead = _text(piece), leads and place == len(said)
            yield Statement(
                tuple(piece), text, (*under, *lead), heading, name, section, number, is_lead
            )
            if block.is_prose:
                asks = text.endswith(_QUESTION_ENDS)
                lead = (text,) if is_lead or asks else lead if place == 1 else ()
        if not block.is_prose:
            lead = ()


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
