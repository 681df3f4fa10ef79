"""The index of passages: what goes in, which passages fit a question, how telling a word is."""

import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge_bot_service.analyzer import index_terms
from knowledge_bot_service.database import Database
from knowledge_bot_service.relevance import Word

# A question may be a whole page. Its rarest words decide; the others cost time for nothing.
_MAX_WORDS: Final = 48

# Words that more than one passage in so many has are left out where enough others are, in an index
# of so many passages and more: there, following such a word through it takes milliseconds.
_COMMON: Final = 10
_ENOUGH_WORDS: Final = 3
_LARGE: Final = 10_000

# How many words' counts are remembered.
_KEPT_COUNTS: Final = 100_000

# FTS5 scores with k1 = 1.2 and b = 0.75, which no other setting beat. The weights are those of the
# columns scope, title and body: the scope only selects.
_RANK: Final = "bm25(0.0, 1.0, 1.0)"

# CROSS JOIN keeps the index the outer loop, so that rows come in its order and LIMIT ends the work.
# A source's passages may be written in several transactions; they count when it is ready.
_FIND: Final = f"""
SELECT passage.id, passage.text, source.public_id, source.name, source.url, -rank AS score,
       passage_index.title || ' ' || passage_index.body AS terms
FROM passage_index
CROSS JOIN passage ON passage.id = passage_index.rowid
CROSS JOIN source ON source.id = passage.source
WHERE passage_index MATCH ? AND rank MATCH '{_RANK}' AND source.status = 'ready'
ORDER BY rank LIMIT ?
"""  # noqa: S608 - the only value put in is the constant above


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A passage as the index holds it: its text, and its title and body analysed."""

    text: str
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that fits a question, and its source.

    `passage` is its id in the database. A higher `score` is a better fit; `terms` are analysed.
    """

    passage: int
    text: str
    source_id: str
    source_name: str
    source_url: str | None
    score: float
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WeightedWords:
    """Words to search for together, and how much their score counts."""

    words: tuple[Word, ...]
    weight: float


def index_entries(passages: Iterable[str], title: str) -> Iterator[IndexEntry]:
    """Analyse passages for the index, lazily: a long text is never held analysed as a whole."""
    analysed_title = " ".join(index_terms(title))
    for text in passages:
        yield IndexEntry(text, analysed_title, " ".join(index_terms(text)))


def insert_entries(
    connection: sqlite3.Connection,
    source: int,
    collections: Sequence[int],
    entries: Iterable[IndexEntry],
) -> None:
    """Write passages of a source and their index rows, in the caller's transaction."""
    scope = " ".join(map(_scope_token, collections))
    for entry in entries:
        passage = connection.execute(
            "INSERT INTO passage (source, text) VALUES (?, ?)", (source, entry.text)
        ).lastrowid
        connection.execute(
            "INSERT INTO passage_index (rowid, scope, title, body) VALUES (?, ?, ?, ?)",
            (passage, scope, entry.title, entry.body),
        )


def delete_entries(connection: sqlite3.Connection, source: int, limit: int) -> int:
    """Delete up to `limit` passages of a source, in the caller's transaction; returns how many."""
    rows = connection.execute(
        "DELETE FROM passage WHERE id IN (SELECT id FROM passage WHERE source = ? LIMIT ?)"
        " RETURNING id",
        (source, limit),
    ).fetchall()
    connection.executemany(
        "DELETE FROM passage_index WHERE rowid = ?", [(row["id"],) for row in rows]
    )
    return len(rows)


