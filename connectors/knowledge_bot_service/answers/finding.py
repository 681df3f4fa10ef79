"""Finds the passages for a question, and judges whether they are about its subject."""

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from knowledge_bot_service.answers.conversations import Asked, Exchange
from knowledge_bot_service.index.relevance import Word, bm25, coverage, pairs, words_in
from knowledge_bot_service.index.search import Hit, Search, WeightedWords
from knowledge_bot_service.readers.analyzer import (
    QueryTerms,
    captions,
    defines,
    goes_on,
    index_terms,
    index_terms_of,
    points_back,
    query_terms,
)
from knowledge_bot_service.readers.analyzer.blocks import text_of
from knowledge_bot_service.readers.analyzer.languages import IN_PAIRS

# How many passages an answer is made from, and of how many that were found.
PASSAGES: Final = 5
LOOKED_AT: Final = 40

# How much it counts that the names which a passage stands under say what is asked, against the best
# score of all. A heading is the best sign of what a passage is about, and its score takes it for
# one more sentence. Of 0.5, 1 and 1.5 measured on questions to two documentations.
_HEADINGS: Final = 1.0

# How much it counts that a passage defines what a question asks the meaning of. Measured without it
# and with it: the figures of the question sets, which hardly ask for definitions, are the same.
_DEFINITION: Final = 1.0

# How much it counts that a passage has the version, the number or the name that a question has as a
# whole: its parts are in many others.
_DESIGNATION: Final = 1.0

# The names of so many passages are remembered, 2 MB at most: many passages have the same ones.
_REMEMBERED: Final = 2000

# An exchange counts this much less than the one after it, and the rarest words of the last reply
# this much: the best of the ways measured on follow-up questions. Whole replies pull the old
# passage back.
_DECAY: Final = 0.3
_REPLY_WEIGHT: Final = 0.3
_REPLY_WORDS: Final = 4

# Sentences are chosen by the question's own words. Those of what was said before, which weigh less
# already, count this much beside them: they decide where sentences have as much of what is asked,
# such as the rows of a table. Measured on follow-up questions: 1 is worse than this, 0 is as good.
_SAID_BEFORE: Final = 0.3

# A question of fewer words needs what was said before it. For one of more words that counts less,
# by as much as it is longer.
_SHORT: Final = 3

# A question may be a whole page, whose words each cost time. What is asked stands at its beginning
# or at its end: of a longer one, so many characters of both are read.
_END: Final = 1000

# A passage without the name or the number that is asked about is about something else.
_NAME_WEIGHT: Final = 1.5

# How well a passage fits: by how many of the question's words it has and by their BM25, both
# weighted by how telling the words are, and by the pairs of words found side by side. Fitted on
# each half of a question set, with a look at the other.
_BY_ITSELF: Final = (0.1, 0.5, 0.4)

# Words of what was said before do not stand side by side, and the rest of them counts the same.
_IN_CONTEXT: Final = (1 / 3, 1 / 3, 1 / 3)

# The best of so many passages is judged: the first one is not always it.
_JUDGED: Final = 3

# How well the best passage must fit. In ten times as many passages, one fits by chance by so much
# better, and by more where synonyms count as well; more than so many passages were not measured.
# For English this answers 97 % of answerable questions and refuses 83 % of those on other subjects.
# Other languages compound and inflect more, Turkish most; pairs of characters are found less often,
# and those of Thai more often, than words.
_MIN_FIT: Final = {"en": 0.17, "th": 0.6, "tr": 0.18} | dict.fromkeys(IN_PAIRS - {"th"}, 0.2)
_MIN_FIT_ELSEWHERE: Final = 0.21
_BY_CHANCE: Final = 0.07
# With synonyms, more is needed from the beginning, and in many passages more still.
_WITH_SYNONYMS: Final = 0.2035
_BY_SYNONYMS: Final = 0.1035
_MEASURED: Final = 1500

