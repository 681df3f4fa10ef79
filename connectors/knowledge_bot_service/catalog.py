"""Sources for people who manage them: lists and reads them, and removes deleted ones."""

import logging
import sqlite3
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from knowledge_bot.models import Collection
from knowledge_bot_service.database import Database, DatabaseClosedError, one_state
from knowledge_bot_service.search import delete_entries, merge_index
from knowledge_bot_service.storage import storage_error

_log = logging.getLogger(__name__)

# Passages in one transaction, of which a client waits for one at most; as when they are written.
_BATCH: Final = 100

# How long the removal waits when the database cannot be written, in seconds.
_PAUSE: Final = 1.0

# How much of the index is merged in one transaction, in pages of the database. And how long nothing
# is removed after all of it was merged, as a multiple of the time that took, so that replacing
# sources all day does not keep the disk busy all day.
_PAGES: Final = 64
_REST: Final = 10

# How many passages before the requested one are shown with it.
_BEFORE: Final = 2

_COLUMNS: Final = """
SELECT source.id AS number, public_id AS id, name, kind, status, reason, title, url, created_at,
       replaced_at,
       (SELECT status FROM source AS newer WHERE newer.replaces = source.id) AS replacement,
       (SELECT group_concat(collection.public_id)
          FROM source_collection JOIN collection ON collection.id = collection
         WHERE source = source.id) AS collections
FROM source
"""

_NAMED: Final = "instr(folded(name), :name)"
_IN_COLLECTION: Final = """
source.id IN (SELECT source FROM source_collection
              WHERE collection = (SELECT id FROM collection WHERE public_id = :collection))
"""


