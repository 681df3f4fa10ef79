"""What a run asks of whoever keeps the book: the service itself, or a ledger.

A keeper compares items with what the book has, says how each is sent, and writes down what became
of it. So a run needs to know neither. Keepers are used in the event loop's thread.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from knowledge_bot.errors import KnowledgeBotError
from knowledge_bot.ingest._jobs import Job, Planned
from knowledge_bot.ingest._pressure import Decision
from knowledge_bot.ingest._report import Kind, Stop


class StopError(Exception):
    """A keeper cannot go on, and so the run ends. `str` says why, as a detail of its stop."""

    def __init__(self, stop: Any, reason: str) -> None:
        super().__init__(reason)
        self.stop = stop


def would_move(origin: str, there: Iterable[str], collections: Iterable[str]) -> StopError | None:
    """Return why a run must not take an origin's sources out of the collections that they are in.

    Two runs that feed one place into a collection each, under one name, would move them to and fro.
    """
    left = sorted(set(there).difference(collections))
    if not left:
        return None
    return StopError(
        Stop.OVERLAP,
        f"what {origin!r} holds is in {', '.join(left)}, and would be in "
        f"{', '.join(sorted(collections))} instead. If another run feeds it there, give this one "
        "a name of its own (`origin`, `--origin`); or say that it is to be moved: anyway=True "
        "(`--anyway`). Nothing was sent",
    )


class Keeper(Protocol):
    """Keeps the book of an origin for one run.

    Attributes:
        repeatable: whether an item may be sent again, whatever became of it the first time.
        replaces: whether a changed item takes the place of its source.
        note: what is remembered of the origin as a whole.
    """

    repeatable: bool
    replaces: bool
    note: str | None

    async def open(self) -> None:
        """Open the book.

        Raises:
            LedgerError: it cannot be opened.
            StopError: the run has to end.
            KnowledgeBotError: the service cannot be asked.
        """

    async def plan(self, items: Sequence[object]) -> Planned:
        """Compare items, and listings of files, with the book; errors are those of `open`."""

    async def more(self, incomplete: str) -> Planned | None:
        """Return what else there is to do once all items were planned; None for nothing.

        It is asked again when that is done.

        Args:
            incomplete: why not all items were seen; empty if they were.
        """

    async def claim(self, job: Job) -> bool:
        """Write down that an item is about to be sent; False if it must not be."""

    def request(self, job: Job) -> tuple[str, dict[str, Any]]:
        """Return the client's method that sends an item, and its arguments."""

    async def sent(self, job: Job, answer: Any) -> None:
        """Write down and count what the service answered."""

    async def judged(self, job: Job, error: KnowledgeBotError) -> Decision | None:
        """Decide about an error that has a meaning of its own here; None for others."""

    def failed(self, job: Job, kind: Kind | None, error: str, *, again: bool) -> None:
        """Write down and count that an item was not sent, or may not have been.

        Args:
            job: the item.
            kind: what became of it; None where the keeper finds that out by itself.
            error: why.
            again: whether it is sent again in a while, so that nothing is to be counted.
        """

    async def finish(self, incomplete: str) -> None:
        """Look back once everything is sent: what is gone, what is ready, what is there at all."""

    async def close(self) -> None:
        """Write what is left, and give up the book, however the run ended."""

    def tick(self) -> None:
        """Do what is due; called a few times a second."""

    def give_up(self) -> None:
        """Wait for nothing any more."""

    def recall(self, key: str) -> str | None:
        """Return the version of the item that was last sent under a key."""

    def entries(self) -> Iterable[tuple[str, str | None]]:
        """Return key and version of each item of the origin."""
