"""Sources for people who manage them: lists and reads them, and removes deleted ones."""

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from knowledge_bot.models import Collection
from knowledge_bot_service.config.refusals import UnknownError, storage_error
from knowledge_bot_service.store.database import (
    DatabaseClosedError,
    ServiceDatabase,
    now,
    one_state,
)
from knowledge_bot_service.store.entries import delete_entries, merge_index
from knowledge_bot_service.store.idempotency import forget
from knowledge_bot_service.store.sources import SOURCES, Status, StoredSource, count_sources

T = TypeVar("T")

_log = logging.getLogger(__name__)

# Passages in one transaction, of which a client waits for one at most; as when they are written.
_BATCH: Final = 100

# How long the removal waits when the database cannot be written, in seconds.
_PAUSE: Final = 1.0

# How often old idempotency keys are looked for at least, in seconds.
_HOUR: Final = 3600.0

# How much of the index is merged in one transaction, in pages of the database. And how long nothing
# is removed after all of it was merged, as a multiple of the time that took, so that replacing
# sources all day does not keep the disk busy all day.
_PAGES: Final = 64
_REST: Final = 10

# How many passages before the requested one are shown with it.
_BEFORE: Final = 2

_COLUMNS: Final = f"""
SELECT base.place AS place, base.id AS number, base.public_id AS id, source.name, source.status,
       base.created_at, source.revision, source.reason, source.warnings, source.kind, source.title,
       source.url,
       CASE base.status WHEN 'ready' THEN base.revision END AS ready_revision,
       CASE base.status WHEN 'ready' THEN base.ready_at END AS ready_at,
       (SELECT group_concat(collection.public_id)
          FROM source_collection JOIN collection ON collection.id = collection
         WHERE source = source.id) AS collections,
       (SELECT origin.name FROM entry JOIN origin ON origin.id = entry.origin
         WHERE entry.place = base.place) AS origin
{SOURCES}
"""  # noqa: S608 - a constant

_NAMED: Final = " AND source.name = :name"
_FOUND: Final = " AND instr(folded(source.name), :search)"
_OF_STATUS: Final = " AND source.status IN (SELECT value FROM json_each(:status))"
_IN_COLLECTIONS: Final = """
AND source.id IN (SELECT source FROM source_collection
                  JOIN collection ON collection.id = collection
                  WHERE public_id IN (SELECT value FROM json_each(:collection)))
"""
# What questions are answered from and what is to take its place may be in other collections.
_SEEN: Final = "".join(
    f"""
AND {row} IN (SELECT source FROM source_collection JOIN collection ON collection.id = collection
              WHERE public_id IN (SELECT value FROM json_each(:seen)))
"""  # noqa: S608 - constants
    for row in ("source.id", "coalesce(source.replaces, source.id)")
)
_ITS_COLLECTIONS: Final = """
SELECT source.id, json_group_array(collection.public_id) AS collections
  FROM source AS older
  JOIN source ON source.id = older.id OR source.replaces = older.id
  JOIN source_collection ON source_collection.source = source.id
  JOIN collection ON collection.id = source_collection.collection
 WHERE older.public_id = ? AND older.replaces IS NULL
 GROUP BY source.id
"""

Place = Annotated[int, Field(ge=0, lt=2**62)]
"""A place in a list, as an answer has it: what SQLite numbers rows with."""

Limit = Annotated[int, Field(ge=1, le=200)]
"""How many rows to read at most."""


class Listed(BaseModel):
    """Which sources to list.

    Attributes:
        name: those of this name.
        search: those whose names contain this; capitals do not matter.
        status: those of one of these.
        collection: those in one of these collections.
        before: those that come after this place, the `next` of an earlier page.
        limit: how many at most.
        counts: whether to count them as well.
    """

    # A filter with a typing error would list what nobody asked for.
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(max_length=1000)] | None = None
    search: Annotated[str, Field(max_length=1000)] = ""
    status: Annotated[list[Status], Field(max_length=100)] = []
    collection: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=1000)] = []
    before: Place | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    counts: bool = False


