"""A ledger keeps the book of an origin: for services that cannot do so themselves.

The interface can neither list nor delete sources and takes no idempotency key. So an intent is on
disk before a request leaves, and what a killed process left behind is unknown, never guessed.

Writes are grouped: results and claims that arrive within a moment, or during one transaction, go
into the next one together. A worker's result is committed before its next claim, or together with
it, so a committed ledger never holds more claims than there may be requests in flight.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from knowledge_bot._extensions import end_of_life, new_key
from knowledge_bot._json import storable
from knowledge_bot._responses import KEY_REUSED
from knowledge_bot.errors import APIError, KnowledgeBotError
from knowledge_bot.ingest._jobs import Examiner, Job, MovedItems, Planned, reading_of
from knowledge_bot.ingest._listings import ListedFile, Listing, Skipped, version_of_file
from knowledge_bot.ingest._pressure import Decision, Pressure
from knowledge_bot.ingest._report import Kind, Outcome, Stop, would_move
from knowledge_bot.ingest._schema import LedgerError
from knowledge_bot.ingest._store import (
    DIGEST_SIZE,
    NO_ROW,
    Batch,
    Row,
    State,
    Store,
    item_ids,
    normalised_url,
    superseded_rows,
)

if TYPE_CHECKING:
    from knowledge_bot.ingest._engine import Run

# Seconds that a claim waits for others to be committed with: less than a request takes.
_GATHERING = 0.0005

# Seconds between two checks of what other runs are sending.
_POLL = 0.5

# How many rows are read ahead, and how many are kept whose items did not come.
_READ_AHEAD = 2000
_MOST_READ_AHEAD = 8000

# Stands for a row that was not read ahead; no row has this number.
_NOT_AHEAD: tuple[str, int, str | None, bytes] = ("", 0, None, b"")

# How many contents of an origin are compared to find what was moved.
_MOST_CONTENTS = 1_000_000

_REASONS = ("missing", "excluded", "404", "410", "unread")

_CREATE = {
    "text": "create_text_source",
    "webpage": "create_webpage_source",
    "file": "upload_source",
}
_CHANGED_MEANWHILE = b"changed while it was sent"

_CLAIMED_UNSENT = (
    "nothing was sent, but the ledger's connection broke during the claim, so its row may say that "
    "it is being sent; if the ledger lists it as unknown, settle it there as not created"
)


class LedgerKeeper:
    """Keeps the book in a ledger."""

    repeatable = replaces = False

    def __init__(self, run: "Run", service: str) -> None:
        options = run.options
        assert options.ledger is not None  # noqa: S101 - or there were no book
        self._run, self._options, self._place = run, options, run.place
        self._service = normalised_url(service)
        loop = asyncio.get_running_loop()
        self._store = Store(
            options.ledger.database,
            patience=options.ledger.wait,
            reading=options.dry_run,
            alive=lambda: not loop.is_closed(),
        )
        self._writer = _Writer(self._store, options.concurrency, run.gate)
        is_own = self._store.is_ledger_file
        self._examiner = Examiner(options.collections, is_own=is_own)
        self._seen: _Seen
        self._moved, self._contents = MovedItems(), set[bytes]()
        self._others = _Others(shares=options.complete and not options.dry_run)
        self._corrected: list[Row] = []  # what need not be sent
        self._changed: dict[int, bytes] = {}  # the new content of what is sent again, by its row
        self._unsent: list[tuple[Job, bool, str]] = []  # their claims failed

    # The memory of the origin ---------------------------------------------------------------------

    note: str | None = None

    def recall(self, key: str) -> str | None:
        """Return the version of the item that was last sent under a key."""
        return self._store.version_of(self._id(key)) if self._store.is_there else None

    def entries(self) -> Iterable[tuple[str, str | None]]:
        """Return key and version of each item of the origin."""
        return self._store.versions() if self._store.is_there else []

    # Comparing ------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the ledger, or make it."""
        self._id = item_ids(self._service, self._place.name)
        self.note = self._first_note = await asyncio.to_thread(
            self._store.open, self._service, self._place.name
        )
        self._seen = _Seen(self._store, self._options.collections)

    async def plan(self, items: Sequence[object]) -> Planned:
        """Compare items with the ledger."""
        return await self._in_thread(self._planned, items)

    async def _in_thread(self, plan: Callable[..., Planned], *given: Any, **how: Any) -> Planned:
        planned = await asyncio.to_thread(plan, *given, **how)
        corrected, self._corrected = self._corrected, []
        self._writer.add(rows=corrected)
        self._others.sending += planned.elsewhere
        self._run.counters.incomplete = self._run.counters.incomplete or self._examiner.partial
        return planned

    def _planned(self, items: Sequence[object], *, again: bool = False) -> Planned:
        """Decide about items; those that come `again` are left to no other run."""
        planned, singles, jobs = Planned(), list[object](), list[Job]()
        for each in items:
            if isinstance(each, Listing):
                singles += self._seen.differing(each, planned)
            else:
                singles.append(each)
        for job in self._examiner.jobs(singles, planned):
            if again or not self._is_as_expected(job, planned):
                jobs.append(job)
        return self._decided(jobs, planned, again=again)

    def _decided(self, jobs: Sequence[Job], planned: Planned, *, again: bool) -> Planned:
        mine = self._looked_up(jobs, planned, share=self._others.shares and not again)
        twice = {
            id(job)
            for job in mine
            if job.before is not None and not self._seen.mark(job.before.number) and not again
        }
        for job in self._examiner.usable(mine, planned, self._known):
            self._decide(job, planned, comes_twice=id(job) in twice)
        if not again:
            planned.jobs = self._moved.take(planned.jobs, self._had)
        return planned

    def _is_as_expected(self, job: Job, planned: Planned) -> bool:
        """Return whether an item is as the row says that was read ahead for it."""
        if getattr(job.item, "collections", None) is not None:
            return False
        row = self._seen.expected(job.key)
        if row is None:
            return False
        _, number, version, digest = row
        given = job.version
        if given is None and job.kind == "file":
            given = version_of_file(job.place)
        if job.kind == "text":  # a page with another version has it written down, though unchanged
            item: Any = job.item
            job.digest = item.content_digest()
            same = job.is_same(digest, version)
        else:
            same = given is not None and given == version
        if same:
            self._seen.met_row(number)
            planned.unchanged += 1
        return same

    def _looked_up(self, jobs: Sequence[Job], planned: Planned, *, share: bool) -> list[Job]:
        """Complete jobs with what the ledger holds; return those that this run has to do with."""
        if not jobs or not self._store.is_there:
            return list(jobs)
        found = self._store.find([self._id(job.key) for job in jobs], share=share)
        mine, left = list[Job](), list[Job]()
        for job in jobs:
            identifier = self._id(job.key)
            if identifier not in found:
                left.append(job)
                continue
            job.before = found[identifier]
            row = job.before
            if row and row.state == State.CLAIMED and row.run != self._store.run:
                planned.elsewhere.append(job.item)
                self._seen.mark(row.number)
            else:
                mine.append(job)
        if left:
            self._others.left.append(left)
        return mine

    def _known(self, job: Job) -> bytes | None:
        """Return the digest of an item whose version is that of its row."""
        row = job.before
        if row is None or job.version is None or row.version != job.version:
            return None
        return row.digest or None

    def _decide(self, job: Job, planned: Planned, *, comes_twice: bool) -> None:
        row, store = job.before, self._store
        if row is None:
            planned.jobs.append(job)
            return
        collections = store.collections(job.collections)
        content = job.digest[:DIGEST_SIZE]
        if comes_twice or row.run == store.run:
            came = row.digest, row.pending, self._changed.get(row.number)
            planned.outcomes.append(job.came_twice(same=content in came))
        elif row.state == State.UNKNOWN:
            if self._is_held(job, row):
                planned.outcomes.append(job.outcome("unknown", f"held back: {row.error}"))
            else:
                planned.jobs.append(job)
        elif row.digest is None or not job.is_same(row.digest, row.version):
            self._changed[row.number] = content
            planned.jobs.append(job)
        elif collections == row.collections:
            planned.unchanged += 1
            self._correct(job, row)
        else:
            self._check_collections(job, row)
            self._changed[row.number] = content
            planned.jobs.append(job)

    def _check_collections(self, job: Job, row: Row) -> None:
        """End the run where it would take what the origin holds out of its collections."""
        options = self._options
        if job.collections != options.collections or options.anyway or not self._place.whole:
            return
        there = self._store.collection_ids(row.collections)
        if (error := would_move(self._place.name, there, job.collections)) is not None:
            raise error

    def _correct(self, job: Job, row: Row) -> None:
        """Write what is known by now of an item that need not be sent."""
        right = row._replace(
            state=State.CREATED,
            pending=None,
            digest=job.digest[:DIGEST_SIZE] if job.version is not None else row.digest,
            version=job.version if job.kind != "webpage" or job.version else row.version,
            error=row.error if row.state == State.CREATED else None,
            location=_location(job),
            gone_at=None,
            gone_reason=None,
        )
        if right != row:
            self._corrected.append(right._replace(generation=row.generation + 1))

    def _is_held(self, job: Job, row: Row) -> bool:
        """Return whether an item of unknown outcome is left as it is.

        What may have been sent is sent again with the same key, if the service still knows that
        and the content is the same; else only if unknown items are resent.
        """
        extensions, key = self._run.sender.extensions, row.idempotency_key
        alive = key is not None and time.time() < end_of_life(key, extensions)
        same = row.pending == job.digest[:DIGEST_SIZE] and "idempotency" in extensions
        return not (alive and same) and self._options.on_unknown == "hold"

    def _had(self, digest: bytes) -> bool:
        """Return whether the origin has, or had, a content under some key."""
        if not self._store.knows_origin:
            return False
        if not self._contents:
            self._contents = self._store.digests(_MOST_CONTENTS) or {b""}
        return digest[:DIGEST_SIZE] in self._contents

    async def more(self, incomplete: str) -> Planned | None:
        """Return what was moved, what was left to other runs, and what they were faster with."""
        others = self._others
        if self._moved:
            return await self._in_thread(self._plan_moved, complete=not incomplete)
        if others.left:
            return await self._in_thread(self._plan_left)
        if others.lost:
            lost, others.lost = others.lost, []
            return await self._in_thread(self._planned, lost, again=True)
        return await self._wait_for_others()

    def _plan_moved(self, *, complete: bool) -> Planned:
        gone = list[Row]()

        def places(job: Job) -> list[Row]:
            return [
                row for row in gone if row.digest == job.digest[:DIGEST_SIZE] and _alike(job, row)
            ]

        if complete:
            digests = sorted({digest[:DIGEST_SIZE] for digest in self._moved.contents})
            gone = [
                row
                for row in self._store.with_contents(digests)
                if not self._seen.rows[row.number]
                and self.gone_reason(row.key) not in ("excluded", "unread")
            ]
        planned = Planned()
        for job in self._moved.found(places):
            if job.moved is not None:
                self._seen.mark(job.moved.number)
            planned.jobs.append(job)
        return planned

    def gone_reason(self, key: str) -> str:
        """Return why an item with this key did not come."""
        reason = self._examiner.left_out.get(key) or self._place.gone_reason(key)
        return reason if reason in _REASONS else "missing"

    def _plan_left(self) -> Planned:
        """Decide what to do with the first window of what was left to other runs.

        Most items are created by now, which one narrow statement tells.
        """
        jobs, planned, left = self._others.left.popleft(), Planned(), list[Job]()
        there = self._store.contents([self._id(job.key) for job in jobs])
        for job in jobs:
            number, version, _ = there.get(self._id(job.key), (0, None, b""))
            given = job.version
            if given is None and job.kind == "file":
                given = version_of_file(job.place)
            if number and given is not None and given == version:
                self._seen.mark(number)
                planned.unchanged += 1
            else:
                left.append(job)
        self._decided(left, planned, again=True)
        self._others.shares &= len(planned.jobs) < len(jobs)  # else nobody takes them
        return planned

    async def _wait_for_others(self) -> Planned | None:
        """Plan again what other runs were sending, for as long as the caller waits at the end."""
        others, counters = self._others, self._run.counters
        wait = 0.0 if self._options.dry_run else self._options.wait_ready
        until = others.until = others.until or time.monotonic() + wait
        while others.sending and counters.stopped is None:
            left = until - time.monotonic()
            if left <= 0:
                break
            await asyncio.sleep(min(left, _POLL))
            items, others.sending = others.sending, []
            planned = await self._in_thread(self._planned, items, again=True)
            counters.counts["elsewhere"] -= len(items)  # they are counted again
            if len(planned.elsewhere) < len(items):
                return planned
            counters.counts["elsewhere"] += len(items)
        return None

    # Sending --------------------------------------------------------------------------------------

    async def claim(self, job: Job) -> bool:
        """Write an item's claim durably; False if another run was faster, or may have been."""
        if job.moved is not None:
            self._move(job, job.moved)
            return False
        row, extensions = job.before, self._run.sender.extensions
        key = new_key() if "idempotency" in extensions else None
        job.in_doubt = False
        if row is not None and row.state == State.UNKNOWN:
            if self._is_held(job, row):  # by now
                self._run.counters.add(job.outcome("unknown", f"held back: {row.error}"))
                return False
            if key is not None and row.pending == job.digest[:DIGEST_SIZE] and row.idempotency_key:
                key, job.in_doubt = row.idempotency_key, True
        job.claim = self._claimed(job, key)
        try:
            mine = await self._writer.claim(job.claim)
        except BaseException as error:
            self._writer.release(job.claim)
            if isinstance(error, LedgerError):
                self._unsent.append((job, self._store.in_doubt, str(error)))
            raise
        if mine and self._store.lapsed:
            # While the machine slept, others may have considered this run dead.
            self._writer.release(job.claim)
            mine = False
        if not mine:
            self._others.lost.append(job.item)
        return mine

    def _claimed(self, job: Job, key: str | None) -> Row:
        before: Row = job.before or NO_ROW
        return before.claimed(
            id=self._id(job.key),
            run=self._store.run,
            origin=self._store.origin,
            collections=self._store.collections(job.collections),
            key=job.key,
            name=None if job.name == job.key else job.name,
            kind=job.kind,
            location=_location(job),
            pending=job.digest[:DIGEST_SIZE],
            idempotency_key=key,
        )

    def _move(self, job: Job, row: Row) -> None:
        """Give a source that is already there to the item that has its content."""
        moved = row._replace(
            id=self._id(job.key),
            key=job.key,
            name=None if job.name == job.key else job.name,
            location=_location(job),
            version=job.version,
            source_name=row.source_called,
            run=self._store.run,
            generation=row.generation + 1,
            updated_at=int(time.time()),
            gone_at=None,
            gone_reason=None,
        )
        self._writer.add(moved=[moved])
        self._run.counters.add(job.outcome("moved", source_id=row.source_id))

    def request(self, job: Job) -> tuple[str, dict[str, Any]]:
        """Return how an item is created."""
        kind, fields = job.sent_as()
        if job.claim.idempotency_key is not None:
            fields["idempotency_key"] = job.claim.idempotency_key
        return _CREATE[kind], fields

    async def sent(self, job: Job, answer: Any) -> None:
        """Record that an item is a source now."""
        known: dict[str, Any] = {"version": job.version}
        changed, source_id = job.stat is not None, str(answer.id)
        try:
            if changed:
                changed = await asyncio.to_thread(version_of_file, job.place) != job.stat
        finally:
            if changed:
                # Nobody knows which content the service got, so the next run compares it again.
                known = {"digest": _CHANGED_MEANWHILE}
            superseded = superseded_rows(job.before, source_id)
            row = job.claim.settled(State.CREATED, source_id=storable(source_id), **known)
            self._writer.add(rows=[row], released=[row.id], superseded=superseded)
            self._run.counters.counts["superseded"] += len(superseded)
        self._run.counters.add(job.outcome("created", source_id=source_id))

    async def judged(self, job: Job, error: KnowledgeBotError) -> Decision | None:
        """Leave errors to others, but that a key was used, by a request that may have been ours."""
        if isinstance(error, APIError) and error.code == KEY_REUSED and job.in_doubt:
            job.in_doubt = False
            return Decision("unknown")
        return None

    def failed(self, job: Job, kind: Kind | None, error: str, *, again: bool) -> None:
        """Record that an item was not created, or may not have been."""
        if again or kind == "invalid" or kind is None:
            self._writer.release(job.claim)  # it was not sent: no claim while it waits
        else:
            state = State.UNKNOWN if kind == "unknown" else State.REFUSED
            row = job.claim.settled(state, error=storable(error[:2000]))
            self._writer.add(rows=[row], released=[row.id])
        if kind is not None and not again:
            self._run.counters.add(job.outcome(kind, error))

    # The end --------------------------------------------------------------------------------------

    async def finish(self, incomplete: str) -> None:
        """Mark what the origin has no more, and say what this service cannot do."""
        options, counters, store = self._options, self._run.counters, self._store
        if batch := await self._writer.rest():
            self._writer.batch = batch
            await asyncio.to_thread(store.write, batch)
            self._writer.batch = Batch()
        if not incomplete and options.complete and self._place.whole and store.is_there:
            seen = self._seen.rows, self._seen.met
            gone = await asyncio.to_thread(
                store.mark_gone, *seen, options.gone_limit, self.gone_reason
            )
            counters.counts["gone"] += gone.count
            counters.withhold(gone.withheld, self._place.name, options.gone_limit, "marked as gone")
            if self.note != self._first_note and not store.reading:
                await asyncio.to_thread(store.set_note, self.note)
        counters.counts["unversioned"] = self._examiner.unversioned
        if options.prune and counters.counts["gone"] + counters.counts["superseded"]:
            counters.cannot(
                "prune",
                "The service cannot remove sources. What is gone from the origin, or superseded by "
                "a newer source, is still answered from; the ledger lists it as such",
            )
        if options.wait_ready and counters.counts["created"]:
            counters.cannot("wait_ready", "The service does not say what it has read already")

    async def close(self) -> None:
        """Write what is left and give up the ledger."""
        batch = await self._writer.rest()
        try:
            await asyncio.to_thread(self._store.finish, batch)
            batch = Batch()
        except LedgerError as error:
            self._run.stop(Stop.LEDGER, str(error))
        self._count_unwritten(batch)

    def _count_unwritten(self, batch: Batch) -> None:
        """Count what the ledger could not be told: there the items become unknown."""
        counters = self._run.counters
        for row in batch.rows:
            what = "the outcome"
            if row.state == State.CREATED:
                counters.counts["created"] -= 1
                what = f"that it was created as {row.source_id}; once it is back, settle it there"
            if row.state != State.UNKNOWN:
                error = f"the ledger could not record {what}"
                counters.add(Outcome("unknown", row.name or row.key, row.key, error))
        for job, in_doubt, why in self._unsent:
            kind: Kind = "unknown" if in_doubt and batch else "undelivered"
            reason = f"{_CLAIMED_UNSENT if kind == 'unknown' else 'it was not sent'}: {why}"
            counters.add(job.outcome(kind, reason))

    def tick(self) -> None:
        """Renew the lease if it is time."""
        self._writer.keep_alive()

    def give_up(self) -> None:
        """Stop waiting for a database that does not answer."""
        self._store.give_up()