# A long question is hardly ever in one passage with all of its words, and a short one is soon by
# chance: so much less is needed for each word beyond so many, and more for each that it has less.
_BY_WORD: Final = 0.004
_USUAL_WORDS: Final = 5
_FEWEST_WORDS: Final = 3
_MOST_WORDS: Final = 10


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a question.

    Attributes:
        terms: the question's own words, and its kind.
        weights: how much each of these words says about the subject.
        hits: the passages that fit best, best first.
        is_about_it: whether the best of them is about the question's subject.
    """

    terms: QueryTerms
    weights: Mapping[Word, float]
    hits: Sequence[Hit]
    is_about_it: bool


class Finder:
    """Finds passages for the questions of a conversation.

    Args:
        search: the index of passages.
    """

    def __init__(self, search: Search) -> None:
        self._search = search

    def find(self, asked: Asked, collections: Sequence[int], limit: int = PASSAGES) -> Found:
        """Find the passages that fit a question best.

        Args:
            asked: the question, and what was said before it, which gives short follow-ups their
                subject.
            collections: the numbers of the collections to look in.
            limit: how many passages to return at most; 40 or fewer.
        """
        terms = _understood(asked)
        if terms.is_empty and not asked.before:
            return Found(terms, {}, (), is_about_it=False)
        words = WeightedWords(terms.terms, 1.0)
        found = self._find(terms, [words], collections, limit)
        if asked.before and not (found.is_about_it and _stands_alone(asked, terms)):
            before = self._context(asked.before, min(1.0, _SHORT / max(1, len(terms.terms))))
            in_context = self._find(
                terms, [words, *before], collections, limit, 1 + _goes_on(asked)
            )
            found = in_context if in_context.is_about_it or not found.is_about_it else found
        if found.is_about_it:
            return found
        # Synonyms find passages on other subjects too, so they come last.
        wider = terms.widened()
        if wider.terms == terms.terms:
            return found
        in_other_words = self._find(wider, [WeightedWords(wider.terms, 1.0)], collections, limit)
        return in_other_words if in_other_words.is_about_it else found

    def _find(
        self,
        terms: QueryTerms,
        queries: Sequence[WeightedWords],
        collections: Sequence[int],
        limit: int,
        telling: int = 1,
    ) -> Found:
        """Find what fits the queries; the words of the first `telling` choose among sentences."""
        weights = self._weights(queries, terms.commonness)
        own = {word for query in queries[:telling] for word in query.words}
        judged = {
            word: weight if word in own else _SAID_BEFORE * weight
            for word, weight in weights.items()
        }
        found = self._search.find(queries, collections, LOOKED_AT)
        hits = _best(found, weights, terms)[:limit]
        # What a heading says brings a passage up, and proves nothing about a subject.
        fit = _best_fit(terms, weights, found[:PASSAGES])
        return Found(terms, judged, hits, fit >= self._needed(terms))

    def _needed(self, terms: QueryTerms) -> float:
        needed = _MIN_FIT.get(terms.language, _MIN_FIT_ELSEWHERE)
        if terms.language != "en":
            return needed
        scale = math.log10(min(_MEASURED, self._search.size() + 1))
        needed += _BY_CHANCE * scale
        if terms.is_widened:
            needed = _WITH_SYNONYMS + _BY_SYNONYMS * scale
        words = max(_FEWEST_WORDS, min(len(terms.terms), _MOST_WORDS))
        return needed - _BY_WORD * (words - _USUAL_WORDS)

    def _context(self, before: Sequence[Exchange], weight: float) -> Iterable[WeightedWords]:
        """What was said before, to search for as well, with a weight beside the question's 1."""
        for age, exchange in enumerate(reversed(before), start=1):
            yield WeightedWords(query_terms(_ends(exchange.question)).terms, weight * _DECAY**age)
        if before:
            # In their order: of words that are as rare, those of the better sentence come first.
            words = dict.fromkeys((term,) for term in index_terms(before[-1].answer))
            yield WeightedWords(self._search.rarest(words, _REPLY_WORDS), weight * _REPLY_WEIGHT)

    def _weights(
        self, queries: Iterable[WeightedWords], expected: Callable[[Word], float]
    ) -> dict[Word, float]:
        weights: dict[Word, float] = {}
        for query in queries:
            for word in query.words:
                weights[word] = max(weights.get(word, 0.0), query.weight)
        idf = self._search.idf(weights, expected)
        return {word: weight * idf[word] for word, weight in weights.items()}


