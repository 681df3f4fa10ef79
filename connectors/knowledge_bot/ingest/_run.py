"""`ingest` and `aingest`: one run, blocking or awaited."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Unpack

from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._signals import stop_on_signals
from knowledge_bot._threads import in_own_loop
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._engine import Run
from knowledge_bot.ingest._options import CheckedOptions, IngestionOptions, check_names
from knowledge_bot.ingest._origins import is_origin, taken
from knowledge_bot.ingest._report import Report, Stop
from knowledge_bot.ingest._sending import Sender

if TYPE_CHECKING:
    from concurrent.futures import Future

# The longest wait for outcomes to be recorded after an abort, in seconds.
_ABORT_TIMEOUT = 5.0


class FindsItems(Protocol):
    """An origin: it has a name, and `items` or `aitems`; see `knowledge_bot.origins.Origin`."""

    @property
    def name(self) -> str:
        """What identifies it."""


Items: TypeAlias = Iterable[object] | FindsItems
"""An origin, or items themselves."""


class Ingestion(CheckedOptions):
    """The options of a run, checked; for use in several places. `IngestionOptions` explains them.

    Raises:
        ConfigurationError: an option cannot be used.
    """

    def run(self, client: Client, items: Items) -> Report:
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

    async def arun(self, client: AsyncClient, items: Items | AsyncIterable[object]) -> Report:
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
        """Surround a run with its signals and span; yields what takes its counts."""
        signals = stop_on_signals(asked.set, wanted=self.handle_signals)
        with client._run_span("ingest") as counted, signals:  # noqa: SLF001 - the core's own
            yield counted

    def _new_run(
        self, client: Client | AsyncClient, sender: "Sender", items: Any, asked: threading.Event
    ) -> Run:
        if is_origin(items):
            items = taken(items)
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


def ingest(client: Client, items: Items, **options: Unpack[IngestionOptions]) -> Report:
    """Create a source from each item, except those that the ledger knows to be unchanged.

    It blocks, and may be called in the thread of a running event loop. On SIGTERM, SIGHUP, Ctrl-C,
    `stop`, or an exception in the waiting thread it begins nothing new and finishes what is in
    flight, so that no outcome is unknown; a second signal ends it at once.

    Args:
        client: sends the requests.
        items: an origin such as `Folder("handbook")`, or `WebPage`, `Text`, `File` and `Skipped`
            objects; they are taken one at a time in a thread.
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
    items: Items | AsyncIterable[object],
    **options: Unpack[IngestionOptions],
) -> Report:
    """Ingest as `ingest` does, without blocking; `items` may be an asynchronous iterable.

    When it is cancelled, as by Ctrl-C under `asyncio.run`, it finishes what is in flight before it
    raises `CancelledError`; a second cancellation ends it at once. Callbacks are called in the
    event loop's thread. Arguments, result and errors are those of `ingest`.
    """
    return await _ingestion(options).arun(client, items)


def _ingestion(options: IngestionOptions) -> Ingestion:
    check_names(options, IngestionOptions)
    return Ingestion(**options)
