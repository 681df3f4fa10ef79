"""One turn after another, whoever takes it: threads, and tasks of any event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from knowledge_bot import ConfigurationError


class Turns:
    """A lock that both blocking and awaiting callers may take, in the order in which they came.

    An `asyncio.Lock` belongs to one event loop, and a `threading.Lock` would stop the loop that
    waits for it. Here each comer waits for the future of the one before. Pickles and deep copies
    are new ones: nobody waits there.
    """

    def __init__(self) -> None:
        self._door = threading.Lock()
        self._last: Future[None] = Future()
        self._last.set_result(None)

    def __reduce__(self) -> tuple[Any, ...]:
        return Turns, ()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for the turns before this one, and hold it for the `with` block.

        Raises:
            ConfigurationError: it would have to wait inside a running event loop, where the turn
                before may need that same loop to end.
        """
        before, mine = self._queue()
        try:
            if not before.done() and _in_event_loop():
                raise ConfigurationError(
                    "a turn of this conversation is under way, and waiting for it here would stop "
                    "the event loop; await the asynchronous method instead"
                )
            before.result()
            yield
        finally:
            _release(before, mine)

    @asynccontextmanager
    async def ataken(self) -> AsyncIterator[None]:
        """Wait for the turns before this one, and hold it for the `async with` block."""
        before, mine = self._queue()
        try:
            # Shielded, since cancelling this wait must not end the turn that it waits for.
            await asyncio.shield(asyncio.wrap_future(before))
            yield
        finally:
            _release(before, mine)

    def _queue(self) -> tuple["Future[None]", "Future[None]"]:
        mine: Future[None] = Future()
        with self._door:
            before, self._last = self._last, mine
        return before, mine


def _release(before: "Future[None]", mine: "Future[None]") -> None:
    # One that gave up waiting still passes the turn on only when it would have come.
    before.add_done_callback(lambda _: mine.set_result(None))


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
