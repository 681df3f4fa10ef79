"""One turn after another, whoever takes it: threads, and tasks of any event loop."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from knowledge_bot import ConfigurationError


class Turns:
    """A lock that both blocking and awaiting callers may take, in the order in which they came.

    An `asyncio.Lock` belongs to one event loop, and a `threading.Lock` would stop the loop that
    waits for it. Here each comer waits for a future of its own, which is set by whoever leaves
    before it. Pickles and deep copies are new ones: nobody waits there.
    """

    def __init__(self) -> None:
        self._door = threading.Lock()
        self._queue: deque[Future[None]] = deque()
        """Who has the turn, and then who waits for it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Turns, ()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for the turns before this one, and hold it for the `with` block.

        Raises:
            ConfigurationError: it would have to wait inside a running event loop, where the turn
                before may need that same loop to end.
        """
        mine = self._come()
        try:
            if not mine.done() and _in_event_loop():
                raise ConfigurationError(
                    "a turn of this conversation is under way, and waiting for it here would stop "
                    "the event loop; await the asynchronous method instead"
                )
            mine.result()
            yield
        finally:
            self._leave(mine)

    @asynccontextmanager
    async def ataken(self) -> AsyncIterator[None]:
        """Wait for the turns before this one, and hold it for the `async with` block."""
        mine = self._come()
        try:
            # Shielded, since whoever leaves may set the future while this wait is cancelled.
            await asyncio.shield(asyncio.wrap_future(mine))
            yield
        finally:
            self._leave(mine)

    def _come(self) -> "Future[None]":
        mine: Future[None] = Future()
        with self._door:
            self._queue.append(mine)
            if self._queue[0] is mine:
                mine.set_result(None)
        return mine

    def _leave(self, mine: "Future[None]") -> None:
        """End a turn, or give up waiting for it; only the one who had it passes it on."""
        with self._door:
            had_it = self._queue[0] is mine
            self._queue.remove(mine)
            following = self._queue[0] if had_it and self._queue else None
        if following is not None:
            following.set_result(None)


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
