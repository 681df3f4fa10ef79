"""Choosing the sentences of an answer, and trimming them to its length."""

# Lists of words read best as words.
# ruff: noqa: SIM905

import functools
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from knowledge_bot_service.analyzer import QueryTerms, index_terms, index_terms_of, sentences
from knowledge_bot_service.relevance import Word, bm25, coverage, pairs
from knowledge_bot_service.search import Hit

MAX_CHARACTERS: Final = 300

# What a sentence's score is made of. Weights fitted on half of a question set gained nothing on the
# other half, so these round ones stay.
_COVERAGE: Final = 0.7
_BM25: Final = 0.3
_PASSAGE: Final = 1.0
_PAIRS: Final = 0.35
_KIND: Final = 0.2
_BEFORE: Final = 0.3

# How much the names and numbers in a part of a sentence count, against the question's own words,
# when a sentence is too long: the answer is often one of them.
_NEWS: Final = 0.3

# The sentences of this many passages are remembered, some 5 MB: questions go to the same ones.
_REMEMBERED_PASSAGES: Final = 1000

# A second sentence shorter than this many characters says too little to be worth its place.
_MIN_SECOND: Final = 20

# A heading is a short paragraph of one line that no sentence ends, before one that a sentence ends:
# a row of a table is before another row.
_MAX_HEADING: Final = 100
_SENTENCE_ENDS: Final = (".", "!", "?", ":", ";", ",", "。", "！", "？", "：", "；", "”", '"')  # noqa: RUF001
_QUESTION_ENDS: Final = ("?", "？", "؟")  # noqa: RUF001

_NUMBER_WORDS: Final = frozenset(
    "one two three four five six seven eight nine ten eleven twelve dozen twenty thirty forty"
    " fifty sixty seventy eighty ninety hundred thousand million billion half twice once".split()
)
_DATE_WORDS: Final = frozenset(
    "january february march april may june july august september october november december"
    " monday tuesday wednesday thursday friday saturday sunday century".split()
)


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of an answer, trimmed to fit, and the passage that it is from."""

    text: str
    hit: Hit


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of a passage.

    Its terms include those of the heading or question that it stands under; `before` are those of
    the sentence before it, to which its pronouns refer.
    """

    text: str
    terms: tuple[str, ...]
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence to choose, and its place among the others."""

    sentence: _Sentence
    hit: Hit
    order: tuple[int, int]


def choose(hits: Sequence[Hit], weights: Mapping[Word, float], terms: QueryTerms) -> list[Quote]:
    """The best sentence, and the next best as far as it fits, in reading order.

    Args:
        hits: the passages to choose from, best first.
        weights: how much each word counts.
        terms: the question's own words and its kind.

    Returns:
        One or two quotes of together at most `MAX_CHARACTERS` characters.
    """
    candidates = [
        _Candidate(sentence, hit, (rank, position))
        for rank, hit in enumerate(hits)
        for position, sentence in enumerate(_sentences(hit.text))
    ]
    scores = _scores(candidates, hits[0].score, weights, terms)
    ranked = [
        candidate
        for _, candidate in sorted(
            zip(scores, candidates, strict=True), key=lambda pair: (-pair[0], pair[1].order)
        )
    ]
    best = ranked[0]
    first = _trim(best.sentence.text, weights, MAX_CHARACTERS)
    chosen = [(best.order, Quote(first, best.hit))]
    room = MAX_CHARACTERS - len(first) - 1
    others = (other for other in ranked[1:] if other.sentence.text not in best.sentence.text)
    second = next(others, None)
    if second is not None and room >= _MIN_SECOND:
        trimmed = _trim(second.sentence.text, weights, room)
        chosen.append((second.order, Quote(trimmed, second.hit)))
    return [quote for _, quote in sorted(chosen, key=lambda pair: pair[0])]


@functools.lru_cache(maxsize=_REMEMBERED_PASSAGES)
def _sentences(passage: str) -> tuple[_Sentence, ...]:
    """The sentences of a passage that say something, at least one.

    A heading, and a question in a list of them, says what the sentences after it are about: it is
    judged with each of them, and quoted with none.
    """
    paragraphs = passage.split("\n\n")
    split = [
        (text, text.endswith(_QUESTION_ENDS) or _is_heading(paragraph, following))
        for paragraph, following in zip(paragraphs, [*paragraphs[1:], ""], strict=True)
        for text in sentences(paragraph)
    ]
    told: list[_Sentence] = []
    about: list[str] = []
    before: tuple[str, ...] = ()
    analysed = index_terms_of(text for text, _ in split)
    for (text, is_about), terms in zip(split, analysed, strict=True):
        if is_about:
            about = terms
            continue
        told.append(_Sentence(text, (*about, *terms), before))
        before = told[-1].terms
    return tuple(told) or (_Sentence(passage, tuple(index_terms(passage))),)


def _is_heading(paragraph: str, following: str) -> bool:
    return (
        "\n" not in paragraph
        and len(paragraph) <= _MAX_HEADING
        and not paragraph.endswith(_SENTENCE_ENDS)
        and following.endswith(_SENTENCE_ENDS)
    )


def _scores(
    candidates: Sequence[_Candidate],
    best_passage: float,
    weights: Mapping[Word, float],
    terms: QueryTerms,
) -> list[float]:
    average = sum(len(candidate.sentence.terms) for candidate in candidates) / len(candidates)
    relevances = [bm25(candidate.sentence.terms, weights, average) for candidate in candidates]
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
    )


def _answers(sentence: str, terms: QueryTerms) -> bool:
    """Whether the sentence has what the question's kind asks for: a name, a date, a number."""
    words = sentence.split()
    match terms.kind:
        case "who":
            asked = {form for word in terms.terms for form in word}
            return any(word[:1].isupper() and _is_new(word, asked) for word in words[1:])
        case "when":
            return any(_has_digit(word) or _bare(word) in _DATE_WORDS for word in words)
        case "how many":
            return any(_has_digit(word) or _bare(word) in _NUMBER_WORDS for word in words)
        case _:
            return False


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


def _bare(word: str) -> str:
    return word.strip(".,;:()").lower()


def _is_new(word: str, asked: AbstractSet[str]) -> bool:
    return asked.isdisjoint(index_terms(word))


def _trim(sentence: str, weights: Mapping[Word, float], room: int) -> str:
    """The sentence, or the part of it, between words, that says most about the question."""
    text = " ".join(sentence.split())
    if len(text) <= room:
        return text
    asked = {form for word in weights for form in word}
    news = [
        word
        for word in text.split()[1:]
        if (word[0].isupper() or _has_digit(word)) and _is_new(word, asked)
    ]

    def worth(window: str, terms: Sequence[str]) -> float:
        words = set(window.strip("…").split())
        told = sum(word in words for word in news) / (len(news) or 1)
        return coverage(terms, weights) + _NEWS * told

    words = [0, *(index + 1 for index, character in enumerate(text) if character == " ")]
    # A window that begins after the first one that reaches the end is a part of that one.
    starts = words[: bisect_left(words, len(text) + 1 - room) + 1]
    windows = [_window(text, start, room) for start in starts]
    worths = map(worth, windows, index_terms_of(windows))
    return max(zip(worths, windows, strict=True), key=lambda pair: pair[0])[1]


def _window(text: str, start: int, room: int) -> str:
    before = "…" if start else ""
    if len(text) - start + len(before) <= room:
        return before + text[start:]
    end = start + room - len(before) - 1
    space = text.rfind(" ", start, end + 1)
    return before + text[start : space if space > start else end].rstrip(",;: ") + "…"
