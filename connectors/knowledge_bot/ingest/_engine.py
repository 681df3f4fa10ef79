"""One run of an ingestion: items are taken, planned, claimed, sent and recorded.

A thread reads the items, which may block, and plans a few hundred at a time. Everything else runs
in the event loop. Writes to the ledger are grouped: results and claims that arrive during one
transaction go into the next one together. A result is written no later than the claim that takes
its place, so a committed ledger never holds more claims than there may be requests in flight.
"""

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Sequence, Sized
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Protocol

from knowledge_bot.errors import ConfigurationError, Delivery, KnowledgeBotError
from knowledge_bot.ingest._items import File, Item, Text
from knowledge_bot.ingest._limiter import TURNS_AHEAD, Limiter, RateLimiter
from knowledge_bot.ingest._plan import Job, Planned, Planner, fingerprint_of
from knowledge_bot.ingest._report import Counters, Kind, Outcome, Report, Stop, logger, stop_reason
from knowledge_bot.ingest._schema import LedgerError
from knowledge_bot.ingest._store import Batch, Row, State, Store, normalised_url, superseded_rows
from knowledge_bot.models import Source

if TYPE_CHECKING:
    from knowledge_bot.ingest._run import Ingestion

# The most that is planned at once: as many items as one statement asks the ledger about, and some
# megabytes of text. And how long an item waits in the buffer, in seconds.
_WINDOW = 500
_CHARACTERS = 4_000_000
_LONGEST_BUFFERED = 0.1

# How many windows of items left to other runs wait before the first one is planned again.
_WINDOWS_DEFERRED = 2

# How many tasks there may be for each request in flight, since some items wait for a retry.
_TASKS_PER_REQUEST = 4

# Seconds between two checks of what other runs are sending.
_POLL_INTERVAL = 0.5

# Seconds between two checks whether the run should stop.
_TICK = 0.1

_CLAIMED_UNSENT = (
    "it was not sent, but the ledger was lost when it may have noted that it is being sent; if "
    "`kbot ledger unknown` names it, settle it with `kbot ledger resolve KEY --not-created`"
)


class Sender(Protocol):
    """Sends the requests of a run."""

    async def open(self) -> None:
        """Prepare to send, so that nothing is claimed before it can be sent."""

    async def send(self, job: Job) -> Source:
        """Create the source of an item, or raise a `KnowledgeBotError`."""

    async def ping(self) -> object:
        """Ask whether the service is up, or raise a `KnowledgeBotError`."""


