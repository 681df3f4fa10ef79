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
    """What is to be done for a source; `begun` if passages of it are there already."""

    source: int
    public_id: str
    name: str
    kind: Kind
    material: Material
    collections: tuple[int, ...]
    begun: bool


@dataclass(frozen=True, slots=True)
class SourceState:
    """Where a source stands.

    Attributes:
        id: its id, `src_…`.
        name: its name.
        status: `pending`, `processing`, `ready` or `failed`.
        reason: why it failed; None otherwise.
    """

    id: str
    name: str
    status: str
    reason: str | None


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
    ) -> Future[None]:
        """Store a source and the work on it in one transaction.

        The future raises QuotaExceededError when `quota` sources that did not fail are there.
        """
        numbers = self.collection_numbers(collections)
        stored = material.to_json()

        def insert(connection: sqlite3.Connection) -> None:
            if quota is not None and _count_sources(connection) >= quota:
                raise QuotaExceededError(f"this service holds at most {quota} sources")
            source = connection.execute(
                "INSERT INTO source (public_id, name, kind, status, created_at, url)"
                " VALUES (?, ?, ?, 'pending', ?, ?)",
                (public_id, name, kind, created_at, material.url),
            ).lastrowid
            connection.executemany(
                "INSERT INTO source_collection VALUES (?, ?)",
                [(source, number) for number in numbers],
            )
            connection.execute("INSERT INTO job VALUES (?, ?)", (source, stored))

        return self._database.write(insert)

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
            The new status.
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
    rows = connection.execute("SELECT public_id, name, status, reason FROM source ORDER BY id")
    return [SourceState(*row) for row in rows]


def finish_ready(connection: sqlite3.Connection, source: int, title: str | None) -> None:
    """Make a source ready, in the transaction that completes its passages.

    `title` is the document's own, if it has one.
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
    count: int = connection.execute(
        "SELECT count(*) FROM source WHERE status <> 'failed'"
    ).fetchone()[0]
    return count


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
    attempts = connection.execute(
        "UPDATE source SET status = 'pending', attempts = attempts + 1 WHERE id = ?"
        " RETURNING attempts",
        (source,),
    ).fetchone()["attempts"]
    if attempts < MAX_ATTEMPTS:
        return "pending"
    _finish(connection, source, "failed", f"given up after {attempts} attempts: {cause}")
    return "failed"


def _finish(connection: sqlite3.Connection, source: int, status: str, reason: str | None) -> None:
    connection.execute(
        "UPDATE source SET status = ?, reason = ? WHERE id = ?", (status, reason, source)
    )
    connection.execute("DELETE FROM job WHERE source = ?", (source,))
