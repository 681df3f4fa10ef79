"""Answers questions with passages; no language model is involved."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby
from typing import Final, Self

from pydantic import BaseModel, ConfigDict

from knowledge_bot.models import Message
from knowledge_bot_service.answers.conversations import SOURCES, AskedQuestion
from knowledge_bot_service.answers.finding import Finder, Ranked
from knowledge_bot_service.config.refusals import RefusedRequestError
from knowledge_bot_service.readers.analyzer import Block, small_talk
from knowledge_bot_service.readers.analyzer.blocks import COLONS, more, shortened, text_of
from knowledge_bot_service.readers.analyzer.questions import SmallTalk
from knowledge_bot_service.readers.statements import Statement

REFUSAL: Final = "I could not find that in my sources."

UNSURE: Final = "I am not sure. The closest I found:"

# A second passage is shown where its score is lower than the best one's by no more than this, and
# so much of it, but no more than both may have together.
_NEAR: Final = 2.0
_SECOND: Final = 350
_LONGEST: Final = 1000

# A window has some so many characters from the best statement on; what comes before that is shown
# as far as it has this many. A section of so many is shown whole.
WINDOW: Final = 600
_BEFORE: Final = 200
_SECTION: Final = 400

# How much better a row fits that is meant alone: 0.4 and more where a question names it.
_CLEAR: Final = 0.4

# A sentence before the best one that is as short is shown first: it often names what "it" is there.
# A list is shown from its beginning if that leaves so many characters for what comes after.
_NAMING: Final = 90
_AFTER: Final = 200

# Code, and a list that is introduced, may make it longer.
WITH_BLOCK: Final = 800

_ENDS: Final = (*COLONS, "?", "!", ".", "…", "？", "！", "。")  # noqa: RUF001

# What small talk is answered with: nothing is looked for.
_REPLIES: Final[dict[SmallTalk, str]] = {
    "greeting": "Hello! Ask me something about my sources.",
    "thanks": "You are welcome. Ask me more about my sources.",
    "farewell": "Goodbye! Come back when you have a question about my sources.",
    "introduction": "I answer questions from the sources that I was given, and name those that an"
    " answer is from.",
}


class ModelFailedError(RefusedRequestError):
    """The language model gave no answer, and the question was not stored.

    Args:
        message: what happened.
        retry_after: seconds after which the same question may be answered; None if asking again
            changes nothing.
    """

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        said = f"{message} The question was not stored"
        if retry_after is None:
            super().__init__(
                HTTPStatus.FAILED_DEPENDENCY,
                "model_failed",
                f"{said}. The service's log has the cause; asking again helps when that is mended.",
            )
        else:
            # Only 503 with Retry-After invites a client to send the question again by itself.
            super().__init__(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "model_unavailable",
                f"{said}; ask it again later.",
                {"Retry-After": str(retry_after)},
            )


class CitedPassage(BaseModel):
    """A passage that an answer was given from, by the id that a search has for it.

    `quote` is what fits the question best in its `text`, word for word, and `place` the number from
    which the text of its source may be shown.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    text: str
    quote: str
    place: int


class CitedSource(BaseModel):
    """A source that an answer names: its `passages` that the answer uses, of this `revision`.

    `url` is a web page's.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    url: str | None = None
    revision: str
    passages: tuple[CitedPassage, ...]


class AnsweredMessage(Message):
    """A message, with what the service says beside the documented fields (interface section 2).

    `sources` are those that the answer names, in its order. `found` is False if nothing was found
    in the sources, or nothing that is sure to answer, and None if nothing was looked for.
    """

    sources: tuple[CitedSource, ...]
    found: bool | None = None


@dataclass(frozen=True, slots=True)
class WordedAnswer:
    """An answer.

    Attributes:
        text: its words, then the names of its sources.
        found: whether something was found that is sure to answer; None if nothing was looked for.
        sources: those that it names.
        passages: those that were found, best first.
    """

    text: str
    found: bool | None
    sources: Sequence[CitedSource] = ()
    passages: Sequence[Ranked] = ()

    @classmethod
    def citing(
        cls, words: str, cited: Iterable[Ranked], passages: Sequence[Ranked], *, found: bool = True
    ) -> Self:
        """An answer in `words` that names the sources of the passages that it uses, in order."""
        by_source: dict[str, list[Ranked]] = {}
        for one in cited:
            by_source.setdefault(one.hit.source_id, []).append(one)
        sources = tuple(_cited(used) for used in by_source.values())
        names = dict.fromkeys(source.name for source in sources)
        return cls(f"{words}{SOURCES}{', '.join(names)}", found, sources, passages)


def _cited(used: Sequence[Ranked]) -> CitedSource:
    hit = used[0].hit
    return CitedSource(
        id=hit.source_id,
        name=hit.source_name,
        url=hit.source_url,
        revision=hit.source_revision,
        passages=tuple(
            CitedPassage(
                id=one.hit.public_id,
                text=one.hit.text,
                quote=one.quote,
                place=one.hit.passage,
            )
            for one in {one.hit.passage: one for one in used}.values()
        ),
    )


def answer(asked: AskedQuestion, finder: Finder, collections: Sequence[int]) -> WordedAnswer:
    """Answer with a part of the best passage, then the names of the sources.

    Where another passage is nearly as good, and always where it is not sure that any of them
    answers, a part of that follows, if both have 1,000 characters together at most.

    Args:
        asked: the question, and what was said before it.
        finder: finds the passages.
        collections: the numbers of the collections to answer from.

    Returns:
        The answer; its text is `REFUSAL` when no passage is about the question, and begins with
        `UNSURE` when none is sure to answer it.
    """
    if said := small_talk(asked.question):
        return WordedAnswer(_REPLIES[said], found=None)
    found = finder.find(asked, collections)
    if not found.is_near:
        return WordedAnswer(REFUSAL, found=False)
    best, *others = found.passages
    chosen, shown = [best], [_window(best, WINDOW)]
    if others and (not found.is_found or others[0].score >= best.score - _NEAR):
        second = _window(others[0], _SECOND)
        if len(shown[0]) + len(second) <= _LONGEST:
            chosen.append(others[0])
            shown.append(second)
    words = "\n\n".join(dict.fromkeys(shown))
    if not found.is_found:
        words = f"{UNSURE}\n\n{words}"
    return WordedAnswer.citing(words, chosen, found.passages, found=found.is_found)


def _window(passage: Ranked, room: int) -> str:
    if _stands_out(passage):
        shown = text_of(_shown(passage.statements, passage.best, passage.best))
    else:
        shown = window(passage.statements, passage.best, room)
    # A blank line and this word begin the list of sources.
    return shown.replace(SOURCES, "\n \nSources: ")


def _stands_out(passage: Ranked) -> bool:
    """Whether the best statement is a row that fits much better than the others of its table.

    Where these fit as well, as for "Which rooms are free?", they answer together.
    """
    best = passage.statements[passage.best]
    if best.kind not in {"row", "record"}:
        return False
    others = [
        fit
        for one, fit in zip(passage.statements, passage.fits, strict=True)
        if one is not best and (one.kind, one.section) == (best.kind, best.section)
    ]
    return bool(others) and max(passage.fits) - max(others) >= _CLEAR


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
