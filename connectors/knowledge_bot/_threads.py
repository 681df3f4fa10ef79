"""Calls in threads, and in turn. A call that still waits delays nobody, nor the program's exit."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

# A signal that comes just before Python waits for a lock does not wake it, so it wakes by itself
# after some time, in seconds.
_LONGEST_UNHEARD = 0.25


def begun(name: str, function: Callable[..., T], *arguments: Any) -> Future[T]:
    """Begin to call a function in a thread of this name, and return its result to come."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()  # whoever waits may give up, and the call goes on

    def work() -> None:
        try:
            done.set_result(function(*arguments))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            done.set_exception(error)

    # Tracing and callbacks of frameworks travel in context variables.
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True, name=name).start()
    return done


def in_thread(function: Callable[..., T], *arguments: Any) -> "asyncio.Future[T]":
    """Call a function in a thread, and await its result."""
    return asyncio.wrap_future(begun("request", function, *arguments))


def in_own_loop(
    main: Callable[[], Coroutine[Any, Any, T]],
    name: str,
    interrupted: Callable[[BaseException, Future[T]], object],
) -> T:
    """Run a coroutine in an event loop of its own, and wait for its result.

    The loop is in a thread, since the caller's may already run one.

    Args:
        main: makes the coroutine.
        name: what the thread is called.
        interrupted: called with what a signal's handler raises in the caller's thread, and with the
            outcome to come. When it returns, the result is waited for as before.
    """
    done = begun(name, lambda: asyncio.run(main()))
    while True:
        try:  # also between two waits, where a signal may come as well
            while not wait([done], _LONGEST_UNHEARD).done:
                pass
            break
        except BaseException as error:  # noqa: BLE001 - which decides
            interrupted(error, done)
    return done.result()


class Turns:
    """Lets the calls of threads come one after another, and so those of each event loop's tasks.

    Threads and loops do not wait for each other. A copy or a pickle has no waiters.

    Attributes:
        of_threads: the lock of all threads.
    """

    def __init__(self) -> None:
        self.of_threads: threading.Lock = threading.Lock()
        # A lock belongs to the first event loop in which a task had to wait for it.
        self._of_loops = WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]()

    def __reduce__(self) -> tuple[Any, ...]:
        return Turns, ()

    @property
    def of_tasks(self) -> asyncio.Lock:
        """The lock of the running loop's tasks."""
        return self._of_loops.setdefault(asyncio.get_running_loop(), asyncio.Lock())
