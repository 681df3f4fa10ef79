"""A queue of turns for threads and for tasks of any event loop."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from knowledge_bot import ConfigurationError


class Turns:
    """A fair lock for both blocking and asynchronous callers.

    An `asyncio.Lock` belongs to one event loop, and a `threading.Lock` would block the loop that
    waits for it. Here each caller waits for its own future, which the caller before it sets.
    Pickles and deep copies are new locks without waiters.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[Future[None]] = deque()
        """The holder of the lock, and then those who wait for it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Turns, ()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for earlier turns, and hold the lock for the `with` block.

        Raises:
            ConfigurationError: it would have to wait inside a running event loop, which the earlier
                turn may need to end.
        """
        mine = self._enqueue()
        try:
            if not mine.done() and _in_event_loop():
                raise ConfigurationError(
                    "a turn of this conversation is running, and waiting for it here would block "
                    "the event loop; await the asynchronous method instead"
                )
            mine.result()
            yield
        finally:
            self._release(mine)

    @asynccontextmanager
    async def ataken(self) -> AsyncIterator[None]:
        """Wait for earlier turns, and hold the lock for the `async with` block."""
        mine = self._enqueue()
        try:
            # Shielded, since the future may be set while this wait is cancelled.
            await asyncio.shield(asyncio.wrap_future(mine))
            yield
        finally:
            self._release(mine)

    def _enqueue(self) -> "Future[None]":
        mine: Future[None] = Future()
        with self._lock:
            self._queue.append(mine)
            if self._queue[0] is mine:
                mine.set_result(None)
        return mine

    def _release(self, mine: "Future[None]") -> None:
        """End a turn, or stop waiting for one; only its holder passes the lock on."""
        with self._lock:
            held = self._queue[0] is mine
            self._queue.remove(mine)
            following = self._queue[0] if held and self._queue else None
        if following is not None:
            following.set_result(None)


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