def _understood(asked: Asked) -> QueryTerms:
    """The question's terms; one that goes on asks for the kind that was asked for before."""
    terms = query_terms(_ends(asked.question))
    if terms.kind is None and _goes_on(asked):
        return replace(terms, kind=query_terms(_ends(asked.before[-1].question)).kind)
    return terms


def _stands_alone(asked: Asked, terms: QueryTerms) -> bool:
    """Whether what was said before could only lead away from the question.

    Measured on 540 changes of subject and 235 follow-up questions: of questions that are answered
    alone, 1 in 97 is then lost after another subject, and none of the follow-ups.
    """
    return len(terms.terms) >= _SHORT and not points_back(asked.question)


def _goes_on(asked: Asked) -> bool:
    return bool(asked.before) and goes_on(asked.question)


def _ends(question: str) -> str:
    if len(question) <= 2 * _END:
        return question
    return f"{question[:_END]} {question[-_END:]}"


def _best(found: Sequence[Hit], weights: Mapping[Word, float], terms: QueryTerms) -> list[Hit]:
    """The passages to answer from, best first; their scores are 1 and more for the best."""
    asked = frozenset(form for word in weights for form in word)

    def score(hit: Hit) -> float:
        share = 0.0
        for called in _analysed(hit.source_name, *captions(hit.blocks)):
            if there := sum(term in asked for term in called):
                share += there / len(called) * coverage(called, weights)
        has_all = terms.kind == "definition" and words_in(hit.terms, terms.terms) == {*terms.terms}
        whole = terms.designated_in(f"{hit.source_name}\n{hit.text}")
        return (
            hit.score / found[0].score
            + _HEADINGS * min(1.0, share)
            + _DESIGNATION * len(whole) / (len(terms.designations) or 1)
            + _DEFINITION * (has_all and defines(hit.text, terms))
        )

    ranked = sorted(((score(hit), hit) for hit in found), key=lambda scored: -scored[0])
    return [replace(hit, score=score) for score, hit in ranked]


@functools.lru_cache(maxsize=_REMEMBERED)
def _analysed(*names: str) -> list[list[str]]:
    """The terms of the names that a passage stands under: of its source, and its captions."""
    return index_terms_of(names)


def _best_fit(terms: QueryTerms, weights: Mapping[Word, float], hits: Sequence[Hit]) -> float:
    """How well the best of the hits fits, of those that may be."""
    own = {word: weights[word] for word in terms.terms}
    names = {name: own[name] * _NAME_WEIGHT for name in terms.names}
    average = sum(len(hit.terms) for hit in hits) / (len(hits) or 1)
    judged = [_prose(hit) for hit in hits[:_JUDGED]]
    if terms.properties:
        # That a passage has a price is no sign that it is about what the price of is asked for.
        judged = [prose for prose in judged if words_in(prose, terms.subject)]
    fit = _fit({**own, **names}, judged, average, _BY_ITSELF)
    if len(own) > _SHORT:
        # A question that is clear by itself is judged by itself.
        return fit
    return max(fit, _fit({**weights, **names}, judged, average, _IN_CONTEXT))


def _prose(hit: Hit) -> Sequence[str]:
    """The terms of a passage without those of code, which may have the question as an example."""
    if all(block.kind != "code" for block in hit.blocks):
        return hit.terms
    words = text_of(block for block in hit.blocks if block.kind != "code")
    return index_terms(f"{hit.source_name}\n{words}")


def _fit(
    weights: Mapping[Word, float],
    judged: Iterable[Sequence[str]],
    average: float,
    shares: tuple[float, float, float],
) -> float:
    words = tuple(weights)
    return max(
        (
            shares[0] * coverage(terms, weights)
            + shares[1] * bm25(terms, weights, average)
            + shares[2] * pairs(terms, words)
            for terms in judged
        ),
        default=0.0,
    )