class Run:
    """Ingests items once.

    Args:
        service: the base URL, under which the ledger keeps its entries.
        sender: sends the requests.
        items: what to ingest.
        options: how to ingest it.
        stop_requested: returns whether a signal or another thread asked the run to end.
    """

    def __init__(
        self,
        service: str,
        sender: Sender,
        items: Iterable[object] | AsyncIterable[object],
        options: "Ingestion",
        stop_requested: Callable[[], bool],
    ) -> None:
        self._service, self._sender, self._options = normalised_url(service), sender, options
        self._stop_requested = stop_requested
        self._counters = Counters(dry_run=options.dry_run, on_outcome=options.on_outcome)
        rate_limiter = None if options.rate is None else RateLimiter(options.rate, self._reserve)
        self._limiter = Limiter(options.concurrency, rate_limiter, sender.ping, self.stop)
        self._free_at = 0.0  # when the next turn is free; without a ledger no other run counts
        self._reader = Reader(items)
        self._writer: Writer | None = None
        self._store: Store | None = None
        self._in_flight: dict[bytes, asyncio.Event] = {}
        self._error: BaseException | None = None
        self._sent = 0
        self._would_create: set[bytes] = set()  # in a dry run
        self._in_progress: list[Item] = []  # items that other runs are sending
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
        ticking = asyncio.create_task(self._tick())
        try:
            loop = asyncio.get_running_loop()
            self._planner: Planner = await asyncio.to_thread(
                self._open, lambda: not loop.is_closed()
            )
            self._reader.start(self._planner, self._store)
            await self._send_all()
            await self._mark_gone()
            self._warn_of_unversioned()
        finally:
            ticking.cancel()
            self._reader.end()
            await self._close()
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

    def _open(self, alive: Callable[[], bool]) -> Planner:
        options = self._options
        if options.ledger is not None:
            store = Store(options.ledger.database, reading=options.dry_run, alive=alive)
            if store.open(self._service, options.collections, options.origin):
                self._store = store
                self._writer = None if options.dry_run else Writer(store)
        planner = Planner(self._store, self._service, options.collections, options.on_unknown)
        planner.shares = options.share
        return planner

    async def _send_all(self) -> None:
        """Send what the reader finds, until nothing is in flight."""
        most = self._options.concurrency * _TASKS_PER_REQUEST
        slots = asyncio.Semaphore(most)
        async with asyncio.TaskGroup() as sending:
            try:
                while (planned := await self._next_window(slots, most)) is not None:
                    jobs = self._count_planned(planned)
                    for place, job in enumerate(jobs):
                        if self._sent == 0:
                            await self._sender.open()  # nothing is claimed that cannot be sent
                        await slots.acquire()
                        if self._reached_limit():
                            return
                        if not await self._limiter.enter(waiting=len(jobs) - place):
                            return
                        task = sending.create_task(self._ingest(job))
                        task.add_done_callback(lambda _: slots.release())
            except LedgerError as error:
                self.stop(Stop.LEDGER, str(error))
            except Exception as error:  # noqa: BLE001 - raised by run(), once all is recorded
                self._error = self._error or error  # earlier items are still sent

    async def _next_window(self, slots: asyncio.Semaphore, most: int) -> Planned | None:
        planned = await self._reader.planned()
        if planned is None:
            for _ in range(most):  # until nothing is in flight
                await slots.acquire()
            for _ in range(most):
                slots.release()
            planned = await self._reader.leftovers() or await self._wait_for_others()
        return planned

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
            planned = await self._reader.plan_again(*items)
            settled = len(items) - len(planned.in_progress)
            self._counters.counts["elsewhere"] -= len(items)  # they are counted again
            if settled:
                self._wait = max(0.0, waited_since + self._wait - time.monotonic())
                return planned
            self._count_planned(planned)
        return None

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

    def _count_planned(self, planned: Planned) -> list[Job]:
        """Count what need not be sent; return what must be."""
        self._counters.counts["unchanged"] += planned.unchanged
        self._counters.counts["elsewhere"] += len(planned.in_progress)
        self._in_progress += planned.in_progress
        for outcome in planned.outcomes:
            self._counters.add(outcome)
        self._counters.counts["unversioned"] = self._planner.unversioned  # old pages too
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
            self._counters.counts["superseded"] += bool(job.before and job.before.source_id)
        return []

    def _reached_limit(self) -> bool:
        """Count an item that is begun, or end the run if that would exceed the limit."""
        if self._sent == self._options.limit:
            self.stop(Stop.LIMIT, str(self._sent))
        else:
            self._sent += 1
        return self._counters.stopped is not None

    async def _ingest(self, job: Job) -> None:
        """Send one item, again if that is safe and may help, and record the outcome.

        The item already has a turn.
        """
        has_turn = True
        try:
            while (first := self._in_flight.get(job.id)) is not None and self._writer is not None:
                if has_turn:
                    self._limiter.leave()
                    has_turn = False
                await first.wait()  # the same item came before: its outcome decides
                again = self._count_planned(await self._reader.plan_again(job.item))
                if not again:
                    return
                job = again[0]
            done = self._in_flight[job.id] = asyncio.Event()
            try:
                await self._deliver(job, has_turn=has_turn)
            finally:
                done.set()
                if self._in_flight.get(job.id) is done:
                    del self._in_flight[job.id]
        except LedgerError as error:
            self.stop(Stop.LEDGER, str(error))
        except Exception as error:  # noqa: BLE001 - raised by run(), once all is recorded
            self._fail(error)

    async def _deliver(self, job: Job, *, has_turn: bool) -> None:
        tries, failure = 0, None
        while has_turn or await self._limiter.enter(again=failure is not None):
            has_turn = False
            try:
                claim = self._planner.claim(job)
                if not await self._claimed(job, claim):  # another run was faster
                    self._reader.requeue(job.item)
                    return
                if self._store is not None and self._store.lapsed:
                    # While the machine slept, other runs may have considered this one dead.
                    self._release(job, claim)
                    continue
                tries, began, self._current = tries + 1, time.monotonic(), job.name
                try:
                    source = await self._sender.send(job)
                except KnowledgeBotError as error:
                    failure = self._failed(job, claim, error, began, tries)
                    if failure is None:
                        return
                except BaseException as error:
                    self._interrupted(job, claim, error)
                    raise
                else:
                    self._limiter.succeeded()
                    await self._created(job, claim, source)
                    return
            finally:
                self._limiter.leave()
            await asyncio.sleep(failure[1])
        if failure is not None:  # the run ended before it could be sent again
            self._counters.add(failure[0])

    async def _claimed(self, job: Job, claim: Row) -> bool:
        """Claim an item durably; False if another run has it already."""
        if self._writer is None:
            return True
        try:
            return await self._writer.claim(claim)
        except LedgerError as error:
            self._release(job, claim)
            if self._store is not None and self._store.in_doubt:
                self._count("unknown", job, f"{_CLAIMED_UNSENT}: {error}")
            else:
                self._count("undelivered", job, f"it was not sent: {error}")
            raise
        except asyncio.CancelledError:
            self._release(job, claim)
            raise

    def _failed(
        self, job: Job, claim: Row, error: KnowledgeBotError, began: float, tries: int
    ) -> tuple[Outcome, float] | None:
        """Record a failure, or return it with the seconds to wait before the item is sent again."""
        if isinstance(error, ConfigurationError):  # the item cannot be sent as it is
            self._release(job, claim)
            self._count("invalid", job, str(error))
            return None
        counts = self._counters.counts
        succeeded = counts["created"] + counts["unchanged"]
        decision = self._limiter.failed(error, began, tries, succeeded)
        if decision.stop is not None:
            self.stop(*decision.stop)
        kind: Kind = "unknown"
        if error.delivery is not Delivery.UNKNOWN:
            kind = "refused" if error.delivery is Delivery.REFUSED else "undelivered"
        if decision.retry_in is not None:
            self._release(job, claim)  # it was not sent, so it is not claimed while it waits
            return Outcome(kind, job.name[:500], job.key, str(error)), decision.retry_in
        state = State.UNKNOWN if kind == "unknown" else State.REFUSED
        self._record(claim, state=state, error=_storable(str(error)[:2000]))
        self._count(kind, job, str(error))
        return None

    def _interrupted(self, job: Job, claim: Row, error: BaseException) -> None:
        if getattr(error, "delivery", Delivery.UNKNOWN) is Delivery.NOT_DELIVERED:
            self._release(job, claim)
            return
        reason = f"it was interrupted while it was being sent: {error!r}"
        self._record(claim, state=State.UNKNOWN, error=reason)
        self._count("unknown", job, reason)

    async def _created(self, job: Job, claim: Row, source: Source) -> None:
        changed = job.fingerprint is not None
        superseded = superseded_rows(claim, source.id)
        try:
            if changed:
                found, _ = await asyncio.to_thread(fingerprint_of, job.place, time.time())
                changed = found != job.fingerprint
        finally:
            if self._writer is not None:
                self._writer.batch.superseded += superseded
            self._record(
                claim,
                state=State.CREATED,
                # Nobody knows which content the service got, so the next run compares it again.
                digest=b"changed while it was sent" if changed else job.digest,
                version=None if changed else claim.version if job.is_page else job.version,
                pending=None,
                source_id=_storable(source.id),
                source_name=None,
            )
        if superseded:
            self._counters.replaced(job.key, job.written_by)
        self._counters.add(Outcome("created", job.name, job.key, source_id=source.id))
        if job.same_as:
            reason = f"{job.same_as!r} has the same content; both are sources now"
            self._count("same_content", job, reason)

    def _record(self, claim: Row, **values: Any) -> None:
        # One revision for the claim, and one for another run that may have expired it.
        if self._writer is not None:
            now = int(time.time())
            self._writer.put(claim._replace(revision=claim.revision + 2, updated_at=now, **values))

    def _release(self, job: Job, claim: Row) -> None:
        """Undo the claim of an item that was not sent: its row is as it was before."""
        if self._writer is None:
            return
        if job.before is None:
            self._writer.withdraw(claim)
        else:
            job.before = job.before._replace(run=claim.run, revision=claim.revision + 2)
            self._writer.put(job.before)

    def _count(self, kind: Kind, job: Job, error: str) -> None:
        self._counters.add(Outcome(kind, job.name[:500], job.key, error))

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop(Stop.REQUESTED, f"it raised {type(error).__name__}: {error}")

    async def _mark_gone(self) -> None:
        """Record what the origin no longer yields, if all that it yields was seen."""
        store, origin = self._store, self._options.origin
        if store is None or store.origin is None:
            return
        if self._counters.stopped or self._error or self._reader.partial:
            why = self._reader.partial or "the run ended early"
            self._counters.gone_unknown = why
            logger.info("Nothing was marked as gone from %s: %s", origin, why)
            return
        try:
            gone, withheld = await asyncio.to_thread(
                store.mark_gone, self._planner.seen, self._options.gone_limit
            )
        except LedgerError as error:
            self.stop(Stop.LEDGER, str(error))
            return
        self._counters.counts.update(gone=gone, gone_withheld=withheld)
        if withheld:
            logger.warning(
                "%d items that %s no longer yields are not marked as gone: they are more than the "
                "share of %g that gone_limit allows. Check that it is complete",
                withheld,
                origin,
                self._options.gone_limit,
            )

    def _warn_of_unversioned(self) -> None:
        """Name new pages whose changes will not be seen; old ones were named when they were new."""
        self._counters.counts["unversioned"] = self._planner.unversioned
        new = [one.name for one in self.report().failures if one.kind == "unversioned"]
        if new:
            logger.warning(
                "These pages have no version, so no later change of them will be seen: %s. With "
                "compare='content' their text is compared",
                ", ".join(new),
            )

    async def _close(self) -> None:
        if self._writer is not None:
            try:
                await self._writer.end()
            except LedgerError as error:
                self.stop(Stop.LEDGER, str(error))
            for row in self._writer.unrecorded:
                self._count_unrecorded(row)
        if self._store is not None:
            await asyncio.to_thread(self._store.close)

    def _count_unrecorded(self, row: Row) -> None:
        """Count an outcome that the ledger could not record; there the item becomes unknown."""
        what = "the outcome"
        if row.state == State.CREATED:
            self._counters.counts["created"] -= 1
            what = f"that it was created as {row.source_id}"
        elif row.state == State.UNKNOWN:
            return
        error = f"the ledger could not record {what}"
        self._counters.add(Outcome("unknown", row.name or row.key, row.key, error))

    async def _tick(self) -> None:
        reported_at = 0.0
        while True:
            if self._stop_requested():
                self.stop(Stop.REQUESTED)
            self._reader.flush_if_idle()
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


