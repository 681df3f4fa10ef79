"""Ending long work early on a signal, with what is under way finished first."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

# Seconds within which a second signal counts as the first: a shell and the kernel both send SIGHUP
# when a terminal is closed, and `timeout` signals a process and then its group.
_SAME_SIGNAL = 0.5


class Event(Protocol):
    """A `threading.Event`, or an `asyncio.Event`."""

    def is_set(self) -> bool:
        """Return whether what is under way should end."""


@contextmanager
def stop_on_signals(ask: Callable[[], None]) -> Iterator[None]:
    """Call `ask` on the first SIGTERM, SIGHUP or Ctrl-C; a second signal has its usual effect.

    Signals within half a second of the first are ignored. Handlers of others, such as asyncio's or
    a task runner's, stay in place. A worker process of `multiprocessing` ends with the SIGTERM once
    all is recorded, since its pool waits for that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    defaults: dict[str, Any] = {
        "SIGTERM": signal.SIG_DFL,
        "SIGHUP": signal.SIG_DFL,  # a closed terminal; Windows has none
        "SIGINT": signal.default_int_handler,
    }
    taken = {
        number: default
        for name, default in defaults.items()
        if (number := getattr(signal, name, None)) and signal.getsignal(number) is default
    }

    def restore() -> None:
        for number, default in taken.items():
            signal.signal(number, default)

    asked_by: list[int] = []
    asked_at = 0.0

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal asked_at
        if not asked_by:
            asked_at = time.monotonic()
            asked_by.append(number)
            ask()
        elif time.monotonic() - asked_at > _SAME_SIGNAL:
            restore()
            signal.raise_signal(number)

    for number in taken:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()
        if signal.SIGTERM in asked_by:
            import multiprocessing

            if multiprocessing.parent_process() is not None:
                signal.raise_signal(signal.SIGTERM)
