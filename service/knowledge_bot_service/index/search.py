"""The index of passages: which of them fit a question, and how much each word weighs."""

import functools
import json
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from knowledge_bot_service.readers.analyzer import Block
from knowledge_bot_service.readers.analyzer.blocks import loaded
from knowledge_bot_service.readers.analyzer.vectors import DIMENSIONS, parted
from knowledge_bot_service.store.database import ServiceDatabase, one_state
from knowledge_bot_service.store.entries import scope_token

Word = tuple[str, ...]
"""A word of a question: its stems, one for each language that it may be in."""

# A question may be a whole page. Its rarest words decide; the others cost time for nothing.
_MAX_WORDS: Final = 48

# Words that more than one passage in so many has are left out, in an index of so many passages and
# more, once enough words are there: following such a word through it takes milliseconds.
_COMMON: Final = 10
_ENOUGH_WORDS: Final = 3
_LARGE: Final = 10_000

# How many words' counts are remembered.
_KEPT_COUNTS: Final = 100_000

# A word's weight is counted in the index and this many passages more, which do not have it: a small
# collection says little about how common a word is.
_EXPECTED: Final = 400

# Passages are found by their vectors too in collections of so many: it takes some milliseconds.
# What is needed for it is remembered for so many sets of collections, 2 MB each at most.
_SMALL: Final = 2000
_SCOPES: Final = 8

# The bit of a vector's byte that says whether it is below zero.
_SIGNS: Final = int.from_bytes(b"\x80" * DIMENSIONS)

# FTS5 scores with k1 = 1.2 and b = 0.75, which no other setting beat. The weights are those of the
# columns scope, title and body: the scope only selects. A source's passages may be written in
# several transactions; they count when it is ready.
_RANK: Final = """
WITH best AS (
    SELECT rowid AS id, -bm25(passage_index, 0.0, 1.0, 1.0) AS score FROM passage_index
    WHERE passage_index MATCH :found ORDER BY score DESC LIMIT :limit
)
SELECT json_group_array(json_array(best.id, best.score, source.status = 'ready'))
FROM best
LEFT JOIN passage ON passage.id = best.id
LEFT JOIN source ON source.id = passage.source
"""

_READ: Final = """
SELECT json_group_object(
    passage.id,
    json_array(
        passage.text, passage.blocks, source.public_id, source.name, source.url, source.revision,
        passage_index.title, passage_index.body, hex(passage.vectors)
    )
)
FROM json_each(?) AS wanted
CROSS JOIN passage ON passage.id = wanted.value
CROSS JOIN source ON source.id = passage.source AND source.status = 'ready'
CROSS JOIN passage_index ON passage_index.rowid = passage.id
"""

_VECTORS: Final = """
SELECT DISTINCT passage.id, passage.vectors FROM passage
JOIN source_collection ON source_collection.source = passage.source
WHERE collection IN (SELECT value FROM json_each(?))
"""

_COUNT: Final = """
SELECT json_group_object(
    wanted.value, (SELECT doc FROM passage_term WHERE passage_term.term = wanted.value)
)
FROM json_each(?) AS wanted
"""

_READABLE: Final = """
SELECT 1 FROM passage
JOIN source ON source.id = passage.source AND source.status = 'ready'
JOIN source_collection ON source_collection.source = source.id
WHERE passage.id = :passage AND collection IN (SELECT value FROM json_each(:collections))
"""

# Of a passage's number, in digits: SQLite's have 19 at most.
_LONGEST_NUMBER: Final = 19

