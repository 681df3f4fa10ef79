"""A ledger keeps the book of an origin: for services that cannot do so themselves.

The interface can neither list nor delete sources and takes no idempotency key. So an intent is on
disk before a request leaves, and what a killed process left behind is unknown, never guessed.

Writes are grouped: results and claims that arrive during one transaction go into the next one
together. A worker's result is committed before its next claim, or together with it, so a committed
ledger never holds more claims than there may be requests in flight.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from knowledge_bot._extensions import end_of_life, new_key
from knowledge_bot._responses import KEY_REUSED
from knowledge_bot._texts import storable
from knowledge_bot.errors import APIError, KnowledgeBotError
from knowledge_bot.ingest._engine import Keeper
from knowledge_bot.ingest._jobs import Examiner, Job, MovedItems, Planned, reading_of
from knowledge_bot.ingest._listings import ListedFile, Listing, Skipped, version_of_file
from knowledge_bot.ingest._pressure import Decision
from knowledge_bot.ingest._report import Kind, Outcome, Stop, would_move
from knowledge_bot.ingest._schema import LedgerError
from knowledge_bot.ingest._store import (
    DIGEST_SIZE,
    NO_ROW,
    Batch,
    KnownItem,
    Row,
    State,
    Store,
    item_ids,
    normalised_url,
    superseded_rows,
)

if TYPE_CHECKING:
    from knowledge_bot.ingest._engine import Run

# Seconds between two checks of what other runs are sending.
_POLL = 0.5

# Stands for what the ledger does not have; no row has this number.
_NOTHING = KnownItem(0, None, b"", settled=False, gone=False)

_REASONS = ("missing", "excluded", "404", "410", "unread")

_CREATE = {
    "text": "create_text_source",
    "webpage": "create_webpage_source",
    "file": "upload_source",
}
_CHANGED_MEANWHILE = b"changed while it was sent"


class LedgerKeeper(Keeper):
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
        self._writer = _Writer(self._store)
        self._examiner = Examiner(options.collections, is_own=self._store.is_ledger_file)
        # Whether what does not come is gone: of a part, another one may have it.
        self._whole = options.complete and run.place.whole
        # What the service has of the origin and did not come yet, and how much it had at first.
        self._left: dict[str, KnownItem] = {}
        self._there = 0
        self._back: list[int] = []  # what was gone, and came
        self._by_content: dict[bytes, list[str]] | None = None
        self._moved = MovedItems()
        self._lost: list[Any] = []  # what another run claimed or changed first
        self._sending: list[Any] = []  # what other runs are sending
        self._until = 0.0  # when nobody waits for these any more, by the monotonic clock
        self._corrected: list[Row] = []  # what need not be sent

    # The memory of the origin ---------------------------------------------------------------------

    def recall(self, key: str) -> str | None:
        """Return the version of the item that was last sent under a key."""
        return self._store.version_of(self._id(key)) if self._store.is_there else None

    def entries(self) -> Iterable[tuple[str, str | None]]:
        """Return key and version of each item of the origin."""
        return [(key, known.version) for key, known in list(self._left.items()) if not known.gone]

    # Comparing ------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the ledger, or make it."""
        self._id = item_ids(self._service, self._place.name)
        self.note = self._first_note = await asyncio.to_thread(
            self._store.open, self._service, self._place.name
        )
        if self._store.is_there:
            known = await asyncio.to_thread(self._store.known, self._options.collections)
            self._left, self._there = known, sum(not each.gone for each in known.values())

    async def plan(self, items: Sequence[object]) -> Planned:
        """Compare items with the ledger."""
        return await self._in_thread(self._planned, items)

    async def _in_thread(self, plan: Callable[..., Planned], *given: Any, **how: Any) -> Planned:
        planned = await asyncio.to_thread(plan, *given, **how)
        corrected, self._corrected = self._corrected, []
        self._writer.add(rows=corrected)
        self._sending += planned.elsewhere
        self._run.counters.incomplete = self._run.counters.incomplete or self._examiner.partial
        return planned

    def _planned(self, items: Sequence[object], *, again: bool = False) -> Planned:
        """Decide about items; some come `again`, after another run was faster."""
        planned, singles = Planned(), list[object]()
        for each in items:
            if isinstance(each, Listing):
                singles += self._differing(each, planned)
            else:
                singles.append(each)
        jobs = self._examiner.jobs(singles, planned)
        jobs = [job for job in jobs if again or not self._is_as_expected(job, planned)]
        mine = self._looked_up(jobs, planned)
        usable = self._examiner.usable(mine, planned, self._known)
        for job in usable if again else self._examiner.distinct(usable, planned):
            self._decide(job, planned)
        if not again:
            planned.jobs = self._moved.take(planned.jobs, self._had)
        return planned

    def _differing(self, listing: Listing, planned: Planned) -> "list[ListedFile | Skipped]":
        """Return the files of a listing that may have changed, as items."""
        keys, versions, item = listing
        rows = list(map(self._left.pop, keys, repeat(_NOTHING)))
        places = [
            place
            for place, (row, version) in enumerate(zip(rows, versions, strict=True))
            if not (row.settled and row.version == version)
        ]
        for place in places:  # it may be left out yet
            if rows[place] is not _NOTHING:
                self._left[keys[place]] = rows[place]
        planned.unchanged += len(keys) - len(places)
        return [item(place) for place in places]

    def _is_as_expected(self, job: Job, planned: Planned) -> bool:
        """Return whether an item is as the ledger has it, so that its row need not be read."""
        known = self._left.get(job.key)
        if known is None or not known.settled or getattr(job.item, "collections", None):
            return False
        given = job.version
        if given is None and job.kind == "file":
            given = version_of_file(job.place)
        if job.kind == "text":  # a page with another version has it written down, though unchanged
            item: Any = job.item
            job.digest = item.content_digest()
            same = job.is_same(known.digest, known.version)
        else:
            same = given is not None and given == known.version and job.asks_as(known.digest)
        if same:
            self._examiner.came[job.key] = known.digest
            del self._left[job.key]
            planned.unchanged += 1
        return same

    def _looked_up(self, jobs: Sequence[Job], planned: Planned) -> list[Job]:
        """Complete jobs with what the ledger holds; return those that this run has to do with."""
        if not jobs or not self._store.is_there:
            return list(jobs)
        found, mine = self._store.find([self._id(job.key) for job in jobs]), list[Job]()
        for job in jobs:
            row = job.before = found.get(self._id(job.key))
            if (known := self._left.pop(job.key, None)) is not None and known.gone:
                self._back.append(known.number)
            if row and row.state == State.CLAIMED and row.run != self._store.run:
                planned.elsewhere.append(job.item)
            else:
                mine.append(job)
        return mine

    def _known(self, job: Job) -> bytes | None:
        """Return the digest of an item whose version is that of its row."""
        row = job.before
        if row is None or job.version is None or row.version != job.version:
            return None
        return row.digest or None

    def _decide(self, job: Job, planned: Planned) -> None:
        row = job.before
        if row is None:
            planned.jobs.append(job)
        elif row.state == State.UNKNOWN:
            if self._is_held(job, row):
                planned.outcomes.append(job.outcome("unknown", f"held back: {row.error}"))
            else:
                planned.jobs.append(job)
        elif row.digest is None or not job.is_same(row.digest, row.version):
            planned.jobs.append(job)
        elif self._store.collections(job.collections) == row.collections:
            planned.unchanged += 1
            self._correct(job, row)
        else:
            self._check_collections(job, row)
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
        """Return whether the origin had a content under a key that did not come yet."""
        if self._by_content is None:
            self._by_content = defaultdict(list)
            for key, known in self._left.items():
                self._by_content[known.digest].append(key)
        return digest[:DIGEST_SIZE] in self._by_content

    async def more(self, incomplete: str) -> Planned | None:
        """Return what was moved, and what other runs were faster with."""
        if self._moved:
            complete = self._whole and not incomplete
            return await self._in_thread(self._plan_moved, complete=complete)
        if self._lost:
            lost, self._lost = self._lost, []
            return await self._in_thread(self._planned, lost, again=True)
        return await self._wait_for_others()

    def _plan_moved(self, *, complete: bool) -> Planned:
        places = defaultdict[bytes, list[Row]](list)
        if complete and self._by_content:
            contents = {digest[:DIGEST_SIZE] for digest in self._moved.contents}
            keys = [
                key
                for digest in contents
                for key in self._by_content.get(digest, ())
                if key in self._left and self.gone_reason(key) not in ("excluded", "unread")
            ]
            for row in self._store.find(list(map(self._id, keys))).values():
                if row.state == State.CREATED and row.digest:
                    places[row.digest].append(row)
        planned = Planned()
        for job in self._moved.found(
            lambda job: [row for row in places[job.digest[:DIGEST_SIZE]] if _alike(job, row)]
        ):
            if job.moved is not None:
                del self._left[job.moved.key]
            planned.jobs.append(job)
        return planned

    def gone_reason(self, key: str) -> str:
        """Return why an item with this key did not come."""
        reason = self._examiner.left_out.get(key) or self._place.gone_reason(key)
        return reason if reason in _REASONS else "missing"

    async def _wait_for_others(self) -> Planned | None:
        """Plan again what other runs were sending, for as long as the caller waits at the end."""
        counters = self._run.counters
        wait = 0.0 if self._options.dry_run else self._options.wait_ready
        self._until = self._until or time.monotonic() + wait
        while self._sending and counters.stopped is None:
            left = self._until - time.monotonic()
            if left <= 0:
                break
            await asyncio.sleep(min(left, _POLL))
            items, self._sending = self._sending, []
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
            self._writer.release(job.claim, job.before)
            if isinstance(error, LedgerError):
                self._run.counters.add(job.outcome("undelivered", f"it was not sent: {error}"))
            raise
        if mine and self._store.lapsed:
            # While the machine slept, others may have considered this run dead.
            self._writer.release(job.claim, job.before)
            mine = False
        if not mine:
            self._lost.append(job.item)
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
            self._writer.add(rows=[row], superseded=superseded)
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
            self._writer.release(job.claim, job.before)  # it was not sent: no claim while it waits
        else:
            state = State.UNKNOWN if kind == "unknown" else State.REFUSED
            row = job.claim.settled(state, error=storable(error[:2000]))
            self._writer.add(rows=[row])
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
        if not incomplete and self._whole and store.is_there:
            await self._mark_gone()
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

    async def _mark_gone(self) -> None:
        """Record what did not come, unless that is more than may vanish at once."""
        new, counters = defaultdict[str | None, list[int]](list), self._run.counters
        for key, known in self._left.items():
            reason = self.gone_reason(key)
            if reason != "unread" and known.gone:
                counters.counts["gone"] += 1
            elif reason != "unread":
                new[reason].append(known.number)
        count, limit = sum(map(len, new.values())), self._options.gone_limit
        if count > limit * self._there:
            counters.withhold(count, self._place.name, limit, "marked as gone")
            new.clear()
        else:
            counters.counts["gone"] += count
        if new or self._back:
            await asyncio.to_thread(self._store.mark_gone, {**new, None: self._back})

    async def close(self) -> None:
        """Write what is left and give up the ledger."""
        batch = await self._writer.rest()
        try:
            await asyncio.to_thread(self._store.finish, batch)
            batch = Batch()
        except LedgerError as error:
            self._run.stop(Stop.LEDGER, str(error))
        self._count_unwritten(batch)
        self.waits = ""

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

    def tick(self) -> None:
        """Renew the lease if it is time."""
        self._writer.keep_alive()
        self.waits = self._store.session.away

    def give_up(self) -> None:
        """Stop waiting for a database that does not answer."""
        self._store.session.given_up = True


