"""What the service remembers of sources: where each stands, and the work that is left on it."""

import json
import secrets
import sqlite3
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

from knowledge_bot_service.database import Database

# A source that was being read when the process died, this often, is given up: it may be what kills
# it. Once passages of it are written it has proved harmless, and no end of the process counts.
MAX_ATTEMPTS: Final = 3


class Kind(StrEnum):
    """How a source came in."""

    WEBPAGE = "webpage"
    TEXT = "text"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Material:
    """What a source is made from; kept until the source is ready or failed.

    A text is `content`, or, when it is long, the `file` of that text. An upload is a `file` with
    the `filename` and `content_type` that its sender gave. A web page is its `url`, and a `file`
    where there are headers to send: they may hold secrets, of which the database's log would keep
    copies after the row is gone. (`headers` are those of a row of the database's first version.)
    `file` is a name in the data folder's material, removed when the source is done.
    """

    content: str | None = None
    file: str | None = None
    filename: str | None = None
    content_type: str | None = None
    url: str | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def to_json(self) -> str:
        """The material as the job row keeps it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Material":
        """The reverse of `to_json`."""
        values = json.loads(text)
        headers = tuple((name, value) for name, value in values.pop("headers", ()))
        return cls(**values, headers=headers)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A source that an earlier process left, and what of its material says how much work it is."""

    public_id: str
    kind: Kind
    collections: tuple[int, ...]
    file: str | None
    content_length: int | None


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be done for a source; `begun` if passages of it are there already.

    `public_id` is known outside only if the source `replaces` none, whose id it is to get.
    """

    source: int
    public_id: str
    replaces: str | None
    name: str
    kind: Kind
    material: Material
    collections: tuple[int, ...]
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
        status: `pending`, `processing`, `ready` or `failed`; that of its replacement while it has
            one.
        reason: why it, or its replacement, failed; of a page that is ready, why it could not be
            read again.
    """

    id: str
    name: str
    status: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Deleted:
    """A source that was deleted.

    Attributes:
        name: its name.
        ids: its id, and that of a replacement that was not ready, under which work on it is known.
    """

    name: str
    ids: tuple[str, ...]


class UnknownSourceError(Exception):
    """There is no such source. str() is the id."""


class QuotaExceededError(Exception):
    """The service holds as many sources as its settings allow; nothing was stored."""


class Store:
    """The sources of a service, on its database.

    Writes return futures: they are durable when the future is done. Reads use the calling thread's
    connection. Times are integer milliseconds since 1970 (interface section 2).

    Args:
        database: where everything is kept.
        collections: the public ids of the collections that sources may belong to.
    """

    def __init__(self, database: Database, collections: Iterable[str]) -> None:
        self._database = database
        self._collections = database.write(
            lambda connection: _number_collections(connection, collections)
        ).result()

    def collection_numbers(self, public_ids: Iterable[str]) -> tuple[int, ...]:
        """The integers that stand for collections inside the database and its index."""
        return tuple(self._collections[public_id] for public_id in public_ids)

    def has_collection(self, public_id: str) -> bool:
        """Whether sources may be in a collection, even if it is no longer declared."""
        return public_id in self._collections

    def accept(
        self,
        *,
        public_id: str,
        name: str,
        kind: Kind,
        collections: Sequence[str],
        material: Material,
        created_at: int,
        quota: int | None = None,
        replaces: str | None = None,
    ) -> Future[tuple[str, ...]]:
        """Store a source and the work on it in one transaction.

        With `replaces`, the id of another source, it takes the place and the id of that one when it
        is ready, and until then has `public_id`. An earlier replacement that is not ready is
        dropped; a source that is not ready itself is given up for its replacement.

        The future has the ids of those that were dropped or given up. It raises QuotaExceededError
        when `quota` sources that did not fail are there, and UnknownSourceError when there is
        nothing to replace.
        """
        numbers = self.collection_numbers(collections)
        stored = material.to_json()

        def insert(connection: sqlite3.Connection) -> tuple[str, ...]:
            replaced = None if replaces is None else _find_source(connection, replaces)
            counts_already = replaced is not None and replaced["status"] != "failed"
            if quota is not None and not counts_already and _count_sources(connection) >= quota:
                raise QuotaExceededError(f"this service holds at most {quota} sources")
            dropped = () if replaced is None else _make_way(connection, replaced)
            source = connection.execute(
                "INSERT INTO source (public_id, name, kind, status, created_at, url, replaces)"
                " VALUES (?, ?, ?, 'pending', ?, ?, ?)",
                (
                    public_id,
                    name,
                    kind,
                    created_at,
                    material.url,
                    None if replaced is None else replaced["id"],
                ),
            ).lastrowid
            connection.executemany(
                "INSERT INTO source_collection VALUES (?, ?)",
                [(source, number) for number in numbers],
            )
            connection.execute("INSERT INTO job VALUES (?, ?)", (source, stored))
            # Headers, which wait in a file, are forgotten with the first reading.
            if kind is Kind.WEBPAGE and material.file is None:
                connection.execute(
                    "INSERT INTO page (source, checked_at) VALUES (?, ?)", (source, created_at)
                )
            return dropped

        return self._database.write(insert)

    def delete(self, public_id: str) -> Future[Deleted]:
        """Take a source away, and its replacement; no question sees it from then on.

        Its passages and its upload are left to the removal. The future raises UnknownSourceError.
        """

        def delete(connection: sqlite3.Connection) -> Deleted:
            source = _find_source(connection, public_id)
            replacement = _drop_replacement(connection, source["id"])
            _drop(connection, source["id"])
            return Deleted(source["name"], (public_id, *replacement))

        return self._database.write(delete)

    def recover(self) -> list[Unfinished]:
        """Take up what an earlier process left: call once, before any worker runs.

        What was `processing` becomes `pending` again, or `failed` when it was being read the last
        `MAX_ATTEMPTS` times.

        Returns:
            The unfinished sources, oldest first.
        """
        return self._database.write(_recover).result()

    def claim(self, public_id: str) -> Job | None:
        """Take a source to work on it; None when it is ready, failed or gone."""
        return self._database.write(lambda connection: _claim(connection, public_id)).result()

    def jobs(self, public_ids: Iterable[str]) -> list[Job]:
        """What is to be done for sources; leaves out those that are ready, failed or gone.

        They stay pending, which costs the disk nothing. Call it for what is done in a moment.
        """
        connection = self._database.reader()
        return [job for public_id in public_ids if (job := _job(connection, public_id))]

    def requeue(self, source: int, cause: str) -> str:
        """Count an attempt that broke off: `pending` again, or `failed` after `MAX_ATTEMPTS`.

        Args:
            source: the source's number in the database.
            cause: what broke off each time, for the person who added the source.

        Returns:
            The new status; `deleted` when the source is no longer there to be worked on.
        """
        return self._database.write(lambda connection: _requeue(connection, source, cause)).result()

    def release_claims(self) -> None:
        """Make what is `processing` pending without counting an attempt: the service stops."""
        self._database.write(
            lambda connection: connection.execute(
                "UPDATE source SET status = 'pending' WHERE status = 'processing'"
            )
        ).result()

    def fail(self, source: int, reason: str) -> None:
        """Give a source up; `reason` is for the person who added it."""
        self._database.write(
            lambda connection: _finish(connection, source, "failed", reason)
        ).result()

    def unfinished_files(self) -> set[str]:
        """The names of the files that unfinished sources still need."""
        rows = self._database.reader().execute(
            "SELECT json_extract(material, '$.file') AS file FROM job WHERE file IS NOT NULL"
        )
        return {row["file"] for row in rows}


