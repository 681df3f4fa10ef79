"""Takes the items of a run and plans them, ahead of what is sent."""

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable, Sequence, Sized
from functools import partial
from typing import Any

from knowledge_bot.ingest._listings import Listing
from knowledge_bot.ingest._plan import Planned
from knowledge_bot.ingest._schema import LedgerError
from knowledge_bot.ingest._store import Store

# The most that is planned at once: as many items as one statement asks the ledger about, as many
# listed files, of which most did not change, and some megabytes of text. And how long an item waits
# in the buffer, in seconds.
_WINDOW = 500
_LISTED = 1000
_CHARACTERS = 4_000_000
_LONGEST_BUFFERED = 0.1

# How long the end of a run waits for a plan that nobody wants any more, in seconds.
_LONGEST_PLANNED = 1.0


class ItemReader:
    """Takes items, in a thread if that may block, and plans them a window at a time.

    One window is planned while the one before it is sent and, but for a folder's, the next is read.

    Args:
        items: what to take; a folder is taken as listings of its files.

    Attributes:
        total: how many items there are, if that is known.
        exhausted: whether all plans were handed over, or none is wanted any more.
        partial: why there may be more items than were read; empty if there are none.
    """

    def __init__(self, items: Iterable[object] | AsyncIterable[object]) -> None:
        self._items: Any = items
        self._window: deque[object] = deque()  # what is read and not yet planned
        self._weight = 0.0  # of that, in windows
        self._count = 0
        self._filled, self._taken = asyncio.Event(), asyncio.Event()
        self._room = threading.Event()  # the same as `taken`, for a thread
        self._done = False
        self._error: BaseException | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ahead: asyncio.Task[Planned | None] | None = None
        self.total: int | None = len(items) if isinstance(items, Sized) else None
        self.exhausted = False
        self.partial = ""

    def start(self, plan: Callable[[Sequence[object]], Planned], store: Store | None) -> None:
        """Begin to read. Items that compare pages remember them in the ledger."""
        self._plan, self._loop = plan, asyncio.get_running_loop()
        if self.exhausted:
            return
        if store is not None and hasattr(self._items, "remembering"):
            self._items = self._items.remembering(store)
        if hasattr(self._items, "listings"):
            self._items = self._items.listings()
        if isinstance(self._items, AsyncIterable):
            self._reading = asyncio.create_task(self._aread())
        else:
            # Not an executor's thread: the items may block for ever, and nobody may wait for that.
            work = partial(contextvars.copy_context().run, self._read)
            threading.Thread(target=work, name="ingest reader", daemon=True).start()

    async def planned(self) -> Planned | None:
        """Return the plan of a window, or of what came within a moment; None at the end.

        Raises:
            LedgerError: the ledger cannot be read.
            Exception: what the items raised.
        """
        planned = await (self._ahead or self._planned())
        if planned is not None and not self.exhausted:
            self._ahead = asyncio.create_task(self._planned())
            return planned
        self.end()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return None

    async def _planned(self) -> Planned | None:
        while not self.exhausted:
            waking = self._loop.call_later(_LONGEST_BUFFERED, self._filled.set)
            await self._filled.wait()
            waking.cancel()
            done = self._done
            items = [self._window.popleft() for _ in range(len(self._window))]
            # A folder is read on once its window is planned: two threads that each wait for the
            # system, a moment for every file, would spend longer on waiting for the interpreter.
            in_turn = bool(items) and type(items[0]) is Listing
            if not in_turn:
                self._read_on()
            if not done:  # there may be more
                self._filled.clear()
            try:
                if items:
                    return await asyncio.to_thread(self._plan, items)
            except Exception as error:  # noqa: BLE001 - raised by planned()
                self._fail(error)
                done = done or isinstance(error, LedgerError)
            finally:
                if in_turn:
                    self._read_on()
            if done:
                break
        return None

    def _read_on(self) -> None:
        """Let the next window be filled."""
        self._weight = 0.0
        self._taken.set()
        self._room.set()

    def end(self) -> None:
        """Take no further items. Called in the loop's thread."""
        self.exhausted = True
        self._filled.set()
        self._room.set()
        if self._reading is not None:
            self._reading.cancel()

    async def close(self) -> None:
        """Take no further items, and let what is being planned leave the ledger alone."""
        self.end()
        if self._ahead is not None:
            await asyncio.wait([self._ahead], timeout=_LONGEST_PLANNED)

    def _add(self, item: object) -> None:
        weight, count = 1 / _WINDOW, 1
        if type(item) is Listing:
            count = len(item.keys)
            weight = count / _LISTED
        elif (text := getattr(item, "content", None)) is not None:
            weight = max(weight, len(text) / _CHARACTERS)
        self._count += count
        self._window.append(item)
        self._weight += weight

    def _read(self) -> None:
        try:
            for item in self._items:
                self._add(item)
                while self._weight >= 1 and not self._is_over:
                    self._room.clear()
                    self._tell()
                    if self._weight >= 1:  # it was not taken since
                        self._room.wait(0.1)
                if self._is_over:
                    return
        except BaseException as error:  # noqa: BLE001 - raised by planned()
            self._fail(error)
        self._finish()

    async def _aread(self) -> None:
        try:
            async for item in self._items:
                self._add(item)
                while self._weight >= 1:
                    self._taken.clear()
                    self._filled.set()
                    await self._taken.wait()
        except Exception as error:  # noqa: BLE001 - raised by planned()
            self._fail(error)
        self._finish()

    @property
    def _is_over(self) -> bool:
        return self.exhausted or self._loop.is_closed()

    def _finish(self) -> None:
        if self._error is None:
            self.total = self._count
        self._done = True
        self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._filled.set)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self.partial = self.partial or str(error) or type(error).__name__
