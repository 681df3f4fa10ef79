"""The ledger's rows, and what one run reads and writes of them.

Before the request of an item leaves, a row of `kbot_claims` says on disk that it is being sent.
With the outcome, the item's own row is written and the claim removed, in one transaction. An item
can be claimed only while its row is as it was when the decision was made, so two runs never send
the same item. The claims of a run that died have an unknown outcome.
"""

import hashlib
import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from knowledge_bot._database import Connection, Session
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._schema import (
    DIED,
    HEARTBEAT,
    LEASE,
    LedgerDatabase,
    Owner,
    clock,
    dead_runs,
    live_runs,
    running,
)

T = TypeVar("T")

_PORTS = {"http": 80, "https": 443}

CHANGED_THERE = b"changed in the service"
"""Stands for the digest of a source that somebody else has changed, or that may be removed."""


class State(StrEnum):
    """What the ledger knows about an item."""

    CLAIMED = "claimed"
    """A run is sending it."""
    CREATED = "created"
    """The service has it."""
    REFUSED = "refused"
    """The service does not have it: it refused, or was not reached."""
    UNKNOWN = "unknown"
    """The service may or may not have it."""


class Row(NamedTuple):
    """What the ledger knows of an item: a row of `kbot_items`, in the order of its columns.

    While a run sends it, the state is `claimed`, and a row of `kbot_claims` has what is new. See
    `_schema` for the meaning of the columns.
    """

    id: bytes
    scope: int
    origin: int | None
    key: str
    name: str | None
    kind: str
    location: str | None
    state: str
    digest: bytes | None
    pending: bytes | None
    version: str | None
    source_id: str | None
    source_name: str | None
    source_revision: str | None
    ready_at: int | None
    idempotency_key: str | None
    run: int
    generation: int
    attempts: int
    error: str | None
    updated_at: int
    gone_at: int | None
    gone_reason: str | None
    number: int = 0  # the database gives it; never written

    @property
    def source_called(self) -> str:
        """The name that the service knows the source by."""
        return self.source_name or self.name or self.key

    def claimed(self, **of_item: Any) -> "Row":
        """Return the row of an item that is to be sent, with what is known of it now."""
        return self._replace(
            **of_item,
            state=State.CLAIMED,
            source_name=None if self.source_id is None else self.source_called,
            generation=self.generation + 1,
            attempts=self.attempts + 1,
            error=None,
            updated_at=int(time.time()),
            gone_at=None,
            gone_reason=None,
        )

    def settled(self, state: State, **known: Any) -> "Row":
        """Return the row with an outcome: of its claim, or found out later.

        No other place says what an outcome leaves of a row.

        Args:
            state: the outcome.
            known: columns. Of a created item, `digest` is by default that of what was sent last.
        """
        if state is State.CREATED:
            of_source = dict.fromkeys(_OF_SOURCE) | {"digest": self.pending, "pending": None}
            known = {**of_source, "error": None, **known}
        if state is not State.UNKNOWN:
            known["idempotency_key"] = None
        generation = self.generation + (self.state != State.CLAIMED)  # a claim has counted already
        return self._replace(
            state=state, generation=generation, updated_at=int(time.time()), **known
        )


# What is known of a source, and not of a newer one that takes its place.
_OF_SOURCE = ("version", "source_name", "source_revision", "ready_at")

NO_ROW = Row._make(
    (b"", 0, None, "", None, "", None, State.REFUSED, *[None] * 8, 0, 0, 0, None, 0, None, None, 0)
)
"""What an item has before it has a row."""


def normalised_url(service: str) -> str:
    """Return a base URL in its normal form, the same for all its spellings (RFC 3986, 6.2).

    Raises:
        ConfigurationError: it is no text.
    """
    if not isinstance(service, str):
        raise ConfigurationError.expected("service", "a base URL", service)
    parts = urlsplit(service)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    port = parts.port if parts.port != _PORTS.get(parts.scheme) else None
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def item_ids(service: str, collections: Iterable[str]) -> Callable[[str], bytes]:
    """Return the function from an item's key to its id in a ledger.

    The id is a hash, since keys are long and indexes should be small; and runs that share items
    divide them by it.
    """
    scope = f"{service}\0{','.join(sorted(collections))}\0".encode("utf-8", "surrogatepass")
    begun = hashlib.blake2b(scope, digest_size=16)

    def item_id(key: str) -> bytes:
        hashed = begun.copy()
        hashed.update(key.encode("utf-8", "surrogatepass"))
        return hashed.digest()

    return item_id


