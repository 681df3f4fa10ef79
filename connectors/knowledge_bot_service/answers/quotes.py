"""Chooses the sentences of an answer, and trims them to its length."""

# Lists of words read best as words.
# ruff: noqa: SIM905

import functools
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Final

from knowledge_bot_service.answers.conversations import SOURCES
from knowledge_bot_service.index.relevance import Word, bm25, coverage, pairs, words_in
from knowledge_bot_service.index.search import Hit
from knowledge_bot_service.readers.analyzer import (
    Block,
    QueryTerms,
    defines,
    index_terms,
    index_terms_of,
    sentences,
)
from knowledge_bot_service.readers.analyzer.blocks import (
    COLONS,
    MORE,
    grouped,
    loaded,
    pieces,
    row_text,
    shortened,
    text_of,
)
from knowledge_bot_service.readers.analyzer.languages import MONTHS, WEEKDAYS

MAX_CHARACTERS: Final = 300
MAX_WITH_BLOCK: Final = 1200

# What stands between parts of an answer that are more than a sentence.
PARAGRAPH: Final = "\n\n"

# What a sentence's score is made of. Weights fitted on half of a question set gained nothing on the
# other half, so round ones stay: half and twice of most changes one answer of a hundred.
_COVERAGE: Final = 0.7
_BM25: Final = 0.3
_PASSAGE: Final = 1.0
_PAIRS: Final = 0.35
_KIND: Final = 0.3
_BEFORE: Final = 0.5

# Who asks how to do something wants the command.
_COMMAND: Final = 0.3

# Who asks what something is wants the sentence that says so.
_DEFINITION: Final = 1.0

# A version or a number that a question has as a whole says which of many alike is meant.
_DESIGNATION: Final = 1.0

# How much the names and numbers in a part of a sentence count, against the question's own words,
# when a sentence is too long: the answer is often one of them.
_NEWS: Final = 0.3

# The sentences of this many passages are remembered, some 5 MB: questions go to the same ones.
_REMEMBERED_PASSAGES: Final = 1000

# Whose score is so much of the best one's is as good as that.
_RIVAL: Final = 0.95

# A second sentence shorter than this many characters says too little to be worth its place.
_MIN_SECOND: Final = 20

_ENDS: Final = (*COLONS, "?", "!", ".", "…", "？", "！", "。")  # noqa: RUF001
_QUESTION_ENDS: Final = ("?", "？", "؟")  # noqa: RUF001

_NUMBER_WORDS: Final = frozenset(
    "one two three four five six seven eight nine ten eleven twelve dozen twenty thirty forty"
    " fifty sixty seventy eighty ninety hundred thousand million billion half twice once none"
    " free".split()
)
# What is no digit; telephone numbers have at least so many digits, those of extensions too.
_DIGITS: Final = re.compile(r"\D+")
_DIGITS_OF_NUMBER: Final = 3

# A year, a time of day, or a day of a month. A share or a count is no answer to "when".
_TIME: Final = re.compile(
    r"(?<!\d)[12]\d{3}(?!\d)|\d[:.]\d\d|\d ?(?:st|nd|rd|th|[ap]\.?m|Uhr|h|年|月|日|\.)(?!\w)"
)

# What a reason is told with.
_REASON: Final = re.compile(
    r"(?<!\w)(?:because|reasons?|since|due to|owing to|thanks to|so that|in order to|therefore)"
    r"(?!\w)",
    re.IGNORECASE,
)

_DATE_WORDS: Final = frozenset([*WEEKDAYS.split(), *MONTHS.split(), "may", "century"])

# A heading that is the name of an option, a setting, a variable or a command, maybe of several. It
# has no capital as a title has, or marks that no word has.
_IDENTIFIER: Final = re.compile(
    r"(?:(?:-|[a-z]|(?=\S*[_.=(])[A-Z])[^\s,]*(?: [<\[A-Z][^\s,a-z]*)?(?:, | / |$))+"
)

# The number of a section is no answer.
_NUMBERING: Final = re.compile(r"^[\d.]+\s")


