"""`ingest` and `aingest`: one run, blocking or awaited."""

import asyncio
import contextlib
import math
import os
import threading
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    BinaryIO,
    Literal,
    Required,
    TypedDict,
    Unpack,
    cast,
    get_args,
)

from knowledge_bot._client import AsyncClient, Client, in_own_loop, in_thread
from knowledge_bot._endpoints import (
    Collections,
    check_number,
    collection_ids,
    read_source_reference,
)
from knowledge_bot._extensions import Extensions
from knowledge_bot._signals import Event, stop_on_signals
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._engine import Run
from knowledge_bot.ingest._ledger import Entry, Ledger, PrunePlan, SupersededSource
from knowledge_bot.ingest._plan import Job, OnUnknown
from knowledge_bot.ingest._report import Outcome, ProgressBar, Report, Stop

if TYPE_CHECKING:
    from concurrent.futures import Future

Prune = bool | Literal["excluded"] | Callable[[Entry | SupersededSource], object] | PrunePlan
"""What happens to sources that are gone or superseded; see `IngestionOptions`."""

OnProgress = Callable[[Report], object]
"""Called a few times a second and at the end with the report, in the engine's thread."""

OnOutcome = Callable[[Outcome], object]
"""Called with the outcome of each item that is created or fails, in the engine's thread."""

# The longest ping, and the longest wait for outcomes to be recorded after an abort, in seconds.
_PING_TIMEOUT = 10.0
_ABORT_TIMEOUT = 5.0

# How many items a blocking client sends itself. To load aiohttp costs as much as some more of them.
_FEW = 200

# The options that are numbers, and what they are between.
_NUMBERS = (
    ("concurrency", 1, math.inf),
    ("gone_limit", 0, 1),
    ("limit", 0, math.inf),
    ("rate", 0.001, 1e6),
    ("wait", 0, math.inf),
    ("ledger_wait", 0, math.inf),
    ("wait_ready", 0, math.inf),
)


class SharedOptions(TypedDict, total=False):
    """The options of `IngestionOptions` that frameworks and the operator take as well."""

    concurrency: int
    on_unknown: OnUnknown
    rate: float | None
    wait: float
    ledger_wait: float
    prune: Prune
    wait_ready: float


class IngestionOptions(SharedOptions, total=False):
    """The options of a run; only `collections` is required. `Ingestion` has the defaults.

    Attributes:
        collections: where items go that name no collections of their own: ids, or `Collection`
            objects.
        ledger: remembers what was ingested: a `Ledger`, its address or a SQLite file's path.
            Without one, every run sends every item.
        concurrency: the most requests in flight, and so the most unknown outcomes after a crash.
        on_unknown: `hold` reports items of unknown outcome and does not send them, so that nothing
            is created twice; `resend` sends them again, so that nothing is missing.
        on_progress: called a few times a second with the report so far, in another thread.
        progress: draw a bar in a notebook or on a terminal, and nothing where stderr is a file;
            not together with `on_progress`.
        on_outcome: called with each item that is created (in a dry run: would be) or fails.
        dry_run: compare only: send nothing, write nothing, and make no ledger.
        origin: a name for where the items come from, such as `handbook`. After a complete run,
            items that it no longer yields are reported as `gone`. A folder, objects of a store, a
            sitemap and a file of lines have a default name; a folder with a name stays the same
            origin when it moves. A feed has none, since its old entries are not gone; a loader and
            a table have none unless they are given one.
        gone_limit: the share of an origin's items that may disappear at once, 0 to 1. If more do,
            none is marked as gone.
        limit: the most items that this run sends.
        rate: the most items per second, over all runs that use this ledger, this service and a
            rate.
        wait: seconds to wait at the end for the outcome of items that other runs are sending; after
            90 a dead worker is certainly noticed.
        ledger_wait: seconds to wait, in one outage, for a ledger's database that is locked,
            restarts, fails over or has lost its sessions; then the run ends.
        prune: what happens at the end to sources that are gone or superseded. False: they stay, and
            the ledger lists them. True: the service deletes what was superseded, once the newer
            source is ready, and what its origin has no more, under the guards that
            `docs/how-to/ingest.md` explains; `"excluded"`: what filters leave out by now, too. Both
            need a service with the extension `sources`. A function is called with each of them (an
            `Entry` or a `SupersededSource`), in a thread, and may be called again; unless it
            raises, the ledger forgets the source. A `PrunePlan` is removed as it stands.
        wait_ready: seconds to wait at the end until the service answers from all that was sent of
            this origin, now or in earlier runs; needs the extension `sources`. What it could not
            read is reported as `failed`. A service that restarts meanwhile is waited for.
        share: whether runs that feed the same collections at once divide the items among them.
            True suits runs with the same items, False runs that each have their own.
        stop: when this is set, the run ends early.
        handle_signals: end early on SIGTERM, SIGHUP and Ctrl-C, if this is the main thread and
            nobody else handles them. In a worker process of `multiprocessing` SIGTERM then ends the
            process, as its pool expects.
    """

    collections: Required[Collections]
    ledger: Ledger | str | os.PathLike[str] | None
    on_progress: OnProgress | None
    progress: bool
    on_outcome: OnOutcome | None
    dry_run: bool
    origin: str | None
    gone_limit: float
    limit: int | None
    share: bool
    stop: Event | None
    handle_signals: bool


