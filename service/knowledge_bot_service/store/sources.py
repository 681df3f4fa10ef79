"""What the service remembers of sources: where each stands, and the work that is left on it."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from knowledge_bot.models import Collection
from knowledge_bot_service.config.refusals import RefusedRequestError, UnknownError
from knowledge_bot_service.readers import READER
from knowledge_bot_service.store.database import ServiceDatabase, now
from knowledge_bot_service.store.entries import move_entries
from knowledge_bot_service.store.idempotency import Done

# The plus keeps SQLite from the index of what is replaced, which nearly all rows are equal in.
STANDING: Final = """
source AS base JOIN source ON source.id =
    coalesce((SELECT id FROM source AS newer WHERE newer.replaces = base.id), base.id)
"""
SOURCES: Final = f"FROM {STANDING} WHERE +base.replaces IS NULL"
"""SQL: sources, each as the row that questions are answered from and the newest one."""

IS_NEWEST: Final = "NOT EXISTS (SELECT 1 FROM source AS newer WHERE newer.replaces = source.id)"
"""SQL: whether a row is the newest of its source."""

# A source that was being read when the process died, this often, is given up: it may be what kills
# it. Once passages of it are written it has proved harmless, and no end of the process counts.
MAX_ATTEMPTS: Final = 3


class Kind(StrEnum):
    """How a source came in."""

    WEBPAGE = "webpage"
    TEXT = "text"
    FILE = "file"


class Material(BaseModel):
    """What a source is made from; kept until the source is ready or failed.

    A text is `content`, or, when it is long, the `file` of that text. An upload is a `file` with
    the `filename` and `content_type` that its sender gave. A web page is its `url`, and a `file`
    where there are headers to send: they may hold secrets, of which the database's log would keep
    copies after the row is gone. `file` is a name in the data folder's material, removed when the
    source is done.
    """

    model_config = ConfigDict(frozen=True)

    content: str | None = None
    file: str | None = None
    filename: str | None = None
    content_type: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class ReadingJob:
    """What is to be done for a source; `begun` if passages of it are there already.

    `public_id` is known outside only if the source `replaces` none, whose id it is to get.
    """

    source: int
    public_id: str
    replaces: str | None
    name: str
    kind: Kind
    material: Material
    begun: bool

    def __str__(self) -> str:
        """What the log calls it."""
        if self.replaces is None:
            return f"source {self.public_id}"
        return f"the replacement of source {self.replaces}"


@dataclass(frozen=True, slots=True)
class SourceState:
    """Where a source stands.

    Attributes:
        id: its id, `src_…`.
        name: its name.
        status: `pending`, `processing`, `ready` or `failed`, of its newest revision.
        reason: why that failed.
    """

    id: str
    name: str
    status: str
    reason: str | None


Status = Literal["pending", "processing", "ready", "failed"]


class StoredSource(BaseModel):
    """A source: the interface's fields, and where it stands. Times are in milliseconds since 1970.

    Attributes:
        name: as of `revision`, like the other fields up to `warnings`.
        status: of `revision`.
        revision: which text was sent last.
        reason: why it failed.
        warnings: what of it could not be read.
        ready_revision: the one that questions are answered from.
        ready_at: since when.
        title: the document's own.
        url: the web page's.
        origin: that to which it belongs.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    collections: tuple[Collection, ...]
    status: Status
    created_at: int
    revision: str
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    ready_revision: str | None = None
    ready_at: int | None = None
    kind: str
    title: str | None = None
    url: str | None = None
    origin: str | None = None


Outcome = Literal["created", "adopted", "unchanged", "replaced"]
"""What becomes of a source that is sent; of what is adopted or unchanged, nothing is read."""

Accepted = tuple[Outcome, str, StoredSource | None]
"""What became of a source that was sent, its id, and the source if it is to be read."""


