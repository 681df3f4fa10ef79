"""How long a question waits for the sources that were added before it."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from typing import Final

# How long a question waits on once another source was accepted after it, in seconds. Who adds one
# and asks about it adds no other meanwhile; many that come in without end are for others to wait
# for. Measured beside two clients that add short texts without end: of 60 texts that were asked
# about at once, 58 to 60 were known.
_GRACE: Final = 0.015

# Of more unfinished sources, the last would not be done before the question gives up.
_MOST: Final = 500


class Backlog:
    """The unfinished small sources of each collection, in the order in which they came.

    The interface has no way to ask for a source's status (section 3): a client that adds a source
    and asks about it at once, over this connection or another, relies on the service to wait.
    Nobody else should wait for it. So a question waits for a source only

    - that is a small text or file, not a web page or a long document;
    - in the first seconds after it was accepted;
    - until the next source is accepted into the same collections, and a moment longer: a bulk
      ingestion holds no question;
    - unless so many are unfinished that it would wait for nothing, as the first question after a
      bulk ingestion would.

    Every method belongs to the event loop's thread; nothing here asks the database, and a question
    to collections without unfinished sources costs a dictionary look-up.
    """

    def __init__(self) -> None:
        self._count = 0
        # For each collection the number of its newest source, and the number and the time of each
        # that is not done.
        self._newest: dict[int, int] = {}
        self._unfinished: dict[int, dict[str, tuple[int, float]]] = {}
        self._collections: dict[str, tuple[int, ...]] = {}
        self._changed = asyncio.Event()

    def add(self, source: str, collections: Sequence[int]) -> None:
        """A small source is about to be stored."""
        self._count += 1
        self._collections[source] = tuple(collections)
        accepted = self._count, asyncio.get_running_loop().time()
        for collection in collections:
            self._newest[collection] = self._count
            self._unfinished.setdefault(collection, {})[source] = accepted
        self._change()

    def remove(self, source: str) -> None:
        """The source is ready, has failed, was not stored, or takes long after all."""
        for collection in self._collections.pop(source, ()):
            del self._unfinished[collection][source]
        self._change()

    async def wait(self, collections: Iterable[int], seconds: float) -> None:
        """Wait for the sources that are here now, in these collections.

        Each is waited for so many seconds after it was accepted.
        """
        asked_for, last = tuple(collections), self._count
        if len(self._collections) > _MOST:
            return
        end, is_followed = math.inf, False
        while accepted := self._accepted(asked_for, last):
            now = asyncio.get_running_loop().time()
            end = min(end, accepted + seconds)
            if not is_followed and any(self._newest.get(one, 0) > last for one in asked_for):
                end, is_followed = min(end, now + _GRACE), True
            try:
                async with asyncio.timeout_at(end):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _accepted(self, collections: tuple[int, ...], last: int) -> float:
        """When the newest unfinished source up to the number `last` was accepted; 0 for none."""
        newest = 0.0
        for collection in collections:
            for number, accepted in reversed(self._unfinished.get(collection, {}).values()):
                if number <= last:
                    newest = max(newest, accepted)
                    break
        return newest

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
