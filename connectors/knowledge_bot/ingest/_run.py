"""`ingest`, `aingest` and `complete`: one run, blocking or awaited."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Unpack

from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._extensions import keeps_book_for_others
from knowledge_bot._signals import stop_on_signals
from knowledge_bot._threads import in_own_loop
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._engine import Keeper, Run, Sender
from knowledge_bot.ingest._feeding import RunOrigin
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.ingest._options import (
    CheckedOptions,
    IngestionOptions,
    Prune,
    check_names,
)
from knowledge_bot.ingest._report import Report, Stop, logger

if TYPE_CHECKING:
    import os
    from concurrent.futures import Future

    from knowledge_bot.ingest._ledger import Ledger
    from knowledge_bot.origins._origin import Memory

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

    def run(self, client: Client, origin: Items) -> Report:
        """Ingest the items and return when that is done; see `ingest`."""
        if not isinstance(client, Client):
            raise ConfigurationError.expected(
                "client", "a Client", client, "; aingest takes an AsyncClient"
            )
        asked = threading.Event()
        run = self._new_run(client, origin, asked)

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

    async def arun(self, client: AsyncClient, origin: Items | AsyncIterable[object]) -> Report:
        """Ingest the items; see `aingest`."""
        if not isinstance(client, AsyncClient):
            raise ConfigurationError.expected(
                "client", "an AsyncClient", client, "; ingest takes a Client"
            )
        asked = threading.Event()
        run = self._new_run(client, origin, asked)
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
        signals = stop_on_signals(asked.set)
        with client._run_span("ingest") as counted, signals:  # noqa: SLF001 - the core's own
            yield counted

    def _new_run(self, client: Client | AsyncClient, origin: Any, asked: threading.Event) -> Run:
        place, stop = RunOrigin(origin, self.origin, self.collections), self.stop
        has_key = client._configuration.api_key is not None  # noqa: SLF001 - the core's own
        if not self.dry_run:
            client._check("ingest")  # noqa: SLF001 - as above
        return Run(
            Sender(client),
            place,
            self,
            lambda run: _keeper_of(run, client.base_url),
            lambda: asked.is_set() or (stop is not None and stop.is_set()),
            asks=has_key or not self.dry_run,
        )


def _keeper_of(run: Run, service: str) -> Keeper:
    """Return who keeps the book: the service where it can, and else the ledger.

    Raises:
        ConfigurationError: there is neither.
    """
    if "sync" in run.sender.extensions:
        from knowledge_bot.ingest._service_keeper import ServiceKeeper

        if run.options.ledger is not None:
            logger.info("The service keeps the book itself; %s is not used", run.options.ledger)
        return ServiceKeeper(run)
    if run.options.ledger is None:
        raise ConfigurationError.of(
            "ledger",
            "the service does not keep the book of what it was sent (it does not announce the "
            "extension 'sync'), so name a ledger that does: the path of a SQLite file, or "
            "postgresql://…. Nothing was sent",
        )
    if keeps_book_for_others(run.sender.extensions):
        logger.warning(
            "The service does not keep the book for this API key, which may only write. What was "
            "fed with another key is not in %s, and is sent again; use a key with the role manage",
            run.options.ledger,
        )
    from knowledge_bot.ingest._ledger_keeper import LedgerKeeper

    return LedgerKeeper(run, service)


def ingest(client: Client, items: Items, **options: Unpack[IngestionOptions]) -> Report:
    """Let a service have what an origin has: create, replace and remove sources until it does.

    It blocks, and may be called in the thread of a running event loop. On SIGTERM, SIGHUP, Ctrl-C,
    `stop`, or an exception in the waiting thread it begins nothing new and finishes what is in
    flight, so that no outcome is unknown; a second signal ends it at once.

    Args:
        client: sends the requests.
        items: where they come from, such as a `knowledge_bot.origins.Folder`; or `WebPage`,
            `Text`, `File` and `Skipped` objects themselves, taken one at a time in a thread.
        options: `collections`, `ledger` and the others of `IngestionOptions`: for their meaning,
            see `help(knowledge_bot.ingest.IngestionOptions)`.

    Returns:
        The counts, and the items that were not ingested with the reason.

    Raises:
        TypeError: there is no such option, or no `collections`. Nothing was sent.
        ConfigurationError: an argument cannot be used; the client is closed or has no API key; or
            the service does not announce `sync`, and there is no `ledger`.
        LedgerError: the ledger cannot be opened.
        Exception: what the origin or a callback raised, once the requests in flight have ended.
    """
    return _ingestion(options).run(client, items)


async def aingest(
    client: AsyncClient,
    items: Items | AsyncIterable[object],
    **options: Unpack[IngestionOptions],
) -> Report:
    """Ingest as `ingest` does, without blocking; items may be an asynchronous iterable.

    When it is cancelled, as by Ctrl-C under `asyncio.run`, it finishes what is in flight before it
    raises `CancelledError`; a second cancellation ends it at once. Callbacks are called in the
    event loop's thread. Arguments, result and errors are those of `ingest`.
    """
    return await _ingestion(options).arun(client, items)


def _ingestion(options: IngestionOptions) -> Ingestion:
    check_names(options, IngestionOptions)
    if "collections" not in options:
        raise TypeError("pass collections=…, ids of client.list_collections(). Nothing was sent")
    return Ingestion(**options)


class _Known:
    """An origin of which only the keys are known: nothing of it is sent."""

    def __init__(self, name: str, keys: Iterable[str]) -> None:
        self.name, self._keys = name, frozenset(keys)

    def items(self, memory: "Memory") -> Iterator[object]:
        """Yield nothing, unless the book has nothing under this name."""
        if self._keys and not any(memory.entries()):
            reason = "nothing was sent under this name; is it the one that the runs were given?"
            yield Skipped(self.name, reason, invalid=True, partial=True)

    def gone_reason(self, key: str) -> str:
        """Return whether the item with a key is there."""
        return "unread" if key in self._keys else "missing"


def complete(
    client: Client,
    origin: str,
    keys: Iterable[str],
    *,
    ledger: "Ledger | str | os.PathLike[str] | None" = None,
    prune: Prune = True,
    gone_limit: float = 0.5,
) -> Report:
    """Say which items an origin has, after several runs have each sent a part of them.

    What the service has of the origin beside these is gone, under the guards of `ingest`.

    Args:
        client: sends the requests.
        origin: the name that the runs were given, with `complete=False`.
        keys: the keys of all its items, also of those that were not sent.
        ledger: the ledger of the runs, for a service that does not announce `sync`.
        prune: as for `ingest`.
        gone_limit: as for `ingest`.

    Returns:
        The counts of what is `removed`, `gone` and `withheld`; not `ok` where nothing was sent
        under this name, though there are keys.

    Raises:
        ConfigurationError: an argument cannot be used.
        LedgerError: the ledger cannot be opened.
    """
    if isinstance(keys, str):
        raise ConfigurationError.expected("keys", "several keys, as in a list", keys)
    options = Ingestion(
        collections="col_any", ledger=ledger, prune=prune, gone_limit=gone_limit, anyway=True
    )
    return options.run(client, _Known(origin, keys))
