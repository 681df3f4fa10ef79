"""One run of an ingestion: what is planned is claimed, sent and recorded, so many at a time."""

import asyncio
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, cast

from knowledge_bot.errors import Delivery, KnowledgeBotError
from knowledge_bot.ingest.intake import Intake
from knowledge_bot.ingest.ledger.entries import LedgerError
from knowledge_bot.ingest.ledger.ledger import Ledger
from knowledge_bot.ingest.ledger.lookups import Lookups
from knowledge_bot.ingest.ledger.owners import Owner
from knowledge_bot.ingest.pace import Pace
from knowledge_bot.ingest.planning import Job, OnUnknown, Planned, Planner
from knowledge_bot.ingest.recorder import Recorder
from knowledge_bot.ingest.report import Report, Stop
from knowledge_bot.ingest.sending import Send, is_overloaded, is_unreached
from knowledge_bot.ingest.tally import Tally, logger
from knowledge_bot.ingest.threads import DaemonThreads
from knowledge_bot.ingest.verdicts import Verdicts
from knowledge_bot.models import Source

if TYPE_CHECKING:
    from knowledge_bot.ingest.ledger.writer import Writer

# How often an item is sent again that was refused for load.
_RESENDS = 5

# Seconds without any answer after which the service is taken for down; a restart takes less.
_PATIENCE = 60.0

# Seconds between two looks at the caller's wish to stop, and two reports of progress.
_TICK = 0.1


