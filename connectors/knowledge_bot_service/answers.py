"""Answering a question from passages, in their own sentences; no language model is involved."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge_bot_service.analyzer import QueryTerms, index_terms, is_small_talk, query_terms
from knowledge_bot_service.analyzer.languages import IN_PAIRS
from knowledge_bot_service.conversations import Turn
from knowledge_bot_service.quotes import Quote, choose
from knowledge_bot_service.relevance import Word, bm25, coverage
from knowledge_bot_service.search import Hit, Search, WeightedWords

REFUSAL: Final = "I could not find that in my sources."
GREETING: Final = "Hello! Ask me something about my sources."

# How many earlier turns a question is understood with.
CONTEXT_TURNS: Final = 4

# A turn counts this much less than the one after it, and the rarest words of the last reply this
# much: the best of the ways measured on follow-up questions. Whole replies pull the old passage
# back.
_DECAY: Final = 0.3
_REPLY_WEIGHT: Final = 0.3
_REPLY_WORDS: Final = 3

# How well the best passage must fit, as the mean of the coverage of the question's words and of
# their BM25, both weighted by how telling the words are. For English this answers 96 % of
# answerable questions and refuses 79 % of those on other subjects. Other languages compound and
# inflect more; pairs of characters are found less often, and those of Thai more often, than words.
_MIN_FIT: Final = {"en": 0.515, "th": 0.5} | dict.fromkeys(IN_PAIRS - {"th"}, 0.27)
_MIN_FIT_ELSEWHERE: Final = 0.35

_PASSAGES: Final = 5


@dataclass(frozen=True, slots=True)
class _Question:
    """A question, and the words that it and what was said before it search with."""

    terms: QueryTerms
    queries: tuple[WeightedWords, ...]
    weights: dict[Word, float]

    def own_weights(self) -> dict[Word, float]:
        """The weights of the question's own words, without those of what was said before."""
        return {word: self.weights[word] for word in self.terms.terms}


class Answerer:
    """Answers questions from the passages of collections.

    Args:
        search: finds the passages.
    """

    def __init__(self, search: Search) -> None:
        self._search = search

    def answer(self, question: str, turns: Sequence[Turn], collections: Sequence[int]) -> str:
        """Answer with at most two sentences and 300 characters, then the names of their sources.

        Args:
            question: what is asked.
            turns: the conversation so far, oldest first; it gives short follow-ups their subject.
            collections: the numbers of the collections to answer from.

        Returns:
            The answer; `REFUSAL` when no passage covers enough of the question.
        """
        if is_small_talk(question):
            return GREETING
        asked = self._understand(question, turns)
        hits = self._search.find(asked.queries, collections, _PASSAGES)
        needed = _MIN_FIT.get(asked.terms.language, _MIN_FIT_ELSEWHERE)
        if not hits or _best_fit(asked, hits) < needed:
            return REFUSAL
        # What was said before has chosen the passages. In them, the question's own words decide.
        quotes = choose(hits, asked.own_weights(), asked.terms)
        return f"{_text(quotes)}\n\nSources: {_sources(quotes, hits)}"

    def _understand(self, question: str, turns: Sequence[Turn]) -> _Question:
        terms = query_terms(question)
        queries = [WeightedWords(terms.terms, 1.0)]
        for age, turn in enumerate(reversed(turns), start=1):
            queries.append(WeightedWords(query_terms(turn.question).terms, _DECAY**age))
        if turns:
            reply = turns[-1].answer.partition("\n\nSources: ")[0]
            # In their order: of words that are as rare, those of the better sentence come first.
            words = dict.fromkeys((term,) for term in index_terms(reply))
            queries.append(WeightedWords(self._search.rarest(words, _REPLY_WORDS), _REPLY_WEIGHT))
        return _Question(terms, tuple(queries), self._weights(queries))

    def _weights(self, queries: Iterable[WeightedWords]) -> dict[Word, float]:
        weights: dict[Word, float] = {}
        for query in queries:
            for word in query.words:
                weights[word] = max(weights.get(word, 0.0), query.weight)
        idf = self._search.idf(weights)
        return {word: weight * idf[word] for word, weight in weights.items()}


def _best_fit(asked: _Question, hits: Sequence[Hit]) -> float:
    # A question that is clear by itself must not be refused for what was said before it.
    return max(_fit(asked.own_weights(), hits), _fit(asked.weights, hits))


def _fit(weights: Mapping[Word, float], hits: Sequence[Hit]) -> float:
    average = sum(len(hit.terms) for hit in hits) / len(hits)
    best = hits[0].terms
    return (coverage(best, weights) + bm25(best, weights, average)) / 2


def _text(quotes: Iterable[Quote]) -> str:
    return " ".join(quote.text for quote in quotes)


def _sources(quotes: Iterable[Quote], hits: Sequence[Hit]) -> str:
    names = dict.fromkeys([*(quote.hit.source_name for quote in quotes), hits[0].source_name])
    return ", ".join(names)