class Reader:
    """Takes items, in a thread if that may block, and plans them a window at a time.

    Args:
        items: what to take.

    Attributes:
        total: how many items there are, if that is known.
        partial: why there may be more items than were seen; empty if there are none.
    """

    def __init__(self, items: Iterable[object] | AsyncIterable[object]) -> None:
        self._items: Any = items
        self._buffer: deque[object] = deque()
        self._deferred: deque[list[object]] = deque()
        self._exhausted = False
        # One window is planned while the one before it is sent.
        self._queue: asyncio.Queue[Planned | None] = asyncio.Queue(1)
        # Two locks: handing over may wait for an item that must first be planned again.
        self._flushing, self._planning = threading.Lock(), threading.Lock()
        self._characters = self._count = self._unchanged = 0
        self._flushed_at = self._emitted_at = time.monotonic()
        self._ended = False
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self.total: int | None = len(items) if isinstance(items, Sized) else None
        self.partial = ""

    def start(self, planner: Planner, store: Store | None) -> None:
        """Begin to read. Items that compare pages remember them in the ledger."""
        self._planner, self._loop = planner, asyncio.get_running_loop()
        if self._ended:
            return
        if store is not None and hasattr(self._items, "remembering"):
            self._items = self._items.remembering(store)
        if isinstance(self._items, AsyncIterable):
            self._task = asyncio.create_task(self._aread())
        else:
            # Not an executor's thread: the items may block for ever, and nobody may wait for that.
            run = contextvars.copy_context().run
            threading.Thread(
                target=run, args=(self._read,), name="ingest reader", daemon=True
            ).start()

    async def planned(self) -> Planned | None:
        """Return the plan of the next window; None at the end.

        Raises:
            LedgerError: the ledger cannot be read.
            Exception: what the items raised.
        """
        planned = None if self._exhausted else await self._queue.get()
        self._exhausted = planned is None
        if planned is None and self._error is not None:
            raise self._error
        return planned

    def requeue(self, item: object) -> None:
        """Take back an item that another run is sending; it is planned again later."""
        self._deferred.append([item])
        self._planner.shares = True

    async def leftovers(self) -> Planned | None:
        """Return what is left to do of the items left to other runs; None if nothing is."""
        if self._ended or not self._deferred:
            return None
        windows = [self._deferred.popleft() for _ in range(len(self._deferred))]
        items = [item for window in windows for item in window]
        return await asyncio.to_thread(self._plan, items, deferred=True)

    async def plan_again(self, *items: object) -> Planned:
        """Plan items again, since their rows have been written meanwhile."""
        return await asyncio.to_thread(self._plan, items, share=False)

    def flush_if_idle(self) -> None:
        """Plan what is in the buffer if the next item is slow to come; called regularly."""
        waiting = self._buffer and time.monotonic() - self._flushed_at > _LONGEST_BUFFERED
        if waiting and not self._flushing.locked():
            self._loop.run_in_executor(None, self._flush)

    def end(self) -> None:
        """Take no further items. Called in the loop's thread."""
        if not self._ended:
            self._ended = True
            while not self._queue.empty():
                self._queue.get_nowait()
            self._queue.put_nowait(None)
            if self._task is not None:
                self._task.cancel()

    def _read(self) -> None:
        try:
            for item in self._items:
                self._buffer.append(item)
                # isinstance on a pydantic model takes longer than everything else here.
                if type(item) is not File and isinstance(item, Text):
                    self._characters += len(item.content)
                if len(self._buffer) >= _WINDOW or self._characters >= _CHARACTERS:
                    self._flush()
                if self._ended:
                    return
        except BaseException as error:  # noqa: BLE001 - raised by planned()
            self._fail(error)
        self._finish()

    async def _aread(self) -> None:
        try:
            async for item in self._items:
                self._buffer.append(item)
                if len(self._buffer) >= _WINDOW:
                    await asyncio.to_thread(self._flush)
                if self._ended:
                    return
        except Exception as error:  # noqa: BLE001 - raised by planned()
            self._fail(error)
        await asyncio.to_thread(self._finish)

    def _flush(self) -> None:
        """Plan what is in the buffer, and hand it over."""
        with self._flushing:
            items = [self._buffer.popleft() for _ in range(len(self._buffer))]
            self._flushed_at, self._characters = time.monotonic(), 0
            self._count += len(items)
            try:
                if items and not self._ended:
                    planned = self._plan(items)
                    self.partial = self.partial or planned.partial
                    self._emit(planned)
                # By now other runs have sent their shares of older windows, or are slow.
                if len(self._deferred) > _WINDOWS_DEFERRED and not self._ended:
                    self._emit(self._plan(self._deferred.popleft(), deferred=True))
            except BaseException as error:  # noqa: BLE001 - raised by planned()
                self._fail(error)

    def _plan(
        self, items: Sequence[object], *, share: bool = True, deferred: bool = False
    ) -> Planned:
        with self._planning:
            planned = self._planner.plan(items, again=deferred or not share)
            if deferred and len(planned.jobs) == len(items):  # no other run has taken any
                self._planner.shares = False
            left = self._planner.share_out(planned) if share else []
        if left:
            self._deferred.append(left)
        return planned

    def _emit(self, planned: Planned) -> None:
        """Hand a window over; one with nothing but unchanged items is merged into a later one."""
        planned.unchanged += self._unchanged
        quiet = not (planned.jobs or planned.outcomes or planned.rows or planned.in_progress)
        self._unchanged = planned.unchanged if quiet else 0
        if not quiet or self._flushed_at - self._emitted_at > _LONGEST_BUFFERED:
            self._emitted_at, self._unchanged = self._flushed_at, 0
            self._hand_over(planned)

    def _finish(self) -> None:
        self._flush()
        if self._unchanged:
            self._hand_over(Planned(unchanged=self._unchanged))
        if self._error is None:
            self.total = self._count
        self._hand_over(None)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self.partial = self.partial or str(error) or type(error).__name__

    def _hand_over(self, planned: Planned | None) -> None:
        putting = self._queue.put(planned)
        try:
            put = asyncio.run_coroutine_threadsafe(putting, self._loop)
        except RuntimeError:  # the loop is closed
            putting.close()
            return
        while not self._ended and not self._loop.is_closed():
            try:
                put.exception(1.0)
            except TimeoutError:
                continue
            except CancelledError:  # the loop is torn down
                pass
            return
        put.cancel()


