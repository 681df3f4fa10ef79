"""One run of an ingestion: items are taken, planned, claimed, sent and recorded.

A thread reads the items, which may block, and plans them some hundreds at a time; everything else
happens in the event loop. What is to be written to the ledger gathers while the transaction before
it is made durable, and then goes into one, results and claims together. A result is there before
the claim that takes its place, so a committed ledger never holds more claims than requests may be
in flight.
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
from knowledge_bot.ingest._limiter import TURNS_AHEAD, Limiter, Pace
from knowledge_bot.ingest._plan import Job, Planned, Planner, fingerprint_of
from knowledge_bot.ingest._report import Counters, Kind, Outcome, Report, Stop, logger
from knowledge_bot.ingest._schema import LedgerError
from knowledge_bot.ingest._store import Batch, Row, State, Store, one_spelling, replaced
from knowledge_bot.models import Source

if TYPE_CHECKING:
    from knowledge_bot.ingest._run import Ingestion

# What is planned at once, at most: as many items as the ledger is asked about in one statement, and
# some megabytes of text. And how long an item waits for others, in seconds.
_WINDOW = 500
_CHARACTERS = 4_000_000
_GATHERING = 0.1

# How many windows of what was left to other runs wait until they are looked at once more.
_WINDOWS_LEFT = 2

# How many items may be on their way for each request in flight: some wait to be sent again.
_TASKS_PER_REQUEST = 4

# Seconds between two looks at what other runs are sending.
_LOOKING_AGAIN = 0.5

# Seconds between two looks at the caller's wish to stop, and two reports of progress.
_TICK = 0.1


class Sender(Protocol):
    """What a run asks of the service."""

    async def open(self) -> None:
        """Make ready to send, so that nothing is claimed before something can be sent."""

    async def send(self, job: Job) -> Source:
        """Create the source of an item, or raise a `KnowledgeBotError`."""

    async def ping(self) -> object:
        """Ask for a sign of life, or raise a `KnowledgeBotError`."""


class Run:
    """Ingests items once.

    Args:
        service: the base URL, which the ledger's entries belong to.
        sender: sends.
        items: what to ingest.
        options: how.
        asked: tells whether a signal or another thread wants the run to end.
    """

    def __init__(
        self,
        service: str,
        sender: Sender,
        items: Iterable[object] | AsyncIterable[object],
        options: "Ingestion",
        asked: Callable[[], bool],
    ) -> None:
        self._service, self._sender, self._options = one_spelling(service), sender, options
        self._asked = asked
        self._counters = Counters(dry_run=options.dry_run, on_outcome=options.on_outcome)
        pace = None if options.rate is None else Pace(options.rate, self._reserve)
        self._limiter = Limiter(options.concurrency, pace, sender.ping, self.stop)
        self._free_at = 0.0  # when the next turn is free, where no other run can know
        self._reader = Reader(items)
        self._writer: Writer | None = None
        self._store: Store | None = None
        self._under_way: dict[bytes, asyncio.Event] = {}
        self._error: BaseException | None = None
        self._sent = 0
        self._would: set[bytes] = set()  # be created, in a dry run
        self._elsewhere: list[Item] = []  # what other runs are sending
        self._wait = 0.0 if options.dry_run else options.wait
        self._current = ""
        self._task: asyncio.Task[Any] | None = None

    async def run(self) -> Report:
        """Ingest every item and report.

        Raises:
            LedgerError: the ledger cannot be opened. What goes wrong with it later ends the run
                and stands in the report.
            Exception: what `items` or a callback raised, after what was in flight was finished.
        """
        self._task = asyncio.current_task()
        ticking = asyncio.create_task(self._tick())
        try:
            loop = asyncio.get_running_loop()
            self._planner: Planner = await asyncio.to_thread(
                self._open, lambda: not loop.is_closed()
            )
            self._reader.start(self._planner, self._store)
            await self._work_off()
            await self._note_gone()
            self._tell_unversioned()
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

    def stop(self, stop: Stop, reason: str) -> None:
        """Begin nothing new; what is in flight is finished. Called in the loop's thread."""
        if self._counters.stopped is None or self._counters.stopped[0] is Stop.LIMIT:
            self._counters.stopped = (stop, reason)
            self._reader.end()
            if stop is not Stop.LIMIT:  # what was begun is still sent
                logger.warning("The ingestion stops: %s", reason)
                self._limiter.end()

    def abort(self) -> None:
        """Wait for nothing: what is in flight becomes unknown. Called in the loop's thread."""
        self.stop(Stop.REQUESTED, "it was interrupted")
        if self._store is not None:
            self._store.give_up()
        if self._task is not None:
            self._task.cancel()

    def report(self) -> Report:
        """Return the counts so far."""
        return self._counters.report(
            total=self._reader.total, current=self._current, paused=self._limiter.paused
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

    async def _work_off(self) -> None:
        """Send what the reader finds; at the end nothing is in flight any more."""
        most = self._options.concurrency * _TASKS_PER_REQUEST
        slots = asyncio.Semaphore(most)
        async with asyncio.TaskGroup() as sending:
            try:
                while (planned := await self._next_window(slots, most)) is not None:
                    jobs = self._noted(planned)
                    for place, job in enumerate(jobs):
                        if self._sent == 0:
                            await self._sender.open()  # nothing is claimed that cannot be sent
                        await slots.acquire()
                        if self._is_at_the_limit():
                            return
                        if not await self._limiter.enter(waiting=len(jobs) - place):
                            return
                        task = sending.create_task(self._ingest(job))
                        task.add_done_callback(lambda _: slots.release())
            except LedgerError as error:
                self.stop(Stop.LEDGER, str(error))
            except Exception as error:  # noqa: BLE001 - raised by run(), when all is recorded
                self._error = self._error or error  # what came before it is still sent

    async def _next_window(self, slots: asyncio.Semaphore, most: int) -> Planned | None:
        planned = await self._reader.planned()
        if planned is None:
            for _ in range(most):  # until nothing is in flight
                await slots.acquire()
            for _ in range(most):
                slots.release()
            planned = await self._reader.left_over() or await self._settled_elsewhere()
        return planned

    async def _settled_elsewhere(self) -> Planned | None:
        """Look again at what other runs were sending, where the caller waits for that."""
        waited_since = time.monotonic()
        if self._elsewhere and self._wait > 0:
            logger.info(
                "%d items are being sent by other runs; looking again for up to %.0f s",
                len(self._elsewhere),
                self._wait,
            )
        while self._elsewhere and self._counters.stopped is None:
            left = waited_since + self._wait - time.monotonic()
            if left <= 0:
                break
            await asyncio.sleep(min(left, _LOOKING_AGAIN))
            items, self._elsewhere = self._elsewhere, []
            planned = await self._reader.plan_again(*items)
            settled = len(items) - len(planned.elsewhere)
            self._counters.counts["elsewhere"] -= len(items)  # they are counted anew
            if settled:
                self._wait = max(0.0, waited_since + self._wait - time.monotonic())
                return planned
            self._noted(planned)
        return None

    async def _reserve(self, count: int) -> float:
        """Take turns to send; return the seconds until the first of them."""
        rate = self._options.rate or 1.0
        if self._store is not None:
            longest = max(TURNS_AHEAD, 1 / rate)
            return await asyncio.to_thread(self._store.reserve, count, rate, longest)
        now = time.monotonic()
        first = max(now, self._free_at)
        self._free_at = first + count / rate
        return first - now

    def _noted(self, planned: Planned) -> list[Job]:
        """Count what needs no sending; return what is to be sent."""
        self._counters.counts["unchanged"] += planned.unchanged
        self._counters.counts["elsewhere"] += len(planned.elsewhere)
        self._elsewhere += planned.elsewhere
        for outcome in planned.outcomes:
            self._counters.add(outcome)
        self._counters.counts["unversioned"] = self._planner.unversioned  # the old ones as well
        if self._writer is not None and planned.rows:
            self._writer.put(*planned.rows)
        if not self._options.dry_run:
            return planned.jobs
        for job in planned.jobs:
            if job.id in self._would:
                told = "it comes twice in this run"
                self._counters.add(Outcome("skipped", job.name, job.key, told))
                continue
            if self._is_at_the_limit():
                break
            self._would.add(job.id)
            self._counters.add(Outcome("created", job.name, job.key))
            self._counters.counts["superseded"] += bool(job.before and job.before.source_id)
        return []

    def _is_at_the_limit(self) -> bool:
        """Count an item that is begun; where that would be one too many, end the run."""
        if self._sent == self._options.limit:
            self.stop(Stop.LIMIT, f"the limit of {self._sent} items was reached")
        else:
            self._sent += 1
        return self._counters.stopped is not None

    async def _ingest(self, job: Job) -> None:
        """Send one item, as often as that is safe and may help, and record what came of it.

        It has a turn already.
        """
        has_turn = True
        try:
            while (first := self._under_way.get(job.id)) is not None and self._writer is not None:
                if has_turn:
                    self._limiter.leave()
                    has_turn = False
                await first.wait()  # the same item came before: what became of it decides
                again = self._noted(await self._reader.plan_again(job.item))
                if not again:
                    return
                job = again[0]
            done = self._under_way[job.id] = asyncio.Event()
            try:
                await self._deliver(job, has_turn=has_turn)
            finally:
                done.set()
                if self._under_way.get(job.id) is done:
                    del self._under_way[job.id]
        except LedgerError as error:
            self.stop(Stop.LEDGER, str(error))
        except Exception as error:  # noqa: BLE001 - raised by run(), when all is recorded
            self._fail(error)

    async def _deliver(self, job: Job, *, has_turn: bool) -> None:
        tries, failure = 0, None
        while has_turn or await self._limiter.enter(again=failure is not None):
            has_turn = False
            try:
                claim = self._planner.claim(job)
                if not await self._claimed(job, claim):  # somebody was faster
                    self._reader.put_back(job.item)
                    return
                if self._store is not None and self._store.lapsed:
                    # While the machine slept, others may have taken us for dead.
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
        """Claim an item, durably; False where it is somebody's already."""
        if self._writer is None:
            return True
        try:
            return await self._writer.claim(claim)
        except LedgerError as error:
            self._release(job, claim)
            self._count("undelivered", job, f"it was not sent: {error}")
            raise
        except asyncio.CancelledError:
            self._release(job, claim)
            raise

    def _failed(
        self, job: Job, claim: Row, error: KnowledgeBotError, began: float, tries: int
    ) -> tuple[Outcome, float] | None:
        """Record a failure; where the item may be sent again, return it and the seconds to wait."""
        if isinstance(error, ConfigurationError):  # the item cannot be sent as it is
            self._release(job, claim)
            self._count("invalid", job, str(error))
            return None
        counts = self._counters.counts
        well = counts["created"] + counts["unchanged"]
        verdict = self._limiter.failed(error, began, tries, well)
        if verdict.stop is not None:
            self.stop(*verdict.stop)
        kind: Kind = "unknown"
        if error.delivery is not Delivery.UNKNOWN:
            kind = "refused" if error.delivery is Delivery.REFUSED else "undelivered"
        if verdict.again is not None:
            self._release(job, claim)  # not claimed while it waits: it was not sent
            return Outcome(kind, job.name[:500], job.key, str(error)), verdict.again
        state = State.UNKNOWN if kind == "unknown" else State.REFUSED
        self._record(claim, state=state, error=_storable(str(error)[:2000]))
        self._count(kind, job, str(error))
        return None

    def _interrupted(self, job: Job, claim: Row, error: BaseException) -> None:
        if getattr(error, "delivery", Delivery.UNKNOWN) is Delivery.NOT_DELIVERED:
            self._release(job, claim)
            return
        told = f"it was interrupted while it was sent: {error!r}"
        self._record(claim, state=State.UNKNOWN, error=told)
        self._count("unknown", job, told)

    async def _created(self, job: Job, claim: Row, source: Source) -> None:
        changed = job.fingerprint is not None
        superseded = replaced(claim, source.id)
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
                # Which content the service got, nobody can tell: the next run compares it anew.
                digest=b"changed while it was sent" if changed else job.digest,
                version=None if changed else claim.version if job.is_page else job.version,
                pending=None,
                source_id=_storable(source.id),
                source_name=None,
            )
        self._counters.counts["superseded"] += len(superseded)
        self._counters.add(Outcome("created", job.name, job.key, source_id=source.id))
        if job.same_as:
            told = f"{job.same_as!r} has the same content; both are sources now"
            self._count("same_content", job, told)

    def _record(self, claim: Row, **values: Any) -> None:
        # One revision for the claim itself, and one for others who took its run for dead.
        if self._writer is not None:
            now = int(time.time())
            self._writer.put(claim._replace(revision=claim.revision + 2, updated_at=now, **values))

    def _release(self, job: Job, claim: Row) -> None:
        """Give back a claim that was not sent: the row is as it was."""
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
        self.stop(Stop.REQUESTED, f"{type(error).__name__}: {error}")

    async def _note_gone(self) -> None:
        """Look for what the origin no longer yields, where all that it yields was seen."""
        store, origin = self._store, self._options.origin
        if store is None or store.origin is None:
            return
        if self._counters.stopped or self._error or self._reader.partial:
            why = self._reader.partial or "the run ended early"
            self._counters.gone_unknown = why
            logger.info("What is gone from %s was not looked for: %s", origin, why)
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
                "%d items that %s no longer yields are not noted as gone: they are more than the "
                "share of %g that gone_limit allows. Is it complete?",
                withheld,
                origin,
                self._options.gone_limit,
            )

    def _tell_unversioned(self) -> None:
        """Name new pages whose changes nobody will see; the old ones were named when they were."""
        self._counters.counts["unversioned"] = self._planner.unversioned
        new = [one.name for one in self.report().failures if one.kind == "unversioned"]
        if new:
            logger.warning(
                "Nothing tells whether these pages change, so no later change of them will be "
                "seen: %s. Their text, where they have any, is compared with compare='content'",
                ", ".join(new),
            )

    async def _close(self) -> None:
        if self._writer is not None:
            try:
                await self._writer.end()
            except LedgerError as error:
                self.stop(Stop.LEDGER, str(error))
            for row in self._writer.unrecorded:
                self._tell_unrecorded(row)
        if self._store is not None:
            await asyncio.to_thread(self._store.close)

    def _tell_unrecorded(self, row: Row) -> None:
        """Count an outcome that the ledger could not take; it will call it unknown."""
        told = "what came of it"
        if row.state == State.CREATED:
            self._counters.counts["created"] -= 1
            told = f"that it was created as {row.source_id}"
        elif row.state == State.UNKNOWN:
            return
        error = f"the ledger could not record {told}"
        self._counters.add(Outcome("unknown", row.name or row.key, row.key, error))

    async def _tick(self) -> None:
        told = 0.0
        while True:
            if self._asked():
                self.stop(Stop.REQUESTED, "the caller asked for it")
            self._reader.hurry()
            if self._writer is not None:
                self._writer.keep_alive()
            if self._options.on_progress is not None and time.monotonic() - told > 2 * _TICK:
                told = time.monotonic()
                try:
                    self._options.on_progress(self.report())
                except Exception as error:  # noqa: BLE001 - raised by run(), when all is recorded
                    self._fail(error)
                    return
            await asyncio.sleep(_TICK)


