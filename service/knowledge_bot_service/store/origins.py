"""Origins: the places that sources come from, and which source is kept for each of their keys.

This is the extension `sync` (docs/extensions.md), which has the words.
"""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Collection as Several
from collections.abc import Sequence
from concurrent.futures import Future
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from knowledge_bot_service.config.refusals import RefusedRequestError, UnknownError
from knowledge_bot_service.readers import READER
from knowledge_bot_service.store.database import ServiceDatabase, now, one_state
from knowledge_bot_service.store.idempotency import Done, find_done
from knowledge_bot_service.store.sources import (
    IS_NEWEST,
    STANDING,
    Outcome,
    Status,
    collections_of,
    describe_source,
    drop_sources,
)

_BUCKETS: Final = 256

# At most so many of the missing entries, or this share of all, are removed at the first sighting.
_FEW: Final = 5
_SMALL_SHARE: Final = 0.05

# The version and the digest of what is to be sent again, which no content has.
_UNREAD: Final = "unread"

# How many removed keys a completion names.
_NAMED: Final = 1000

# How long the parts of a completion are kept whose end does not come, in milliseconds.
_UNFINISHED: Final = 24 * 60 * 60 * 1000

# Of an entry, for a key that is limited: whether it sees all revisions of the source, and whether
# that is in a collection as well that it does not see.
_SEEN: Final = """
(SELECT id FROM collection WHERE public_id IN (SELECT value FROM json_each(:seen)))
"""
_IS_SEEN: Final = f"""
AND NOT EXISTS (SELECT 1 FROM source WHERE source.place = entry.place AND NOT EXISTS
                (SELECT 1 FROM source_collection AS its
                  WHERE its.source = source.id AND its.collection IN {_SEEN}))
"""  # noqa: S608 - constants
_IS_HIDDEN: Final = f"""
EXISTS (SELECT 1 FROM source JOIN source_collection AS its ON its.source = source.id
         WHERE source.place = entry.place AND its.collection NOT IN {_SEEN})
"""  # noqa: S608 - constants

# SQLite has no larger numbers than 64 bits with a sign: both halves of the marks are added up.
_SUMS: Final = """
SELECT bucket, count(*), sum(mark >> 32), sum(mark & 0xffffffff) FROM entry WHERE origin = :origin
"""
# By status, since few are unfinished or failed: `CROSS JOIN` keeps the order.
_STANDINGS: Final = f"""
SELECT count(*) FILTER (WHERE status <> 'failed') AS pending,
       count(*) FILTER (WHERE status = 'failed') AS failed,
       count(*) FILTER (WHERE status = 'failed' AND reason IS NOT told) AS untold
  FROM source CROSS JOIN entry ON entry.place = source.place
 WHERE entry.origin = :origin AND status IN ('pending', 'processing', 'failed') AND {IS_NEWEST}
"""  # noqa: S608 - constants
_LISTED: Final = f"""
SELECT entry.key, entry.version, entry.digest, base.public_id AS source_id, source.status,
       source.reason, source.reason IS NOT NULL AND source.reason IS entry.told AS told
  FROM entry CROSS JOIN {STANDING}
 WHERE +base.replaces IS NULL AND base.place = entry.place AND entry.origin = :origin
"""  # noqa: S608 - constants
_OF_STATUS: Final = """
AND entry.place IN (SELECT place FROM source WHERE status IN (SELECT value FROM json_each(:status)))
AND source.status IN (SELECT value FROM json_each(:status))
"""
_OVERLAP: Final = f"""
SELECT origin.name AS origin, count(DISTINCT source.name) AS names
  FROM {STANDING}
  LEFT JOIN entry ON entry.place = base.place LEFT JOIN origin ON origin.id = entry.origin
 WHERE +base.replaces IS NULL AND source.name IN (SELECT value FROM json_each(:names))
   AND source.id IN (SELECT source FROM source_collection
                       JOIN collection ON collection.id = collection
                      WHERE public_id IN (SELECT value FROM json_each(:collections)))
   AND origin.name IS NOT :origin
 GROUP BY origin.name ORDER BY names DESC, origin.name
"""  # noqa: S608 - constants
_MISSING: Final = """
SELECT entry.key, entry.place, entry.waits, missing.sure, %s AS hidden
  FROM missing JOIN entry ON entry.origin = missing.origin AND entry.key = missing.key
 WHERE missing.origin = :origin AND run = :run AND entry.digest = missing.digest
"""