class SourceStore:
    """The sources of a service, on its database.

    Writes return futures: they are durable when the future is done. Reads use the calling thread's
    connection. Times are integer milliseconds since 1970 (interface section 2).
    """

    def __init__(self, database: ServiceDatabase, collections: Iterable[str]) -> None:
        self._database = database
        self._collections = database.run(_number_collections, collections)

    def numbers_of(self, collections: Iterable[str]) -> tuple[int, ...]:
        """The integers that stand for collections inside the database and its index."""
        return tuple(self._collections[public_id] for public_id in collections)

    def accept(
        self,
        *,
        source: StoredSource,
        material: Material,
        made_of: str | None = None,
        quota: int | None = None,
        settle: Callable[[sqlite3.Connection, int], tuple[Outcome, int | None]] | None = None,
        done: Done | None = None,
    ) -> Future[Accepted]:
        """Store a source, the work on it and the key of the request in one transaction.

        What `settle` decides, which gets the place that a new source would have, is done in it: the
        outcome, and the place of the source that is there. One
        that replaces another takes the place and the id of that when it is ready, and until then
        has its own. An earlier replacement that is not ready is dropped; a source that is not
        ready itself is given up for its replacement.

        The future raises RefusedRequestError when `quota` sources that did not fail are there, and
        what `settle` raises.
        """
        numbers = self.numbers_of(one.id for one in source.collections)
        stored = material.model_dump_json()

        def insert(connection: sqlite3.Connection) -> Accepted:
            # Its own place is its number, which AUTOINCREMENT takes from this table too.
            number = connection.execute(
                "SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'source'"
            ).fetchone()[0]
            outcome, place = ("created", None) if settle is None else settle(connection, number)
            replaced = None
            if place is not None:
                replaced = _find_source(connection, "place = ?", place)
            if replaced is not None and outcome in {"adopted", "unchanged"}:
                return outcome, replaced["public_id"], None
            counts_already = replaced is not None and replaced["status"] != "failed"
            if quota is not None and not counts_already and _count_accepted(connection) >= quota:
                raise RefusedRequestError(
                    HTTPStatus.PAYMENT_REQUIRED,
                    "quota_exceeded",
                    f"Nothing was stored: this service holds at most {quota} sources.",
                )
            known = {} if replaced is None else _make_way(connection, replaced)
            connection.execute(
                "INSERT INTO source (id, public_id, name, kind, status, created_at, url, revision,"
                " made_of, replaces, place) VALUES (?, ?, ?, ?, 'pending', ?, ?, ?, ?, ?, ?)",
                (
                    number,
                    source.id,
                    source.name,
                    source.kind,
                    source.created_at,
                    source.url,
                    source.revision,
                    made_of,
                    replaced and replaced["id"],
                    replaced["place"] if replaced else number,
                ),
            )
            _add_to_collections(connection, number, numbers)
            connection.execute("INSERT INTO job VALUES (?, ?)", (number, stored))
            if done is not None:
                done.store(connection, source.created_at)
            accepted = source.model_copy(update=known)
            return outcome, accepted.id, accepted

        return self._database.write(insert)

    def delete(self, public_id: str) -> Future[None]:
        """Take a source away, and its replacement; no question sees it from then on.

        The future raises UnknownError.
        """

        def delete(connection: sqlite3.Connection) -> None:
            source = _find_source(connection, "public_id = ?", public_id)
            drop_sources(connection, [source["place"]])

        return self._database.write(delete)


def unfinished_files(connection: sqlite3.Connection) -> set[str]:
    """The names of the files that unfinished sources still need."""
    rows = connection.execute(
        "SELECT json_extract(material, '$.file') AS file FROM job WHERE file IS NOT NULL"
    )
    return {row["file"] for row in rows}


def read_source_states(connection: sqlite3.Connection) -> list[SourceState]:
    """Every source of the database that `connection` reads, oldest first."""
    rows = connection.execute(
        "SELECT base.public_id, source.name, source.status, source.reason"
        f" {SOURCES} ORDER BY base.place"
    )
    return [SourceState(*row) for row in rows]


def count_sources(
    connection: sqlite3.Connection, chosen: str = "", values: Mapping[str, Any] | None = None
) -> dict[str, int]:
    """How many sources there are of each status, of the newest revision.

    `chosen` are further conditions in SQL, each after an AND.
    """
    rows = connection.execute(
        f"SELECT status, count(*) FROM source WHERE {IS_NEWEST} {chosen} GROUP BY status",  # noqa: S608 - constants
        values or {},
    )
    return dict(tuple(row) for row in rows)


def drop_sources(connection: sqlite3.Connection, places: Sequence[int]) -> None:
    """Take the sources of some places away, and their entries; no question sees them from then on.

    Their passages and uploads are left to the removal.
    """
    values = (json.dumps(places),)
    chosen = "(SELECT id FROM source WHERE place IN (SELECT value FROM json_each(?)))"
    connection.execute(
        "INSERT INTO removal SELECT id, json_extract(material, '$.file')"  # noqa: S608 - as above
        f" FROM source LEFT JOIN job ON job.source = id WHERE id IN {chosen}"
        " ON CONFLICT (source) DO UPDATE SET file = coalesce(excluded.file, file)",
        values,
    )
    for table in ("job", "source_collection"):
        connection.execute(f"DELETE FROM {table} WHERE source IN {chosen}", values)  # noqa: S608
    for table in ("entry", "source"):
        connection.execute(
            f"DELETE FROM {table} WHERE place IN (SELECT value FROM json_each(?))",  # noqa: S608
            values,
        )


