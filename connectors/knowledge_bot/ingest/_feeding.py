"""Takes the items of an origin and plans them, ahead of what is sent."""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence, Sized
from dataclasses import is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from knowledge_bot._sync import LONGEST_NAME
from knowledge_bot.errors import ConfigurationError, KnowledgeBotError
from knowledge_bot.ingest._jobs import Planned
from knowledge_bot.ingest._listings import Listing

if TYPE_CHECKING:
    from knowledge_bot.origins._origin import Memory

# The most that is planned at once: as many items as one statement asks the ledger about, as many
# listed files, of which most did not change, and some megabytes of text. And how long an item waits
# in the buffer, in seconds.
WINDOW = 500
_LISTED = 4000
_CHARACTERS = 4_000_000
_LONGEST_BUFFERED = 0.1

# How long the end of a run waits for a plan that nobody wants any more, in seconds.
_LONGEST_PLANNED = 1.0


class RunOrigin:
    """Where the items of a run come from: an origin, or any iterable.

    Args:
        given: either.
        name: the origin's name, in place of its own.
        collections: where the items go: what has no name is named by these.

    Attributes:
        name: the origin's name.
        listed: whether it gives listings of files.
        whole: whether these are all items, so that what does not come is gone.
        may_be_empty: whether there may be none.
        remembers: whether it compares its items itself, though they are not all.

    Raises:
        ConfigurationError: it is neither.
    """

    def __init__(self, given: Any, name: str | None, collections: Sequence[str]) -> None:
        is_origin = callable(getattr(given, "items", None)) or hasattr(given, "aitems")
        self._is_origin = is_origin and isinstance(getattr(given, "name", None), str)
        several = isinstance(given, Iterable | AsyncIterable) and not hasattr(given, "identity")
        if not self._is_origin and (not several or isinstance(given, str | bytes | dict)):
            wanted = "an origin, such as Folder(path), or several items, as in a list"
            raise ConfigurationError.expected("items", wanted, given)
        if self._is_origin and name and is_dataclass(given):
            unnamed: Any = given  # what has a name may be a whole
            given = replace(unnamed, name=name)
        self._given = given
        own = given.name if self._is_origin else None
        self.name: str = name or own or anonymous(collections)
        self.listed: bool = self._is_origin and hasattr(given, "listings")
        self.whole: bool = bool(name or own) and bool(getattr(given, "whole", True))
        self.remembers: bool = bool(getattr(given, "remembers", False))
        self.may_be_empty: bool = bool(getattr(given, "allow_empty", True))

    def items(self, memory: "Memory") -> Any:
        """Return the items: an iterable, or an asynchronous one."""
        if not self._is_origin:
            return self._given
        name = "listings" if self.listed else "items" if hasattr(self._given, "items") else "aitems"
        items = getattr(self._given, name)
        return items(memory) if inspect.signature(items).parameters else items()

    def gone_reason(self, key: str) -> str:
        """Return why the item with a key did not come: `missing`, `excluded`, `404` or `410`."""
        reason = getattr(self._given, "gone_reason", None)
        return "missing" if reason is None else str(reason(key))

    def doubts(self, key: str) -> bool:
        """Return whether a missing item may be there, such as on a disk that is not mounted."""
        doubts = getattr(self._given, "doubts", None)
        return doubts is not None and bool(doubts(key))


def anonymous(collections: Sequence[str]) -> str:
    """Return the origin of items without one: whatever goes to these collections.

    Of these nothing is ever gone.
    """
    return f"items of {','.join(sorted(collections))}"[:LONGEST_NAME]