_COLUMNS = ", ".join(Row._fields)

# Each item once: what is being sent as its claim says, with what is known of it from before. What a
# dead run was sending is unknown.
_HELD = f"""
    SELECT {_COLUMNS} FROM kbot_items WHERE id NOT IN (SELECT id FROM kbot_claims)
    UNION ALL
    SELECT claim.id, claim.scope, claim.origin, claim.key, claim.name, claim.kind, claim.location,
        CASE WHEN claim.run IN ({{dead}}) THEN 'unknown' ELSE 'claimed' END,
        item.digest, claim.pending, item.version, item.source_id,
        CASE WHEN item.source_id IS NOT NULL
            THEN coalesce(item.source_name, item.name, item.key) END,
        item.source_revision, item.ready_at, claim.idempotency_key, claim.run,
        coalesce(item.generation, 0) + 1, coalesce(item.attempts, 0) + 1,
        CASE WHEN claim.run IN ({{dead}}) THEN '{DIED}' END,
        claim.claimed_at, NULL, NULL, coalesce(item.number, 0)
    FROM kbot_claims AS claim LEFT JOIN kbot_items AS item ON item.id = claim.id
"""  # noqa: S608 - names of ours

_WRITE = f"""
    INSERT INTO kbot_items ({", ".join(Row._fields[:-1])})
    VALUES {{rows}}
    ON CONFLICT (id) DO UPDATE SET
        {", ".join(f"{name} = excluded.{name}" for name in Row._fields[1:-1])}
    WHERE kbot_items.generation = excluded.generation - 1    -- unchanged since it was read, or ...
       OR (kbot_items.run = excluded.run AND kbot_items.state = 'unknown')
       OR EXISTS (SELECT 1 FROM kbot_claims              -- ... the outcome of this run's claim,
                  WHERE id = excluded.id AND run = excluded.run)  -- even if it was taken for dead
"""  # noqa: S608 - names of ours

# The columns of a claim, as a row has them.
_OF_CLAIM = (
    "id", "run", "scope", "origin", "key", "name", "kind", "location", "pending", "idempotency_key",
    "updated_at",
)  # fmt: skip

_CLAIM = f"""
    INSERT INTO kbot_claims ({", ".join(_OF_CLAIM[:-1])}, claimed_at)
    VALUES {{rows}} ON CONFLICT DO NOTHING
"""  # noqa: S608 - as above

# What a run knows of the ledger when it begins.
_AT_FIRST = (
    "SELECT (SELECT coalesce(max(number), 0) FROM kbot_items), "
    "(SELECT coalesce(max(number), 0) FROM kbot_origins)"
)

_RELEASE = "DELETE FROM kbot_claims WHERE id {ids} AND run = ?"

# An item that is found under another key keeps its row, unless that was written meanwhile.
_MOVE = f"""
    UPDATE kbot_items SET {", ".join(f"{name} = ?" for name in Row._fields[:-1])}
    WHERE number = ? AND state = 'created' AND digest = ?
      AND id NOT IN (SELECT id FROM kbot_claims)
      AND NOT EXISTS (SELECT 1 FROM kbot_items AS other WHERE other.id = ?)
"""  # noqa: S608 - names of ours

# The items that an origin had when the run began, and those of them whose content may be moved.
_OF_ORIGIN = "origin = ? AND scope = ? AND number <= ?"
_CONTENT = "state = 'created' AND kind <> 'webpage'"

_UNCLAIMED = (
    "generation = generation + 1 WHERE number {ids} AND id NOT IN (SELECT id FROM kbot_claims)"
)

# Reads the table once, and asks for no index on `digest`, which every change of an item would have
# to be written to.
_SAME_CONTENTS = """
    WITH mine AS MATERIALIZED (
        SELECT number, scope, digest, key, name FROM kbot_items
        WHERE run = ? AND state = 'created' AND kind <> 'webpage'
    )
    SELECT mine.key, min(mine.name), min(other.key) FROM kbot_items AS other CROSS JOIN mine
    WHERE other.digest = mine.digest AND other.scope = mine.scope AND other.number <> mine.number
      AND (other.run <> ? OR other.key < mine.key)
    GROUP BY mine.number, mine.key
"""


