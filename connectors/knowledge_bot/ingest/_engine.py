"""One run of an ingestion: items are taken, planned, claimed, sent and recorded.

A thread reads the items, which may block; what it has read is planned a few hundred at a time.
Workers, one for each request that may be in flight, claim what is to be sent, send it and record
the outcome. Writes to the ledger are grouped: results and claims that arrive within a moment, or
during one transaction, go into the next one together. A worker's result is committed before its
next claim, or together with it, so a committed ledger never holds more claims than there may be
requests in flight.
"""

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterable, Callable, Iterable, Sequence, Sized
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from knowledge_bot._database import Connection
from knowledge_bot.errors import Delivery, KnowledgeBotError
from knowledge_bot.ingest._limiter import TURNS_AHEAD, Limiter, RateLimiter
from knowledge_bot.ingest._listings import ListedFile, Listing, fingerprint_of
from knowledge_bot.ingest._plan import Job, Planned, Planner
from knowledge_bot.ingest._report import (
    FAILURES_KEPT,
    Kind,
    Outcome,
    Report,
    Stop,
    logger,
    stop_reason,
)
from knowledge_bot.ingest._schema import LedgerError
from knowledge_bot.ingest._store import (
    Batch,
    Claim,
    Row,
    State,
    Store,
    normalised_url,
    superseded_rows,
)

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import Item
    from knowledge_bot.ingest._run import Ingestion

# The most that is planned at once: as many items as one statement asks the ledger about, as many
# listed files, of which most did not change, and some megabytes of text. And how long an item waits
# in the buffer, in seconds.
_WINDOW = 500
_LISTED = 1000
_CHARACTERS = 4_000_000
_LONGEST_BUFFERED = 0.1

# How many windows of items that were left to other runs wait for the end of this run.
_WINDOWS_LEFT = 16

# Seconds that a claim waits for others to be committed with: less than a request takes.
_GATHERING = 0.0005

# Seconds between two checks of what other runs are sending.
_POLL_INTERVAL = 0.5

# Seconds between two checks whether the run should stop.
_TICK = 0.1

# How many remarks of a kind are kept, so that they do not displace failures.
_KEPT_OF = {"same_content": 20, "unversioned": 20}

# How many replaced sources a report names: those that were sent last, as those of this job were.
_REPLACED_KEPT = 1000

_CLAIMED_UNSENT = (
    "nothing was sent, but the ledger's connection broke during the claim, so its row may say that "
    "it is being sent; if `kbot ledger unknown` names it, settle it with `kbot ledger resolve KEY "
    "--not-created`"
)


class Sender(Protocol):
    """Sends the requests of a run."""

    async def open(self) -> None:
        """Prepare to send, so that nothing is claimed before it can be sent."""

    async def send(self, job: Job) -> str:
        """Create the source of an item and return its id, or raise a `KnowledgeBotError`."""

    async def ping(self) -> object:
        """Ask whether the service is up, or raise a `KnowledgeBotError`."""