def new_id(prefix: str) -> str:
    """A fresh id with the documented prefix of its kind (interface section 2), such as `src_`."""
    return prefix + secrets.token_hex(12)


def now() -> int:
    """The time in milliseconds since 1970, as `created_at` carries it."""
    return time.time_ns() // 1_000_000


def read_source_states(connection: sqlite3.Connection) -> list[SourceState]:
    """Every source of the database that `connection` reads, oldest first."""
    rows = connection.execute(
        "SELECT public_id, name, coalesce((SELECT status FROM source AS newer"
        " WHERE newer.replaces = source.id), status), reason"
        " FROM source WHERE replaces IS NULL ORDER BY id"
    )
    return [SourceState(*row) for row in rows]


def is_wanted(connection: sqlite3.Connection, source: int) -> bool:
    """Whether a source is still to be worked on: it was not deleted or replaced meanwhile."""
    row = connection.execute(
        "SELECT 1 FROM source WHERE id = ? AND status IN ('pending', 'processing')", (source,)
    ).fetchone()
    return row is not None


def finish_ready(connection: sqlite3.Connection, source: int, title: str | None) -> None:
    """Make a source ready, in the transaction that completes its passages.

    Args:
        connection: the writer's.
        source: the source's number; a replacement takes the place of what it replaces.
        title: the document's own title.
    """
    connection.execute("UPDATE source SET title = ? WHERE id = ?", (title, source))
    _finish(connection, source, "ready", None)


def _number_collections(
    connection: sqlite3.Connection, public_ids: Iterable[str]
) -> dict[str, int]:
    connection.executemany(
        "INSERT INTO collection (public_id) VALUES (?) ON CONFLICT DO NOTHING",
        [(public_id,) for public_id in public_ids],
    )
    return dict(tuple(row) for row in connection.execute("SELECT public_id, id FROM collection"))


def _count_sources(connection: sqlite3.Connection) -> int:
    """The sources that did not fail; one and its replacement are one."""
    count: int = connection.execute(
        "SELECT (SELECT count(*) FROM source WHERE status <> 'failed') - (SELECT count(*)"
        " FROM source AS newer JOIN source AS older ON older.id = newer.replaces"
        " WHERE newer.replaces IS NOT NULL AND older.status <> 'failed')"
    ).fetchone()[0]
    return count


