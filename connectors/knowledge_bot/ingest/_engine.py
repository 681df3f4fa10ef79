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
import itertools
import time
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from knowledge_bot._endpoints import UNKNOWN_SOURCE
from knowledge_bot._responses import KEY_REUSED
from knowledge_bot.errors import APIError, ConfigurationError, Delivery, KnowledgeBotError
from knowledge_bot.ingest._afterwards import Afterwards, check_supported, sources_of
from knowledge_bot.ingest._ledger import PrunePlan
from knowledge_bot.ingest._limiter import TURNS_AHEAD, Limiter, RateLimiter, settles
from knowledge_bot.ingest._listings import ListedFile, version_of_file
from knowledge_bot.ingest._plan import Job, Planned, Planner
from knowledge_bot.ingest._reading import ItemReader
from knowledge_bot.ingest._report import Counters, Kind, Outcome, Report, Stop, logger, stop_reason
from knowledge_bot.ingest._schema import LedgerError
from knowledge_bot.ingest._store import (
    CHANGED_THERE,
    NO_ROW,
    Batch,
    Gone,
    Row,
    State,
    Store,
    normalised_url,
    superseded_rows,
)
from knowledge_bot.ingest._writing import LedgerWriter

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import Item
    from knowledge_bot.ingest._options import CheckedOptions
    from knowledge_bot.ingest._sending import Sender

# How many windows of items that were left to other runs wait for the end of this run.
_WINDOWS_LEFT = 16

# How many times a source is replaced again that somebody else replaces meanwhile.
_MOST_OVERTAKEN = 9

# Seconds between two checks of what other runs are sending.
_POLL_INTERVAL = 0.5

# Seconds between two checks whether the run should stop.
_TICK = 0.1

_CLAIMED_UNSENT = (
    "nothing was sent, but the ledger's connection broke during the claim, so its row may say that "
    "it is being sent; if `kbot ledger unknown` names it, settle it with `kbot ledger resolve KEY "
    "--not-created`"
)