def shared_options(face: object) -> SharedOptions:
    """Return the values that an object has for them, as attributes of these names."""
    names = SharedOptions.__annotations__
    values = {name: getattr(face, name) for name in names if hasattr(face, name)}
    return cast("SharedOptions", values)


@dataclass(frozen=True, kw_only=True)
class Ingestion:
    """The options of a run, checked; for use in several places. `IngestionOptions` explains them.

    Raises:
        ConfigurationError: an option cannot be used.
    """

    collections: tuple[str, ...]
    ledger: Ledger | None = None
    concurrency: int = 8
    on_unknown: OnUnknown = "hold"
    on_progress: OnProgress | None = None
    progress: bool = False
    on_outcome: OnOutcome | None = None
    dry_run: bool = False
    origin: str | None = None
    gone_limit: float = 0.5
    limit: int | None = None
    rate: float | None = None
    wait: float = 0.0
    ledger_wait: float = 300.0
    prune: Prune = False
    wait_ready: float = 0.0
    share: bool = True
    stop: Event | None = None
    handle_signals: bool = True

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[IngestionOptions]) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "collections", tuple(collection_ids(self.collections)))
        if isinstance(self.ledger, str | os.PathLike):
            object.__setattr__(self, "ledger", Ledger(self.ledger))
        for name, least, most in _NUMBERS:
            if (value := getattr(self, name)) is not None or name not in ("limit", "rate"):
                check_number(name, value, least, most, whole=name in ("concurrency", "limit"))
        known = isinstance(self.prune, bool | PrunePlan) or self.prune == "excluded"
        if not (known or callable(self.prune)):
            raise ConfigurationError.of(
                "prune",
                f"expected True, False, 'excluded', a function or a plan, not {self.prune!r}",
            )
        if self.ledger is None and (self.prune or self.wait_ready):
            needs = "prune" if self.prune else "wait_ready"
            raise ConfigurationError.of(needs, "needs a ledger, which knows the sources")
        if self.on_unknown not in get_args(OnUnknown):
            raise ConfigurationError.of(
                "on_unknown", f"expected 'hold' or 'resend', not {self.on_unknown!r}"
            )
        origin: object = self.origin
        if origin is not None and not (isinstance(origin, str) and origin.strip()):
            raise ConfigurationError.of("origin", f"expected a name, not {self.origin!r}")
        object.__setattr__(self, "on_progress", _shown(self.on_progress, self.progress))
        for name, fits, wanted in (
            ("ledger", self.ledger is None or isinstance(self.ledger, Ledger), "a Ledger"),
            ("on_progress", self.on_progress is None or callable(self.on_progress), "a function"),
            ("on_outcome", self.on_outcome is None or callable(self.on_outcome), "a function"),
            ("stop", self.stop is None or hasattr(self.stop, "is_set"), "an Event"),
        ):
            if not fits:
                kind = type(getattr(self, name)).__name__
                raise ConfigurationError.of(name, f"expected {wanted}, not {kind}")

    def run(self, client: Client, items: Iterable[object]) -> Report:
        """Ingest the items and return when that is done; see `ingest`."""
        if not isinstance(client, Client):
            raise ConfigurationError.expected(
                "client", "a Client", client, "; aingest takes an AsyncClient"
            )
        asked = threading.Event()
        run = self._new_run(client, Sender(client), items, asked)

        def interrupted(error: BaseException, done: "Future[Report]") -> None:
            """Finish what is in flight, or abort if this is the second request to end."""
            again = run.stop_requested()
            asked.set()
            try:
                if not again:
                    done.exception()
            except BaseException:  # noqa: BLE001 - the second request to end
                again = True
            if again:
                run.abort_soon()
                with contextlib.suppress(TimeoutError):
                    done.exception(timeout=_ABORT_TIMEOUT)
            raise error

        with self._watched(client, asked) as counted:
            report = in_own_loop(run.run, "ingest", interrupted)
            counted(report.counts)
        return report

    async def arun(
        self, client: AsyncClient, items: Iterable[object] | AsyncIterable[object]
    ) -> Report:
        """Ingest the items; see `aingest`."""
        if not isinstance(client, AsyncClient):
            raise ConfigurationError.expected(
                "client", "an AsyncClient", client, "; ingest takes a Client"
            )
        asked = threading.Event()
        run = self._new_run(client, Sender(client), items, asked)
        with self._watched(client, asked) as counted:
            running = asyncio.create_task(run.run())
            try:
                report = await asyncio.shield(running)
            except asyncio.CancelledError:
                run.stop(Stop.REQUESTED, "it was cancelled")
                try:
                    await asyncio.wait([running])
                except asyncio.CancelledError:
                    run.abort()
                    await asyncio.wait([running], timeout=_ABORT_TIMEOUT)
                raise
            counted(report.counts)
        return report

    @contextlib.contextmanager
    def _watched(
        self, client: Client | AsyncClient, asked: threading.Event
    ) -> Iterator[Callable[[Mapping[str, int]], None]]:
        """Surround a run with its signals, span and bar; yields what takes its counts."""
        signals = stop_on_signals(asked.set, wanted=self.handle_signals)
        try:
            with client._run_span("ingest") as counted, signals:  # noqa: SLF001 - the core's own
                yield counted
        finally:
            if isinstance(self.on_progress, ProgressBar):
                self.on_progress.close()

    def _new_run(
        self, client: Client | AsyncClient, sender: "Sender", items: Any, asked: threading.Event
    ) -> Run:
        several = isinstance(items, Iterable | AsyncIterable)
        if not several or isinstance(items, str | bytes | dict) or hasattr(items, "identity"):
            raise ConfigurationError.expected("items", "several items, as in a list", items)
        if not self.dry_run:
            client._check("ingest")  # noqa: SLF001 - the core's own, not a user's
        origin = self.origin or getattr(items, "origin", None)
        if self.origin is not None and hasattr(items, "named"):
            items = items.named(self.origin)
        stop = self.stop
        return Run(
            client.base_url,
            sender,
            items,
            self,
            origin=origin,
            stop_requested=lambda: asked.is_set() or (stop is not None and stop.is_set()),
        )


