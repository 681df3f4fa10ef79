"""How long a question waits for the sources that were added before it."""

import asyncio
from collections.abc import Iterable
from typing import Final

# Where more sources are unfinished, many come in at once, and no question waits.
_MOST: Final = 32


class Backlog:
    """The unfinished small sources.

    The interface has no way to ask for a source's status (section 3): a client that adds a source
    and asks about it at once, over this connection or another, relies on the service to wait.
    Nobody else should wait for it. So a question waits for a source only

    - that is a small text or file, not a web page or a long document;
    - in the first seconds after it was accepted;
    - unless so many are unfinished that it is a bulk ingestion, which holds no question.

    Every method belongs to the event loop's thread; nothing here asks the database.
    """

    def __init__(self) -> None:
        self._unfinished: dict[str, tuple[frozenset[int], float]] = {}
        self._changed = asyncio.Event()

    def add(self, source: str, collections: Iterable[int]) -> None:
        """A small source is about to be stored."""
        self._unfinished[source] = frozenset(collections), asyncio.get_running_loop().time()

    def remove(self, source: str) -> None:
        """The source is ready, has failed, was not stored, or takes long after all."""
        self._unfinished.pop(source, None)
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, collections: Iterable[int], seconds: float) -> None:
        """Wait for the sources that are here now, in these collections.

        Each is waited for so many seconds after it was accepted.
        """
        if len(self._unfinished) > _MOST:
            return
        asked_for = {*collections}
        ends = {
            source: accepted + seconds
            for source, (its, accepted) in self._unfinished.items()
            if not its.isdisjoint(asked_for)
        }
        while awaited := ends.keys() & self._unfinished.keys():
            try:
                async with asyncio.timeout_at(max(ends[source] for source in awaited)):
                    await self._changed.wait()
            except TimeoutError:
                return