@dataclass(frozen=True, slots=True)
class Quote:
    """A part of an answer, trimmed to fit, and the passage that it is from.

    Attributes:
        text: a sentence; with the block that it introduces, it has several lines.
        hit: the passage.
        is_prose: whether it is a sentence of a paragraph, which another one may come after.
    """

    text: str
    hit: Hit
    is_prose: bool


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of a passage, an item of a list, or a row of a table.

    Attributes:
        text: what is quoted of it, without the block; "" for a block that nothing introduces.
        terms: its own, and those of the headings or the question that it stands under.
        before: the terms of the sentence before it, to which its pronouns refer.
        block: the list, table or code that it introduces, and that is quoted with it.
        section: the headings that it stands under.
        under: how many of its terms are those of the headings; they come first.
        is_row: whether it is a row of a table, which says nothing about the rows beside it.
        part_of: the list or table that it is in.
    """

    text: str
    terms: tuple[str, ...]
    before: tuple[str, ...] = ()
    block: tuple[Block, ...] = ()
    section: tuple[str, ...] = ()
    under: int = 0
    is_row: bool = False
    part_of: tuple[Block, ...] = ()

    @property
    def own(self) -> tuple[str, ...]:
        """Its terms without those of the headings, which would make it a long sentence."""
        return self.terms[self.under :]

    @property
    def is_prose(self) -> bool:
        """Whether it is in a paragraph, and introduces nothing."""
        return not (self.block or self.part_of or self.is_row)

    @property
    def whole(self) -> str:
        """The text and the block."""
        return f"{self.text}{PARAGRAPH}{text_of(self.block)}" if self.block else self.text


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence to choose, and its place: among the passages as ranked, and as it is read."""

    sentence: _Sentence
    hit: Hit
    order: tuple[int, int]
    read: tuple[int, int, int]


def choose(hits: Sequence[Hit], weights: Mapping[Word, float], terms: QueryTerms) -> list[Quote]:
    """The best sentence, and the next best one that goes with it, as far as it fits.

    Args:
        hits: the passages to choose from, best first.
        weights: how much each word counts.
        terms: the question's own words and its kind.

    Returns:
        One or two quotes in reading order, of together at most `MAX_CHARACTERS` characters, or
        `MAX_WITH_BLOCK` where a sentence introduces a list, a table or code.
    """
    places = {hit.source_id: rank for rank, hit in reversed([*enumerate(hits)])}
    candidates = [
        _Candidate(sentence, hit, (rank, position), (places[hit.source_id], hit.passage, position))
        for rank, hit in enumerate(hits)
        for position, sentence in enumerate(_sentences(hit.stored))
    ]
    scores = _scores(candidates, hits[0].score, weights, terms)
    ranked = sorted(
        zip(scores, candidates, strict=True), key=lambda pair: (-pair[0], pair[1].order)
    )
    best, *others = (candidate for _, candidate in ranked)
    rivals = sum(score >= _RIVAL * ranked[0][0] for score, _ in ranked[1:])
    best = _whole(best, others, weights, terms)
    limit = MAX_CHARACTERS if not best.sentence.block else MAX_WITH_BLOCK
    first = _quote(best, weights, limit, _answering(best.sentence, terms))
    chosen = [(best.read, first)]
    room = limit - len(first.text) - len(PARAGRAPH)
    second = next(
        (
            one
            for rank, one in enumerate(others)
            if _goes_with(one, best, weights, terms, room, is_rival=rank < rivals)
        ),
        None,
    )
    if second is not None and room >= _MIN_SECOND:
        chosen.append((second.read, _quote(second, weights, room)))
    return [quote for _, quote in sorted(chosen, key=lambda pair: pair[0])]


def _whole(
    best: _Candidate,
    others: Sequence[_Candidate],
    weights: Mapping[Word, float],
    terms: QueryTerms,
) -> _Candidate:
    """The list or the table to quote instead of the best part of it, with what introduces it.

    Who asks how to do something needs every step: a numbered list, if nothing that would go with
    the step comes before. A row is no answer where every other one has as much of what is asked.
    """
    whole = next((one for one in others if _holds(one.sentence, best.sentence)), None)
    if whole is None or len(whole.sentence.whole) > MAX_WITH_BLOCK:
        return best
    if best.sentence.is_row:
        there = words_in(best.sentence.terms, weights)
        beside = [one for one in others if one.sentence.part_of is best.sentence.part_of]
        is_any = all(there <= words_in(one.sentence.terms, weights) for one in beside)
        return whole if beside and is_any else best
    before = others[: others.index(whole)]
    goes_alone = any(_goes_with(one, best, weights, terms, MAX_CHARACTERS) for one in before)
    is_step = terms.kind == "how to" and _has_numbers(whole.sentence)
    return whole if is_step and not goes_alone else best


def _has_numbers(sentence: _Sentence) -> bool:
    return bool(sentence.block) and "".join(sentence.block[0].names)[:1].isdigit()