def _find_source(connection: sqlite3.Connection, public_id: str) -> sqlite3.Row:
    row: sqlite3.Row | None = connection.execute(
        "SELECT id, public_id, name, status FROM source WHERE public_id = ? AND replaces IS NULL",
        (public_id,),
    ).fetchone()
    if row is None:
        raise UnknownSourceError(public_id)
    return row


def _make_way(connection: sqlite3.Connection, replaced: sqlite3.Row) -> tuple[str, ...]:
    """End what is unfinished of a source that is replaced; returns the ids of what was ended."""
    dropped = _drop_replacement(connection, replaced["id"])
    if replaced["status"] not in {"pending", "processing"}:
        # What it says of an earlier replacement.
        connection.execute(
            "UPDATE source SET reason = NULL WHERE id = ? AND status = 'ready'", (replaced["id"],)
        )
        return dropped
    connection.execute(
        "UPDATE source SET status = 'failed', reason = 'it was replaced before it was ready'"
        " WHERE id = ?",
        (replaced["id"],),
    )
    _leave_to_removal(connection, replaced["id"])
    return (*dropped, replaced["public_id"])


def _drop_replacement(connection: sqlite3.Connection, source: int) -> tuple[str, ...]:
    rows = connection.execute(
        "SELECT id, public_id FROM source WHERE replaces = ?", (source,)
    ).fetchall()
    for row in rows:
        _drop(connection, row["id"])
    return tuple(row["public_id"] for row in rows)


def _drop(connection: sqlite3.Connection, source: int) -> None:
    _leave_to_removal(connection, source)
    connection.execute("DELETE FROM source_collection WHERE source = ?", (source,))
    connection.execute("DELETE FROM page WHERE source = ?", (source,))
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


def _recover(connection: sqlite3.Connection) -> list[Unfinished]:
    interrupted = connection.execute(
        "SELECT id FROM source WHERE status = 'processing'"
        " AND NOT EXISTS (SELECT 1 FROM passage WHERE passage.source = source.id)"
    ).fetchall()
    for row in interrupted:
        _requeue(connection, row["id"], "the service died each time while it was read")
    connection.execute("UPDATE source SET status = 'pending' WHERE status = 'processing'")
    rows = connection.execute(
        "SELECT id, public_id, kind, json_extract(material, '$.file') AS file,"
        " length(json_extract(material, '$.content')) AS content_length"
        " FROM source JOIN job ON job.source = source.id"
        " WHERE status IN ('pending', 'processing') ORDER BY id"
    ).fetchall()
    return [
        Unfinished(
            public_id=row["public_id"],
            kind=Kind(row["kind"]),
            collections=_collections_of(connection, row["id"]),
            file=row["file"],
            content_length=row["content_length"],
        )
        for row in rows
    ]


def _claim(connection: sqlite3.Connection, public_id: str) -> Job | None:
    connection.execute(
        "UPDATE source SET status = 'processing' WHERE public_id = ? AND status = 'pending'",
        (public_id,),
    )
    return _job(connection, public_id)


def _job(connection: sqlite3.Connection, public_id: str) -> Job | None:
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
    return Job(
        source=row["id"],
        public_id=row["public_id"],
        replaces=row["replaces"],
        name=row["name"],
        kind=Kind(row["kind"]),
        material=Material.from_json(material),
        collections=_collections_of(connection, row["id"]),
        begun=bool(row["begun"]),
    )


def _collections_of(connection: sqlite3.Connection, source: int) -> tuple[int, ...]:
    rows = connection.execute(
        "SELECT collection FROM source_collection WHERE source = ?", (source,)
    )
    return tuple(row["collection"] for row in rows)


def _requeue(connection: sqlite3.Connection, source: int, cause: str) -> str:
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
    _finish(connection, source, "failed", f"given up after {attempts} attempts: {cause}")
    return "failed"


def _finish(connection: sqlite3.Connection, source: int, status: str, reason: str | None) -> None:
    row = connection.execute(
        "SELECT replaces FROM source WHERE id = ? AND status IN ('pending', 'processing')",
        (source,),
    ).fetchone()
    # It was deleted, or given up for its replacement, while it was worked on.
    if row is None:
        return
    if row["replaces"] is not None:
        if status == "failed":
            connection.execute(
                "UPDATE source SET reason = ? WHERE id = ?",
                (f"its replacement failed: {reason}", row["replaces"]),
            )
            _drop(connection, source)
            return
        _take_place(connection, source, row["replaces"])
    connection.execute(
        "UPDATE source SET status = ?, reason = ? WHERE id = ?", (status, reason, source)
    )
    connection.execute("DELETE FROM job WHERE source = ?", (source,))


def _take_place(connection: sqlite3.Connection, source: int, replaced: int) -> None:
    older = connection.execute(
        "SELECT public_id, created_at FROM source WHERE id = ?", (replaced,)
    ).fetchone()
    _drop(connection, replaced)
    connection.execute(
        "UPDATE source SET public_id = ?, created_at = ?, replaced_at = created_at, replaces = NULL"
        " WHERE id = ?",
        (older["public_id"], older["created_at"], source),
    )