class Writer:
    """Writes to the ledger from an event loop, many rows in one transaction.

    Args:
        store: the ledger.

    Attributes:
        batch: what the next transaction will write.
        unrecorded: rows that could not be written at the end.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._claims: dict[bytes, asyncio.Future[bool]] = {}
        self._committing: asyncio.Task[None] | None = None
        self.batch = Batch()
        self.unrecorded: list[Row] = []

    async def claim(self, row: Row) -> bool:
        """Claim an item; True once that is durable, False if another run was faster.

        Raises:
            LedgerError: the claim cannot be written, so the item must not be sent.
        """
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._claims[row.id] = future
        self.put(row)
        return await future

    def put(self, *rows: Row) -> None:
        """Write rows in the next transaction."""
        self.batch.rows += rows
        self._commit_soon()

    def withdraw(self, claim: Row) -> None:
        """Undo the claim of an item that is new to the ledger."""
        if claim in self.batch.rows:
            self.batch.rows.remove(claim)
        else:
            self.batch.withdrawn.append(claim)
            self._commit_soon()

    def keep_alive(self) -> None:
        """Renew the lease if it is time."""
        if self._store.registered and self._store.due:
            self._commit_soon()

    async def end(self) -> None:
        """Write what is left, and give up the lease.

        Raises:
            LedgerError: it cannot be written; the rows are in `unrecorded`.
        """
        if self._committing is not None:
            await asyncio.wait([self._committing])
        if self._store.registered or self.batch:
            try:
                await asyncio.to_thread(self._store.write, self.batch, leave=True)
            except LedgerError:
                self.unrecorded = [row for row in self.batch.rows if row.state != State.CLAIMED]
                raise

    def _commit_soon(self) -> None:
        # The task starts after the callbacks that are ready now, so it has more to write.
        if self._committing is None or self._committing.done():
            self._committing = asyncio.get_running_loop().create_task(self._commit())

    async def _commit(self) -> None:
        while self.batch or self._store.due:
            batch, self.batch = self.batch, Batch()
            claims, self._claims = self._claims, {}
            try:
                lost = await asyncio.to_thread(self._store.write, batch)
            except BaseException as error:
                # Outcomes are kept and written later; writing one twice does no harm.
                for name in ("rows", "withdrawn", "superseded"):
                    getattr(self.batch, name)[:0] = getattr(batch, name)
                self.batch.rows = [row for row in self.batch.rows if row.state != State.CLAIMED]
                claims, self._claims = claims | self._claims, {}
                for future in claims.values():
                    if not future.done():
                        future.set_exception(error)
                if isinstance(error, LedgerError):
                    return
                raise
            for identifier, future in claims.items():
                if not future.done():  # its task was cancelled
                    future.set_result(identifier not in lost)