def _goes_with(
    other: _Candidate,
    best: _Candidate,
    weights: Mapping[Word, float],
    terms: QueryTerms,
    room: int,
    *,
    is_rival: bool = False,
) -> bool:
    """Whether a sentence adds to the best one.

    A rival is as good as the best one: where it is another source's, both are told.
    Where there are headings, it is from the same section, or has another word that was asked for.
    Beside a row of a table, another row has all of the question's words that the best one has, and
    anything else from the same source has another one; so has a list, a table or code, unless the
    question asks how to do something. It has a word of the question itself, or comes right after
    the best one or before it: better one good quote than two.
    """
    is_there = (
        other.sentence.whole in best.sentence.whole
        or _holds(best.sentence, other.sentence)
        or _holds(other.sentence, best.sentence)
    )
    is_too_long = other.sentence.block and len(other.sentence.whole) > room
    is_elsewhere = best.sentence.is_row and other.hit.source_id != best.hit.source_id
    is_another = not _designated(best.sentence, terms) <= _designated(other.sentence, terms)
    if is_there or is_too_long or is_elsewhere or is_another:
        return False
    # The items of a list are beside each other, and say nothing about each other.
    are_items = other.sentence.part_of or best.sentence.part_of
    is_next = other.hit is best.hit and abs(other.order[1] - best.order[1]) == 1 and not are_items
    if not is_next and not coverage(other.sentence.own, weights):
        return False
    if is_rival and other.hit.source_id != best.hit.source_id:
        return True
    sections = other.sentence.section, best.sentence.section
    is_beside = not any(sections) or (other.hit is best.hit and sections[0] == sections[1])
    has_rows = best.sentence.is_row, other.sentence.is_row
    is_wanted = not other.sentence.block or terms.kind == "how to"
    if is_beside and is_wanted and not any(has_rows):
        return True
    # Of what is asked for or was spoken of, another row has as much. Anything else has more.
    if all(has_rows):
        return words_in(best.sentence.terms, weights) <= words_in(other.sentence.terms, weights)
    asked = terms.terms
    return not words_in(other.sentence.terms, asked) <= words_in(best.sentence.terms, asked)


def _holds(sentence: _Sentence, other: _Sentence) -> bool:
    """Whether a sentence is quoted with the list or the table that another one is in."""
    return bool(sentence.block) and sentence.block is other.part_of