def write_rows(connection: Connection, rows: Sequence[Row], claimed: Set[bytes]) -> set[bytes]:
    """Write rows; return the ids of those that another run wrote since they were read.

    Each row has the generation after the one it was read with. The outcome of a claim is always
    written while the claim, or the row, still belongs to that run. A row that was read and is not
    there any more stays away: its source was removed.

    Args:
        connection: to the ledger.
        rows: what to write.
        claimed: the ids of those rows that are outcomes of claims.
    """
    last = {row.id: row for row in rows}  # a statement of PostgreSQL writes no row twice
    read = {row.id for row in last.values() if row.generation > 1} - claimed
    if read:
        there = connection.of_ids("SELECT id FROM kbot_items WHERE id {ids}", sorted(read))
        for each in read.difference(each for (each,) in there):
            del last[each]
    if connection.insert(_WRITE, [row[:-1] for row in last.values()]) == len(last):
        return set()
    found = {row.id: row for row in rows_where(connection, "id {ids}", ids=list(last))}
    return {row.id for row in last.values() if not _is_written(row, found.get(row.id))}


def rows_where(
    connection: Connection,
    condition: str,
    *values: Any,
    ids: Sequence[Any] | None = None,
    dead: Iterable[int] | None = None,
) -> list[Row]:
    """Return the rows that meet a condition, which has `{ids}` where these are to be found.

    Args:
        connection: to the ledger.
        condition: on the columns of `Row`.
        values: of the condition.
        ids: which ones, if it names them.
        dead: runs whose claims are unknown; None: claims do not count, only outcomes.
    """
    table = "kbot_items" if dead is None else f"({held(dead)}) AS held"
    query = f"SELECT {_COLUMNS} FROM {table} WHERE {condition}"  # noqa: S608 - as above
    found = (
        connection.rows(query, *values) if ids is None else connection.of_ids(query, ids, *values)
    )
    return list(map(Row._make, found))


def held(dead: Iterable[int]) -> str:
    """Return the query of all items as the ledger knows them, claims of dead runs as unknown."""
    return _HELD.format(dead=", ".join(map(str, dead)) or "NULL")


def _is_written(row: Row, found: Row | None) -> bool:
    """Return whether a row was written, such as by a commit whose answer was lost."""
    if found is None:
        return False
    return (found.run, found.state, found.source_id) == (row.run, row.state, row.source_id)


def supersede(connection: Connection, sources: Sequence[tuple[Any, ...]]) -> None:
    """List sources that newer ones replaced, as `superseded_rows` returns them."""
    connection.insert(
        "INSERT INTO kbot_superseded (source_id, source_revision, replaced_by, scope, key, name, "
        "superseded_at) VALUES {rows} ON CONFLICT DO NOTHING",
        sources,
    )


def superseded_rows(row: Row | None, source_id: str | None) -> list[tuple[Any, ...]]:
    """Return the row of `kbot_superseded` for the source that a new one replaces, if any."""
    if row is None or row.source_id is None or row.source_id == source_id:
        return []
    of_source = row.source_id, row.source_revision, source_id
    return [(*of_source, row.scope, row.key, row.source_called, int(time.time()))]


def expire(connection: Connection) -> None:
    """Turn the claims of dead runs into unknown outcomes; writes nothing if there are none."""
    if not dead_runs(connection):
        return
    with connection.transaction():
        if not connection.sqlite:
            # Nobody else expires them now, and nobody renews a lease. Whoever was silent for so
            # long that it is considered dead renews it before it writes anything else.
            connection.run("LOCK TABLE kbot_runs IN SHARE ROW EXCLUSIVE MODE")
        for run in dead_runs(connection):  # one may have renewed its lease in between
            expire_run(connection, run)