class Search:
    """Finds passages. Every thread may use it.

    Args:
        database: where the index is.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counts: dict[Word, int] = {}
        self._counted = 0

    def idf(self, words: Iterable[Word]) -> dict[Word, float]:
        """How telling each word is: its inverse document frequency (Lucene's, never negative).

        FTS5's own is 1e-6 for whatever is in more than half of the passages, so that it says
        nothing about a small collection.
        """
        total = self._total()
        return {
            word: math.log(1 + (total - count + 0.5) / (count + 0.5))
            for word, count in ((word, min(self._count(word), total)) for word in words)
        }

    def find(
        self, queries: Sequence[WeightedWords], collections: Sequence[int], limit: int
    ) -> list[Hit]:
        """The passages of ready sources in `collections` that fit best, best first.

        Args:
            queries: searched for one by one; their scores are weighted and added.
            collections: the collections' numbers in the database.
            limit: how many passages to return at most.
        """
        # Another query may lift a passage from below; it is rarely from further than this.
        depth = limit if len(queries) == 1 else 10 * limit
        scores: dict[int, float] = {}
        rows: dict[int, sqlite3.Row] = {}
        for query in queries:
            for row in self._rows(query.words, collections, depth):
                rows[row["id"]] = row
                scores[row["id"]] = scores.get(row["id"], 0.0) + query.weight * row["score"]
        best = sorted(scores, key=lambda passage: -scores[passage])[:limit]
        return [_hit(rows[passage], scores[passage]) for passage in best]

    def rarest(self, words: Iterable[Word], count: int) -> tuple[Word, ...]:
        """The `count` words that are in the fewest passages, but in one at least; ties in order."""
        counts = {word: found for word in words if (found := self._count(word))}
        return tuple(sorted(counts, key=lambda word: counts[word])[:count])

    def _rows(
        self, words: Sequence[Word], collections: Sequence[int], limit: int
    ) -> list[sqlite3.Row]:
        words = self._telling(tuple(dict.fromkeys(words)))
        if len(words) > _MAX_WORDS:
            words = self.rarest(words, _MAX_WORDS)
        terms = " OR ".join(_quoted(term) for word in words for term in word)
        if not terms or not collections:
            return []
        scope = " OR ".join(map(_scope_token, collections))
        match = f"scope : ({scope}) AND {{title body}} : ({terms})"
        return self._database.reader().execute(_FIND, (match, limit)).fetchall()

    def _telling(self, words: tuple[Word, ...]) -> tuple[Word, ...]:
        total = self._total()
        if total < _LARGE:
            return words
        rare = tuple(word for word in words if self._count(word) <= total / _COMMON)
        return rare if len(rare) >= _ENOUGH_WORDS else words

    def _total(self) -> int:
        # Passages are deleted only when an interrupted job is redone: the highest id is near to
        # their count, and costs nothing to find.
        connection = self._database.reader()
        total: int = connection.execute("SELECT coalesce(max(id), 0) FROM passage").fetchone()[0]
        return total

    def _count(self, word: Word) -> int:
        """How many passages have the word; SQLite goes through all of them to tell."""
        # Counts are kept until the index has grown by a hundredth, which changes no weight much. A
        # word that is nowhere costs nothing to look up, and may be in the next source.
        total = self._total()
        if not self._counted <= total <= self._counted * 1.01 or len(self._counts) > _KEPT_COUNTS:
            self._counts, self._counted = {}, total
        counts = self._counts
        if word in counts:
            return counts[word]
        if count := max(map(self._count_term, word), default=0):
            counts[word] = count
        return count

    def _count_term(self, term: str) -> int:
        row = (
            self._database.reader()
            .execute("SELECT doc FROM passage_term WHERE term = ?", (term,))
            .fetchone()
        )
        return int(row["doc"]) if row else 0


def _scope_token(collection: int) -> str:
    # Letters and digits alone stay one token; public ids have underscores and mixed case.
    return f"collection{collection}"


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'


def _hit(row: sqlite3.Row, score: float) -> Hit:
    return Hit(
        passage=row["id"],
        text=row["text"],
        source_id=row["public_id"],
        source_name=row["name"],
        source_url=row["url"],
        score=score,
        terms=tuple(row["terms"].split()),
    )