class SourcePage(BaseModel):
    """Some of the sources, newest first.

    `next` is the `before` of the page that follows, None at the end. `counts` has how many there
    are of each status, whichever are listed, where that was asked for.
    """

    model_config = ConfigDict(frozen=True)

    data: tuple[StoredSource, ...]
    next: int | None
    counts: dict[Status, int] | None = None


class StoredPassage(BaseModel):
    """A passage of a source, as answers quote it."""

    model_config = ConfigDict(frozen=True)

    id: int
    text: str


class SourceText(BaseModel):
    """A source with some of its passages, in their order; none until it is ready.

    `previous` and `next` are the `first` of the pages around this one, None where there is none.
    """

    model_config = ConfigDict(frozen=True)

    source: StoredSource
    passages: tuple[StoredPassage, ...]
    previous: int | None
    next: int | None


class Catalog:
    """Reads the sources of a service for people.

    If it `sees_all`, sources outside of these collections are read too, such as those of a
    collection that is no longer declared; it is named by its id.
    """

    def __init__(
        self, database: ServiceDatabase, collections: Mapping[str, Collection], *, sees_all: bool
    ) -> None:
        self._database = database
        self._collections = collections
        self.sees_all = sees_all

    def page(self, listed: Listed) -> SourcePage:
        """List sources, newest first."""
        connection = self._database.reader()
        # SQLite ignores case only for English letters.
        connection.create_function("folded", 1, str.casefold, deterministic=True)
        values = {
            "name": listed.name,
            "search": listed.search.casefold(),
            "status": json.dumps(listed.status),
            "collection": json.dumps(
                [one for one in listed.collection if self.sees_all or one in self._collections]
            ),
            "before": listed.before,
            "limit": listed.limit + 1,
            "seen": json.dumps(list(self._collections)),
        }
        # Only what is asked for: an index counts the sources of each status, where that is all.
        chosen = "" if self.sees_all else _SEEN
        if listed.name is not None:
            chosen += _NAMED
        if listed.search:
            chosen += _FOUND
        if listed.collection:
            chosen += _IN_COLLECTIONS
        counts = count_sources(connection, chosen, values) if listed.counts else None
        if listed.status:
            chosen += _OF_STATUS
        if listed.before is not None:
            chosen += " AND base.place < :before"
        rows = connection.execute(
            f"{_COLUMNS} {chosen} ORDER BY base.place DESC LIMIT :limit", values
        ).fetchall()
        return SourcePage(
            data=tuple(map(self._details, rows[: listed.limit])),
            next=rows[listed.limit - 1]["place"] if len(rows) > listed.limit else None,
            counts=counts,
        )

    def details(self, source: str) -> StoredSource:
        """Read where a source stands.

        Raises:
            UnknownError: there is no such source.
        """
        return self._details(self._row(self._database.reader(), source))

    def text(
        self, source: str, *, first: int | None = None, passage: int | None = None, limit: int
    ) -> SourceText:
        """Read a source with its passages from the beginning, or from a place in it.

        It begins with the passage `first`, the `previous` or `next` of another page, or a little
        before `passage`.

        Raises:
            UnknownError: there is no such source.
        """
        # A replacement changes the source and its passages together.
        with one_state(self._database.reader()) as connection:
            row = self._row(connection, source)
            details = self._details(row)
            if details.ready_revision is None:
                return SourceText(source=details, passages=(), previous=None, next=None)
            number = row["number"]
            if passage is not None:
                first = _before(connection, number, passage + 1, _BEFORE + 1)
            first = first or 0
            rows = connection.execute(
                "SELECT id, text FROM passage WHERE source = ? AND id >= ? ORDER BY id LIMIT ?",
                (number, first, limit + 1),
            ).fetchall()
            return SourceText(
                source=details,
                passages=tuple(
                    StoredPassage(id=one["id"], text=one["text"]) for one in rows[:limit]
                ),
                previous=_before(connection, number, first, limit),
                next=rows[limit]["id"] if len(rows) > limit else None,
            )

    def collections_of(self, source: str) -> list[set[str]]:
        """The ids of a source's collections, and those of its replacement if it has one.

        Nothing where there is no such source.
        """
        rows = self._database.reader().execute(_ITS_COLLECTIONS, (source,))
        return [set(json.loads(row["collections"])) for row in rows]

    def _row(self, connection: sqlite3.Connection, source: str) -> sqlite3.Row:
        row: sqlite3.Row | None = connection.execute(
            f"{_COLUMNS} AND base.public_id = ?", (source,)
        ).fetchone()
        if row is None:
            raise UnknownError("source", source)
        return row

    def _details(self, row: sqlite3.Row) -> StoredSource:
        values: dict[str, Any] = dict(row)
        values["warnings"] = json.loads(row["warnings"])
        ids = row["collections"].split(",") if row["collections"] else []
        values["collections"] = [
            self._collections.get(one) or Collection(id=one, name=one)
            for one in ids
            if self.sees_all or one in self._collections
        ]
        return StoredSource.model_validate(values)


