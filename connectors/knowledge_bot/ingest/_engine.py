"""One run of an ingestion: items are taken, planned, sent and recorded.

Feeding takes the items in a thread, since they may block, and plans them a few hundred at a time.
Tasks, one for each request that may be in flight, send what is planned. What there is to compare
with, how each is sent, and what is written down, is the keeper's: the service itself, or a ledger.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._extensions import Extensions
from knowledge_bot._threads import in_thread
from knowledge_bot.errors import ConfigurationError, Delivery, KnowledgeBotError
from knowledge_bot.ingest._feeding import ItemFeed, RunOrigin
from knowledge_bot.ingest._jobs import Job, Planned
from knowledge_bot.ingest._pressure import (
    Decision,
    Judge,
    Outage,
    Pressure,
    is_away,
    settles,
    stop_of,
)
from knowledge_bot.ingest._report import (
    Counters,
    Kind,
    Report,
    Stop,
    StopError,
    logger,
    stop_reason,
)
from knowledge_bot.ingest._schema import LedgerError

if TYPE_CHECKING:
    from knowledge_bot.ingest._options import CheckedOptions

# Seconds between two checks whether the run should stop.
_TICK = 0.1

# The longest ping, in seconds.
_PING_TIMEOUT = 10.0

# How many items a blocking client sends itself. To load aiohttp costs as much as some more of them.
_FEW = 200

# For how long something is asked that is about no single item, in seconds, and pauses between.
_LONGEST_ASKED = 60.0
_PAUSE = 1.0


class Keeper:
    """Keeps the book of an origin for one run; what is not said here, each does in its own way.

    Attributes:
        repeatable: whether an item may be sent again, whatever became of it the first time.
        replaces: whether a changed item takes the place of its source.
        note: what is remembered of the origin as a whole.
        waits: why the book is waited for; empty while it is not.
    """

    repeatable: bool
    replaces: bool
    note: str | None = None
    waits: str = ""

    async def open(self) -> None:
        """Open the book.

        Raises:
            LedgerError: it cannot be opened.
            StopError: the run has to end.
            KnowledgeBotError: the service cannot be asked.
        """

    async def plan(self, items: Sequence[object]) -> Planned:
        """Compare items, and listings of files, with the book; errors are those of `open`."""
        raise NotImplementedError

    async def more(self, incomplete: str) -> Planned | None:
        """Return what else there is to do once all items were planned; None for nothing.

        It is asked again when that is done.

        Args:
            incomplete: why not all items were seen; empty if they were.
        """

    async def claim(self, job: Job) -> bool:  # noqa: ARG002 - for others
        """Write down that an item is about to be sent; False if it must not be."""
        return True

    def request(self, job: Job) -> tuple[str, dict[str, Any]]:
        """Return the client's method that sends an item, and its arguments."""
        raise NotImplementedError

    async def sent(self, job: Job, answer: Any) -> None:
        """Write down and count what the service answered."""

    async def judged(self, job: Job, error: KnowledgeBotError) -> Decision | None:
        """Decide about an error that has a meaning of its own here; None for others."""

    def failed(self, job: Job, kind: Kind | None, error: str, *, again: bool) -> None:
        """Write down and count that an item was not sent, or may not have been.

        Args:
            job: the item.
            kind: what became of it; None where the keeper finds that out by itself.
            error: why.
            again: whether it is sent again in a while, so that nothing is to be counted.
        """

    async def finish(self, incomplete: str) -> None:
        """Look back once everything is sent: what is gone, what is ready, what is there at all."""

    async def close(self) -> None:
        """Write what is left, and give up the book, however the run ended."""

    def tick(self) -> None:
        """Do what is due; called a few times a second."""

    def give_up(self) -> None:
        """Wait for nothing any more."""

    def recall(self, key: str) -> str | None:
        """Return the version of the item that was last sent under a key."""

    def entries(self) -> Iterable[tuple[str, str | None]]:
        """Return key and version of each item of the origin."""
        raise NotImplementedError


