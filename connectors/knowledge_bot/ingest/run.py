"""`ingest` and `aingest`: the engine behind a function that blocks and one that awaits."""

import asyncio
import contextvars
import multiprocessing
import signal
import threading
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Protocol

from knowledge_bot.arguments import Collections, collection_ids
from knowledge_bot.client import AsyncClient, Client
from knowledge_bot.configuration import API_KEY_VARIABLE
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest.engine import Run
from knowledge_bot.ingest.ledger.ledger import Ledger
from knowledge_bot.ingest.planning import OnUnknown, checked_on_unknown
from knowledge_bot.ingest.report import Report, Stop
from knowledge_bot.ingest.sending import Send, awaiting_sender, sender_of
from knowledge_bot.ingest.threads import DaemonThreads

OnProgress = Callable[[Report], object]
"""Called some times a second with the report so far, in the engine's thread, and at the end."""


class Event(Protocol):
    """A `threading.Event`, or an `asyncio.Event`."""

    def is_set(self) -> bool:
        """Tell whether the run is to end."""


def ingest(
    client: Client,
    items: Iterable[object],
    *,
    collections: Collections,
    ledger: Ledger | None = None,
    concurrency: int = 8,
    on_unknown: OnUnknown = "hold",
    on_progress: OnProgress | None = None,
    dry_run: bool = False,
    stop: Event | None = None,
    handle_signals: bool = True,
) -> Report:
    """Create a source of each item that the ledger does not know as created and unchanged.

    It blocks, and may be called from a running event loop's thread. SIGTERM, Ctrl-C, `stop`, and
    whatever is raised in the waiting thread let it begin nothing new and finish what is in flight,
    so that no outcome is unknown; a second signal ends it at once.

    Args:
        client: sends the requests.
        items: `WebPage`, `Text`, `File` and `Skipped` objects, taken one at a time in a thread.
        collections: where items go that name no collections of their own.
        ledger: what was ingested before. Without one every item is sent, every time.
        concurrency: how many requests may be in flight; after a crash, at most so many outcomes
            are unknown.
        on_unknown: `hold` leaves items of unknown outcome alone and reports them, so that nothing
            is created twice; `resend` sends them again, so that nothing is missing.
        on_progress: called some times a second with the report so far, in another thread.
        dry_run: compare only. Nothing is sent or written, also no ledger.
        stop: when this is set, the run ends early.
        handle_signals: take SIGTERM and Ctrl-C as a wish to end early, where this is the main
            thread and nobody else handles them. In a worker process of `multiprocessing` SIGTERM
            then ends the process, as its pool expects.

    Returns:
        The counts, and the items that were not ingested with the reason.

    Raises:
        ConfigurationError: an argument cannot be used, or the client is closed or has no API key.
        LedgerError: the ledger cannot be opened.
        Exception: what `items` or `on_progress` raised, after what was in flight was finished.
    """
    if not isinstance(client, Client):
        raise ConfigurationError(
            f"client: expected a Client, not {type(client).__name__}; aingest takes an AsyncClient"
        )
    threads = DaemonThreads(concurrency, "ingest sender")
    asked = threading.Event()
    run = _run(
        client,
        lambda: sender_of(client, threads),
        items,
        collections=collections,
        ledger=ledger,
        concurrency=concurrency,
        on_unknown=on_unknown,
        on_progress=on_progress,
        dry_run=dry_run,
        stopping=lambda: asked.is_set() or (stop is not None and stop.is_set()),
    )
    done: Future[Report] = Future()
    loop: list[asyncio.AbstractEventLoop] = []

    async def main() -> Report:
        loop.append(asyncio.get_running_loop())
        try:
            return await run.run()
        finally:
            threads.end()

    def work() -> None:
        try:
            done.set_result(asyncio.run(main()))
        except BaseException as error:  # noqa: BLE001 - raised by result(), in the caller's thread
            done.set_exception(error)

    context = contextvars.copy_context()
    with _signals_ask(asked.set, wanted=handle_signals):
        threading.Thread(target=context.run, args=(work,), name="ingest", daemon=True).start()
        try:
            return done.result()
        except BaseException:
            if done.done():
                raise
            try:  # a signal's handler raised it in this thread
                if asked.is_set():
                    raise
                asked.set()
                done.exception()
            except BaseException:  # the second wish to end
                # The loop may not have begun, or just have ended.
                with suppress(IndexError, RuntimeError):
                    loop[0].call_soon_threadsafe(run.abort)
                with suppress(TimeoutError):
                    done.exception(timeout=_LAST_WORDS)
                raise
            raise