def _before(connection: sqlite3.Connection, source: int, passage: int, count: int) -> int | None:
    """The first of up to `count` passages of a source before one; None where there is none."""
    first: int | None = connection.execute(
        "SELECT min(id) FROM (SELECT id FROM passage WHERE source = ? AND id < ?"
        " ORDER BY id DESC LIMIT ?)",
        (source, passage, count),
    ).fetchone()[0]
    return first


class Removal:
    """A thread that removes the data of deleted and replaced sources, their files included.

    It also forgets old idempotency keys.

    They are out of sight already. Their passages go in small transactions, each behind the clients'
    own, and then their words in the index and in the write-ahead log: whoever deletes a text that
    nobody should have wants it gone from the disk. What a process does not finish, the next one
    does.
    """

    def __init__(self, database: ServiceDatabase, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._stopping = threading.Event()
        self._work = threading.Event()
        self._thread = threading.Thread(target=self._run, name="removal", daemon=True)

    def start(self) -> None:
        """Start the thread, with what an earlier process left."""
        self._work.set()
        self._thread.start()

    def notify(self) -> None:
        """Say that there may be something to remove."""
        self._work.set()

    def stop(self) -> None:
        """Let the thread end after the transaction that it is in."""
        self._stopping.set()
        self._work.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._work.wait(_HOUR)
            self._work.clear()
            try:
                self._repeat(partial(forget, now=now(), limit=_BATCH))
                self._remove_all()
            except DatabaseClosedError:
                return
            except Exception as error:  # noqa: BLE001 - the thread must live on
                # The database has logged it, such as a full disk.
                if storage_error(error) is None:
                    _log.exception("what is left of deleted sources is not removed yet")
                self._stopping.wait(_PAUSE)
                self._work.set()

    def _remove_all(self) -> None:
        rows = self._database.reader().execute("SELECT source, file FROM removal").fetchall()
        for row in rows:
            if row["file"] is not None:
                (self._folder / row["file"]).unlink(missing_ok=True)
            self._repeat(partial(delete_entries, source=row["source"], limit=_BATCH))
        if not rows:
            return
        started = time.monotonic()
        self._write(partial(merge_index, pages=_PAGES, begin=True))
        self._repeat(partial(merge_index, pages=_PAGES, begin=False))
        while not self._database.empty_log():
            if self._stopping.wait(_PAUSE):
                return
        # Known until now, so that a process that dies before does not forget it.
        done = [(row["source"],) for row in rows]
        self._write(lambda one: one.executemany("DELETE FROM removal WHERE source = ?", done))
        self._stopping.wait(_REST * (time.monotonic() - started))

    def _repeat(self, operation: Callable[[sqlite3.Connection], int]) -> None:
        """Write in one transaction after the other, until there is nothing to do."""
        while self._write(operation):
            continue

    def _write(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        if self._stopping.is_set():
            raise DatabaseClosedError
        return self._database.write(operation, background=_BATCH).result()