class Sender:
    """Sends the requests of a run. It awaits an asynchronous client; a blocking one is in threads.

    A thread for each request costs twice the CPU. So a blocking client sends a few items, as in
    most nights, and an asynchronous one many; but a subclass, or a client with the caller's
    `http_client`, sends them all.
    """

    def __init__(self, client: Client | AsyncClient) -> None:
        self._use(client)
        self._few = type(client) is Client and not client._connections.given  # noqa: SLF001 - the core's own
        self._expected = 0

    def _use(self, client: Client | AsyncClient) -> None:
        self._patient: Any = client
        # The engine retries by itself, so that the whole run slows down.
        self._client: Any = client._derive(max_retries=0)  # noqa: SLF001 - as above
        self._awaits = isinstance(client, AsyncClient)

    @property
    def words(self) -> Callable[[str], str]:
        """What the client's errors call what a person can change."""
        words: Callable[[str], str] = self._client._configuration.words  # noqa: SLF001 - as above
        return words

    @property
    def extensions(self) -> Extensions:
        """What the service announced, as far as it was asked."""
        announced: Extensions = self._client._announced  # noqa: SLF001 - as above
        return announced

    async def open(self, count: int) -> None:
        """Prepare to send more items, so that nothing is claimed before it can be sent."""
        first = self._expected == 0
        self._expected += count
        if self._few and self._expected > _FEW:
            self._few, first = False, True
            self._use(self._patient.to_async())  # its connections end with the loop
        if first:
            await self._done(self._client._open)  # noqa: SLF001 - as above

    async def send(self, method: str, fields: dict[str, Any]) -> Any:
        """Call a method of the client once, or raise a `KnowledgeBotError`."""
        return await self._done(getattr(self._client, method), **fields)

    async def ask(self, method: str, *arguments: Any, **fields: Any) -> Any:
        """Call a method of the client, again and again for a while where that may help."""
        began = time.monotonic()
        while True:
            try:
                return await self._done(getattr(self._patient, method), *arguments, **fields)
            except KnowledgeBotError as error:
                if not is_away(error) or time.monotonic() - began > _LONGEST_ASKED:
                    raise
            await asyncio.sleep(_PAUSE)

    async def ping(self) -> object:
        """Ask whether the service is up, or raise a `KnowledgeBotError`."""
        settings = self._client._configuration  # noqa: SLF001 - as above
        if not settings.ping:
            return None
        timeout = min(_PING_TIMEOUT, settings.timeout)
        return await self._done(self._client._derive(timeout=timeout).ping)  # noqa: SLF001 - as above

    async def _done(self, call: Callable[..., Any], *arguments: Any, **fields: Any) -> Any:
        if self._awaits:
            return await call(*arguments, **fields)
        return await in_thread(partial(call, *arguments, **fields))