class Run:
    """Ingests items once.

    Args:
        service: the base URL, under which the ledger keeps its entries.
        sender: sends the requests.
        items: what to ingest.
        options: how to ingest it.
        origin: the name of where the items come from; None without one.
        stop_requested: returns whether a signal or another thread asked the run to end.
    """

    def __init__(
        self,
        service: str,
        sender: Sender,
        items: Iterable[object] | AsyncIterable[object],
        options: "Ingestion",
        *,
        origin: str | None,
        stop_requested: Callable[[], bool],
    ) -> None:
        self._service, self._sender, self._options = normalised_url(service), sender, options
        self._origin, self._stop_requested = origin, stop_requested
        self._counters = Counters(dry_run=options.dry_run, on_outcome=options.on_outcome)
        rate_limiter = None if options.rate is None else RateLimiter(options.rate, self._reserve)
        self._limiter = Limiter(options.concurrency, rate_limiter, sender.ping, self.stop)
        self._free_at = 0.0  # when the next turn is free; without a ledger no other run counts
        self._reader = Reader(items)
        # What the workers take: what is sent again comes first, and at the end a None for each.
        self._queue: asyncio.PriorityQueue[tuple[int, int, Job | None]] = asyncio.PriorityQueue()
        self._room = asyncio.Event()
        self._numbers = itertools.count()
        self._retries: dict[int, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}
        self._writer: Writer | None = None
        self._store: Store | None = None
        # What is being sent, and items with the same key, whose turn comes after that.
        self._in_flight: dict[bytes, list[Item | ListedFile]] = {}
        self._left: deque[list[Job]] = deque()  # to other runs
        self._lost: list[Item | ListedFile] = []  # another run claimed or changed them first
        self._in_progress: list[Item | ListedFile] = []  # other runs are sending them
        self._unsent: list[tuple[Job, bool, str]] = []  # their claims failed
        self._shares = options.share
        self._partial = ""
        self._error: BaseException | None = None
        self._workers = self._begun = 0
        self._would_create: set[bytes] = set()  # in a dry run
        self._wait = 0.0 if options.dry_run else options.wait
        self._current = ""
        self._task: asyncio.Task[Any] | None = None

    async def run(self) -> Report:
        """Ingest every item and report.

        Raises:
            LedgerError: the ledger cannot be opened. A later error of the ledger ends the run and
                is in the report.
            Exception: what `items` or a callback raised, once the requests in flight have ended.
        """
        self._task = asyncio.current_task()
        ticking, complete = asyncio.create_task(self._tick()), False
        try:
            loop = asyncio.get_running_loop()
            await asyncio.to_thread(self._open, lambda: not loop.is_closed())
            self._reader.start(self._plan, self._store)
            async with asyncio.TaskGroup() as workers:
                await self._feed(workers)
            complete = True
        finally:
            ticking.cancel()
            self._reader.end()
            await self._close(complete=complete)
        self._warn_of_unversioned()
        if self._error is not None:
            self._error.add_note(f"Ingestion until then: {self.report()}")
            raise self._error
        report = self.report()
        if self._options.on_progress is not None:
            self._options.on_progress(report)
        return report

    def stop(self, stop: Stop, detail: str = "") -> None:
        """Begin nothing new, and finish what is in flight. Called in the loop's thread."""
        if self._counters.stopped is None or self._counters.stopped[0] is Stop.LIMIT:
            self._counters.stopped = (stop, detail)
            self._reader.end()
            if stop is not Stop.LIMIT:  # otherwise what was begun is still sent
                logger.warning("The ingestion stops: %s", stop_reason(stop, detail))
                self._limiter.end()
                for waiting, put in list(self._retries.values()):
                    waiting.cancel()
                    put()
            self._room.set()

    def abort(self) -> None:
        """End at once: what is in flight becomes unknown. Called in the loop's thread."""
        self.stop(Stop.REQUESTED, "at once")
        if self._store is not None:
            self._store.give_up()
        if self._task is not None:
            self._task.cancel()

    def report(self) -> Report:
        """Return the counts so far."""
        return self._counters.report(
            total=self._reader.total,
            current=self._current,
            paused=self._limiter.paused,
            run=0 if self._store is None else self._store.run,
        )

    def _open(self, alive: Callable[[], bool]) -> None:
        options, store = self._options, None
        if options.ledger is not None:
            store = Store(
                options.ledger.database,
                patience=options.ledger_wait,
                reading=options.dry_run,
                alive=alive,
            )
            if not store.open(self._service, options.collections, self._origin):
                store = None
        self._store = store
        if store is not None and not options.dry_run:
            self._writer = Writer(store, options.concurrency, self._limiter)
        self._planner = Planner(store, self._service, options.collections, options.on_unknown)

    # What there is to do --------------------------------------------------------------------------

    async def _feed(self, workers: asyncio.TaskGroup) -> None:
        """Hand to the workers what there is to send, until nothing is left."""
        try:
            while (planned := await self._next()) is not None:
                jobs = self._count_planned(planned)
                if jobs and self._workers == 0:
                    await self._sender.open()  # nothing is claimed that cannot be sent
                    await self._limiter.begin()
                for job in jobs:
                    self._queue.put_nowait((1, next(self._numbers), job))
                while self._workers < min(self._options.concurrency, self._queue.qsize()):
                    self._workers += 1
                    workers.create_task(self._work())
                while self._queue.qsize() > self._workers and not self._limiter.ended:
                    self._room.clear()
                    await self._room.wait()
        except LedgerError as error:
            self.stop(Stop.LEDGER, str(error))
        except Exception as error:  # noqa: BLE001 - raised by run(), once all is recorded
            self._error = self._error or error  # earlier items are still sent
        await self._queue.join()
        for _ in range(self._workers):
            self._queue.put_nowait((2, next(self._numbers), None))

    async def _next(self) -> Planned | None:
        """Return the next plan; None at the end."""
        few = len(self._left) <= _WINDOWS_LEFT
        if few and (planned := await self._reader.planned()) is not None:
            if planned.left:
                self._left.append(planned.left)
            self._partial = self._partial or planned.partial
            return planned
        if self._reader.exhausted:
            await self._queue.join()
        if self._counters.stopped is not None:
            return None
        if self._left:
            left = self._left.popleft()
            planned = await asyncio.to_thread(self._planner.plan_left, left)
            self._shares = self._shares and len(planned.jobs) < len(left)  # else nobody takes them
            return planned
        if self._lost:
            lost, self._lost, self._shares = self._lost, [], self._options.share
            return await asyncio.to_thread(self._planner.plan, lost, again=True)
        return await self._wait_for_others()

    def _plan(self, items: Sequence[object]) -> Planned:
        return self._planner.plan(items, share=self._shares and self._writer is not None)

    async def _wait_for_others(self) -> Planned | None:
        """Plan again what other runs were sending, for as long as the caller waits for them."""
        waited_since = time.monotonic()
        if self._in_progress and self._wait > 0:
            logger.info(
                "%d items are being sent by other runs; waiting up to %.0f s for them",
                len(self._in_progress),
                self._wait,
            )
        while self._in_progress and self._counters.stopped is None:
            left = waited_since + self._wait - time.monotonic()
            if left <= 0:
                break
            await asyncio.sleep(min(left, _POLL_INTERVAL))
            items, self._in_progress = self._in_progress, []
            planned = await asyncio.to_thread(self._planner.plan, items, again=True)
            self._counters.counts["elsewhere"] -= len(items)  # they are counted again
            if len(planned.in_progress) < len(items):
                self._wait = max(0.0, waited_since + self._wait - time.monotonic())
                return planned
            self._count_planned(planned)
        return None

    def _count_planned(self, planned: Planned) -> list[Job]:
        """Count what need not be sent; return what must be."""
        counts = self._counters.counts
        counts["unchanged"] += planned.unchanged
        counts["elsewhere"] += len(planned.in_progress)
        self._in_progress += planned.in_progress
        for outcome in planned.outcomes:
            self._counters.add(outcome)
        counts["unversioned"] = self._planner.unversioned  # old pages too
        if self._writer is not None and planned.rows:
            self._writer.put(*planned.rows)
        if not self._options.dry_run:
            return planned.jobs
        for job in planned.jobs:
            if job.id in self._would_create:
                reason = "it comes twice in this run"
                self._counters.add(Outcome("skipped", job.name, job.key, reason))
                continue
            if self._reached_limit():
                break
            self._would_create.add(job.id)
            self._counters.add(Outcome("created", job.name, job.key))
            counts["superseded"] += bool(job.before and job.before.source_id)
        return []

    def _reached_limit(self) -> bool:
        """Count an item that is begun, or end the run if that would exceed the limit."""
        if self._begun == self._options.limit:
            self.stop(Stop.LIMIT, str(self._begun))
        elif self._counters.stopped is None:
            self._begun += 1
        return self._counters.stopped is not None

    async def _reserve(self, count: int) -> float:
        """Reserve turns to send; return the seconds until the first one."""
        rate = self._options.rate or 1.0
        if self._store is not None:
            longest = max(TURNS_AHEAD, 1 / rate)
            return await asyncio.to_thread(self._store.reserve, count, rate, longest)
        now = time.monotonic()
        first = max(now, self._free_at)
        self._free_at = first + count / rate
        return first - now

    # Sending --------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Send one item after another."""
        while (job := (await self._queue.get())[2]) is not None:
            if self._queue.qsize() <= self._workers:
                self._room.set()
            again = None
            if (waiting := self._in_flight.get(job.id)) is not None and self._writer is not None:
                waiting.append(job.item)  # the same item came before: its outcome decides
            elif job.failure is not None or not self._reached_limit():
                self._in_flight[job.id] = []
                try:
                    again = await self._send(job)
                except LedgerError as error:
                    self.stop(Stop.LEDGER, str(error))
                except Exception as error:  # noqa: BLE001 - raised by run(), once all is recorded
                    self._fail(error)
                finally:
                    self._lost += self._in_flight.pop(job.id, ())
            if again is None:
                self._queue.task_done()
            else:
                self._put_again(job, again)

    def _put_again(self, job: Job, seconds: float) -> None:
        """Let an item be taken again after so many seconds; until then the queue is not done."""
        number = next(self._numbers)

        def put() -> None:
            self._retries.pop(number, None)
            self._queue.put_nowait((0, number, job))
            self._queue.task_done()

        if self._limiter.ended:
            put()
        else:
            self._retries[number] = asyncio.get_running_loop().call_later(seconds, put), put

    async def _send(self, job: Job) -> float | None:
        """Send one item when it has its turn, and record the outcome.

        Returns:
            The seconds after which it is to be sent again; None if it is not.
        """
        if not await self._limiter.enter(waiting=self._queue.qsize() + 1):
            if job.failure is not None:  # the run ended before it could be sent again
                self._counters.add(job.failure)
            return None
        claim = None
        try:
            if self._writer is not None and self._store is not None:
                claim = job.claim(self._store.run, self._store.origin)
                if not await self._claimed(job, claim, self._writer, self._store):
                    return None
                if self._store.lapsed:
                    # While the machine slept, others may have considered this run dead.
                    self._writer.release(claim)
                    reason = "the machine slept before it was sent"
                    job.failure = Outcome("undelivered", job.name[:500], job.key, reason)
                    return 0.0
            job.tries, began, self._current = job.tries + 1, time.monotonic(), job.name
            try:
                source_id = await self._sender.send(job)
            except KnowledgeBotError as error:
                return self._failed(job, claim, error, began)
            except BaseException as error:
                never = getattr(error, "delivery", None) is Delivery.NOT_DELIVERED
                reason = f"it was interrupted while it was being sent: {error!r}"
                self._record(job, claim, "undelivered" if never else "unknown", reason)
                raise
            self._limiter.succeeded()
            await self._created(job, claim, source_id)
        finally:
            self._limiter.leave()
        return None

    async def _claimed(self, job: Job, claim: Claim, writer: "Writer", store: Store) -> bool:
        """Claim an item durably; False if another run was faster."""
        try:
            if await writer.claim(claim):
                return True
        except BaseException as error:
            writer.release(claim)
            if isinstance(error, LedgerError):
                self._unsent.append((job, store.in_doubt, str(error)))
            raise
        self._lost.append(job.item)
        return False

    def _failed(
        self, job: Job, claim: Claim | None, error: KnowledgeBotError, began: float
    ) -> float | None:
        """Record a failure, or return the seconds after which the item is to be sent again."""
        counts = self._counters.counts
        succeeded = counts["created"] + counts["unchanged"]
        decision = self._limiter.failed(error, began, job.tries, succeeded)
        if decision.retry_in is None:
            self._record(job, claim, decision.kind, str(error))
        else:
            job.failure = Outcome(decision.kind, job.name[:500], job.key, str(error))
            if claim is not None and self._writer is not None:
                self._writer.release(claim)  # it was not sent, so it is not claimed while it waits
        if decision.stop is not None:
            self.stop(*decision.stop)
        return decision.retry_in

    def _record(self, job: Job, claim: Claim | None, kind: Kind, error: str) -> None:
        """Record that an item was not created, or may not have been."""
        self._counters.add(Outcome(kind, job.name[:500], job.key, error))
        if claim is not None and self._writer is not None:
            if kind == "invalid":
                self._writer.release(claim)
            else:
                state = State.UNKNOWN if kind == "unknown" else State.REFUSED
                self._writer.finish(claim, job.failed(claim, state, _storable(error[:2000])))

    async def _created(self, job: Job, claim: Claim | None, source_id: str) -> None:
        changed = job.fingerprint is not None and claim is not None
        try:
            if changed:
                found = await asyncio.to_thread(fingerprint_of, job.place)
                changed = found != job.fingerprint
        finally:
            if claim is not None and self._writer is not None:
                row = job.created(claim, _storable(source_id), changed=changed)
                superseded = superseded_rows(job.before, source_id)
                self._writer.finish(claim, row, superseded)
                if superseded and job.before is not None:
                    self._counters.replaced(job.key, job.before.run)
        self._counters.add(Outcome("created", job.name, job.key, source_id=source_id))

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop(Stop.REQUESTED, f"it raised {type(error).__name__}: {error}")

    # The end --------------------------------------------------------------------------------------

    async def _close(self, *, complete: bool) -> None:
        """Write what is left and give up the ledger, with a look back if all items were taken."""
        store, writer = self._store, self._writer
        if store is None:
            return
        why = self._partial or self._reader.partial
        if self._counters.stopped is not None or self._error is not None:
            why = why or "the run ended early"
        if writer is not None:
            await writer.pause()
        same, gone = list[tuple[str, str, str]](), None
        try:
            same, gone = await asyncio.to_thread(self._end, store, look=complete, mark=not why)
        except LedgerError as error:
            why = str(error)
            self.stop(Stop.LEDGER, why)
        for key, name, other in same:
            reason = f"{other!r} has the same content; both are sources now"
            self._counters.add(Outcome("same_content", name[:500], key, reason))
        if gone is not None:
            self._count_gone(*gone)
        elif store.origin is not None and why:
            self._counters.gone_unknown = why
            logger.info("Nothing was marked as gone from %s: %s", self._origin, why)
        if writer is not None:
            self._count_unwritten(writer.batch)

    def _end(
        self, store: Store, *, look: bool, mark: bool
    ) -> tuple[list[tuple[str, str, str]], tuple[int, int] | None]:
        """Do all that is left to do with the ledger, in one hop to a thread.

        Returns:
            What was created twice, and how many items are gone and withheld, where that was asked.
        """

        def gone(connection: Connection) -> tuple[int, int] | None:
            if not (look and mark) or store.origin is None:
                return None
            limit, planner = self._options.gone_limit, self._planner
            return store.mark_gone(connection, planner.seen, planner.met, limit)

        batch = Batch() if self._writer is None else self._writer.batch
        same = look and self._writer is not None and self._counters.counts["created"] > 0
        try:
            found = store.finish(batch, same=same, gone=gone)
            if self._writer is not None:
                self._writer.batch = Batch()
            return found
        finally:
            store.close()

    def _count_gone(self, gone: int, withheld: int) -> None:
        self._counters.counts.update(gone=gone, gone_withheld=withheld)
        if withheld:
            logger.warning(
                "%d items that %s no longer yields are not marked as gone: they are more than the "
                "share of %g that gone_limit allows. Check that it is complete",
                withheld,
                self._origin,
                self._options.gone_limit,
            )

    def _count_unwritten(self, batch: Batch) -> None:
        """Count what the ledger could not be told: there the items become unknown."""
        for row in batch.rows:
            what = "the outcome"
            if row.state == State.CREATED:
                self._counters.counts["created"] -= 1
                what = f"that it was created as {row.source_id}"
            if row.state != State.UNKNOWN:
                error = f"the ledger could not record {what}"
                self._counters.add(Outcome("unknown", row.name or row.key, row.key, error))
        for job, in_doubt, why in self._unsent:
            kind: Kind = "unknown" if in_doubt and batch else "undelivered"
            reason = f"{_CLAIMED_UNSENT if kind == 'unknown' else 'it was not sent'}: {why}"
            self._counters.add(Outcome(kind, job.name[:500], job.key, reason))

    def _warn_of_unversioned(self) -> None:
        """Name new pages whose changes will not be seen; old ones were named when they were new."""
        new = [one.name for one in self._counters.failures if one.kind == "unversioned"]
        if new:
            logger.warning(
                "These pages have no version, so no later change of them will be seen: %s. With "
                "compare='content' their text is compared",
                ", ".join(new),
            )

    async def _tick(self) -> None:
        reported_at = 0.0
        while True:
            if self._stop_requested():
                self.stop(Stop.REQUESTED)
            if self._writer is not None:
                self._writer.keep_alive()
            if self._options.on_progress is not None and time.monotonic() - reported_at > 2 * _TICK:
                reported_at = time.monotonic()
                try:
                    self._options.on_progress(self.report())
                except Exception as error:  # noqa: BLE001 - raised by run(), once all is recorded
                    self._fail(error)
                    return
            await asyncio.sleep(_TICK)