def ingest(client: Client, items: Iterable[object], **options: Unpack[IngestionOptions]) -> Report:
    """Create a source from each item, except those that the ledger knows to be unchanged.

    It blocks, and may be called in the thread of a running event loop. On SIGTERM, SIGHUP, Ctrl-C,
    `stop`, or an exception in the waiting thread it begins nothing new and finishes what is in
    flight, so that no outcome is unknown; a second signal ends it at once.

    Args:
        client: sends the requests.
        items: `WebPage`, `Text`, `File` and `Skipped` objects, taken one at a time in a thread.
        options: `collections`, `ledger` and the others of `IngestionOptions`: for their meaning,
            see `help(knowledge_bot.ingest.IngestionOptions)`.

    Returns:
        The counts, and the items that were not ingested with the reason.

    Raises:
        TypeError: there is no such option, or no `collections`. Nothing was sent.
        ConfigurationError: an argument cannot be used, or the client is closed or has no API key.
        LedgerError: the ledger cannot be opened.
        Exception: what `items` or a callback raised, once the requests in flight have ended.
    """
    return _ingestion(options).run(client, items)


async def aingest(
    client: AsyncClient,
    items: Iterable[object] | AsyncIterable[object],
    **options: Unpack[IngestionOptions],
) -> Report:
    """Ingest as `ingest` does, without blocking; `items` may be an asynchronous iterable.

    When it is cancelled, as by Ctrl-C under `asyncio.run`, it finishes what is in flight before it
    raises `CancelledError`; a second cancellation ends it at once. Callbacks are called in the
    event loop's thread. Arguments, result and errors are those of `ingest`.
    """
    return await _ingestion(options).arun(client, items)