def _storable(text: str) -> str:
    """Return what a service wrote as every database takes it."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class Reader:
    """Takes items, in a thread where that blocks, and plans them a window at a time.

    Args:
        items: what to take.

    Attributes:
        total: how many items there are, where that is known.
        partial: why there may be more; empty where there are none.
    """

    def __init__(self, items: Iterable[object] | AsyncIterable[object]) -> None:
        self._items: Any = items
        self._gathered: deque[object] = deque()
        self._left: deque[list[object]] = deque()
        self._exhausted = False
        # One window is planned while the one before it is sent.
        self._queue: asyncio.Queue[Planned | None] = asyncio.Queue(1)
        # Handing over may wait for what is sent now, and that may have to be planned again.
        self._flushing, self._planning = threading.Lock(), threading.Lock()
        self._characters = self._count = self._unchanged = 0
        self._flushed = self._passed_on = time.monotonic()
        self._ended = False
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self.total: int | None = len(items) if isinstance(items, Sized) else None
        self.partial = ""

    def start(self, planner: Planner, store: Store | None) -> None:
        """Begin to read; what compares pages is given the ledger to remember them in."""
        self._planner, self._loop = planner, asyncio.get_running_loop()
        if self._ended:
            return
        if store is not None and hasattr(self._items, "remembering"):
            self._items = self._items.remembering(store)
        if isinstance(self._items, AsyncIterable):
            self._task = asyncio.create_task(self._aread())
        else:
            # Not one of asyncio's: it may wait for its next item for ever, and nobody for it.
            run = contextvars.copy_context().run
            threading.Thread(
                target=run, args=(self._read,), name="ingest reader", daemon=True
            ).start()

    async def planned(self) -> Planned | None:
        """Return what the next window needs; None at the end.

        Raises:
            LedgerError: the ledger cannot be read.
            Exception: what the items raised.
        """
        planned = None if self._exhausted else await self._queue.get()
        self._exhausted = planned is None
        if planned is None and self._error is not None:
            raise self._error
        return planned

    def put_back(self, item: object) -> None:
        """Take back an item that another run is sending: it is looked at once more, later."""
        self._left.append([item])
        self._planner.shares = True

    async def left_over(self) -> Planned | None:
        """Return what is still to be done of what was left to others; None where nothing is."""
        if self._ended or not self._left:
            return None
        windows = [self._left.popleft() for _ in range(len(self._left))]
        items = [item for window in windows for item in window]
        return await asyncio.to_thread(self._plan, items, was_left=True)

    async def plan_again(self, *items: object) -> Planned:
        """Decide about items once more, since their rows were written meanwhile."""
        return await asyncio.to_thread(self._plan, items, share=False)

    def hurry(self) -> None:
        """Plan what has gathered where the next item is long in coming; called now and then."""
        waiting = self._gathered and time.monotonic() - self._flushed > _GATHERING
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
                self._gathered.append(item)
                # To ask a model whether it is another one takes longer than all else here.
                if type(item) is not File and isinstance(item, Text):
                    self._characters += len(item.content)
                if len(self._gathered) >= _WINDOW or self._characters >= _CHARACTERS:
                    self._flush()
                if self._ended:
                    return
        except BaseException as error:  # noqa: BLE001 - raised by planned()
            self._fail(error)
        self._finish()

    async def _aread(self) -> None:
        try:
            async for item in self._items:
                self._gathered.append(item)
                if len(self._gathered) >= _WINDOW:
                    await asyncio.to_thread(self._flush)
                if self._ended:
                    return
        except Exception as error:  # noqa: BLE001 - raised by planned()
            self._fail(error)
        await asyncio.to_thread(self._finish)

    def _flush(self) -> None:
        """Plan what has gathered, and hand it over."""
        with self._flushing:
            items = [self._gathered.popleft() for _ in range(len(self._gathered))]
            self._flushed, self._characters = time.monotonic(), 0
            self._count += len(items)
            try:
                if items and not self._ended:
                    planned = self._plan(items)
                    self.partial = self.partial or planned.partial
                    self._pass_on(planned)
                # By now the shares before the last ones are sent, or the runs slow that have them.
                if len(self._left) > _WINDOWS_LEFT and not self._ended:
                    self._pass_on(self._plan(self._left.popleft(), was_left=True))
            except BaseException as error:  # noqa: BLE001 - raised by planned()
                self._fail(error)

    def _plan(
        self, items: Sequence[object], *, share: bool = True, was_left: bool = False
    ) -> Planned:
        with self._planning:
            planned = self._planner.plan(items, again=was_left or not share)
            if was_left and len(planned.jobs) == len(items):  # nobody else has them
                self._planner.shares = False
            left = self._planner.share_out(planned) if share else []
        if left:
            self._left.append(left)
        return planned

    def _pass_on(self, planned: Planned) -> None:
        """Hand a window over; one of which nothing is to be told but a number, with a later one."""
        planned.unchanged += self._unchanged
        quiet = not (planned.jobs or planned.outcomes or planned.rows or planned.elsewhere)
        self._unchanged = planned.unchanged if quiet else 0
        if not quiet or self._flushed - self._passed_on > _GATHERING:
            self._passed_on, self._unchanged = self._flushed, 0
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
    """Writes to the ledger in groups, from an event loop.

    Args:
        store: the ledger.

    Attributes:
        batch: what gathers for the next transaction.
        unrecorded: what could not be written in the end.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._claims: dict[bytes, asyncio.Future[bool]] = {}
        self._committing: asyncio.Task[None] | None = None
        self.batch = Batch()
        self.unrecorded: list[Row] = []

    async def claim(self, row: Row) -> bool:
        """Claim an item; True when that is durable, False where another run was faster.

        Raises:
            LedgerError: it cannot be written, and so nothing may be sent.
        """
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._claims[row.id] = future
        self.put(row)
        return await future

    def put(self, *rows: Row) -> None:
        """Write rows, with the next transaction."""
        self.batch.rows += rows
        self._commit_soon()

    def withdraw(self, claim: Row) -> None:
        """Undo the claim of an item that the ledger did not know."""
        if claim in self.batch.rows:
            self.batch.rows.remove(claim)
        else:
            self.batch.withdrawn.append(claim)
            self._commit_soon()

    def keep_alive(self) -> None:
        """Renew the lease where it is time."""
        if self._store.registered and self._store.due:
            self._commit_soon()

    async def end(self) -> None:
        """Write what is left, and give up the lease.

        Raises:
            LedgerError: it cannot be written; `unrecorded` holds what.
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
        # It begins when the loop has done what it can do now, and so has more to write.
        if self._committing is None or self._committing.done():
            self._committing = asyncio.get_running_loop().create_task(self._commit())

    async def _commit(self) -> None:
        while self.batch or self._store.due:
            batch, self.batch = self.batch, Batch()
            claims, self._claims = self._claims, {}
            try:
                lost = await asyncio.to_thread(self._store.write, batch)
            except BaseException as error:
                # What came of claims is kept and written later, also where it was written already.
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