def _within(size: int) -> AfterValidator:
    def check(text: str) -> str:
        if len(text.encode()) > size:
            raise ValueError(f"must have at most {size:,} bytes")
        return text

    return AfterValidator(check)


_NO_NUL: Final = r"^[^\x00]*$"
ASCII: Final = r"^[\x01-\x7f]*$"
Key = Annotated[str, Field(min_length=1, max_length=2048, pattern=_NO_NUL)]
"""An origin, or a key."""
Version = Annotated[str, Field(max_length=2048, pattern=_NO_NUL), _within(2048)]
Digest = Annotated[str, Field(min_length=1, max_length=128, pattern=ASCII)]
_Note = Annotated[str, Field(max_length=4096, pattern=_NO_NUL), _within(4096)]
_Reason = Annotated[str, Field(max_length=10_000)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


class Put(_Body):
    """What is put: for which key of which origin, and what the client says of it.

    `expected` is the digest that the client saw, None if it saw no entry; it may be left out.
    """

    origin: Key
    key: Key
    version: Version | None = None
    digest: Digest
    expected: Digest | None = None


class Touch(_Body):
    """An entry whose content is the same, and what of it is to be another."""

    key: Key
    digest: Digest
    version: Version | None = None
    name: str | None = None
    collections: tuple[str, ...] | None = None
    moved_from: Key | None = None


class TouchedEntry(BaseModel):
    """What became of an entry that was to be touched."""

    key: str
    outcome: Literal["touched", "moved_on"]


class Missing(_Body):
    """An entry that its origin does not hold any more; `reason` is for people."""

    key: Key
    digest: Digest
    reason: _Reason | None = None
    sure: bool = True


class Told(_Body):
    """A reason of a failure that somebody was told."""

    key: Key
    reason: _Reason


class Completing(_Body):
    """What a run found missing at its end, or a part of that if there is `more`."""

    origin: Key
    run: Key
    missing: Annotated[tuple[Missing, ...], Field(max_length=1000)] = ()
    limit: Annotated[float, Field(ge=0, le=1)]
    note: _Note | None = None
    told: Annotated[tuple[Told, ...], Field(max_length=1000)] = ()
    more: bool = False


class Completion(BaseModel):
    """What became of the missing entries; `keys` are the first of those that were removed."""

    model_config = ConfigDict(frozen=True)

    removed: int = 0
    waiting: int = 0
    withheld: int = 0
    keys: tuple[str, ...] = ()


class Sums(BaseModel):
    """What there is of an origin, in short; `completed_at` is in milliseconds since 1970."""

    model_config = ConfigDict(frozen=True)

    known: bool
    count: int
    sums: tuple[str, ...]
    pending: int
    failed: int
    untold: int
    completed_at: int | None
    note: str | None


class OriginEntry(BaseModel):
    """A key of an origin, and where its source stands; of one that failed why, and who knows."""

    model_config = ConfigDict(frozen=True)

    key: str
    version: str | None
    digest: str
    source_id: str
    status: Status
    reason: str | None = None
    told: bool = False


class EntryPage(BaseModel):
    """Some of the entries; `next` is the `after` of the page that follows, None at the end."""

    model_config = ConfigDict(frozen=True)

    data: tuple[OriginEntry, ...]
    next: str | None


class ListedEntries(BaseModel):
    """Which entries to list: all of an origin, of a `bucket`, of some `status`, after a key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    origin: Key
    bucket: Annotated[int, Field(ge=0, lt=_BUCKETS)] | None = None
    status: Annotated[list[Status], Field(max_length=100)] = []
    after: Key | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 500


class KnownOrigin(BaseModel):
    """An origin, with how many entries it has and when it was completed last."""

    model_config = ConfigDict(frozen=True)

    name: str
    count: int
    completed_at: int | None


class Overlap(BaseModel):
    """How many names of sources an origin has, or sources without one have."""

    model_config = ConfigDict(frozen=True)

    origin: str | None
    names: int


_ENTRIES: Final = TypeAdapter(tuple[OriginEntry, ...])
_ORIGINS: Final = TypeAdapter(list[KnownOrigin])
_OVERLAPS: Final = TypeAdapter(list[Overlap])


class Origins:
    """The origins of a service, as a key sees them that sees these collections, or `sees_all`.

    Writes return futures: they are durable when the future is done.
    """

    def __init__(
        self, database: ServiceDatabase, collections: Several[str], *, sees_all: bool
    ) -> None:
        self._database = database
        self._seen = None if sees_all else json.dumps(list(collections))
        self._if_seen = "" if sees_all else _IS_SEEN
        self._hidden = "0" if sees_all else _IS_HIDDEN

    def compare(self, origin: str) -> Sums:
        """What there is of an origin, in short."""
        with one_state(self._database.reader()) as connection:
            row = _origin(connection, origin)
            values = self._values(row)
            count, sums = 0, [0] * _BUCKETS
            for bucket, some, high, low in connection.execute(
                f"{_SUMS} {self._if_seen} GROUP BY bucket", values
            ):
                count += some
                sums[bucket] = ((high << 32) + low) % 2**64
            standing = connection.execute(f"{_STANDINGS} {self._if_seen}", values).fetchone()
        # To a key that is limited, an origin of others is as one that is not there.
        known = row is not None and (self._seen is None or count > 0)
        return Sums(
            known=known,
            count=count,
            sums=tuple(f"{one:016x}" for one in sums),
            completed_at=row["completed_at"] if row and known else None,
            note=row["note"] if row and known else None,
            **standing,
        )

    def entries(self, listed: ListedEntries) -> EntryPage:
        """List entries in the order of their keys."""
        connection = self._database.reader()
        chosen = self._if_seen
        if listed.bucket is not None:
            chosen += " AND entry.bucket = :bucket"
        if listed.status:
            chosen += _OF_STATUS
        if listed.after is not None:
            chosen += " AND entry.key > :after"
        values = {
            **self._values(_origin(connection, listed.origin)),
            "bucket": listed.bucket,
            "status": json.dumps(listed.status),
            "after": listed.after,
            "limit": listed.limit + 1,
        }
        rows = connection.execute(
            f"{_LISTED} {chosen} ORDER BY entry.key LIMIT :limit", values
        ).fetchall()
        return EntryPage(
            data=_ENTRIES.validate_python([dict(row) for row in rows[: listed.limit]]),
            next=rows[listed.limit - 1]["key"] if len(rows) > listed.limit else None,
        )

    def known(self) -> list[KnownOrigin]:
        """The origins, by their names."""
        rows = self._database.reader().execute(
            "SELECT name, completed_at, (SELECT count(*) FROM entry"  # noqa: S608 - constants
            f" WHERE entry.origin = origin.id {self._if_seen}) AS count"
            " FROM origin ORDER BY name",
            self._values(None),
        )
        found = _ORIGINS.validate_python([dict(row) for row in rows])
        return [one for one in found if self._seen is None or one.count]

    def overlap(
        self, origin: str, names: Sequence[str], collections: Several[str]
    ) -> list[Overlap]:
        """How many of these names other origins have in these collections, the most first."""
        values = {
            "origin": origin,
            "names": json.dumps(names),
            "collections": json.dumps(list(collections)),
        }
        rows = self._database.reader().execute(_OVERLAP, values)
        return _OVERLAPS.validate_python([dict(row) for row in rows])

    def settle(
        self,
        connection: sqlite3.Connection,
        new: int,
        *,
        put: Put,
        name: str,
        numbers: Several[int],
        made_of: str,
    ) -> tuple[Outcome, int | None]:
        """Decide what becomes of a put and write its entry, in the transaction that accepts it.

        A source that is created has the place `new`. `numbers` are those of the collections, and
        `made_of` is `Sent.made_of`.

        Raises:
            RefusedRequestError: 403, the entry's source is not seen; 412, it has moved on.
        """
        origin = _make_origin(connection, put.origin)
        entry = self._entry(connection, origin, put.key)
        if entry is None:
            place = _without_origin(connection, name, numbers, made_of)
            _insert(connection, origin, put, new if place is None else place)
            return "created" if place is None else "adopted", place
        place = entry["place"]
        if entry["digest"] == put.digest and _form(entry["made_of"]) == _form(made_of):
            _update(connection, origin, put.key, put)
            describe_source(connection, place, name, numbers)
            return "unchanged", place
        if "expected" in put.model_fields_set and put.expected != entry["digest"]:
            raise RefusedRequestError(
                HTTPStatus.PRECONDITION_FAILED,
                "entry_moved_on",
                "Nothing was done: the entry of this key has another digest than the one that is "
                f"expected, {entry['digest']}. Another run was faster; compare again.",
            )
        _update(connection, origin, put.key, put)
        return "replaced", place

    def touch(
        self, origin: str, touches: Sequence[Touch], numbers: Sequence[Sequence[int] | None]
    ) -> Future[list[TouchedEntry]]:
        """Give entries new versions, and sources new names or collections, of these `numbers`.

        The future has the outcome of each. It raises RefusedRequestError,
        403, if the source of one is not seen; nothing is done then.
        """

        def touch(connection: sqlite3.Connection) -> list[TouchedEntry]:
            row = _origin(connection, origin)
            outcomes: dict[bool, Literal["touched", "moved_on"]] = {
                True: "touched",
                False: "moved_on",
            }
            return [
                TouchedEntry(
                    key=one.key,
                    outcome=outcomes[
                        row is not None and self._touch(connection, row["id"], one, some)
                    ],
                )
                for one, some in zip(touches, numbers, strict=True)
            ]

        return self._database.write(touch)

    def _touch(
        self,
        connection: sqlite3.Connection,
        origin: int,
        touch: Touch,
        numbers: Sequence[int] | None,
    ) -> bool:
        before = touch.key if touch.moved_from is None else touch.moved_from
        entry = self._entry(connection, origin, before)
        if before != touch.key:
            there = self._entry(connection, origin, touch.key)
            if entry is not None and there is not None:
                return False
            # Without its old key it has moved already: the answer to the same touch was lost.
            if entry is None:
                entry, before = there, touch.key
        if entry is None or entry["digest"] != touch.digest:
            return False
        _update(connection, origin, before, touch)
        describe_source(connection, entry["place"], touch.name, numbers)
        return True

    def complete(self, completing: Completing) -> Future[str]:
        """Note what a run missed, and at its end decide what is removed.

        The future has the body of the answer.
        """

        def complete(connection: sqlite3.Connection) -> str:
            # No idempotency key of a client has a comma.
            run = f"complete,{self._seen},{json.dumps([completing.origin, completing.run])}"
            done = find_done(connection, run)
            if done is not None:
                return '{"value":{}}' if completing.more else done.answer
            origin = _make_origin(connection, completing.origin)
            self._note_parts(connection, origin, completing)
            if completing.more:
                return '{"value":{}}'
            completion = self._decide(connection, origin, completing)
            answer = f'{{"value":{completion.model_dump_json()}}}'
            Done(run, "", "", answer).store(connection, now())
            return answer

        return self._database.write(complete)

    def _note_parts(
        self, connection: sqlite3.Connection, origin: int, completing: Completing
    ) -> None:
        connection.executemany(
            "UPDATE entry SET told = :reason"  # noqa: S608 - constants
            " WHERE origin = :origin AND key = :key AND :reason ="
            " (SELECT reason FROM source WHERE place = entry.place ORDER BY id DESC LIMIT 1)"
            f" {self._if_seen}",
            [
                {"origin": origin, "key": one.key, "reason": one.reason, "seen": self._seen}
                for one in completing.told
            ],
        )
        connection.executemany(
            "INSERT OR REPLACE INTO missing VALUES (?, ?, ?, ?, ?, ?)",
            [
                (origin, completing.run, one.key, one.digest, one.sure, now())
                for one in completing.missing
            ],
        )

    def _decide(
        self, connection: sqlite3.Connection, origin: int, completing: Completing
    ) -> Completion:
        values = {"origin": origin, "run": completing.run, "seen": self._seen}
        there = f"FROM entry WHERE origin = :origin {self._if_seen}"
        count: int = connection.execute(f"SELECT count(*) {there}", values).fetchone()[0]
        rows = connection.execute(
            f"{_MISSING % self._hidden} {self._if_seen} ORDER BY entry.key", values
        ).fetchall()
        withheld = len(rows) if len(rows) > completing.limit * count else 0
        first = sum(not row["waits"] for row in rows)
        are_few = first <= max(_FEW, _SMALL_SHARE * count)
        gone = [
            row
            for row in rows
            if not withheld and not row["hidden"] and (row["waits"] or (are_few and row["sure"]))
        ]
        drop_sources(connection, [row["place"] for row in gone])
        # Those that are missing are waited for from now on, and no others.
        connection.execute(
            f"UPDATE entry SET waits = key IN (SELECT value FROM json_each(:keys))"  # noqa: S608 - constants
            f" WHERE origin = :origin {self._if_seen}"
            " AND waits <> (key IN (SELECT value FROM json_each(:keys)))",
            {**values, "keys": json.dumps([row["key"] for row in rows])},
        )
        connection.execute(
            "DELETE FROM missing WHERE origin = ? AND (run = ? OR told_at < ?)",
            (origin, completing.run, now() - _UNFINISHED),
        )
        connection.execute(
            "UPDATE origin SET completed_at = ?, note = ? WHERE id = ?",
            (now(), completing.note, origin),
        )
        return Completion(
            removed=len(gone),
            waiting=0 if withheld else len(rows) - len(gone),
            withheld=withheld,
            keys=tuple(row["key"] for row in gone[:_NAMED]),
        )

    def rename(self, origin: str, name: str) -> Future[KnownOrigin]:
        """Give an origin another name.

        The future raises UnknownError, and RefusedRequestError: 403 if the origin has more than is
        seen, 409 if another one has that name.
        """

        def rename(connection: sqlite3.Connection) -> KnownOrigin:
            row, places = self._whole(connection, origin)
            if name != origin and _origin(connection, name) is not None:
                raise RefusedRequestError(
                    HTTPStatus.CONFLICT,
                    "origin_exists",
                    f"Nothing was done: there is an origin {name} already.",
                )
            connection.execute("UPDATE origin SET name = ? WHERE id = ?", (name, row["id"]))
            return KnownOrigin(name=name, count=len(places), completed_at=row["completed_at"])

        return self._database.write(rename)

    def delete(self, origin: str) -> Future[None]:
        """Delete an origin, with its sources; the errors are those of `rename`."""

        def delete(connection: sqlite3.Connection) -> None:
            row, places = self._whole(connection, origin)
            drop_sources(connection, places)
            connection.execute("DELETE FROM missing WHERE origin = ?", (row["id"],))
            connection.execute("DELETE FROM origin WHERE id = ?", (row["id"],))

        return self._database.write(delete)

    def _whole(self, connection: sqlite3.Connection, origin: str) -> tuple[sqlite3.Row, list[int]]:
        """An origin, and the places of its sources, all of which are seen."""
        row = _origin(connection, origin)
        found = connection.execute(
            f"SELECT place, 1 {self._if_seen} AS seen, {self._hidden} AS hidden"  # noqa: S608 - constants
            " FROM entry WHERE origin = :origin",
            self._values(row),
        ).fetchall()
        if row is None or not (self._seen is None or any(one["seen"] for one in found)):
            raise UnknownError("origin", origin)
        if any(one["hidden"] for one in found):
            raise _forbidden()
        return row, [one["place"] for one in found]

    def _entry(self, connection: sqlite3.Connection, origin: int, key: str) -> sqlite3.Row | None:
        """An entry that may be changed, with what its source is made of; None where there is none.

        Raises:
            RefusedRequestError: its source is in a collection that is not seen.
        """
        row: sqlite3.Row | None = connection.execute(
            f"SELECT digest, place, {self._hidden} AS hidden, (SELECT made_of FROM source"  # noqa: S608 - constants
            " WHERE source.place = entry.place ORDER BY id DESC LIMIT 1) AS made_of"
            " FROM entry WHERE origin = :origin AND key = :key",
            {"origin": origin, "key": key, "seen": self._seen},
        ).fetchone()
        if row is not None and row["hidden"]:
            raise _forbidden()
        return row

    def _values(self, origin: sqlite3.Row | None) -> dict[str, Any]:
        return {"origin": origin and origin["id"], "seen": self._seen}


def ask_again(connection: sqlite3.Connection) -> None:
    """Have the next runs send what failed in older readers, which may be read by now."""
    rows = connection.execute(
        "SELECT origin, key FROM source CROSS JOIN entry ON entry.place = source.place"  # noqa: S608 - a constant
        f" WHERE status = 'failed' AND reader < ? AND {IS_NEWEST}",
        (READER,),
    ).fetchall()
    connection.executemany(
        "UPDATE entry SET version = ?, digest = ?, mark = ? WHERE origin = ? AND key = ?",
        [(_UNREAD, _UNREAD, mark_of(key, _UNREAD)[1], origin, key) for origin, key in rows],
    )


def _insert(connection: sqlite3.Connection, origin: int, put: Put, place: int) -> None:
    connection.execute(
        "INSERT INTO entry (origin, key, version, digest, place, bucket, mark)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (origin, put.key, put.version, put.digest, place, *mark_of(put.key, put.version)),
    )


def _update(connection: sqlite3.Connection, origin: int, before: str, entry: Put | Touch) -> None:
    connection.execute(
        "UPDATE entry SET key = ?, version = ?, digest = ?, bucket = ?, mark = ?, waits = 0"
        " WHERE origin = ? AND key = ?",
        (
            entry.key,
            entry.version,
            entry.digest,
            *mark_of(entry.key, entry.version),
            origin,
            before,
        ),
    )


def mark_of(key: str, version: str | None) -> tuple[int, int]:
    """The bucket and the mark of an entry."""
    encoded = key.encode()
    digest = hashlib.sha256(encoded + b"\0" + (version or "").encode()).digest()
    return zlib.crc32(encoded) % _BUCKETS, int.from_bytes(digest[:8], "big", signed=True)


def _origin(connection: sqlite3.Connection, name: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM origin WHERE name = ?", (name,)
    ).fetchone()
    return row


def _make_origin(connection: sqlite3.Connection, name: str) -> int:
    connection.execute("INSERT INTO origin (name) VALUES (?) ON CONFLICT DO NOTHING", (name,))
    number: int = connection.execute("SELECT id FROM origin WHERE name = ?", (name,)).fetchone()[0]
    return number


def _without_origin(
    connection: sqlite3.Connection, name: str, numbers: Several[int], made_of: str
) -> int | None:
    """The place of a source that is made of the same and belongs to no origin."""
    rows = connection.execute(
        "SELECT id, place FROM source"  # noqa: S608 - constants
        " WHERE made_of = ? AND name = ? AND +replaces IS NULL"
        f" AND {IS_NEWEST} AND NOT EXISTS (SELECT 1 FROM entry WHERE entry.place = source.place)"
        " ORDER BY id",
        (made_of, name),
    )
    wanted = {*numbers}
    found = (row["place"] for row in rows if wanted == {*collections_of(connection, row["id"])})
    return next(found, None)


def _form(made_of: str | None) -> str:
    """What kind of thing was sent, of `Sent.made_of`."""
    return (made_of or "").partition(" ")[2]


def _forbidden() -> RefusedRequestError:
    # Not a 404: a client would take the source for deleted.
    return RefusedRequestError(
        HTTPStatus.FORBIDDEN,
        "forbidden",
        "The source of this key is in a collection that the request's API key does not see. "
        "Nothing was done. Use an API key that sees all of its collections, or another origin.",
    )