class Run:
    """Ingests items once.

    Args:
        service: the base URL, which the ledger's entries belong to.
        send: creates the source of an item.
        items: what to ingest.
        collections: where items go that name none.
        ledger: what was ingested before; without one, every item is sent.
        concurrency: how many requests may be in flight.
        on_unknown: what becomes of items whose outcome is unknown.
        on_progress: called with the report so far.
        dry_run: whether to compare only.
        stopping: asks whether the caller wants the run to end early.
    """

    def __init__(
        self,
        *,
        service: str,
        send: Send,
        items: Iterable[object] | AsyncIterable[object],
        collections: tuple[str, ...],
        ledger: Ledger | None,
        concurrency: int,
        on_unknown: OnUnknown,
        on_progress: Callable[[Report], object] | None,
        dry_run: bool,
        stopping: Callable[[], bool],
    ) -> None:
        self._service, self._send, self._items = service, send, items
        self._collections, self._ledger, self._on_unknown = collections, ledger, on_unknown
        self._concurrency, self._on_progress = concurrency, on_progress
        self._dry_run, self._stopping = dry_run, stopping
        self._intake, self._pace = Intake(), Pace(concurrency)
        self._tally = Tally(dry_run=dry_run)
        self._owner = Owner.of_this_process()
        self._writer: Writer | None = None
        self._lookups: Lookups | None = None
        self._recorder = Recorder(None, self._tally)
        self._under_way: set[asyncio.Task[None]] = set()
        self._verdicts = Verdicts(concurrency)
        self._error: BaseException | None = None
        self._aborted = False

    async def run(self) -> Report:
        """Ingest every item and report.

        Raises:
            LedgerError: the ledger cannot be opened. What goes wrong with it later ends the run
                and stands in the report.
            Exception: what `items` or `on_progress` raised, after what was in flight was finished.
        """
        loop = asyncio.get_running_loop()
        planning = DaemonThreads(1, "ingest planner")
        reading = DaemonThreads(1, "ingest reader")
        ticking = asyncio.create_task(self._tick())
        reader: asyncio.Task[None] | None = None
        try:
            planner = await planning.run(lambda: self._open(loop))
            reader = asyncio.create_task(self._intake.feed(self._items, reading))
            await self._work_off(planner, planning)
        finally:
            self._intake.close()
            ticking.cancel()
            if reader is not None:
                reader.cancel()
            await asyncio.shield(self._close(planning))
            reading.end()
            planning.end()
        report = self._tally.report()
        if self._error is not None:
            self._error.add_note(f"Ingestion until then: {report}")
            raise self._error
        if self._on_progress is not None:
            self._on_progress(report)
        return report

    def stop(self, stop: Stop, reason: str) -> None:
        """Begin nothing new; what is in flight is finished. Called in the loop's thread."""
        if self._tally.stopped is None:
            self._tally.stopped = (stop, reason)
            logger.warning("The ingestion stops: %s", reason)
            self._intake.close()
            self._pace.end()

    def abort(self) -> None:
        """Wait for nothing: what is in flight becomes unknown. Called in the loop's thread."""
        self.stop(Stop.REQUESTED, "it was interrupted")
        self._aborted = True
        for worker in self._under_way:
            worker.cancel()

    def _open(self, loop: asyncio.AbstractEventLoop) -> Planner:
        """Open the ledger; in a dry run, only where there is one."""
        ledger = self._ledger
        if ledger is not None and self._dry_run and not ledger.exists():
            ledger = None
        elif ledger is not None and not self._dry_run:
            from knowledge_bot.ingest.ledger.writer import Writer

            ledger.prepare()
            ledger.bury()
            self._writer = Writer(
                ledger.database(), ledger.store(), self._owner, loop, self._concurrency
            )
            self._writer.start()
            self._recorder = Recorder(self._writer, self._tally)
        if ledger is not None:
            self._lookups = Lookups(ledger, self._owner.id, bury=not self._dry_run)
        return Planner(
            self._service, self._collections, self._on_unknown, self._lookups, self._owner.id
        )

    async def _close(self, planning: DaemonThreads) -> None:
        if self._lookups is not None:
            await planning.run(self._lookups.close)
        if self._writer is not None:
            self._writer.end()
            await planning.run(self._writer.join)
            for row in self._writer.unrecorded:
                created = row.source_id if row.state == "created" else None
                self._tally.unrecorded(row.name, row.key, created)

    async def _work_off(self, planner: Planner, planning: DaemonThreads) -> None:
        queue: asyncio.Queue[Job | None] = asyncio.Queue(self._concurrency)

        def take_and_plan() -> Planned | None:
            items = self._intake.take()
            return planner.plan(items) if items and self._tally.stopped is None else None

        def replan(job: Job) -> Awaitable[Planned]:
            return planning.run(lambda: planner.plan([job.item]))

        workers = [asyncio.create_task(self._work(queue, replan)) for _ in range(self._concurrency)]
        try:
            # The next items are planned while these are sent.
            planned = asyncio.create_task(planning.run(take_and_plan))
            while (batch := await planned) is not None:
                planned = asyncio.create_task(planning.run(take_and_plan))
                for job in self._noted(batch):
                    await queue.put(job)
        except LedgerError as error:
            self.stop(Stop.LEDGER, str(error))
        except Exception as error:  # noqa: BLE001 - raised by run(), when all is recorded
            self._error = self._error or error  # what came before it is still sent
        finally:
            for _ in workers:
                await queue.put(None)
            await asyncio.gather(*workers)

    def _noted(self, planned: Planned) -> list[Job]:
        """Count what needs no sending; return what is to be sent."""
        self._tally.planned(planned)
        if planned.touched and self._writer is not None:
            self._writer.touch(planned.touched)
        return [] if self._dry_run else planned.jobs

    async def _work(
        self, queue: "asyncio.Queue[Job | None]", replan: Callable[[Job], Awaitable[Planned]]
    ) -> None:
        worker = cast("asyncio.Task[None]", asyncio.current_task())
        while (job := await queue.get()) is not None:
            if self._tally.stopped is not None:
                continue
            self._under_way.add(worker)
            try:
                jobs = [job]
                while jobs:
                    if not await self._recorder.claim(jobs[-1]):
                        jobs = self._noted(await replan(job))
                    elif self._recorder.may_send(job := jobs.pop()):
                        await self._ingest(job)
            except LedgerError as error:
                self.stop(Stop.LEDGER, str(error))
            except Exception as error:  # noqa: BLE001 - raised by run(), when all is recorded
                self._fail(error)
            except asyncio.CancelledError:
                if not self._aborted:
                    raise
                worker.uncancel()  # it still empties the queue
            finally:
                self._under_way.discard(worker)

    async def _ingest(self, job: Job) -> None:
        """Send what is claimed, and record what came of it."""
        try:
            source = await self._deliver(job)
        except _NotSentError:
            self._recorder.release(job)
        except KnowledgeBotError as error:
            kind = self._recorder.failed(job, error)
            if kind != "invalid" and (stop := self._verdicts.failed(error)):
                self.stop(*stop)
        except BaseException as error:
            self._recorder.unknown(job, f"it was interrupted while it was sent: {error!r}")
            raise
        else:
            self._verdicts.succeeded()
            await self._recorder.created(job, source)

    async def _deliver(self, job: Job) -> Source:
        """Send, and again while that is safe and may help."""
        refusals = 0
        while await self._pace.enter():
            began = time.monotonic()
            try:
                source = await self._send(job)
            except KnowledgeBotError as error:
                if is_overloaded(error) or is_unreached(error):
                    self._pace.slow(began, getattr(error, "retry_after", None))
                if is_unreached(error):
                    seconds = self._pace.unreached(began)
                    if not (again := seconds <= _PATIENCE):
                        self.stop(Stop.UNAVAILABLE, f"not reached for {seconds:.0f} s: {error}")
                else:
                    self._pace.answered()
                    refusals += 1
                    refused = is_overloaded(error) and error.delivery is Delivery.REFUSED
                    again = refused and refusals <= _RESENDS
                if not again or self._tally.stopped is not None:
                    raise
            else:
                self._pace.succeeded()
                return source
            finally:
                self._pace.leave()
        raise _NotSentError

    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self.stop(Stop.REQUESTED, f"{type(error).__name__}: {error}")

    async def _tick(self) -> None:
        told = 0.0
        while True:
            if self._stopping():
                self.stop(Stop.REQUESTED, "the caller asked for it")
            if self._on_progress is not None and time.monotonic() - told > 2 * _TICK:
                told = time.monotonic()
                try:
                    self._on_progress(self._tally.report())
                except Exception as error:  # noqa: BLE001 - raised by run(), when all is recorded
                    self._fail(error)
                    return
            await asyncio.sleep(_TICK)


class _NotSentError(Exception):
    """The run ended before the item was sent."""