def _storable(text: str) -> str:
    """Return a service's text in a form that every database can store."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class Counters:
    """What a run has counted, and why it stopped. Used only in the event loop's thread.

    Args:
        dry_run: whether nothing is sent.
        on_outcome: called for each item that is created or fails.
    """

    def __init__(self, *, dry_run: bool, on_outcome: Callable[[Outcome], object] | None) -> None:
        self._dry_run, self._on_outcome = dry_run, on_outcome
        self.failures: list[Outcome] = []
        self._replaced: list[tuple[int, str]] = []  # a heap
        self._began = time.monotonic()
        self.counts: Counter[str] = Counter()
        self.stopped: tuple[Stop, str] | None = None  # and a detail, such as the error
        self.gone_unknown: str = ""

    def add(self, outcome: Outcome) -> None:
        """Count an item, and keep it if it failed."""
        self.counts[outcome.kind] += 1
        if outcome.kind != "created":
            most = _KEPT_OF.get(outcome.kind, FAILURES_KEPT)
            if len(self.failures) < FAILURES_KEPT and self.counts[outcome.kind] <= most:
                self.failures.append(outcome)
            logger.info("%s: %s: %s", outcome.kind, outcome.name, outcome.error)
        if self._on_outcome is not None:
            self._on_outcome(outcome)

    def replaced(self, key: str, run: int) -> None:
        """Count an older source that was replaced, and keep the run that had sent it."""
        self.counts["superseded"] += 1
        heapq.heappush(self._replaced, (run, key))
        if len(self._replaced) > _REPLACED_KEPT:
            heapq.heappop(self._replaced)

    def report(self, **at_present: Any) -> Report:
        """Return the counts as they are now."""
        counts: dict[str, Any] = dict(self.counts)
        return Report(
            **counts,
            duration=time.monotonic() - self._began,
            failures=tuple(self.failures),
            stopped=None if self.stopped is None else self.stopped[0],
            stop_reason="" if self.stopped is None else stop_reason(*self.stopped),
            dry_run=self._dry_run,
            gone_unknown=self.gone_unknown,
            replaced=tuple(self._replaced),
            **at_present,
        )


class Reader:
    """Takes items, in a thread if that may block, and plans them a window at a time.

    Args:
        items: what to take; a folder is taken as listings of its files.

    Attributes:
        total: how many items there are, if that is known.
        exhausted: whether all plans were handed over, or none is wanted any more.
        partial: why there may be more items than were read; empty if there are none.
    """

    def __init__(self, items: Iterable[object] | AsyncIterable[object]) -> None:
        self._items: Any = items
        self._buffer: deque[object] = deque()
        self._plans: deque[Planned] = deque()
        self._weight = 0.0  # of the buffer, in windows
        self._count = 0
        self._filled, self._taken = asyncio.Event(), asyncio.Event()
        self._room = threading.Event()  # the same as `taken`, for a thread
        self._flushing = threading.Lock()
        self._done = False
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self.total: int | None = len(items) if isinstance(items, Sized) else None
        self.exhausted = False
        self.partial = ""

    def start(self, plan: Callable[[Sequence[object]], Planned], store: Store | None) -> None:
        """Begin to read. Items that compare pages remember them in the ledger."""
        self._plan, self._loop = plan, asyncio.get_running_loop()
        if self.exhausted:
            return
        if store is not None and hasattr(self._items, "remembering"):
            self._items = self._items.remembering(store)
        if hasattr(self._items, "listings"):
            self._items = self._items.listings()
        if isinstance(self._items, AsyncIterable):
            self._task = asyncio.create_task(self._aread())
        else:
            # Not an executor's thread: the items may block for ever, and nobody may wait for that.
            work = partial(contextvars.copy_context().run, self._read)
            threading.Thread(target=work, name="ingest reader", daemon=True).start()

    async def planned(self) -> Planned | None:
        """Return the plan of a window, or of what came within a moment; None at the end.

        Raises:
            LedgerError: the ledger cannot be read.
            Exception: what the items raised.
        """
        while not (self._plans or self._done or self.exhausted):
            self._filled.clear()
            waking = self._loop.call_later(_LONGEST_BUFFERED, self._filled.set)
            await self._filled.wait()
            waking.cancel()
            if self._buffer and not self._plans and self._loop.time() >= waking.when():
                await asyncio.to_thread(self._flush)
        if self._plans and not self.exhausted:
            planned = self._plans.popleft()
            self._taken.set()
            self._room.set()
            return planned
        self.end()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return None

    def end(self) -> None:
        """Take no further items. Called in the loop's thread."""
        self.exhausted = True
        self._filled.set()
        self._room.set()
        if self._task is not None:
            self._task.cancel()

    def _add(self, item: object) -> bool:
        """Add an item to the buffer; return whether that is full."""
        weight, count = 1 / _WINDOW, 1
        if type(item) is Listing:
            count = len(item.keys)
            weight = count / _LISTED
        elif (text := getattr(item, "content", None)) is not None:
            weight = max(weight, len(text) / _CHARACTERS)
        self._count += count
        self._buffer.append(item)
        self._weight += weight
        return self._weight >= 1

    def _flush(self) -> None:
        """Plan what is in the buffer, and hand it over."""
        with self._flushing:
            self._weight = 0.0
            items = [self._buffer.popleft() for _ in range(len(self._buffer))]
            try:
                if items and not self.exhausted:
                    self._plans.append(self._plan(items))
            except BaseException as error:  # noqa: BLE001 - raised by planned()
                self._fail(error)
        self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._filled.set)

    def _read(self) -> None:
        try:
            for item in self._items:
                if self._add(item):
                    self._flush()
                while len(self._plans) > 1 and not self.exhausted and not self._loop.is_closed():
                    self._room.clear()
                    self._room.wait(0.1)
                if self.exhausted or self._done or self._loop.is_closed():
                    return
        except BaseException as error:  # noqa: BLE001 - raised by planned()
            self._fail(error)
        self._finish()

    async def _aread(self) -> None:
        try:
            async for item in self._items:
                if self._add(item):
                    await asyncio.to_thread(self._flush)
                while len(self._plans) > 1:
                    self._taken.clear()
                    await self._taken.wait()
        except Exception as error:  # noqa: BLE001 - raised by planned()
            self._fail(error)
        await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        self._flush()
        if self._error is None:
            self.total = self._count
        self._done = True
        self._tell()

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self.partial = self.partial or str(error) or type(error).__name__
        self._done = self._done or isinstance(error, LedgerError)