def _location(job: Job) -> str | None:
    """Return where an item is, as a row says it; None if that is its key."""
    return None if job.kind == "text" or job.place == job.key else job.place


def _alike(job: Job, row: Row) -> bool:
    return job.way == reading_of(row.kind, row.location or row.key)


class _Writer:
    """Writes the claims and outcomes of a run, many in one transaction.

    Attributes:
        batch: what is written next.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.batch = Batch()
        self._claims: dict[bytes, asyncio.Future[bool]] = {}
        self._committing: asyncio.Task[None] | None = None

    async def claim(self, claim: Row) -> bool:
        """Claim an item; True once that is durable, False if another run was faster.

        Raises:
            LedgerError: the claim cannot be written, so the item must not be sent.
        """
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._claims[claim.id] = future
        self.add(claims=[claim])
        return await future

    def release(self, claim: Row, before: Row | None) -> None:
        """Undo the claim of an item that was not sent."""
        if claim in self.batch.claims:
            self.batch.claims.remove(claim)
        else:
            self.add(released=[claim.id], rows=[] if before is None else [before])

    def add(self, **what: Sequence[Any]) -> None:
        """Let the next transaction write this too, in the fields of a batch."""
        if self._store.reading or not any(what.values()):
            return
        for name, several in what.items():
            getattr(self.batch, name).extend(several)
        self._commit_soon()

    def keep_alive(self) -> None:
        """Renew the lease if it is time."""
        if self._store.registered and self._store.due:
            self._commit_soon()

    async def rest(self) -> Batch:
        """Return what is left to be written, once nothing is being written."""
        if self._committing is not None:
            await asyncio.wait([self._committing])
        rest, self.batch = self.batch, Batch()
        return rest

    def _commit_soon(self) -> None:
        # The task starts after the callbacks that are ready now, so it has more to write.
        if self._committing is None or self._committing.done():
            self._committing = asyncio.get_running_loop().create_task(self._commit())

    async def _commit(self) -> None:
        while True:
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
