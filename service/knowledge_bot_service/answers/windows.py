"""What is shown of a passage: a window of its statements, from the best one on."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from knowledge_bot_service.readers.analyzer import Block
from knowledge_bot_service.readers.analyzer.blocks import COLONS, more, shortened, text_of
from knowledge_bot_service.readers.statements import Statement

# A window has some so many characters from the best statement on; what comes before that is shown
# as far as it has this many. A section of so many is shown whole.
WINDOW: Final = 600
_BEFORE: Final = 200
_SECTION: Final = 400

# A sentence before the best one that is as short is shown first: it often names what "it" is there.
# A list is shown from its beginning if that leaves so many characters for what comes after.
_NAMING: Final = 90
_AFTER: Final = 200

# Code, and a list that is introduced, may make it longer.
WITH_BLOCK: Final = 800

_ENDS: Final = (*COLONS, "?", "!", ".", "…", "？", "！", "。")  # noqa: RUF001


def window(statements: Sequence[Statement], best: int, room: int = WINDOW) -> str:
    """The text of a passage around its best one: what comes after it first.

    Code and lists have what introduces them, rows their head, and lists their beginning where there
    is room. Code that comes next is shown too: who asks how to do something wants it.

    Args:
        statements: those of the passage.
        best: the position of the best one.
        room: how many characters it has; code may make it longer.
    """
    first, last = _section(statements, best)
    if _size(statements[first : last + 1]) > _SECTION:
        first, last = _around(statements, best, first, last, room)
    return text_of(_shown(statements, first, last))


def _section(statements: Sequence[Statement], best: int) -> tuple[int, int]:
    inside = [n for n, one in enumerate(statements) if one.section == statements[best].section]
    return inside[0], inside[-1]


def _around(
    statements: Sequence[Statement], best: int, least: int, most: int, room: int
) -> tuple[int, int]:
    first = last = best
    kind = statements[best].kind
    room -= _size(statements[best : best + 1])
    while first > least and statements[first - 1].group == statements[best].group:
        before = _size(statements[first - 1 : first])
        is_naming = kind == "paragraph" and first == best and before <= _NAMING
        if not is_naming and not (kind == "item" and before <= room - _AFTER):
            break
        first -= 1
        room -= before
    while last < most:
        following = statements[last + 1]
        if statements[last].leads or following.kind == "code":
            # Half of it is better than what leads nowhere.
            if statements[last].group == following.group and not statements[last].leads:
                break
            if WITH_BLOCK - WINDOW + room < _size([following]) and not statements[last].leads:
                break
        elif _size([following]) > room:
            break
        last += 1
        room -= _size([following])
    while first > least and _size(statements[first - 1 : last + 1]) <= _BEFORE:
        first -= 1
    return first, last


def _heading(statement: Statement) -> list[Block]:
    heading = statement.heading
    if not heading:
        return []
    return [Block("paragraph", heading if heading.endswith(_ENDS) else f"{heading}:")]


def _size(statements: Sequence[Statement]) -> int:
    return sum(len(text_of(one.blocks)) + 1 for one in statements)


def _shown(statements: Sequence[Statement], first: int, last: int) -> list[Block]:
    shown: list[Block] = []
    group = statements[first].group
    if statements[first].kind in {"item", "row", "code"}:
        begin = next(n for n, one in enumerate(statements) if one.group == group)
        if begin and statements[begin - 1].leads:
            shown += statements[begin - 1].blocks
        elif statements[first].kind != "row":
            shown += _heading(statements[first])
        if begin < first:
            shown += more(statements[first].blocks[:1])
    for _, together in groupby(statements[first : last + 1], key=lambda one: one.group):
        same = [*together]
        blocks = [block for one in same for block in one.blocks]
        if same[0].kind == "paragraph" and not same[0].blocks[0].level:
            said = [f"{same[0].name}:"] if same[0].name and not shown else []
            blocks = [Block("paragraph", " ".join([*said, *(one.text for one in same)]))]
        elif len(text_of(blocks)) > WITH_BLOCK:
            blocks = shortened(blocks, WITH_BLOCK)
        shown += blocks
    if last + 1 < len(statements) and statements[last + 1].group == statements[last].group:
        shown += more(statements[last].blocks[:1])
    return shown