# The blocks of so many passages are remembered, 5 MB: questions go to the same ones.
_REMEMBERED: Final = 2000


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that fits a question, and its source.

    `passage` is its id in the database. A higher `score` is a better fit; `title` and `body` are
    what the index has of it, `stored` its blocks, and `vectors` those of its statements, one after
    another.
    """

    passage: int
    text: str
    stored: str
    source_id: str
    source_name: str
    source_url: str | None
    source_revision: str
    score: float
    title: str
    body: str
    vectors: bytes

    @property
    def public_id(self) -> str:
        """Its id for others. SQLite may give the number to another passage, of another revision."""
        return f"pas_{self.passage}_{self.source_revision}"

    @property
    def blocks(self) -> tuple[Block, ...]:
        """What the passage is made of."""
        return _loaded(self.stored)


@dataclass(frozen=True, slots=True)
class WeightedWords:
    """Words to search for together, and how much their score counts."""

    words: tuple[Word, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class Counts:
    """How many passages have each of some words, and how many there are."""

    having: Mapping[Word, int]
    passages: int

    def idf(self) -> dict[Word, float]:
        """The inverse document frequency of each word (Lucene's, never negative).

        FTS5's own is 1e-6 for whatever is in more than half of the passages, so that it says
        nothing about a small collection.
        """
        return {word: _idf(n, self.passages + _EXPECTED) for word, n in self.having.items()}


class Search:
    """Finds passages. Every thread may use it."""

    def __init__(self, database: ServiceDatabase) -> None:
        self._database = database
        self._kept: dict[Word, int] = {}
        self._counted = 0
        self._signs: dict[tuple[int, ...], tuple[object, Sequence[tuple[int, list[int]]]]] = {}

    def find(
        self,
        queries: Sequence[WeightedWords],
        counts: Counts,
        collections: Sequence[int],
        limit: int,
        vector: bytes = b"",
    ) -> list[Hit]:
        """The passages of ready sources in `collections` that fit best, best first.

        The queries are searched for one by one; their scores are weighted and added. In small
        collections, as many passages come after the others whose vectors are nearest to the
        question's: none of their words may be the question's.
        """
        if not collections:
            return []
        # Another query may lift a passage from below; it is rarely from further than this.
        depth = limit if len(queries) == 1 else 10 * limit
        scores: dict[int, float] = {}
        with one_state(self._database.reader()) as connection:
            scope = self._scope(connection, collections, counts.passages)
            for query in queries:
                for passage, score in self._best(connection, query.words, counts, scope, depth):
                    scores[passage] = scores.get(passage, 0.0) + query.weight * score
            best = sorted(scores, key=lambda passage: -scores[passage])[:limit]
            if any(vector) and scope.passages <= _SMALL:
                near = self._nearest(connection, collections, vector, limit)
                best += [passage for passage in near if passage not in best]
            read = _json(connection, _READ, (json.dumps(best),))
        return [
            _hit(passage, scores.get(passage, 0.0), read[str(passage)])
            for passage in best
            if str(passage) in read
        ]

    def _nearest(
        self, connection: sqlite3.Connection, collections: Sequence[int], vector: bytes, limit: int
    ) -> list[int]:
        """The passages with a statement whose vector has most signs as the given one."""
        added, removed = connection.execute("SELECT added, removed FROM passage_count").fetchone()
        key = tuple(collections)
        state, signs = self._signs.get(key, (None, ()))
        if state != (added, removed):
            given = json.dumps(collections)
            signs = [
                (row["id"], [_signs(one) for one in parted(row["vectors"])])
                for row in connection.execute(_VECTORS, (given,))
            ]
            self._signs = {**self._signs, key: ((added, removed), signs)}
            while len(self._signs) > _SCOPES:
                self._signs.pop(next(iter(self._signs)))
        asked = _signs(vector)
        differing = {
            passage: min((asked ^ one).bit_count() for one in own) for passage, own in signs if own
        }
        return sorted(differing, key=lambda passage: differing[passage])[:limit]

    def passage(self, public_id: str, collections: Sequence[int]) -> Hit | None:
        """A passage that questions are answered from; None where it is not, or not any more."""
        number = public_id.removeprefix("pas_").partition("_")[0]
        if not (number.isascii() and number.isdecimal() and len(number) < _LONGEST_NUMBER):
            return None
        with one_state(self._database.reader()) as connection:
            given = {"passage": int(number), "collections": json.dumps(collections)}
            if connection.execute(_READABLE, given).fetchone() is None:
                return None
            read = _json(connection, _READ, (json.dumps([int(number)]),))
        hit = _hit(int(number), 0.0, read[number])
        return hit if hit.public_id == public_id else None

    def has(self, word: Word, collections: Sequence[int]) -> bool:
        """Whether a passage in some collections has a word."""
        with one_state(self._database.reader()) as connection:
            return _is_any(connection, _match([word], self._scope(connection, collections, 0)))

    def rarest(self, words: Iterable[Word], count: int) -> tuple[Word, ...]:
        """The `count` words that are in the fewest passages, but in one at least; ties in order."""
        return tuple(_rarest(self.count(words).having, count))

    def _best(
        self,
        connection: sqlite3.Connection,
        words: Iterable[Word],
        counts: Counts,
        scope: "_Scope",
        limit: int,
    ) -> list[tuple[int, float]]:
        """The ready passages that fit the words best, best first, and their scores."""
        having = {word: counts.having[word] for word in words}
        telling = _telling(having, counts.passages)
        if not telling:
            return []
        return _ready(connection, _match(telling, scope), limit)

    def _scope(
        self, connection: sqlite3.Connection, collections: Sequence[int], passages: int
    ) -> "_Scope":
        """What a query asks of a passage so that it is in the collections: nothing when all are.

        FTS5 goes through every passage of a collection: the dearest part of a query to them all.
        """
        others = (
            row["id"]
            for row in connection.execute("SELECT id FROM collection")
            if row["id"] not in collections
        )
        if not any(_is_any(connection, f"scope : {scope_token(other)}") for other in others):
            return _Scope("", passages)
        tokens = [scope_token(collection) for collection in collections]
        having = self.count((token,) for token in tokens).having
        return _Scope(f"scope : ({' OR '.join(tokens)}) AND ", sum(having.values()))

    def count(self, words: Iterable[Word]) -> Counts:
        """How many passages have each word, and how many there are."""
        connection = self._database.reader()
        added, removed = connection.execute("SELECT added, removed FROM passage_count").fetchone()
        changes, total = added + removed, added - removed
        # SQLite goes through all passages that have a word to count them. Counts are kept until a
        # hundredth of the index has changed, which changes no weight much. A word that is nowhere
        # costs nothing to look up, and may be in the next source.
        if changes > self._counted * 1.01 or len(self._kept) > _KEPT_COUNTS:
            self._kept, self._counted = {}, changes
        kept = self._kept
        counts = {word: kept.get(word, 0) for word in words}
        if unknown := [word for word, count in counts.items() if not count]:
            terms = [*{term for word in unknown for term in word}]
            having = _json(connection, _COUNT, (json.dumps(terms),))
            for word in unknown:
                counts[word] = max((having.get(term) or 0 for term in word), default=0)
                if counts[word]:
                    kept[word] = counts[word]
        return Counts({word: min(count, total) for word, count in counts.items()}, total)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What a query looks in: the condition that it begins with, and of how many passages."""

    condition: str
    passages: int


def _json(
    connection: sqlite3.Connection, statement: str, given: Sequence[Any] | Mapping[str, Any]
) -> Any:
    """What a statement returns as JSON in one row.

    Before each row another thread may run, and one that is busy keeps the interpreter for half a
    millisecond: in a bulk ingestion two hundred rows are what a question waits for.
    """
    return json.loads(connection.execute(statement, given).fetchone()[0])


def _idf(count: float, total: int) -> float:
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def _rarest(counts: Mapping[Word, int], most: int) -> list[Word]:
    """The words that are in the fewest passages, but in one at least; ties in order."""
    return sorted(filter(counts.get, counts), key=lambda word: counts[word])[:most]


def _telling(counts: Mapping[Word, int], total: int) -> list[Word]:
    """The words that are worth searching for, the rarest first."""
    there = _rarest(counts, _MAX_WORDS)
    if total < _LARGE:
        return there
    telling = sum(counts[word] <= total / _COMMON for word in there)
    return there[: max(telling, _ENOUGH_WORDS)]


def _match(words: Iterable[Word], scope: _Scope) -> str:
    terms = " OR ".join(_quoted(term) for word in words for term in word)
    return f"{scope.condition}{{title body}} : ({terms})"


def _is_any(connection: sqlite3.Connection, found: str) -> bool:
    """Whether a passage is found, ready or not."""
    statement = "SELECT 1 FROM passage_index WHERE passage_index MATCH ? LIMIT 1"
    return connection.execute(statement, (found,)).fetchone() is not None


def _ready(connection: sqlite3.Connection, found: str, limit: int) -> list[tuple[int, float]]:
    """The ready passages that rank best, `limit` at most, best first, and their scores."""
    looked_at = limit
    while True:
        rows = _json(connection, _RANK, {"found": found, "limit": looked_at})
        best = [(passage, score) for passage, score, is_ready in rows if is_ready]
        if len(best) >= limit or len(rows) < looked_at:
            return sorted(best, key=lambda row: -row[1])[:limit]
        # Many of a source that is being read may come before the others.
        looked_at *= 10


def _signs(vector: bytes) -> int:
    return int.from_bytes(vector) & _SIGNS


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'


def _hit(passage: int, score: float, read: Sequence[Any]) -> Hit:
    text, stored, source_id, name, url, revision, title, body, vectors = read
    vectors = bytes.fromhex(vectors)
    return Hit(passage, text, stored, source_id, name, url, revision, score, title, body, vectors)


_loaded = functools.lru_cache(maxsize=_REMEMBERED)(loaded)