class Run:
    """Ingests items once."""

    def __init__(
        self,
        service: str,
        sender: "Sender",
        items: Iterable[object] | AsyncIterable[object],
        options: "CheckedOptions",
        *,
        origin: str | None,
        stop_requested: Callable[[], bool],
    ) -> None:
        self._service, self._sender, self._options = normalised_url(service), sender, options
        self._origin, self._items, self.stop_requested = origin, items, stop_requested
        self._counters = Counters(dry_run=options.dry_run, on_outcome=options.on_outcome)
        rate_limiter = None if options.rate is None else RateLimiter(options.rate, self._reserve)
        self._limiter = Limiter(options.concurrency, rate_limiter, sender.ping, self.stop)
        self._free_at = 0.0  # when the next turn is free; without a ledger no other run counts
        self._reader = ItemReader(items)
        # What the workers take: what is sent again comes first, and at the end a None for each.
        self._queue: asyncio.PriorityQueue[tuple[int, int, Job | None]] = asyncio.PriorityQueue()
        self._room = asyncio.Event()
        self._numbers = itertools.count()
        self._retries: dict[int, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}
        self._writer = LedgerWriter(None, options.concurrency, self._limiter)
        self._store: Store | None = None
        # What is being sent, and items with the same key, whose turn comes after that.
        self._in_flight: dict[bytes, list[Item | ListedFile]] = {}
        self._lost: list[Item | ListedFile] = []  # another run claimed or changed them first
        self._in_progress: list[Item | ListedFile] = []  # other runs are sending them
        self._unsent: list[tuple[Job, bool, str]] = []  # their claims failed
        self._error: BaseException | None = None
        self._workers = self._begun = 0
        self._would_send, self._knows_service = set[bytes](), False  # in a dry run
        self._wait = 0.0 if options.dry_run else options.wait
        self._current = ""
        self._task: asyncio.Task[Any] | None = None

    async def run(self) -> Report:
        """Ingest every item and report.

        Raises:
            LedgerError: the ledger cannot be opened. A later error of the ledger ends the run and
                is in the report.
            ConfigurationError: a plan is for another service.
            Exception: what `items` or a callback raised, once the requests in flight have ended.
        """
        self._task = asyncio.current_task()
        ticking, complete = asyncio.create_task(self._tick()), False
        try:
            loop = asyncio.get_running_loop()
            await asyncio.to_thread(self._open, lambda: not loop.is_closed())
            needs = self._options.prune or self._options.wait_ready
            if needs and not self._options.dry_run and await self._asked():
                check_supported(self._options, self._sender.extensions)
            self._reader.start(self._planner.plan, self._store)
            async with asyncio.TaskGroup() as workers:
                await self._feed(workers)
            await self._look_back()
            complete = True
        finally:
            ticking.cancel()
            await self._reader.close()
            await self._close(complete=complete)
        self._warn_of_unversioned()
        report = self.report()
        if self._options.on_progress is not None:
            self._options.on_progress(report)
        if self._error is not None:
            self._error.add_note(f"Ingestion until then: {report}")
            raise self._error
        return report

    async def _asked(self) -> bool:
        """Ask what the service can, and return whether it says so."""
        try:
            await self._sender.call("extensions")
        except KnowledgeBotError as error:  # the run will tell, or the service is back by then
            logger.info("It is not known what the service can: %s", error)
            return False
        return True

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

    def abort_soon(self) -> None:
        """Abort. Called in any thread."""
        if self._task is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                self._task.get_loop().call_soon_threadsafe(self.abort)

    def report(self) -> Report:
        """Return the counts so far."""
        return self._counters.report(
            total=self._reader.total,
            current=self._current,
            paused=self._limiter.paused,
        )

    def _open(self, alive: Callable[[], bool]) -> None:
        options, store = self._options, None
        if isinstance(options.prune, PrunePlan) and options.prune.service != self._service:
            raise ConfigurationError.of(
                "prune",
                f"the plan is for {options.prune.service}, not for {self._service}. Nothing was "
                "removed",
            )
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
        self._writer.store = None if options.dry_run else store
        self._planner = Planner(
            store,
            self._service,
            options.collections,
            options.on_unknown,
            self._items,
            shares=options.share and not options.dry_run,
        )

    # What there is to do --------------------------------------------------------------------------

    async def _feed(self, workers: asyncio.TaskGroup) -> None:
        """Hand to the workers what there is to send, until nothing is left."""
        try:
            while (planned := await self._next()) is not None:
                jobs = self._count_planned(planned)
                if jobs and self._options.dry_run:
                    await self._count_unsent(jobs)
                elif jobs:
                    await self._hand_over(jobs, workers)
        except LedgerError as error:
            self.stop(Stop.LEDGER, str(error))
        except Exception as error:  # noqa: BLE001 - raised by run(), once all is recorded
            self._error = self._error or error  # earlier items are still sent
        await self._queue.join()
        for _ in range(self._workers):
            self._queue.put_nowait((2, next(self._numbers), None))

    async def _hand_over(self, jobs: Sequence[Job], workers: asyncio.TaskGroup) -> None:
        await self._sender.open(len(jobs))  # nothing is claimed that cannot be sent
        if self._workers == 0:
            await self._limiter.begin()
        for job in jobs:
            self._queue.put_nowait((1, next(self._numbers), job))
        while self._workers < min(self._options.concurrency, self._queue.qsize()):
            self._workers += 1
            workers.create_task(self._work())
        while self._queue.qsize() > self._workers and not self._limiter.ended:
            self._room.clear()
            await self._room.wait()

    async def _next(self) -> Planned | None:
        """Return the next plan; None at the end."""
        few = len(self._planner.left) <= _WINDOWS_LEFT
        if few and (planned := await self._reader.planned()) is not None:
            return planned
        if self._reader.exhausted and self._planner.waiting and not self._counters.stopped:
            complete = not self._incomplete
            return await asyncio.to_thread(self._planner.plan_waiting, complete=complete)
        if self._reader.exhausted:
            await self._queue.join()
        if self._counters.stopped is not None:
            return None
        if self._planner.left:
            return await asyncio.to_thread(self._planner.plan_left)
        if self._lost:
            lost, self._lost = self._lost, []
            return await asyncio.to_thread(self._planner.plan, lost, again=True)
        return await self._wait_for_others()

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
        counts["unversioned"] += planned.unversioned
        self._writer.add(rows=planned.rows)
        return planned.jobs

    async def _count_unsent(self, jobs: Sequence[Job]) -> None:
        """Count what a run would do that is no dry one."""
        if not self._knows_service and any(job.before is not None for job in jobs):
            self._knows_service = True
            await self._asked()  # whether it replaces what is there
        for job in jobs:
            if job.id in self._would_send:
                self._counters.add(job.outcome("skipped", "it comes twice in this run"))
                continue
            if self._reached_limit():
                break
            self._would_send.add(job.id)
            if job.moved is not None:
                self._counters.add(job.outcome("moved"))
            elif self._is_sent(job):
                replaced = job.target is not None
                self._counters.add(job.outcome("replaced" if replaced else "created"))
                older = not replaced and job.before is not None and job.before.source_id
                self._counters.counts["superseded"] += bool(older)

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
            if (waiting := self._in_flight.get(job.id)) is not None and self._store:
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
        async with self._limiter.turn(waiting=self._queue.qsize() + 1) as mine:
            if not mine:
                if job.failure is not None:  # the run ended before it could be sent again
                    self._counters.add(job.failure)
                return None
            if job.moved is not None:
                return await self._move(job, job.moved)
            if not (self._is_sent(job) and await self._is_claimed(job)):
                return None
            wait = await self._try(job)
        while wait is not None and job.in_doubt:
            # It keeps its claim while it waits, since it may have been acted on.
            await asyncio.sleep(wait)
            async with self._limiter.turn() as mine:
                if not mine:
                    self._record(job, "unknown", job.failure.error if job.failure else "")
                    return None
                wait = await self._try(job)
        return wait

    def _is_sent(self, job: Job) -> bool:
        """Decide how an item is sent, and return whether it is; if not, say why."""
        sent = job.choose(self._sender.extensions, resend=self._options.on_unknown == "resend")
        if not sent and job.before is not None:
            self._counters.add(job.outcome("unknown", f"held back: {job.before.error}"))
        return sent

    async def _is_claimed(self, job: Job) -> bool:
        """Claim an item durably; False if another run was faster, or may have been."""
        writer, store = self._writer, self._store
        job.claim = job.claimed(store.run, store.origin) if store is not None else NO_ROW
        try:
            mine = await writer.claim(job.claim)
        except BaseException as error:
            writer.release(job.claim)
            if isinstance(error, LedgerError):
                self._unsent.append((job, store is not None and store.in_doubt, str(error)))
            raise
        if mine and store is not None and store.lapsed:
            # While the machine slept, others may have considered this run dead.
            writer.release(job.claim)
            mine = False
        if not mine:
            self._lost.append(job.item)
        return mine

    async def _try(self, job: Job) -> float | None:
        """Send an item once, and record the outcome; return as `_send` does."""
        job.tries, began, self._current = job.tries + 1, time.monotonic(), job.name
        try:
            source_id, revision = await self._sender.send(job)
        except KnowledgeBotError as error:
            job.failure = job.outcome("undelivered", str(error))
            if isinstance(error, APIError) and job.before is not None:
                if job.target is not None and error.code == UNKNOWN_SOURCE:
                    return self._once_more(job, job.before)
                if job.target is not None and error.status_code == 412:
                    return await self._overtaken(job, job.target, job.before)
                if error.code == KEY_REUSED:
                    return await self._found(job, job.before, error)
            return self._failed(job, error, began)
        except BaseException as error:
            never = getattr(error, "delivery", None) is Delivery.NOT_DELIVERED
            kind: Kind = "undelivered" if never and not job.in_doubt else "unknown"
            self._record(job, kind, f"it was interrupted while it was being sent: {error!r}")
            raise
        self._limiter.succeeded()
        await self._created(job, source_id, revision)
        return None

    def _once_more(self, job: Job, before: Row) -> float:
        """Let an item be sent as a new one, since the service does not have its source any more."""
        job.before = before._replace(source_id=None, source_revision=None, state=State.REFUSED)
        job.in_doubt = False
        self._writer.release(job.claim)
        return 0.0

    async def _overtaken(self, job: Job, target: str, before: Row) -> float | None:
        """Go on where the source has another revision than the one to be replaced."""
        try:
            job.revision = (await self._sender.call("get_source", target)).revision
        except KnowledgeBotError as error:
            logger.info("The revision of %s is not known: %s", target, error)
            job.revision = None
        if job.in_doubt and job.tries < _MOST_OVERTAKEN:  # an attempt of this run, or of a dead one
            return 0.0
        # Whatever the service has now, it is not what was sent.
        job.claim = job.claim._replace(
            digest=CHANGED_THERE, version=None, source_revision=job.revision
        )
        since = time.strftime("%Y-%m-%d %H:%M", time.gmtime(before.updated_at))
        reason = f"{target} was changed in the service since {since} UTC; it was left as it is"
        self._record(job, "refused", f"{reason}. The next run replaces it")
        return None

    async def _found(self, job: Job, before: Row, error: APIError) -> float | None:
        """Record what the first request with the key created, so that it can be replaced."""
        assert self._store is not None  # noqa: S101 - which has the row
        found, name = error.created_id, job.name
        if found is None and "sources" in self._sender.extensions:
            try:
                key = job.idempotency_key or ""
                several = await sources_of(self._sender, self._store, name, key)
            except KnowledgeBotError as unlisted:
                logger.info("Sources named %r cannot be listed: %s", name, unlisted)
            else:
                found = several[0] if len(several) == 1 else None
        if found is None:
            reason = (
                "an earlier request with its key was about another content, and created a source "
                "that cannot be found here"
            )
            self._record(job, "unknown", reason)
            return None
        row = job.claim.settled(State.CREATED, source_id=found, digest=before.pending)
        self._writer.add(rows=[row], released=[row.id], superseded=superseded_rows(before, found))
        job.before, job.in_doubt = row, False
        return 0.0

    async def _move(self, job: Job, row: Row) -> float | None:
        """Give a source that is already there to the item that has its content."""
        assert self._store is not None  # noqa: S101 - which knew the row
        renamed = row.source_called == job.name
        if not renamed and self._sender.extensions.get("sources", {}).get("rename"):
            try:
                await self._sender.call("replace_source", row.source_id, name=job.name)
                renamed = True
            except KnowledgeBotError as error:
                if getattr(error, "code", None) == UNKNOWN_SOURCE:
                    job.moved = None
                    job.failure = job.outcome("undelivered", str(error))
                    return 0.0  # somebody deleted it
                logger.warning("%s keeps its name in the service: %s", row.source_id, error)
        self._writer.add(moved=[job.moved_row(row, self._store.run, renamed=renamed)])
        self._counters.add(job.outcome("moved", source_id=row.source_id))
        return None

    def _failed(self, job: Job, error: KnowledgeBotError, began: float) -> float | None:
        """Record a failure, or return the seconds after which the item is to be sent again."""
        counts = self._counters.counts
        succeeded = counts["created"] + counts["replaced"] + counts["unchanged"]
        keyed = job.idempotency_key is not None and "idempotency" in self._sender.extensions
        replacing = job.target is not None
        decision = self._limiter.failed(
            error, began, job.tries, succeeded, keyed=keyed, replacing=replacing
        )
        kind: Kind = "unknown" if job.in_doubt and not settles(error) else decision.kind
        if decision.retry_in is None:
            self._record(job, kind, str(error))
        elif kind == "unknown":
            job.in_doubt = True
        else:
            self._writer.release(job.claim)  # it was not sent: no claim while it waits
        if decision.stop is not None:
            self.stop(*decision.stop)
        return decision.retry_in

    def _record(self, job: Job, kind: Kind, error: str) -> None:
        """Record that an item was not created, or may not have been."""
        self._counters.add(job.outcome(kind, error))
        if kind == "invalid":
            self._writer.release(job.claim)
        else:
            state = State.UNKNOWN if kind == "unknown" else State.REFUSED
            row = job.claim.settled(state, error=_storable(error[:2000]))
            self._writer.add(rows=[row], released=[row.id])

    async def _created(self, job: Job, source_id: str, revision: str | None) -> None:
        """Record that an item is a source now."""
        before, changed = job.before, job.stat is not None and self._store is not None
        known: dict[str, Any] = {"version": job.version}
        try:
            if changed:
                changed = await asyncio.to_thread(version_of_file, job.place) != job.stat
        finally:
            if changed:
                # Nobody knows which content the service got, so the next run compares it again.
                known = {"digest": b"changed while it was sent"}
            superseded = superseded_rows(before, source_id)
            source = {"source_id": _storable(source_id), "source_revision": revision}
            row = job.claim.settled(State.CREATED, **source, **known)
            self._writer.add(rows=[row], released=[row.id], superseded=superseded)
            self._counters.counts["superseded"] += len(superseded)
        kind: Kind = "created" if job.target is None else "replaced"
        self._counters.add(job.outcome(kind, source_id=source_id))

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop(Stop.REQUESTED, f"it raised {type(error).__name__}: {error}")

    # The end --------------------------------------------------------------------------------------

    @property
    def _incomplete(self) -> str:
        """Why not all items of the origin were seen; empty if they were."""
        ended = self._counters.stopped is not None or self._error is not None
        return (
            self._planner.partial
            or self._reader.partial
            or ("the run ended early" if ended else "")
        )

    async def _look_back(self) -> None:
        """Do what is left to do once all items were taken and sent."""
        store, options, gone = self._store, self._options, None
        if store is None or (store.origin is None and not (options.wait_ready or options.prune)):
            return
        afterwards = partial(
            Afterwards,
            store,
            self._sender,
            self._limiter,
            self._counters,
            options,
            doubts=getattr(self._items, "doubts", None),
        )
        batch, incomplete = await self._writer.rest(), self._incomplete
        try:
            if store.origin is not None and not incomplete:
                seen, planner = self._planner.seen, self._planner
                known = planner.met, options.gone_limit, planner.gone_reason
                if unsettled := await asyncio.to_thread(store.unsettled, batch, seen):
                    await afterwards().settle(unsettled)
                gone = await asyncio.to_thread(store.mark_gone, seen, *known)
                self._count_gone(gone)
            elif batch:
                await asyncio.to_thread(store.write, batch)
            batch = Batch()
            ended = self._counters.ended or self._error is not None
            if options.wait_ready and not (ended or store.reading):
                await afterwards().wait_until_ready()
            if options.prune and not ended:
                await afterwards().prune(gone)
        except LedgerError as error:
            self._writer.batch = batch
            self.stop(Stop.LEDGER, str(error))
        if store.origin is not None and (why := incomplete or self._incomplete):
            self._counters.gone_unknown = why
            logger.info("Nothing was marked as gone from %s: %s", self._origin, why)

    async def _close(self, *, complete: bool) -> None:
        """Write what is left and give up the ledger."""
        if (store := self._store) is None:
            return
        batch = await self._writer.rest()
        try:
            same = complete and not store.reading and self._counters.counts["created"] > 0
            for key, name, other in await asyncio.to_thread(store.finish, batch, same=same):
                reason = f"{other!r} has the same content; both are sources now"
                self._counters.add(Outcome("same_content", name[:500], key, reason))
            batch = Batch()
        except LedgerError as error:
            self.stop(Stop.LEDGER, str(error))
        self._count_unwritten(batch)

    def _count_gone(self, gone: Gone) -> None:
        first, withheld = len(gone.first), 0
        if gone.withheld:
            first, withheld = 0, first
            logger.warning(
                "%d items that %s no longer yields are not marked as gone: they are more than the "
                "share of %g that gone_limit allows. Check that it is complete",
                withheld,
                self._origin,
                self._options.gone_limit,
            )
        self._counters.counts.update(gone=len(gone.again) + first, gone_withheld=withheld)

    def _count_unwritten(self, batch: Batch) -> None:
        """Count what the ledger could not be told: there the items become unknown."""
        for row in batch.rows:
            what = "the outcome"
            if row.state == State.CREATED:
                self._counters.counts["created"] -= 1
                what = f"that it was created as {row.source_id}; once it is back, `kbot ledger "
                what += f"resolve KEY --created {row.source_id}` does"
            if row.state != State.UNKNOWN:
                error = f"the ledger could not record {what}"
                self._counters.add(Outcome("unknown", row.name or row.key, row.key, error))
        for job, in_doubt, why in self._unsent:
            kind: Kind = "unknown" if in_doubt and batch else "undelivered"
            reason = f"{_CLAIMED_UNSENT if kind == 'unknown' else 'it was not sent'}: {why}"
            self._counters.add(job.outcome(kind, reason))

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
            if self.stop_requested():
                self.stop(Stop.REQUESTED)
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