class Writer:
    """Writes to the ledger from an event loop, many rows in one transaction.

    Args:
        store: the ledger.
        concurrency: how many requests may be in flight.
        limiter: knows how many are.

    Attributes:
        batch: what is written next.
    """

    def __init__(self, store: Store, concurrency: int, limiter: Limiter) -> None:
        self._store, self._limiter = store, limiter
        # While one half is committed the other half is on its way.
        self._group = max(1, concurrency // 2)
        self.batch = Batch()
        self._claims: dict[bytes, asyncio.Future[bool]] = {}
        self._committing: asyncio.Task[None] | None = None
        self._gathered: asyncio.Event | None = None
        self._paused = False

    async def claim(self, claim: Claim) -> bool:
        """Claim an item; True once that is durable, False if another run was faster.

        Raises:
            LedgerError: the claim cannot be written, so the item must not be sent.
        """
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._claims[claim.id] = future
        self.batch.claims.append(claim)
        self._commit_soon()
        return await future

    def release(self, claim: Claim) -> None:
        """Undo the claim of an item that was not sent."""
        if claim in self.batch.claims:
            self.batch.claims.remove(claim)
        else:
            self.batch.released.append(claim)
            self._commit_soon()

    def finish(self, claim: Claim, row: Row, superseded: Sequence[tuple[Any, ...]] = ()) -> None:
        """Write the outcome of a claim, which ends."""
        self.batch.released.append(claim)
        self.batch.superseded += superseded
        self.put(row)

    def put(self, *rows: Row) -> None:
        """Write rows in the next transaction."""
        self.batch.rows += rows
        self._commit_soon()

    def keep_alive(self) -> None:
        """Renew the lease if it is time."""
        if self._store.registered and self._store.due:
            self._commit_soon()

    async def pause(self) -> None:
        """Wait until nothing is being written; what is left in `batch` is written at the end."""
        self._paused = True
        if self._gathered is not None:
            self._gathered.set()
        if self._committing is not None:
            await asyncio.wait([self._committing])

    def _commit_soon(self) -> None:
        # The task starts after the callbacks that are ready now, so it has more to write.
        if self._committing is None or self._committing.done():
            self._committing = asyncio.get_running_loop().create_task(self._commit())
        elif self._gathered is not None and self._is_full:
            self._gathered.set()

    @property
    def _is_full(self) -> bool:
        return 0 < min(self._group, self._limiter.in_flight) <= len(self.batch.claims)

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        while self.batch or self._store.due:
            if not self._is_full:
                self._gathered = asyncio.Event()
                waking = loop.call_later(_GATHERING, self._gathered.set)
                await self._gathered.wait()
                waking.cancel()
                self._gathered = None
            if self._paused:
                return
            try:
                await self._write()
            except LedgerError:
                return

    async def _write(self) -> None:
        batch, self.batch = self.batch, Batch()
        claims, self._claims = self._claims, {}
        try:
            lost = await asyncio.to_thread(self._store.write, batch)
        except BaseException as error:
            # Outcomes are kept and written later; writing one twice does no harm.
            for name in ("rows", "released", "superseded"):
                getattr(self.batch, name)[:0] = getattr(batch, name)
            self.batch.claims = []
            claims, self._claims = claims | self._claims, {}
            for future in claims.values():
                if not future.done():
                    future.set_exception(error)
            raise
        for identifier, future in claims.items():
            if not future.done():  # its task was cancelled
                future.set_result(identifier not in lost)