def expire_run(connection: Connection, run: int) -> None:
    """Turn a run's claims into unknown outcomes, and end its lease, inside a transaction."""
    claims = rows_where(connection, "state = 'claimed' AND run = ? ORDER BY id", run, dead=())
    if claims:
        unknown = [row.settled(State.UNKNOWN, error=DIED) for row in claims]
        write_rows(connection, unknown, {row.id for row in claims})
    connection.run("DELETE FROM kbot_claims WHERE run = ?", run)
    connection.run("DELETE FROM kbot_runs WHERE run = ?", run)


def page_id(url: str) -> bytes:
    """Return the id of a page's address in a ledger."""
    return hashlib.blake2b(url.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(slots=True)
class Batch:
    """What goes into one transaction.

    Attributes:
        rows: outcomes of claims, and corrected rows.
        released: the ids of claims that end, with their outcome in `rows` or with nothing sent.
        claims: what is sent next.
        superseded: sources that were replaced, as `superseded_rows` returns them.
        moved: rows with the digest, whose items have another key.
    """

    rows: list[Row] = field(default_factory=list)
    released: list[bytes] = field(default_factory=list)
    claims: list[Row] = field(default_factory=list)
    superseded: list[tuple[Any, ...]] = field(default_factory=list)
    moved: list[Row] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any((self.rows, self.released, self.claims, self.superseded, self.moved))


@dataclass(slots=True)
class Gone:
    """What an origin no longer yields.

    Attributes:
        total: how many items the ledger had of it.
        again: key and reason of what an earlier complete run had missed too, by the item's id.
        first: likewise, what is missed for the first time, or for another reason.
        withheld: whether the latter is more than the limit allows, and so not recorded as gone.
    """

    total: int
    again: dict[bytes, tuple[str, str]] = field(default_factory=dict)
    first: dict[bytes, tuple[str, str]] = field(default_factory=dict)
    withheld: bool = False


class Store:
    """A ledger as one run uses it; its threads take turns.

    All methods but `give_up` raise `LedgerError`.

    Args:
        database: where the ledger is.
        patience: seconds to wait for a database that is away.
        reading: whether nothing may be written, as in a dry run.
        alive: returns whether the run can still end.

    Attributes:
        run: the run's number.
        began: when it began, as the ledger writes times.
        origin: the number of the origin named when the ledger was opened.
        highest: the highest row number at that time.
        knows_origin: whether the origin had been recorded before.
        in_doubt: whether the last transaction may be committed though its answer was lost.
        registered: whether the run has registered itself, and so holds a lease.
        scopes: the numbers of the service with the collections that this run has met.
    """

    def __init__(
        self,
        database: LedgerDatabase,
        *,
        patience: float,
        reading: bool = False,
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self._database, self.reading, self._alive = database, reading, alive
        self._owner = Owner.of_this_process()
        self.run: int = self._owner.run
        self.began: int = int(time.time())
        self.origin: int | None = None
        self.highest: int = 0
        self.knows_origin: bool = False
        self.in_doubt: bool = False
        self._session = Session(database, reading=reading, patience=patience)
        self._service, self._scope = "", 0
        self.scopes: dict[tuple[str, ...], int] = {}
        self._of_origin: tuple[int | None, int, int] = (None, 0, 0)
        self.registered: bool = False
        self._renewed = -math.inf

    def open(self, service: str, collections: tuple[str, ...], origin: str | None) -> bool:
        """Open the ledger, or make it; a reader makes nothing, and gets False if there is none.

        Args:
            service: the base URL, normalised.
            collections: where the run's items go.
            origin: the name of their origin; None without one.
        """
        if self._session.open() is None:
            return False
        self._service = service

        def look(connection: Connection) -> None:
            if not self.reading:
                expire(connection)
            ((self.highest, before),) = connection.rows(_AT_FIRST)
            self._scope = self._number_of_scope(connection, collections)
            if origin is not None:
                of_scope = (self._scope, origin)
                number = self._number_of(connection, "kbot_origins", "scope", "name", of_scope)
                self.origin, self.knows_origin = number or None, 0 < number <= before

        self._session.do("written", look)
        self.scopes[collections] = self._scope
        self._of_origin = self.origin, self._scope, self.highest
        return True

    def scope(self, collections: tuple[str, ...]) -> int:
        """Return the number of the service with some collections; 0 if a reader finds none."""
        if collections not in self.scopes:
            self.scopes[collections] = self._session.do(
                "written", lambda connection: self._number_of_scope(connection, collections)
            )
        return self.scopes[collections]

    def created(self, after: int, count: int) -> list[Any]:
        """Return key, number, version and digest of rows of the origin that are created, not gone.

        Args:
            after: the number of the row that was read last.
            count: how many at most.
        """
        query = (
            f"SELECT key, number, version, digest FROM kbot_items WHERE {_OF_ORIGIN} "  # noqa: S608 - as above
            "AND number > ? AND state = 'created' AND gone_at IS NULL ORDER BY number LIMIT ?"
        )
        values = (*self._of_origin, after, count)
        return self.read(lambda connection: connection.rows(query, *values))

    def find(self, ids: Sequence[bytes], *, share: bool) -> dict[bytes, Row | None]:
        """Look items up; those that are left to other runs are not in the answer.

        Args:
            ids: the items.
            share: whether to leave the other live runs of the same scope their share, by the items'
                ids. Each run knows by them, before it asks anything else, which items are its own.
        """

        def find(connection: Connection) -> dict[bytes, Row | None]:
            rows, mine = rows_where(connection, "id {ids}", ids=ids, dead=()), list(ids)
            # A run that has nothing to send writes nothing, so it does not register itself.
            if share and (self.registered or len(rows) < len(ids)):
                mine = self._share(connection, ids)
            claimed = any(row.state == State.CLAIMED and row.run != self.run for row in rows)
            if claimed and (dead := dead_runs(connection)):
                if not self.reading:
                    expire(connection)
                rows = rows_where(connection, "id {ids}", ids=mine, dead=dead)
            found = {row.id: row for row in rows}
            return {each: found.get(each) for each in mine}

        return self.read(find)

    def _share(self, connection: Connection, ids: Sequence[bytes]) -> list[bytes]:
        """Return this run's share of items that other live runs of the same scope may have too."""
        if not self.registered:
            self._renew(connection)
        others = live_runs(connection, but=self.run)
        runs = sorted(run for run in others if others[run] == self._scope)
        rank, several = sum(run < self.run for run in runs), len(runs) + 1
        return [each for each in ids if each[0] % several == rank]

    def contents(self, ids: Sequence[bytes]) -> dict[bytes, tuple[int, str | None, bytes]]:
        """Return number, version and digest of those items that are created, and not gone."""
        query = (
            "SELECT id, number, version, digest FROM kbot_items "
            "WHERE id {ids} AND state = 'created' AND gone_at IS NULL"
        )
        found = self.read(lambda connection: connection.of_ids(query, ids))
        return {each: tuple(known) for each, *known in found}

    def reserve(self, count: int, rate: float, longest: float) -> float:
        """Reserve turns in the queue shared by all runs that send to the service at a rate.

        Args:
            count: how many turns.
            rate: turns per second.
            longest: the most that one run reserves at once, in seconds.

        Returns:
            Seconds until the first turn.
        """

        def take(connection: Connection) -> float:
            if not self.registered:  # live runs are counted below
                self._renew(connection)
            with connection.transaction():
                insert = "INSERT INTO kbot_rates (service, free_at) VALUES (?, 0)"
                connection.run(f"{insert} ON CONFLICT DO NOTHING", self._service)
                # SQLite's write transactions exclude each other already.
                locked = "" if connection.sqlite else " FOR UPDATE"
                query = "SELECT free_at, (SELECT count(*) FROM kbot_runs) FROM kbot_rates "
                where = f"WHERE service = ?{locked}"
                ((free_at, runs),) = connection.rows(query + where, self._service)
                now = connection.now()
                # Later than all runs together can have reserved: the clock was set back.
                first = now if free_at > now + (runs + 1) * longest else max(free_at, now)
                connection.run(
                    "UPDATE kbot_rates SET free_at = ? WHERE service = ?",
                    first + count / rate,
                    self._service,
                )
            return float(first - now)

        return self._session.do("written", take)

    def write(self, batch: Batch) -> set[bytes]:
        """Write a batch durably; return the ids of what another run wrote or claimed first."""
        return self._session.do("written", lambda connection: self._write(connection, batch))

    def finish(self, batch: Batch, *, same: bool) -> list[tuple[str, str, str]]:
        """Write what is left, give up the lease, and close; claims left then become unknown.

        Args:
            batch: what to write.
            same: whether to look for what this run created twice.

        Returns:
            Key and name of what this run created, with another key of the same content.
        """

        def end(connection: Connection) -> list[tuple[str, str, str]]:
            if batch or self.registered:
                self._write(connection, batch, leave=True)
            rows = connection.rows(_SAME_CONTENTS, self.run, self.run) if same else []
            return [(key, name or key, other) for key, name, other in rows]

        try:
            return self._session.do("written", end)
        finally:
            running.pop(self.run, None)
            self._session.close()

    def _write(self, connection: Connection, batch: Batch, *, leave: bool = False) -> set[bytes]:
        with connection.transaction():
            if self.due:  # first, so that a run considered dead is live before its claims
                self._renew(connection)
            released = set(batch.released)
            lost = write_rows(connection, batch.rows, released) if batch.rows else set[bytes]()
            if batch.superseded:
                supersede(connection, batch.superseded)
            for row in batch.moved:
                connection.run(_MOVE, *row, row.digest, row.id)
            for row in batch.rows if lost else ():
                # Another run or a person settled it meanwhile: the service has it twice.
                if row.id in lost and row.state == State.CREATED and row.source_id:
                    (there,) = rows_where(connection, "id = ?", row.id)
                    supersede(connection, superseded_rows(row, there.source_id))
            if batch.released:
                connection.run_for_ids(_RELEASE, sorted(released), self.run)
            if batch.claims:
                lost |= self._claim(connection, batch.claims)
            if leave:
                expire_run(connection, self.run)
            self.in_doubt = not connection.sqlite  # until the commit is answered
        self.in_doubt = False
        return lost

    def _claim(self, connection: Connection, claims: list[Row]) -> set[bytes]:
        """Claim items; return the ids of those that another run has, or has written since."""
        # In the same order in all runs: PostgreSQL locks row by row, and would find deadlocks.
        claims = sorted(claims, key=attrgetter("id"))
        ids = [claim.id for claim in claims]
        mine = set(ids)
        if connection.insert(_CLAIM, list(map(attrgetter(*_OF_CLAIM), claims))) < len(claims):
            query = "SELECT id FROM kbot_claims WHERE id {ids} AND run = ?"
            mine = {each for (each,) in connection.of_ids(query, ids, self.run)}
        # A statement of its own, after the claims are there: who held one of them before has
        # committed by now, and in PostgreSQL only a new statement sees that.
        query = "SELECT id, generation FROM kbot_items WHERE id {ids}"
        generations = dict(connection.of_ids(query, ids))
        lost = {
            claim.id
            for claim in claims
            if claim.id not in mine or generations.get(claim.id, 0) != claim.generation - 1
        }
        if lost:
            connection.run_for_ids(_RELEASE, sorted(lost), self.run)
        return lost

    @property
    def due(self) -> bool:
        """Whether it is time to renew the lease."""
        return clock() - self._renewed > HEARTBEAT

    @property
    def lapsed(self) -> bool:
        """Whether the lease may have expired unnoticed, such as while the machine slept."""
        return clock() - self._renewed > LEASE / 2

    def digests(self, most: int) -> set[bytes]:
        """Return the contents of the origin's files and texts; none if there are more than that."""
        query = f"SELECT digest FROM kbot_items WHERE {_CONTENT} AND {_OF_ORIGIN} LIMIT ?"  # noqa: S608 - as above
        values = (*self._of_origin, most + 1)
        rows = self.read(lambda connection: connection.rows(query, *values))
        return {digest for (digest,) in rows} if len(rows) <= most else set()

    def with_contents(self, digests: Sequence[bytes]) -> list[Row]:
        """Return the rows that `digests` looks at with one of these contents."""
        condition, values = f"digest {{ids}} AND {_CONTENT} AND {_OF_ORIGIN}", self._of_origin
        return self.read(lambda connection: rows_where(connection, condition, *values, ids=digests))

    def unsettled(self, batch: Batch, seen: bytearray) -> list[Row]:
        """Return the unknown items of the origin that could be asked about and were not seen.

        A reader can record no answer, and gets none.

        Args:
            batch: what to write first.
            seen: for each row number, whether it was seen.
        """
        # By the index of what is not settled, instead of that of the origin.
        condition = "state <> 'created' AND state = 'unknown' AND idempotency_key IS NOT NULL"

        def find(connection: Connection) -> list[Row]:
            if batch:
                self._write(connection, batch)
            return rows_where(connection, condition)

        return [
            row
            for row in ([] if self.reading else self._session.do("written", find))
            if row.origin == self.origin and row.number <= self.highest and not seen[row.number]
        ]

    def read(self, work: Callable[[Connection], T]) -> T:
        """Read with the run's connection."""
        return self._session.do("read", work)

    def write_with(self, work: Callable[[Connection], T]) -> T:
        """Write with the run's connection, in a transaction."""

        def write(connection: Connection) -> T:
            with connection.transaction():
                return work(connection)

        return self._session.do("written", write)

    def unready(self) -> list[Row]:
        """Return the rows of this run and of its origin that the service may not answer from yet.

        Others of the same collections are for the runs of their own origins to wait for.
        """
        scopes = ", ".join(map(str, self.scopes.values()))
        origin = "IS NULL" if self.origin is None else f"= {self.origin}"
        condition = (
            f"scope IN ({scopes}) AND (origin {origin} OR run = {self.run}) "
            "AND ready_at IS NULL AND source_revision IS NOT NULL "
            "AND state = 'created' AND gone_at IS NULL"
        )
        return self.read(lambda connection: rows_where(connection, condition))

    def mark_ready(self, ready: Sequence[Row], failed: Sequence[Row]) -> None:
        """Record from which generations the service answers now, and why others cannot be read."""
        there = f"UPDATE kbot_items SET ready_at = {int(time.time())}, error = NULL "  # noqa: S608 - as above

        def mark(connection: Connection) -> None:
            known = [(row.number, row.source_revision) for row in ready]
            where = "WHERE (number, source_revision) IN (VALUES {rows})"
            connection.insert(there + where, known)
            where = "WHERE number = ? AND source_revision = ?"
            for row in failed:
                update = f"UPDATE kbot_items SET error = ? {where}"  # noqa: S608 - as above
                connection.run(update, (row.error or "")[:2000], row.number, row.source_revision)

        self.write_with(mark)

    def holds(self, source_ids: Sequence[str]) -> set[str]:
        """Return which of some sources are in the ledger, as any item's. It reads all items."""

        def look(connection: Connection) -> set[str]:
            tables = "kbot_items", "kbot_superseded"
            query = "SELECT source_id FROM {} WHERE source_id {{ids}}"
            found = [connection.of_ids(query.format(table), source_ids) for table in tables]
            return {each for rows in found for (each,) in rows}

        return self.read(look) if source_ids else set()

    def mark_gone(
        self, seen: bytearray, met: int, limit: float, reason_of: Callable[[str], str]
    ) -> "Gone":
        """Record which items the origin no longer yields, after it was read to its end.

        What is more than the limit gets a reason, but no time: it is withheld.

        Args:
            seen: for each row number, whether it was seen.
            met: how many rows of the origin are known to have been seen; where these are all of
                them, the rows need not be looked at.
            limit: the share of its items that may disappear at once, 0 to 1.
            reason_of: returns why the item with a key is gone, as `Skipped.gone` says it.
        """

        def mark(connection: Connection) -> Gone:
            known = "FROM kbot_items WHERE origin = ? AND digest IS NOT NULL AND number <= ?"
            query = f"SELECT count(*), count(gone_at), count(gone_reason) {known}"
            if connection.rows(query, self.origin, self.highest) == [(met, 0, 0)]:
                return Gone(met)
            query = f"SELECT number, gone_at, gone_reason {known}"
            rows = connection.rows(query, self.origin, self.highest)
            vanished = {number: (at, why) for number, at, why in rows if not seen[number]}
            gone, changes = Gone(len(rows)), defaultdict[tuple[str, str], list[int]](list)
            query = "SELECT number, id, key FROM kbot_items WHERE number {ids}"
            for number, identifier, key in connection.of_ids(query, list(vanished)):
                (at, before), reason = vanished[number], reason_of(key)
                if reason == "unread":
                    continue
                again = at is not None and before in (None, reason)
                (gone.again if again else gone.first)[identifier] = key, reason
                if not again or before is None:
                    changes["gone_at" if again else "now", f"'{reason}'"].append(number)
            there = sum(at is None for _, at, _ in rows)
            gone.withheld = len(gone.first) > limit * there
            changes["NULL", "NULL"] = [n for n, at, why in rows if seen[n] and (at or why)]
            now = "NULL" if gone.withheld else str(int(time.time()))
            if any(changes.values()) and not self.reading:
                with connection.transaction():
                    for (at, reason), numbers in changes.items():
                        at = now if at == "now" else at  # noqa: PLW2901
                        update = f"UPDATE kbot_items SET gone_at = {at}, gone_reason = {reason}, "  # noqa: S608 - ours
                        connection.run_for_ids(update + _UNCLAIMED, numbers)
            return gone

        return self._session.do("read" if self.reading else "written", mark)

    def versions(self) -> list[Any]:
        """Return the key and the version of each item of the origin."""
        query = f"SELECT key, version FROM kbot_items WHERE {_OF_ORIGIN}"  # noqa: S608 - as above
        return self.read(lambda connection: connection.rows(query, *self._of_origin))

    def recall(self, url: str) -> bytes | None:
        """Return what is remembered of a page; None if nothing is."""
        query = "SELECT known FROM kbot_pages WHERE id = ?"
        found = self.read(lambda connection: connection.rows(query, page_id(url)))
        return bytes(found[0][0]) if found else None

    def remember(self, url: str, known: bytes) -> None:
        """Remember a page; a reader remembers nothing."""
        statement = (
            "INSERT INTO kbot_pages (id, known) VALUES (?, ?) "
            "ON CONFLICT (id) DO UPDATE SET known = excluded.known"
        )
        if not self.reading:
            self._session.do(
                "written", lambda connection: connection.run(statement, page_id(url), known)
            )

    def is_ledger_file(self, path: str) -> bool:
        """Return whether a file belongs to the ledger. Such a file must not even be opened.

        Closing it drops the locks that SQLite holds on it in this process (POSIX; "How To Corrupt
        An SQLite Database File", section 2.2).
        """
        folder, _, name = path.rpartition(os.sep)
        file = self._database.file
        if file is None or not name.startswith(file.name):
            return False
        if not re.fullmatch(r"(-(journal|shm|wal))?", name[len(file.name) :]):
            return False
        try:
            return Path(folder or os.curdir).samefile(file.parent)
        except OSError:
            return False

    def give_up(self) -> None:
        """Stop waiting for a database that does not answer."""
        self._session.given_up = True

    def _number_of_scope(self, connection: Connection, collections: Iterable[str]) -> int:
        values = (self._service, ",".join(sorted(collections)))
        return self._number_of(connection, "kbot_scopes", "service", "collections", values)

    def _number_of(
        self, connection: Connection, table: str, one: str, two: str, values: tuple[Any, Any]
    ) -> int:
        query = f"SELECT number FROM {table} WHERE {one} = ? AND {two} = ?"  # noqa: S608 - as above
        insert = f"INSERT INTO {table} ({one}, {two}) VALUES (?, ?) ON CONFLICT DO NOTHING"  # noqa: S608
        found = connection.rows(query, *values)
        if not found and not self.reading:
            connection.run(insert, *values)
            found = connection.rows(query, *values)
        return int(found[0][0]) if found else 0

    def _renew(self, connection: Connection) -> None:
        if not self.registered:
            # Remove what killed runs left behind and nothing needs.
            connection.run(
                "DELETE FROM kbot_runs WHERE lease_until < ? "
                "AND run NOT IN (SELECT run FROM kbot_claims)",
                connection.now() - LEASE,
            )
        connection.run(
            "INSERT INTO kbot_runs (run, scope, machine, host, pid, started, lease_until) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (run) DO UPDATE SET lease_until = excluded.lease_until",
            self.run,
            self._scope,
            *self._owner[1:],
            connection.now() + LEASE,
        )
        running[self.run] = self._alive
        self.registered, self._renewed = True, clock()
