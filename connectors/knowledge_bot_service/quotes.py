"""Choosing the sentences of an answer, and trimming them to its length."""

# Lists of words read best as words.
# ruff: noqa: SIM905

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from knowledge_bot_service.analyzer import QueryTerms, index_terms, sentences
from knowledge_bot_service.relevance import Word, bm25, coverage
from knowledge_bot_service.search import Hit

MAX_CHARACTERS: Final = 300

# What a sentence's score is made of. Weights fitted on half of a question set gained nothing on the
# other half, so these round ones stay.
_COVERAGE: Final = 0.7
_BM25: Final = 0.3
_PASSAGE: Final = 1.0
_PAIRS: Final = 0.35
_KIND: Final = 0.2

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
_MONTHS: Final = frozenset(
    "january february march april may june july august september october november december"
    " monday tuesday wednesday thursday friday saturday sunday century".split()
)


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence of an answer, trimmed to fit, and the passage that it is from."""

    text: str
    hit: Hit


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence to choose from; its terms include those of what it is about."""

    text: str
    hit: Hit
    order: tuple[int, int]
    terms: tuple[str, ...]


def choose(hits: Sequence[Hit], weights: Mapping[Word, float], terms: QueryTerms) -> list[Quote]:
    """The best sentence, and the next best as far as it fits, in reading order.

    Args:
        hits: the passages to choose from, best first.
        weights: how much each word counts.
        terms: the question's own words and its kind.

    Returns:
        One or two quotes of together at most `MAX_CHARACTERS` characters.
    """
    candidates = [one for rank, hit in enumerate(hits) for one in _candidates(rank, hit)]
    scores = _scores(candidates, hits[0].score, weights, terms)
    ranked = [
        candidate
        for _, candidate in sorted(
            zip(scores, candidates, strict=True), key=lambda pair: (-pair[0], pair[1].order)
        )
    ]
    best = ranked[0]
    first = _trim(best, weights, MAX_CHARACTERS)
    chosen = [(best.order, Quote(first, best.hit))]
    room = MAX_CHARACTERS - len(first) - 1
    second = next((other for other in ranked[1:] if other.text not in best.text), None)
    if second is not None and room >= _MIN_SECOND:
        chosen.append((second.order, Quote(_trim(second, weights, room), second.hit)))
    return [quote for _, quote in sorted(chosen, key=lambda pair: pair[0])]


def _candidates(rank: int, hit: Hit) -> Iterator[_Candidate]:
    """The sentences of a passage that say something.

    A heading, and a question in a list of them, says what the sentences after it are about: it is
    judged with each of them, and quoted with none.
    """
    paragraphs = hit.text.split("\n\n")
    about: list[str] = []
    position = 0
    for paragraph, following in zip(paragraphs, [*paragraphs[1:], ""], strict=True):
        is_heading = _is_heading(paragraph, following)
        for text in sentences(paragraph):
            terms = index_terms(text)
            if is_heading or text.endswith(_QUESTION_ENDS):
                about = terms
                continue
            yield _Candidate(text, hit, (rank, position), (*about, *terms))
            position += 1
    if not position:
        yield _Candidate(hit.text, hit, (rank, 0), tuple(index_terms(hit.text)))


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
    average = sum(len(candidate.terms) for candidate in candidates) / len(candidates)
    relevances = [bm25(candidate.terms, weights, average) for candidate in candidates]
    best_relevance = max(relevances) or 1.0
    return [
        _COVERAGE * coverage(candidate.terms, weights)
        + _BM25 * relevance / best_relevance
        + _PASSAGE * candidate.hit.score / best_passage
        + _PAIRS * _pairs(candidate.terms, terms.terms)
        + (_KIND if _answers(candidate, terms) else 0.0)
        for candidate, relevance in zip(candidates, relevances, strict=True)
    ]


def _pairs(terms: Sequence[str], words: Sequence[Word]) -> float:
    """The share of the question's neighbouring words that are neighbours in the sentence too."""
    asked = list(pairwise(words))
    if not asked:
        return 0.0
    there = set(pairwise(terms)) | set(zip(terms, terms[2:], strict=False))
    return sum(
        any((left, right) in there for left in first for right in second) for first, second in asked
    ) / len(asked)


def _answers(candidate: _Candidate, terms: QueryTerms) -> bool:
    """Whether the sentence has what the question's kind asks for: a name, a date, a number."""
    words = candidate.text.split()
    match terms.kind:
        case "who":
            asked = {variant for word in terms.terms for variant in word}
            return any(
                word[:1].isupper() and asked.isdisjoint(index_terms(word)) for word in words[1:]
            )
        case "when":
            return any(
                word.strip(".,;:()").lower() in _MONTHS or any(map(str.isdigit, word))
                for word in words
            )
        case "how many":
            return any(
                word.strip(".,;:()").lower() in _NUMBER_WORDS or any(map(str.isdigit, word))
                for word in words
            )
        case _:
            return False


def _trim(candidate: _Candidate, weights: Mapping[Word, float], room: int) -> str:
    """The sentence, or the part of it, between words, that has the most telling words."""
    text = " ".join(candidate.text.split())
    if len(text) <= room:
        return text
    starts = [0, *(index + 1 for index, character in enumerate(text) if character == " ")]
    windows = (_window(text, start, room) for start in starts)
    return max(windows, key=lambda window: coverage(index_terms(window), weights))


def _window(text: str, start: int, room: int) -> str:
    before = "…" if start else ""
    if len(text) - start + len(before) <= room:
        return before + text[start:]
    end = start + room - len(before) - 1
    space = text.rfind(" ", start, end + 1)
    return before + text[start : space if space > start else end].rstrip(",;: ") + "…"