class ItemFeed:
    """Takes items, in a thread if that may block, and plans them a window at a time.

    One window is planned while the one before it is sent and, but for a folder's, the next is read.

    Attributes:
        total: how many items there are, if that is known.
        exhausted: whether all plans were handed over, or none is wanted any more.
        partial: why there may be more items than were read; empty if there are none.
    """

    def __init__(self) -> None:
        self._window = _ItemWindow()
        self._filled, self._taken = asyncio.Event(), asyncio.Event()
        self._room = threading.Event()  # the same as `taken`, for a thread
        self._error: BaseException | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ahead: asyncio.Task[Planned | None] | None = None
        self.total: int | None = None
        self.exhausted: bool = False
        self.partial: str = ""

    def start(
        self,
        items: Iterable[object] | AsyncIterable[object],
        plan: Callable[[Sequence[object]], Awaitable[Planned]],
    ) -> None:
        """Begin to read."""
        self._plan, self._loop = plan, asyncio.get_running_loop()
        self.total = len(items) if isinstance(items, Sized) else None
        if self.exhausted:
            return
        if isinstance(items, AsyncIterable):
            self._reading = asyncio.create_task(self._aread(items))
        else:
            # Not an executor's thread: the items may block for ever, and nobody may wait for that.
            work = partial(contextvars.copy_context().run, self._read, items)
            threading.Thread(target=work, name="ingest reader", daemon=True).start()

    async def planned(self) -> Planned | None:
        """Return the plan of a window, or of what came within a moment; None at the end.

        Raises:
            KnowledgeBotError: the items cannot be compared.
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
            done, items = self._window.done, self._window.taken()
            # A folder is read on once its window is planned: two threads that each wait for the
            # system, a moment for every file, would spend longer on waiting for the interpreter.
            in_turn = bool(items) and type(items[0]) is Listing
            if not in_turn:
                self._read_on()
            if not done:  # there may be more
                self._filled.clear()
            try:
                if items:
                    return await self._plan(items)
            except Exception as error:  # noqa: BLE001 - raised by planned()
                self._fail(error)
                done = done or isinstance(error, KnowledgeBotError)
            finally:
                if in_turn:
                    self._read_on()
            if done:
                break
        return None

    def _read_on(self) -> None:
        """Let the next window be filled."""
        self._window.weight = 0.0
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

    def _read(self, items: Iterable[object]) -> None:
        try:
            for item in items:
                self._window.add(item)
                while self._window.weight >= 1 and not self._is_over:
                    self._room.clear()
                    self._tell()
                    if self._window.weight >= 1:  # it was not taken since
                        self._room.wait(0.1)
                if self._is_over:
                    return
        except BaseException as error:  # noqa: BLE001 - raised by planned()
            self._fail(error)
        self._finish()

    async def _aread(self, items: AsyncIterable[object]) -> None:
        try:
            async for item in items:
                self._window.add(item)
                while self._window.weight >= 1:
                    self._taken.clear()
                    self._filled.set()
                    await self._taken.wait()
        except BaseException as error:  # raised by planned()
            if self.exhausted:  # it was cancelled by `end`
                raise
            self._fail(error)
        self._finish()

    @property
    def _is_over(self) -> bool:
        return self.exhausted or self._loop.is_closed()

    def _finish(self) -> None:
        if self._error is None:
            self.total = self._window.count
        self._window.done = True
        self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._filled.set)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self.partial = self.partial or str(error) or type(error).__name__


class _ItemWindow:
    """What is read and not yet planned.

    Attributes:
        weight: how full it is; 1 is full.
        count: how many items were read so far.
        done: whether nothing more comes.
    """

    def __init__(self) -> None:
        self._items: deque[object] = deque()
        self.weight, self.count, self.done = 0.0, 0, False

    def add(self, item: object) -> None:
        weight, count = 1 / WINDOW, 1
        if type(item) is Listing:
            count = len(item.keys)
            weight = count / _LISTED
        elif (text := getattr(item, "content", None)) is not None:
            weight = max(weight, len(text) / _CHARACTERS)
        self.count += count
        self._items.append(item)
        self.weight += weight

    def taken(self) -> list[object]:
        return [self._items.popleft() for _ in range(len(self._items))]