def _shown(on_progress: OnProgress | None, progress: bool) -> OnProgress | None:
    if progress and on_progress is not None and not isinstance(on_progress, ProgressBar):
        raise ConfigurationError.of("progress", "give either progress or on_progress")
    return ProgressBar() if progress else on_progress


def _ingestion(options: IngestionOptions) -> Ingestion:
    check_names(options, IngestionOptions)
    return Ingestion(**options)


def check_names(options: Mapping[str, object], known: type) -> None:
    """Raise a `TypeError` for an option that is not in a typed dictionary; it names the nearest."""
    for name in options.keys() - known.__annotations__.keys():
        import difflib

        near = difflib.get_close_matches(name, known.__annotations__, 1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise TypeError(f"there is no option {name!r} here. {hint}Nothing was sent")


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
    def extensions(self) -> Extensions:
        """What the service announced, as far as it was asked."""
        return self._client._connections.announced.extensions or {}  # noqa: SLF001 - as above

    async def open(self, count: int) -> None:
        """Prepare to send more items, so that nothing is claimed before it can be sent."""
        first = self._expected == 0
        self._expected += count
        if self._few and self._expected > _FEW:
            self._few, first = False, True
            self._use(self._patient.to_async())  # its connections end with the loop
        if first:
            await self._done(self._client._open)  # noqa: SLF001 - as above

    async def send(self, job: Job) -> tuple[str, str | None]:
        """Send an item once; return id and revision of its source, or raise a `KnowledgeBotError`.

        It is created, or takes the place of `job.target`.
        """
        method, fields = _call(job)
        opening = fields.get("file")
        if callable(opening):
            fields["file"] = await asyncio.to_thread(_opened, opening)
        try:
            if type(self._client) not in (Client, AsyncClient):  # a subclass may do more than send
                source = await self._done(getattr(self._client, method), **fields)
                return str(source.id), getattr(source, "revision", None)
            request = getattr(AsyncClient, method)(**fields)
            request.read = read_source_reference
            sent: tuple[str, str | None] = await self._done(self._client._call, request)  # noqa: SLF001 - as above
            return sent
        finally:
            if callable(opening):
                await asyncio.to_thread(fields["file"].close)

    async def call(self, method: str, *arguments: Any, **fields: Any) -> Any:
        """Call a method of the client, which tries again by itself; return a list as a whole."""
        called = getattr(self._patient, method)
        if method == "list_sources" and self._awaits:
            return [one async for one in called(*arguments, **fields)]
        done = await self._done(called, *arguments, **fields)
        return await asyncio.to_thread(list, done) if method == "list_sources" else done

    async def ping(self) -> object:
        """Ask whether the service is up, or raise a `KnowledgeBotError`."""
        timeout = min(_PING_TIMEOUT, self._client._configuration.timeout)  # noqa: SLF001 - as above
        return await self._done(self._client._derive(timeout=timeout).ping)  # noqa: SLF001 - as above

    async def _done(self, call: Callable[..., Any], *arguments: Any, **fields: Any) -> Any:
        if self._awaits:
            return await call(*arguments, **fields)
        return await in_thread(partial(call, *arguments, **fields))


def _call(job: Job) -> tuple[str, dict[str, Any]]:
    """Return the client method that creates or replaces the source of an item, its arguments."""
    item: Any = job.item
    fields: dict[str, Any] = {"name": job.name, "collections": job.collections}
    if job.kind == "text":
        method, fields["content"] = "create_text_source", item.content
    elif job.kind == "webpage":
        from knowledge_bot.models import Header

        headers = [Header(name=name, value=text.get_secret_value()) for name, text in item.headers]
        method, fields["url"], fields["headers"] = "create_webpage_source", item.url, headers
    else:
        name = job.place.rpartition("/" if job.kind == "object" else os.sep)[2] or job.name
        content = job.content if job.content is not None else item.open or job.place
        method, fields["file"], fields["filename"] = "upload_source", content, name
    if job.target is not None:
        return "replace_source", {"source_id": job.target, "revision": job.revision, **fields}
    if job.idempotency_key is not None:
        fields["idempotency_key"] = job.idempotency_key
    return method, fields


def _opened(opening: Callable[[], BinaryIO]) -> BinaryIO:
    try:
        return opening()
    except Exception as error:
        raise ConfigurationError.of("file", f"cannot be opened: {error}") from error
