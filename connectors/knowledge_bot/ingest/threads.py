"""Daemon threads that work for an event loop.

`concurrent.futures` waits for its threads when the interpreter ends, so an iterable of a user's
that never yields again, or a request under way when Ctrl-C came twice, would hold the process.
"""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

_Job: TypeAlias = tuple[asyncio.Future[Any], contextvars.Context, Callable[[], Any]]


class DaemonThreads:
    """At most `count` threads, started when they are needed.

    Args:
        count: how many.
        name: what they are called.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._threads: list[threading.Thread] = []
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._busy = 0

    async def run(self, function: Callable[[], T]) -> T:
        """Call a function in one of the threads and return what it returns.

        When this is cancelled, the function goes on and its result is lost.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._busy += 1
        if self._busy > len(self._threads) < self._count:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        # Tracing and callbacks of frameworks travel in context variables.
        self._jobs.put((future, contextvars.copy_context(), function))
        try:
            return await future
        finally:
            self._busy -= 1

    def end(self) -> None:
        """Let each thread end when it has done what it is doing."""
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, context, function = job
            result: Any = None
            error: BaseException | None = None
            try:
                result = context.run(function)
            except BaseException as raised:  # noqa: BLE001 - it is raised where it is awaited
                error = raised
            loop = future.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, future, result, error)


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.done():  # it was cancelled
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