def _location(job: Job) -> str | None:
    """Return where an item is, as a row says it; None if that is its key."""
    return None if job.kind == "text" or job.place == job.key else job.place


def _alike(job: Job, row: Row) -> bool:
    return job.way == reading_of(row.kind, row.location or row.key)


class _Others:
    """What other runs with the same ledger have to do with.

    Attributes:
        shares: whether they are left their share; False once they turned out not to take it.
        left: what is left to them, by the windows in which it came.
        lost: items that another run claimed or changed first.
        sending: items that they are sending.
        until: when nobody waits for them any more, by the monotonic clock; 0 until somebody does.
    """

    def __init__(self, *, shares: bool) -> None:
        self.shares = shares
        self.left: deque[list[Job]] = deque()
        self.lost: list[Any] = []
        self.sending: list[Any] = []
        self.until: float = 0.0


class _Seen:
    """Which rows of the origin came, and those that probably come next.

    In most runs nearly all items are unchanged and come in the same order as before. To ask for
    each row would take longer than everything else about them.

    Attributes:
        rows: for each row number, whether the row was seen.
        met: how many rows of the origin were seen, at least.
    """

    def __init__(self, store: Store, collections: tuple[str, ...]) -> None:
        self._store, self._collections = store, collections
        self.rows = bytearray(store.highest + 1)
        self.met = 0
        # Rows of the origin by key, in the order they were read.
        self._ahead: dict[str, tuple[str, int, str | None, bytes]] = {}
        self._last, self._more = 0, store.knows_origin

    def mark(self, number: int) -> bool:
        """Record that a row was seen; False if it was seen before."""
        if number >= len(self.rows):  # it was made during this run
            return True
        new = not self.rows[number]
        self.rows[number] = 1
        return new

    def met_row(self, number: int) -> None:
        """Record that a row that was read ahead is as expected."""
        self.rows[number] = 1
        self.met += 1

    def expected(self, key: str) -> tuple[str, int, str | None, bytes] | None:
        """Return the row that was read ahead for a key, once."""
        if self._more and not self._ahead:
            self._read()
        return self._ahead.pop(key, None)

    def differing(self, listing: Listing, planned: Planned) -> "list[ListedFile | Skipped]":
        """Return the files of a listing that may have changed, as items."""
        keys, versions, item = listing
        if self._more and len(self._ahead) < len(keys):
            self._read()
        rows = list(map(self._ahead.pop, keys, repeat(_NOT_AHEAD)))
        places = [
            place
            for place, (row, version) in enumerate(zip(rows, versions, strict=True))
            if row[2] != version
        ]
        for place in places:
            rows[place] = _NOT_AHEAD
        seen = self.rows
        for _, number, _, _ in rows:
            seen[number] = 1
        same = len(keys) - len(places)
        self.met += same
        planned.unchanged += same
        return [item(place) for place in places]

    def _read(self) -> None:
        collections = self._store.collections(self._collections)
        rows = self._store.created(collections, self._last, _READ_AHEAD)
        self._more = len(rows) == _READ_AHEAD
        if rows:
            self._last = rows[-1][1]
            self._ahead.update({row[0]: row for row in rows})
        while len(self._ahead) > _MOST_READ_AHEAD:  # their items did not come
            del self._ahead[next(iter(self._ahead))]