def describe_source(
    connection: sqlite3.Connection, place: int, name: str | None, collections: Iterable[int] | None
) -> None:
    """Give the source of a place another name and other collections; nothing is read again."""
    if name is not None:
        connection.execute("UPDATE source SET name = ? WHERE place = ?", (name, place))
    if collections is None:
        return
    wanted = {*collections}
    for row in connection.execute("SELECT id FROM source WHERE place = ?", (place,)).fetchall():
        if wanted != {*collections_of(connection, row["id"])}:
            connection.execute("DELETE FROM source_collection WHERE source = ?", (row["id"],))
            _add_to_collections(connection, row["id"], wanted)
            move_entries(connection, row["id"], wanted)


def is_wanted(connection: sqlite3.Connection, source: int) -> bool:
    """Whether a source is still to be worked on: it was not deleted or replaced meanwhile."""
    row = connection.execute(
        "SELECT 1 FROM source WHERE id = ? AND status IN ('pending', 'processing')", (source,)
    ).fetchone()
    return row is not None


def collections_of(connection: sqlite3.Connection, source: int) -> tuple[int, ...]:
    """The numbers of a source's collections, in the caller's transaction."""
    rows = connection.execute(
        "SELECT collection FROM source_collection WHERE source = ?", (source,)
    )
    return tuple(row["collection"] for row in rows)


def _add_to_collections(
    connection: sqlite3.Connection, source: int, collections: Iterable[int]
) -> None:
    connection.executemany(
        "INSERT INTO source_collection VALUES (?, ?)",
        [(source, collection) for collection in collections],
    )


def _number_collections(
    connection: sqlite3.Connection, public_ids: Iterable[str]
) -> dict[str, int]:
    connection.executemany(
        "INSERT INTO collection (public_id) VALUES (?) ON CONFLICT DO NOTHING",
        [(public_id,) for public_id in public_ids],
    )
    return dict(tuple(row) for row in connection.execute("SELECT public_id, id FROM collection"))


def _count_accepted(connection: sqlite3.Connection) -> int:
    """The sources that did not fail; one and its replacement are one."""
    count: int = connection.execute(
        "SELECT count(DISTINCT place) FROM source WHERE status <> 'failed'"
    ).fetchone()[0]
    return count


def _find_source(connection: sqlite3.Connection, condition: str, value: str | int) -> sqlite3.Row:
    """The row that answers are from."""
    row: sqlite3.Row | None = connection.execute(
        f"SELECT * FROM source AS base WHERE +replaces IS NULL AND {condition}",  # noqa: S608 - a constant
        (value,),
    ).fetchone()
    if row is None:
        raise UnknownError("source", str(value))
    return row


def _make_way(connection: sqlite3.Connection, replaced: sqlite3.Row) -> dict[str, object]:
    """End what is unfinished of a source; returns what the one that replaces it has of it."""
    earlier = connection.execute("SELECT id FROM source WHERE replaces = ?", (replaced["id"],))
    for row in earlier.fetchall():
        _drop(connection, row["id"])
    known = {"id": replaced["public_id"], "created_at": replaced["created_at"]}
    if replaced["status"] == "ready":
        known |= {"ready_revision": replaced["revision"], "ready_at": replaced["ready_at"]}
    elif replaced["status"] != "failed":
        connection.execute(
            "UPDATE source SET status = 'failed', reason = 'it was replaced before it was ready'"
            " WHERE id = ?",
            (replaced["id"],),
        )
        _leave_to_removal(connection, replaced["id"])
    return known


def _drop(connection: sqlite3.Connection, source: int) -> None:
    _leave_to_removal(connection, source)
    connection.execute("DELETE FROM source_collection WHERE source = ?", (source,))
    connection.execute("DELETE FROM source WHERE id = ?", (source,))


def _leave_to_removal(connection: sqlite3.Connection, source: int) -> None:
    job = connection.execute(
        "DELETE FROM job WHERE source = ? RETURNING json_extract(material, '$.file') AS file",
        (source,),
    ).fetchone()
    connection.execute(
        "INSERT INTO removal VALUES (?, ?)"
        " ON CONFLICT (source) DO UPDATE SET file = coalesce(excluded.file, file)",
        (source, job and job["file"]),
    )