class Courier:
    """Sends one item after another, each when it has its turn.

    Args:
        sender: sends the requests.
        keeper: says how, and writes down what became of it.
        gate: gives turns.
        counters: count it.
        stop: ends the run.
    """

    def __init__(
        self,
        sender: Sender,
        keeper: Keeper,
        gate: Pressure,
        counters: Counters,
        stop: Callable[[Stop, str], None],
    ) -> None:
        self._sender, self._keeper, self._gate = sender, keeper, gate
        self._counters, self._stop = counters, stop
        self._judge = Judge(gate, repeatable=keeper.repeatable)

    async def send(self, job: Job) -> None:
        """Send an item when it has its turn, again while that may help, and record the outcome."""
        wait: float | None = 0.0
        while wait is not None:
            if wait:
                await self._gate.rest(wait)
            async with self._gate.turn() as mine:
                if not mine:
                    self._left_over(job)
                    return
                # One that may have been acted on keeps its claim while it waits.
                if not job.in_doubt and not await self._keeper.claim(job):
                    return
                wait = await self._try(job)

    def _left_over(self, job: Job) -> None:
        """Record what was to be sent again when the run ended."""
        if job.failure is not None and job.in_doubt:
            self._keeper.failed(job, "unknown", job.failure.error, again=False)
        elif job.failure is not None:
            self._counters.add(job.failure)

    async def _try(self, job: Job) -> float | None:
        """Send an item once; return the seconds after which it is to be sent again, or None."""
        job.tries, began, self._counters.current = job.tries + 1, time.monotonic(), job.name
        method, fields = self._keeper.request(job)
        try:
            answer = await self._sender.send(method, fields)
        except KnowledgeBotError as error:
            return await self._failed(job, error, began)
        except BaseException as error:
            never = getattr(error, "delivery", None) is Delivery.NOT_DELIVERED
            sure = never and not job.in_doubt
            kind: Kind = "undelivered" if sure or self._keeper.repeatable else "unknown"
            reason = f"it was interrupted while it was being sent: {error!r}"
            self._keeper.failed(job, kind, reason, again=False)
            raise
        self._judge.succeeded()
        await self._keeper.sent(job, answer)
        return None

    async def _failed(self, job: Job, error: KnowledgeBotError, began: float) -> float | None:
        """Record a failure, or return the seconds after which the item is to be sent again."""
        counts = self._counters.counts
        succeeded = counts["created"] + counts["replaced"] + counts["unchanged"]
        keyed = job.in_doubt or getattr(job.claim, "idempotency_key", None) is not None
        decision = await self._keeper.judged(job, error) or self._judge.failed(
            error, began, job.tries, succeeded, keyed=keyed
        )
        kind: Kind | None = "unknown" if job.in_doubt and not settles(error) else decision.kind
        again = decision.retry_in is not None
        job.in_doubt = again and kind == "unknown"
        job.failure = job.outcome("undelivered", str(error))
        if not job.in_doubt:
            self._keeper.failed(job, kind, str(error), again=again)
        if decision.stop is not None:
            self._stop(*decision.stop)
        return decision.retry_in


class Sending:
    """Sends jobs, as many at once as there may be requests in flight.

    Args:
        most: how many.
        send: sends one.
        begin: returns whether one more may be begun.
        on_error: called with what `send` raised.
    """

    def __init__(
        self,
        most: int,
        send: Callable[[Job], Awaitable[None]],
        begin: Callable[[], bool],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._send, self._begin, self._on_error = send, begin, on_error
        self._room = asyncio.Semaphore(most)
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, jobs: Sequence[Job]) -> None:
        """Take jobs, and return when the last one is begun."""
        for job in jobs:
            await self._room.acquire()
            task = asyncio.create_task(self._sent(job))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Return when all is sent."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self, *, cancelled: bool) -> None:
        """End, once what is in flight is done, or at once if the run was cancelled."""
        for task in self._tasks if cancelled else ():
            task.cancel()
        await self.finish()

    async def _sent(self, job: Job) -> None:
        try:
            if self._begin():
                await self._send(job)
        except Exception as error:  # noqa: BLE001 - the run decides
            self._on_error(error)
        finally:
            self._room.release()


class _Memory:
    """What the origin asks its keeper for, as `knowledge_bot.origins.Memory` says."""

    keeper: Keeper

    def __init__(self, gone_limit: float) -> None:
        self.gone_limit = gone_limit

    @property
    def note(self) -> str | None:
        return self.keeper.note

    @note.setter
    def note(self, note: str | None) -> None:
        self.keeper.note = note

    def recall(self, key: str) -> str | None:
        return self.keeper.recall(key)

    def entries(self) -> Iterable[tuple[str, str | None]]:
        return self.keeper.entries()


