"""Items on their way from whoever yields them to whoever plans them: bounded, one at a time."""

import threading
from collections.abc import AsyncIterable, Iterable
from typing import Any

from knowledge_bot.ingest.items import Text
from knowledge_bot.ingest.threads import DaemonThreads

# What waits here at most: as many items as the ledger is asked about in one statement, of whose
# parameters SQLite allowed 999 for a long time, and some megabytes of text.
_ITEMS = 500
_CHARACTERS = 4_000_000


class Intake:
    """A bounded buffer between the thread that reads items and the one that plans them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._items: list[Any] = []
        self._characters = 0
        self._ended = False
        self._error: BaseException | None = None

    def take(self) -> list[Any]:
        """Return what has gathered, at least one item; nothing at the end. Blocks.

        Raises:
            BaseException: what the user's iterable raised.
        """
        with self._changed:
            while not self._items and not self._ended:
                self._changed.wait()
            taken, self._items, self._characters = self._items, [], 0
            self._changed.notify_all()
            if not taken and self._error is not None:
                error, self._error = self._error, None
                raise error
            return taken

    def close(self) -> None:
        """Take no further items, and forget those that wait."""
        with self._changed:
            self._ended = True
            self._items = []
            self._changed.notify_all()

    async def feed(self, items: Iterable[Any] | AsyncIterable[Any], threads: DaemonThreads) -> None:
        """Read the items to their end, or until the intake is closed; an iterable in a thread."""
        if isinstance(items, AsyncIterable):
            await self._aread(items, threads)
        else:
            await threads.run(lambda: self._read(items))

    def _read(self, items: Iterable[Any]) -> None:
        try:
            for item in items:
                if not self._put(item):
                    self._wait_for_room()
                if self._ended:
                    return
        except BaseException as error:  # noqa: BLE001 - raised to whoever takes
            self._fail(error)
        self._end()

    async def _aread(self, items: AsyncIterable[Any], threads: DaemonThreads) -> None:
        try:
            async for item in items:
                if not self._put(item):
                    await threads.run(self._wait_for_room)
                if self._ended:
                    return
        except Exception as error:  # noqa: BLE001 - raised to whoever takes
            self._fail(error)
        self._end()

    def _put(self, item: Any) -> bool:
        with self._changed:
            self._items.append(item)
            if len(self._items) == 1:
                self._changed.notify_all()
            if isinstance(item, Text):
                self._characters += len(item.content)
            return len(self._items) < _ITEMS and self._characters < _CHARACTERS

    def _wait_for_room(self) -> None:
        with self._changed:
            while self._items and not self._ended:
                self._changed.wait()

    def _fail(self, error: BaseException) -> None:
        self._error = error

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