class _Writer:
    """Writes the claims and outcomes of a run, many in one transaction.

    Attributes:
        batch: what is written next.
    """

    def __init__(self, store: Store, concurrency: int, gate: Pressure) -> None:
        self._store, self._gate = store, gate
        # While one half is committed the other half is on its way.
        self._group = max(1, concurrency // 2)
        self.batch = Batch()
        self._claims: dict[bytes, asyncio.Future[bool]] = {}
        self._committing: asyncio.Task[None] | None = None
        self._gathered: asyncio.Event | None = None
        self._resting = False

    async def claim(self, claim: Row) -> bool:
        """Claim an item; True once that is durable, False if another run was faster.

        Raises:
            LedgerError: the claim cannot be written, so the item must not be sent.
        """
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._claims[claim.id] = future
        self.add(claims=[claim])
        return await future

    def release(self, claim: Row) -> None:
        """Undo the claim of an item that was not sent."""
        if claim in self.batch.claims:
            self.batch.claims.remove(claim)
        else:
            self.add(released=[claim.id])

    def add(self, **what: Sequence[Any]) -> None:
        """Let the next transaction write this too, in the fields of a batch."""
        if self._store.reading or not any(what.values()):
            return
        for name, several in what.items():
            getattr(self.batch, name).extend(several)
        if self._gathered is None:
            self._commit_soon()
        elif self._is_full:
            self._gathered.set()

    def keep_alive(self) -> None:
        """Renew the lease if it is time."""
        if self._store.registered and self._store.due:
            self._commit_soon()

    async def rest(self) -> Batch:
        """Return what is left to be written, once nothing is being written."""
        self._resting = True
        if self._gathered is not None:
            self._gathered.set()
        if self._committing is not None:
            await asyncio.wait([self._committing])
        self._resting = False
        rest, self.batch = self.batch, Batch()
        return rest

    def _commit_soon(self) -> None:
        # The task starts after the callbacks that are ready now, so it has more to write.
        if self._committing is None or self._committing.done():
            self._committing = asyncio.get_running_loop().create_task(self._commit())

    @property
    def _is_full(self) -> bool:
        return 0 < min(self._group, self._gate.in_flight) <= len(self.batch.claims)

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._is_full:
                self._gathered = asyncio.Event()
                waking = loop.call_later(_GATHERING, self._gathered.set)
                await self._gathered.wait()
                waking.cancel()
                self._gathered = None
            if self._resting:
                return
            batch, self.batch = self.batch, Batch()
            claims, self._claims = self._claims, {}
            try:
                lost = await asyncio.to_thread(self._store.write, batch)
            except BaseException as error:
                self._fail(batch, claims, error)
                if isinstance(error, LedgerError):
                    return
                raise
            for identifier, future in claims.items():
                if not future.done():  # its task was cancelled
                    future.set_result(identifier not in lost)
            if not self.batch:
                return

    def _fail(
        self, batch: Batch, claims: dict[bytes, asyncio.Future[bool]], error: BaseException
    ) -> None:
        """Keep outcomes, to be written later: writing one twice does no harm. No claim is made."""
        for name in ("rows", "released", "superseded", "moved"):
            getattr(self.batch, name)[:0] = getattr(batch, name)
        self.batch.claims = []
        claims, self._claims = claims | self._claims, {}
        for future in claims.values():
            if not future.done():
                future.set_exception(error)