class SourceSummary(BaseModel):
    """A source as a person sees it.

    Times are in milliseconds since 1970. `replacement` is the status of a new text that is to take
    the place of this one; `reason` says why the source, or its replacement, failed.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    kind: str
    status: str
    reason: str | None
    title: str | None
    url: str | None
    collections: tuple[Collection, ...]
    created_at: int
    replaced_at: int | None
    replacement: str | None


Place = Annotated[int, Field(ge=0, lt=2**62)]
"""A place in a list, as an answer has it: what SQLite numbers rows with."""

Limit = Annotated[int, Field(ge=1, le=200)]
"""How many rows to read at most."""


class Listed(BaseModel):
    """Which sources to list.

    Attributes:
        name: what their names contain; capitals do not matter.
        status: those of this status alone.
        collection: the id of a collection that they are in.
        before: those that come after this place, the `next` of an earlier page.
        limit: how many at most.
    """

    model_config = ConfigDict(frozen=True)

    name: Annotated[str, Field(max_length=1000)] = ""
    status: Literal["pending", "processing", "ready", "failed"] | None = None
    collection: Annotated[str, Field(max_length=200)] | None = None
    before: Place | None = None
    limit: Limit = 50


class SourcePage(BaseModel):
    """Some of the sources, newest first.

    `counts` has how many there are of each status, whichever status is listed; `next` is the
    `before` of the page that follows, None at the end.
    """

    model_config = ConfigDict(frozen=True)

    counts: dict[str, int]
    sources: tuple[SourceSummary, ...]
    next: int | None


class Passage(BaseModel):
    """A passage of a source, as answers quote it."""

    model_config = ConfigDict(frozen=True)

    id: int
    text: str


class SourceText(BaseModel):
    """A source with some of its passages, in their order; none until it is ready.

    `previous` and `next` are the `first` of the pages around this one, None where there is none.
    """

    model_config = ConfigDict(frozen=True)

    source: SourceSummary
    passages: tuple[Passage, ...]
    previous: int | None
    next: int | None


class Catalog:
    """Reads the sources of a service for people.

    Args:
        database: where they are.
        collections: the collections by id; one that is no longer declared is named by its id.
    """

    def __init__(self, database: Database, collections: Mapping[str, Collection]) -> None:
        self._database = database
        self._collections = collections

    def page(self, listed: Listed) -> SourcePage:
        """List sources, newest first."""
        connection = self._database.reader()
        # SQLite ignores case only for English letters.
        connection.create_function("folded", 1, str.casefold, deterministic=True)
        values = {
            **listed.model_dump(),
            "name": listed.name.casefold(),
            "limit": listed.limit + 1,
        }
        # Only what is asked for: an index counts the sources of each status, where that is all.
        chosen = "WHERE replaces IS NULL"
        if listed.name:
            chosen += f" AND {_NAMED}"
        if listed.collection is not None:
            chosen += f" AND {_IN_COLLECTION}"
        counts = connection.execute(
            f"SELECT status, count(*) FROM source {chosen} GROUP BY status",  # noqa: S608 - constants
            values,
        )
        if listed.status is not None:
            chosen += " AND status = :status"
        if listed.before is not None:
            chosen += " AND source.id < :before"
        rows = connection.execute(
            f"{_COLUMNS} {chosen} ORDER BY source.id DESC LIMIT :limit", values
        ).fetchall()
        return SourcePage(
            counts=dict(tuple(row) for row in counts),
            sources=tuple(map(self._summary, rows[: listed.limit])),
            next=rows[listed.limit - 1]["number"] if len(rows) > listed.limit else None,
        )

    def text(
        self, source: str, *, first: int | None = None, passage: int | None = None, limit: int
    ) -> SourceText | None:
        """Read a source with its passages from the beginning, or from a place in it.

        Args:
            source: its id.
            first: begin with this passage, the `previous` or `next` of another page.
            passage: begin a little before this passage.
            limit: how many passages to read at most.

        Returns:
            The source; None where there is no such source.
        """
        # A replacement changes the source and its passages together.
        with one_state(self._database.reader()) as connection:
            row = connection.execute(
                f"{_COLUMNS} WHERE public_id = ? AND replaces IS NULL", (source,)
            ).fetchone()
            if row is None:
                return None
            summary = self._summary(row)
            if summary.status != "ready":
                return SourceText(source=summary, passages=(), previous=None, next=None)
            number = row["number"]
            if passage is not None:
                first = _before(connection, number, passage + 1, _BEFORE + 1)
            first = first or 0
            rows = connection.execute(
                "SELECT id, text FROM passage WHERE source = ? AND id >= ? ORDER BY id LIMIT ?",
                (number, first, limit + 1),
            ).fetchall()
            return SourceText(
                source=summary,
                passages=tuple(Passage(id=one["id"], text=one["text"]) for one in rows[:limit]),
                previous=_before(connection, number, first, limit),
                next=rows[limit]["id"] if len(rows) > limit else None,
            )

    def _summary(self, row: sqlite3.Row) -> SourceSummary:
        values: dict[str, Any] = dict(row)
        ids = row["collections"].split(",") if row["collections"] else []
        values["collections"] = [
            self._collections.get(one) or Collection(id=one, name=one) for one in ids
        ]
        return SourceSummary.model_validate(values)


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

    They are out of sight already. Their passages go in small transactions, each behind the clients'
    own, and then their words in the index and in the write-ahead log: whoever deletes a text that
    nobody should have wants it gone from the disk. What a process does not finish, the next one
    does.

    Args:
        database: where their passages are.
        folder: where their uploads are.
    """

    def __init__(self, database: Database, folder: Path) -> None:
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
            self._work.wait()
            self._work.clear()
            try:
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
        removed: list[tuple[int]] = []
        while not self._stopping.is_set() and (row := self._next(removed)):
            if row["file"] is not None:
                (self._folder / row["file"]).unlink(missing_ok=True)
            while self._remove_passages(row["source"]):
                if self._stopping.is_set():
                    return
            removed.append((row["source"],))
        if not removed:
            return
        started = time.monotonic()
        begin = True
        while not self._stopping.is_set() and self._merge(begin=begin):
            begin = False
        while not self._stopping.is_set() and not self._database.empty_log():
            self._stopping.wait(_PAUSE)
        if self._stopping.is_set():
            return
        # Known until now, so that a process that dies before does not forget it.
        self._database.write(
            lambda connection: connection.executemany(
                "DELETE FROM removal WHERE source = ?", removed
            ),
            background=_BATCH,
        ).result()
        self._stopping.wait(_REST * (time.monotonic() - started))
        self._work.set()

    def _next(self, removed: list[tuple[int]]) -> sqlite3.Row | None:
        row: sqlite3.Row | None = (
            self._database.reader()
            .execute(
                "SELECT source, file FROM removal WHERE source > ? ORDER BY source LIMIT 1",
                removed[-1] if removed else (0,),
            )
            .fetchone()
        )
        return row

    def _remove_passages(self, source: int) -> bool:
        """Remove some passages of a source; returns whether there may be more."""
        removing = self._database.write(
            lambda connection: delete_entries(connection, source, _BATCH), background=_BATCH
        )
        return removing.result() == _BATCH

    def _merge(self, *, begin: bool) -> bool:
        """Merge a little of the index; returns whether there is more to do."""
        return self._database.write(
            lambda connection: merge_index(connection, _PAGES, begin=begin), background=_BATCH
        ).result()
