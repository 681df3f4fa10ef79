"""Which accepted sources are not done yet, so that a question can wait for those before it."""

import asyncio
from collections.abc import Iterable, Sequence


class Backlog:
    """The unfinished sources of each collection, in the order in which they came.

    Every method belongs to the event loop's thread; nothing here asks the database, and a question
    to collections without unfinished sources costs a dictionary look-up.
    """

    def __init__(self) -> None:
        self._count = 0
        self._numbers: dict[int, dict[str, int]] = {}
        self._collections: dict[str, tuple[int, ...]] = {}
        self._changed = asyncio.Event()

    def add(self, source: str, collections: Sequence[int]) -> None:
        """A source is about to be stored."""
        self._count += 1
        self._collections[source] = tuple(collections)
        for collection in collections:
            self._numbers.setdefault(collection, {})[source] = self._count

    def remove(self, source: str) -> None:
        """The source is ready, has failed, or was not stored."""
        for collection in self._collections.pop(source, ()):
            del self._numbers[collection][source]
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, collections: Iterable[int], seconds: float) -> None:
        """Wait until the sources that are here now, in these collections, are done.

        Returns after `seconds` in any case; later sources are not waited for.
        """
        asked_for, newest = tuple(collections), self._count
        try:
            async with asyncio.timeout(seconds):
                while self._oldest(asked_for) <= newest:
                    await self._changed.wait()
        except TimeoutError:
            return

    def _oldest(self, collections: tuple[int, ...]) -> int:
        return min(
            (
                next(iter(numbers.values()))
                for collection in collections
                if (numbers := self._numbers.get(collection))
            ),
            default=self._count + 1,
        )