class Run:
    """Ingests the items of an origin once."""

    def __init__(
        self,
        sender: Sender,
        place: RunOrigin,
        options: "CheckedOptions",
        keeper_of: "Callable[[Run], Keeper]",
        stop_requested: Callable[[], bool],
        *,
        asks: bool = True,
    ) -> None:
        self.asks = asks  # the service what it can; not without an API key, in a dry run
        self.sender, self.place, self.options = sender, place, options
        self.stop_requested, self._keeper_of = stop_requested, keeper_of
        self.counters = Counters(dry_run=options.dry_run, on_outcome=options.on_outcome)
        self.gate = Pressure(options.concurrency, options.rate, Outage(sender.ping, self.stop))
        self._feed = ItemFeed()
        self._keeper: Keeper | None = None
        self._sending: Sending | None = None
        self._begun = 0
        self._error: BaseException | None = None
        self._task: asyncio.Task[Any] | None = None

    async def run(self) -> Report:
        """Ingest every item and report.

        Raises:
            LedgerError: the ledger cannot be opened. A later error of the ledger ends the run and
                is in the report.
            ConfigurationError: the service keeps no book, and there is no ledger.
            Exception: what the origin or a callback raised, once what is in flight has ended.
        """
        self._task = asyncio.current_task()
        ticking = asyncio.create_task(self._tick())
        try:
            memory = _Memory(self.options.gone_limit)
            items = self.place.items(memory)  # which raises what is wrong with the origin
            if self.asks:
                await self.gate.begin()
            if self.counters.stopped is None:
                memory.keeper = self._keeper_of(self)
                await self._with(memory.keeper, items)
        finally:
            ticking.cancel()
        report = self.report()
        if self.options.on_progress is not None:
            self.options.on_progress(report)
        if self._error is not None:
            self._error.add_note(f"Ingestion until then: {report}")
            raise self._error
        return report

    async def _with(self, keeper: Keeper, items: Any) -> None:
        try:
            self._keeper = keeper
            with self._stopping(opening=True):
                await keeper.open()
                self._feed.start(items, keeper.plan)
            courier = Courier(self.sender, keeper, self.gate, self.counters, self.stop)
            options = self.options
            begin, failed = self._is_begun, self._failed
            self._sending = Sending(options.concurrency, courier.send, begin, failed)
            await self._send_all(keeper, self._sending)
            with self._stopping():
                await keeper.finish(self.incomplete)
                self._tell_if_empty()
        finally:
            await self._feed.close()
            if self._sending is not None:
                await self._sending.close(cancelled=bool(self._task and self._task.cancelling()))
            await keeper.close()
            self.counters.incomplete = self.counters.incomplete or self._feed.partial

    async def _send_all(self, keeper: Keeper, sending: Sending) -> None:
        """Send what there is to send, until nothing is left."""
        with self._stopping():
            while (planned := await self._next(keeper, sending)) is not None:
                self._count(planned)
                if planned.jobs and self.options.dry_run:
                    self._count_unsent(keeper, planned.jobs)
                elif planned.jobs:
                    await self.sender.open(len(planned.jobs))
                    await sending.take(planned.jobs)
        await sending.finish()

    async def _next(self, keeper: Keeper, sending: Sending) -> Planned | None:
        """Return the next plan; None at the end."""
        with self._stopping():  # what came before an error of the items is still sent
            if (planned := await self._feed.planned()) is not None:
                return planned
        if self.counters.stopped is not None:
            return None
        if (planned := await keeper.more(self.incomplete)) is not None:
            return planned
        await sending.finish()  # what was in flight may leave something to do
        return await keeper.more(self.incomplete)

    def _count(self, planned: Planned) -> None:
        self.counters.counts["unchanged"] += planned.unchanged
        self.counters.counts["elsewhere"] += len(planned.elsewhere)
        for outcome in planned.outcomes:
            self.counters.add(outcome)

    def _count_unsent(self, keeper: Keeper, jobs: Sequence[Job]) -> None:
        """Count what a run would do that is no dry one."""
        for job in jobs:
            if not self._is_begun():
                break
            before = job.before is not None and job.before.source_id is not None
            replaced = before and keeper.replaces
            self.counters.add(
                job.outcome("moved" if job.moved else "replaced" if replaced else "created")
            )
            self.counters.counts["superseded"] += before and not keeper.replaces

    def _is_begun(self) -> bool:
        """Count an item that is begun; False, and the end of the run, where none may be."""
        if self._begun == self.options.limit:
            self.stop(Stop.LIMIT, str(self._begun))
        elif self.counters.stopped is None:
            self._begun += 1
        return self.counters.stopped is None

    def _tell_if_empty(self) -> None:
        """Note that nothing was found, unless that may be, or a count says what vanished."""
        told = self.counters.counts["withheld"] + self.counters.counts["removed"]
        ended = self.counters.stopped is not None or self._error is not None
        if not (self.place.may_be_empty or told or ended or self.report().items):
            self.counters.incomplete = self.incomplete or (
                f"nothing was found in {self.place.name}, or nothing that its patterns take; "
                f"{self.sender.words('{option_allow_empty}')} says that this may be"
            )

    @property
    def incomplete(self) -> str:
        """Why not all items of the origin were seen and sent; empty if they were."""
        ended = self.counters.stopped is not None or self._error is not None
        partial = self.counters.incomplete or self._feed.partial
        return partial or ("the run ended early" if ended else "")

    # The end --------------------------------------------------------------------------------------

    def stop(self, stop: Stop, detail: str = "") -> None:
        """Begin nothing new, and finish what is in flight. Called in the loop's thread."""
        if self.counters.stopped is None or self.counters.stopped[0] is Stop.LIMIT:
            self.counters.stopped = (stop, detail)
            self._feed.end()
            if stop is not Stop.LIMIT:  # otherwise what was begun is still sent
                logger.warning("The ingestion stops: %s", stop_reason(stop, detail))
                self.gate.end()
                if self._keeper is not None and self._sending is None:
                    self._keeper.give_up()  # a book that is not open yet

    def abort(self) -> None:
        """End at once, whatever becomes of what is in flight. Called in the loop's thread."""
        self.stop(Stop.REQUESTED, "at once")
        if self._keeper is not None:
            self._keeper.give_up()
        if self._task is not None:
            self._task.cancel()

    def abort_soon(self) -> None:
        """Abort. Called in any thread."""
        if self._task is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                self._task.get_loop().call_soon_threadsafe(self.abort)

    def report(self) -> Report:
        """Return the counts so far."""
        waits = "" if self._keeper is None else self._keeper.waits
        return self.counters.report(total=self._feed.total, paused=self.gate.paused or waits)

    @contextlib.contextmanager
    def _stopping(self, *, opening: bool = False) -> Any:
        """Let the errors of what is inside end the run in order."""
        try:
            yield
        except LedgerError as error:
            if opening:
                raise
            self.stop(Stop.LEDGER, str(error))
        except StopError as error:
            self.stop(error.stop, f"{error}{self.sender.words(error.advice)}")
        except ConfigurationError as error:
            if opening:
                raise
            self._error = self._error or error
        except KnowledgeBotError as error:
            self.stop(*stop_of(error))
        except Exception as error:
            if opening:
                raise
            self._error = self._error or error  # earlier items are still sent

    def _failed(self, error: BaseException) -> None:
        """End at an error of what is sent."""
        if isinstance(error, LedgerError):
            self.stop(Stop.LEDGER, str(error))
        else:
            self._error = self._error or error
            self.stop(Stop.REQUESTED, f"it raised {type(error).__name__}: {error}")

    async def _tick(self) -> None:
        reported_at = 0.0
        while True:
            if self.stop_requested():
                self.stop(Stop.REQUESTED)
            if self._keeper is not None:
                self._keeper.tick()
            if self.options.on_progress is not None and time.monotonic() - reported_at > 2 * _TICK:
                reported_at = time.monotonic()
                try:
                    self.options.on_progress(self.report())
                except Exception as error:  # noqa: BLE001 - raised by run(), once all is recorded
                    self._failed(error)
                    return
            await asyncio.sleep(_TICK)