# Seconds to record what is under way when nothing more is waited for.
_LAST_WORDS = 5.0


async def aingest(
    client: AsyncClient,
    items: Iterable[object] | AsyncIterable[object],
    *,
    collections: Collections,
    ledger: Ledger | None = None,
    concurrency: int = 8,
    on_unknown: OnUnknown = "hold",
    on_progress: OnProgress | None = None,
    dry_run: bool = False,
    stop: Event | None = None,
    handle_signals: bool = True,
) -> Report:
    """Ingest as `ingest` does, without blocking.

    Cancelling it, which is also what Ctrl-C does under `asyncio.run`, lets it finish what is in
    flight before it raises `CancelledError`; cancelling it twice ends it at once.

    Args:
        client: sends the requests.
        items: as for `ingest`, or an asynchronous iterable.
        collections: as for `ingest`.
        ledger: as for `ingest`.
        concurrency: as for `ingest`.
        on_unknown: as for `ingest`.
        on_progress: called in the event loop's thread.
        dry_run: as for `ingest`.
        stop: as for `ingest`.
        handle_signals: as for `ingest`.

    Returns:
        As `ingest`.

    Raises:
        ConfigurationError: as `ingest`.
        LedgerError: as `ingest`.
        Exception: as `ingest`.
    """
    if not isinstance(client, AsyncClient):
        raise ConfigurationError(
            f"client: expected an AsyncClient, not {type(client).__name__}; ingest takes a Client"
        )
    asked = threading.Event()
    run = _run(
        client,
        lambda: awaiting_sender(client),
        items,
        collections=collections,
        ledger=ledger,
        concurrency=concurrency,
        on_unknown=on_unknown,
        on_progress=on_progress,
        dry_run=dry_run,
        stopping=lambda: asked.is_set() or (stop is not None and stop.is_set()),
    )
    with _signals_ask(asked.set, wanted=handle_signals):
        running = asyncio.create_task(run.run())
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            run.stop(Stop.REQUESTED, "it was cancelled")
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                run.abort()
                await asyncio.wait([running], timeout=_LAST_WORDS)
            raise


def _run(
    client: Client | AsyncClient,
    sender: Callable[[], Send],
    items: Any,
    *,
    collections: Collections,
    concurrency: int,
    on_unknown: str,
    dry_run: bool,
    **options: Any,
) -> Run:
    if concurrency < 1:
        raise ConfigurationError(f"concurrency: expected 1 or more, not {concurrency!r}")
    if not dry_run:
        _check_can_create(client)
    return Run(
        service=client.base_url,
        send=sender(),
        items=items,
        collections=tuple(collection_ids(collections)),
        concurrency=concurrency,
        on_unknown=checked_on_unknown(on_unknown),
        dry_run=dry_run,
        **options,
    )


def _check_can_create(client: Client | AsyncClient) -> None:
    if client._is_closed:  # noqa: SLF001 - the core's own, not a user's
        raise ConfigurationError("ingest: the client is closed; make a new one")
    if client._configuration.api_key is None:  # noqa: SLF001 - as above
        raise ConfigurationError(
            f"ingest: no API key; pass api_key= or set {API_KEY_VARIABLE}. Nothing was sent"
        )


@contextmanager
def _signals_ask(ask: Callable[[], None], *, wanted: bool) -> Iterator[None]:
    """Let the first SIGTERM or Ctrl-C ask; the second one acts as it did before.

    Handlers of others, such as asyncio's or a task runner's, stay in place. A worker process of
    `multiprocessing` ends by the SIGTERM once all is recorded: that is how its pool ends it, and
    then waits for its end.
    """
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield
        return
    defaults = ((signal.SIGTERM, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler))
    taken: dict[signal.Signals, Any] = {
        number: default for number, default in defaults if signal.getsignal(number) is default
    }

    def restore() -> None:
        for number, default in taken.items():
            signal.signal(number, default)

    asked_by: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        asked_by.append(number)
        restore()
        ask()

    for number in taken:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
        if signal.SIGTERM in asked_by and multiprocessing.parent_process() is not None:
            signal.raise_signal(signal.SIGTERM)