def recover(connection: sqlite3.Connection) -> list[str]:
    """Take up what an earlier process left: call once, before any worker runs.

    What was `processing` becomes `pending` again, or `failed` when it was being read the last
    `MAX_ATTEMPTS` times.

    Returns:
        The public ids of the unfinished sources, oldest first.
    """
    interrupted = connection.execute(
        "SELECT id FROM source WHERE status = 'processing'"
        " AND NOT EXISTS (SELECT 1 FROM passage WHERE passage.source = source.id)"
    ).fetchall()
    for row in interrupted:
        requeue(connection, row["id"], "the service died each time while it was read")
    release_claims(connection)
    rows = connection.execute("SELECT public_id FROM source WHERE status = 'pending' ORDER BY id")
    return [row["public_id"] for row in rows]


def release_claims(connection: sqlite3.Connection) -> None:
    """Make what is `processing` pending without counting an attempt: the service stops."""
    connection.execute("UPDATE source SET status = 'pending' WHERE status = 'processing'")


def claim(connection: sqlite3.Connection, public_id: str) -> ReadingJob | None:
    """Take a source to work on it; None when it is ready, failed or gone."""
    connection.execute(
        "UPDATE source SET status = 'processing' WHERE public_id = ? AND status = 'pending'",
        (public_id,),
    )
    return find_job(connection, public_id)


def find_job(connection: sqlite3.Connection, public_id: str) -> ReadingJob | None:
    """What is to be done for a source; None when it is ready, failed or gone.

    It stays pending, which costs the disk nothing. Call it for what is done in a moment.
    """
    row = connection.execute(
        "SELECT id, public_id, name, kind,"
        " (SELECT public_id FROM source AS older WHERE older.id = source.replaces) AS replaces,"
        " EXISTS (SELECT 1 FROM passage WHERE passage.source = source.id) AS begun"
        " FROM source WHERE public_id = ? AND status IN ('pending', 'processing')",
        (public_id,),
    ).fetchone()
    if row is None:
        return None
    material = connection.execute(
        "SELECT material FROM job WHERE source = ?", (row["id"],)
    ).fetchone()["material"]
    return ReadingJob(
        source=row["id"],
        public_id=row["public_id"],
        replaces=row["replaces"],
        name=row["name"],
        kind=Kind(row["kind"]),
        material=Material.model_validate_json(material),
        begun=bool(row["begun"]),
    )


def requeue(connection: sqlite3.Connection, source: int, cause: str) -> str:
    """Count an attempt that broke off: `pending` again, or `failed` after `MAX_ATTEMPTS`.

    The `cause` is for the person who added the source.

    Returns:
        The new status; `deleted` when the source is no longer there to be worked on.
    """
    row = connection.execute(
        "UPDATE source SET status = 'pending', attempts = attempts + 1"
        " WHERE id = ? AND status IN ('pending', 'processing') RETURNING attempts",
        (source,),
    ).fetchone()
    if row is None:
        return "deleted"
    attempts: int = row["attempts"]
    if attempts < MAX_ATTEMPTS:
        return "pending"
    finish(connection, source, "failed", f"given up after {attempts} attempts: {cause}")
    return "failed"


def finish(
    connection: sqlite3.Connection,
    source: int,
    status: Status,
    reason: str | None = None,
    *,
    title: str | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Make a source ready, in the transaction that completes its passages, or give it up.

    A replacement that is ready takes the place of what it replaces. The `reason` is for the person
    who added it; `title` is the document's own.
    """
    row = connection.execute(
        "SELECT replaces, EXISTS (SELECT 1 FROM passage WHERE passage.source = source.id) AS begun"
        " FROM source WHERE id = ? AND status IN ('pending', 'processing')",
        (source,),
    ).fetchone()
    # It was deleted, or given up for its replacement, while it was worked on.
    if row is None:
        return
    if status == "ready" and row["replaces"] is not None:
        _take_place(connection, source, row["replaces"])
    connection.execute(
        "UPDATE source SET status = ?, reason = ?, reader = ?, title = ?, warnings = ?,"
        " ready_at = ? WHERE id = ?",
        (status, reason, READER, title, json.dumps(warnings), now(), source),
    )
    if status == "failed" and row["begun"]:
        _leave_to_removal(connection, source)
    connection.execute("DELETE FROM job WHERE source = ?", (source,))


def _take_place(connection: sqlite3.Connection, source: int, replaced: int) -> None:
    older = connection.execute(
        "SELECT public_id, created_at FROM source WHERE id = ?", (replaced,)
    ).fetchone()
    _drop(connection, replaced)
    connection.execute(
        "UPDATE source SET public_id = ?, created_at = ?, replaces = NULL WHERE id = ?",
        (older["public_id"], older["created_at"], source),
    )