@functools.lru_cache(maxsize=_REMEMBERED_PASSAGES)
def _sentences(stored: str) -> tuple[_Sentence, ...]:
    """The sentences of a passage's blocks that say something, at least one.

    A heading, and a question in a list of them, says what the sentences after it are about: it is
    judged with each of them, and quoted with none. A sentence that introduces a block is one with
    it; what is in the block can be chosen by itself as well.
    """
    blocks = loaded(stored)
    drafts = list(_drafts(blocks, ()))
    texts = dict.fromkeys(text for draft in drafts for text in draft.texts)
    analysed = dict(zip(texts, index_terms_of(texts), strict=True))

    def terms(texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(chain.from_iterable(analysed[text] for text in texts))

    said = tuple(
        _Sentence(
            draft.text,
            terms((*draft.section, *draft.about, *draft.own)),
            terms(draft.before),
            draft.block,
            draft.section,
            len(terms(draft.section)),
            draft.is_row,
            draft.part_of,
        )
        for draft in drafts
    )
    return said or (_Sentence(text := text_of(blocks), tuple(index_terms(text))),)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A sentence, and the texts whose terms are its own, its heading's, and the one's before it."""

    text: str
    own: tuple[str, ...]
    section: tuple[str, ...]
    about: tuple[str, ...]
    before: tuple[str, ...]
    block: tuple[Block, ...] = ()
    is_row: bool = False
    part_of: tuple[Block, ...] = ()

    @property
    def texts(self) -> Iterator[str]:
        return chain(self.own, self.section, self.about, self.before)


def _drafts(
    blocks: Iterable[Block], section: tuple[str, ...], before: tuple[str, ...] = ()
) -> Iterator[_Draft]:
    """The sentences of blocks that stand under some headings, after some sentences."""
    levels: list[tuple[int, str]] = []
    about: tuple[str, ...] = ()
    leads: tuple[str, ...] = ()
    begins = False
    groups = [tuple(group) for group in grouped(blocks)]
    for group, next_group in zip(groups, [*groups[1:], None], strict=True):
        block, following = group[0], next_group[0] if next_group else None
        if block.kind == "heading":
            levels = [one for one in levels if one[0] < block.level]
            levels.append((block.level, block.text))
            about, leads, before, begins = (), (), (), True
            continue
        under = (*section, *(words for _, words in levels))
        if block.kind == "record":
            row = " ".join(block.text.split())
            yield _Draft(row, (row,), under, about, before, is_row=True)
            leads, begins = (), False
            continue
        split = sentences(block.text) if block.is_prose else []
        if not block.is_prose:
            if begins:
                # Without the heading above, "Added:" does not say in which version.
                heading = ", ".join(words for level, words in levels[-2:] if level > 1)
                heading = heading or levels[-1][1]
                leads = (heading if heading.endswith(_ENDS) else f"{heading}:",)
            yield from _block_drafts(group, leads, under, about, before)
            before, leads = leads or before, ()
        elif following is not None and _is_heading(block, following):
            about, leads = tuple(split), ()
        else:
            last = split.pop() if split[-1].endswith(COLONS) or _leads(block, following) else ""
            for sentence in split:
                if sentence.endswith(_QUESTION_ENDS):
                    about = (sentence,)
                    continue
                said = " ".join([*leads, sentence])
                yield _Draft(_named(said, levels), (*leads, sentence), under, about, before)
                before, leads = (*about, sentence), ()
            # What leads nowhere says nothing.
            leads = (*leads, last) if last and _leads(block, following) else ()
        begins = False


def _named(said: str, levels: Sequence[tuple[int, str]]) -> str:
    """A sentence, after the name of the option, the setting or the command that it describes."""
    return f"{levels[-1][1]}: {said}" if levels and _IDENTIFIER.fullmatch(levels[-1][1]) else said


def _leads(block: Block, following: Block | None) -> bool:
    return following is not None and block.leads_to(following)


def _block_drafts(
    group: tuple[Block, ...],
    leads: tuple[str, ...],
    section: tuple[str, ...],
    about: tuple[str, ...],
    before: tuple[str, ...],
) -> Iterator[_Draft]:
    """A list, a table or code with what introduces it, and what is in it by itself."""
    introduction = PARAGRAPH.join(leads)
    if leads:
        yield _Draft(introduction, leads, section, about, before, group)
    before = leads or before
    if group[0].kind == "code" and len(group) == 1:
        yield _Draft(introduction, (*leads, text_of(group)), section, about, before, group)
    elif group[0].kind == "row":
        for row in group:
            if row.cells != (MORE, MORE):
                told = row_text(row)
                yield _Draft(told, (told,), section, about, before, is_row=True, part_of=group)
    else:
        for first, *others in pieces(group):
            if others or "\n" in first.text:
                under = [replace(one, level=one.level - first.level) for one in others]
                words = replace(first, kind="paragraph", level=0, names=())
                inner = _drafts([words, *under], (*section, *about), before)
                yield from (replace(one, part_of=one.part_of or group) for one in inner)
            elif first.text not in {"", MORE}:
                is_short = len(first.text) <= MAX_CHARACTERS
                for text in [first.text] if is_short else sentences(first.text):
                    said = " ".join(text.split())
                    yield _Draft(said, (text,), section, about, before, part_of=group)


def _is_heading(block: Block, following: Block) -> bool:
    """Whether a paragraph is one in a text without marks: the next one is of sentences."""
    return block.is_title and following.is_prose and not following.is_title


def _scores(
    candidates: Sequence[_Candidate],
    best_passage: float,
    weights: Mapping[Word, float],
    terms: QueryTerms,
) -> list[float]:
    average = sum(len(candidate.sentence.own) for candidate in candidates) / len(candidates)
    relevances = [bm25(candidate.sentence.own, weights, average) for candidate in candidates]
    best_relevance = max(relevances) or 1.0
    return [
        _BM25 * relevance / best_relevance
        + _PASSAGE * candidate.hit.score / best_passage
        + _fit(candidate.sentence, weights, terms)
        for candidate, relevance in zip(candidates, relevances, strict=True)
    ]


def _fit(sentence: _Sentence, weights: Mapping[Word, float], terms: QueryTerms) -> float:
    """What a sentence's score has from itself and the sentence before, whatever the others are."""
    own = coverage(sentence.terms, weights)
    with_before = coverage(sentence.before + sentence.terms, weights)
    return (
        _COVERAGE * own
        + _BEFORE * (with_before - own)
        + _PAIRS * pairs(sentence.terms, terms.terms)
        + (_KIND if _answers(sentence.text, terms) else 0.0)
        + _DESIGNATION * len(_designated(sentence, terms)) / (len(terms.designations) or 1)
        + (_COMMAND if terms.kind == "how to" and _is_code(sentence) else 0.0)
        + (_DEFINITION if terms.kind == "definition" and _defines(sentence, terms) else 0.0)
    )


def _designated(sentence: _Sentence, terms: QueryTerms) -> frozenset[str]:
    # There are many sentences, and hardly a question has any.
    if not terms.designations:
        return frozenset()
    return terms.designated_in("\n".join([*sentence.section, sentence.whole]))


def _defines(sentence: _Sentence, terms: QueryTerms) -> bool:
    # What is before a colon in a row names a column, and before a block what that shows.
    is_told = sentence.block or sentence.is_row
    return not is_told and defines(sentence.text, terms)


def _is_code(sentence: _Sentence) -> bool:
    return bool(sentence.block) and sentence.block[0].kind == "code"


def _answers(sentence: str, terms: QueryTerms) -> bool:
    """Whether the sentence has what the question's kind asks for: a name, a date, a number."""
    words = sentence.split()
    match terms.kind:
        case "who":
            asked = {form for word in terms.terms for form in word}
            return any(word[:1].isupper() and _is_new(word, asked) for word in words[1:])
        case "when":
            return bool(_TIME.search(sentence)) or any(_bare(word) in _DATE_WORDS for word in words)
        case "contact":
            return "@" in sentence or any(
                len(_DIGITS.sub("", word)) >= _DIGITS_OF_NUMBER for word in words
            )
        case "how many":
            return any(_has_digit(word) or _bare(word) in _NUMBER_WORDS for word in words)
        case "why":
            return bool(_REASON.search(sentence))
        case _:
            return False


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _bare(word: str) -> str:
    return word.strip(".,;:()").lower()


def _is_new(word: str, asked: AbstractSet[str]) -> bool:
    return asked.isdisjoint(index_terms(word))


def _quote(
    candidate: _Candidate, weights: Mapping[Word, float], room: int, heading: str = ""
) -> Quote:
    sentence = candidate.sentence
    text = f"{heading}{_quoted(sentence, weights, room - len(heading))}"
    return Quote(text, candidate.hit, sentence.is_prose)


def _answering(sentence: _Sentence, terms: QueryTerms) -> str:
    """The heading above that answers by itself, such as "Open day, 14 June", to be quoted first."""
    if terms.kind not in {"when", "how many", "contact"} or not sentence.text:
        return ""
    return next(
        (
            f"{heading}: "
            for heading in reversed(sentence.section)
            if _answers(_NUMBERING.sub("", heading), terms)
            and words_in(index_terms(heading), terms.terms) == {*terms.terms}
            and len(heading) < MAX_CHARACTERS // 2
            and heading not in sentence.text
        ),
        "",
    )


def _quoted(sentence: _Sentence, weights: Mapping[Word, float], room: int) -> str:
    """The sentence, and as much of the block that it introduces as there is room for."""
    if not sentence.block:
        return _trim(sentence.text, weights, room)
    text = sentence.text
    if len(text) > MAX_CHARACTERS:
        text = _trim(text, weights, MAX_CHARACTERS)
    separator = "\n" if sentence.block[0].is_listed else PARAGRAPH
    block = text_of(shortened(sentence.block, room - len(text) - len(separator)))
    # A blank line and this word begin the list of sources.
    return f"{text}{separator}{block}".strip("\n").replace(SOURCES, "\n \nSources: ")


def _trim(sentence: str, weights: Mapping[Word, float], room: int) -> str:
    """The sentence, or the part of it, between words, that says most about the question."""
    words = sentence.split()
    text = " ".join(words)
    if len(text) <= room:
        return text
    analysed = index_terms_of(words)
    asked = frozenset(chain.from_iterable(weights))
    is_new = [
        index > 0 and (word[0].isupper() or _has_digit(word)) and asked.isdisjoint(terms)
        for index, (word, terms) in enumerate(zip(words, analysed, strict=True))
    ]
    all_news = sum(is_new) or 1

    def worth(first: int, window: str) -> float:
        within = slice(first, first + len(window.split()))
        terms = list(chain.from_iterable(analysed[within]))
        return coverage(terms, weights) + _NEWS * sum(is_new[within]) / all_news

    starts = list(accumulate((len(word) + 1 for word in words[:-1]), initial=0))
    # A window that begins after the first one that reaches the end is a part of that one.
    last = bisect_left(starts, len(text) + 1 - room)
    windows = [_window(text, start, room) for start in starts[: last + 1]]
    return max(enumerate(windows), key=lambda numbered: worth(*numbered))[1]


def _window(text: str, start: int, room: int) -> str:
    before = "…" if start else ""
    if len(text) - start + len(before) <= room:
        return before + text[start:]
    end = start + room - len(before) - 1
    space = text.rfind(" ", start, end + 1)
    return before + text[start : space if space > start else end].rstrip(",;: ") + "…"
