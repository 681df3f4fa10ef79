"""Writes the claims and outcomes of a run, many in one transaction."""

import asyncio
from collections.abc import Sequence
from typing import Any

from knowledge_bot.ingest._limiter import Limiter
from knowledge_bot.ingest._schema import LedgerError
from knowledge_bot.ingest._store import Batch, Row, Store

# Seconds that a claim waits for others to be committed with: less than a request takes.
_GATHERING = 0.0005


class LedgerWriter:
    """Writes to the ledger from an event loop, many rows in one transaction.

    Without a ledger all is taken for written.

    Attributes:
        store: the same.
        batch: what is written next.
    """

    def __init__(self, store: Store | None, concurrency: int, limiter: Limiter) -> None:
        self.store, self._limiter = store, limiter
        # While one half is committed the other half is on its way.
        self._group = max(1, concurrency // 2)
        self.batch = Batch()
        self._claims: dict[bytes, asyncio.Future[bool]] = {}
        self._committing: asyncio.Task[None] | None = None
        self._gathered: asyncio.Event | None = None
        self._resting = False

    async def claim(self, claim: Row) -> bool:
        """Claim an item; True once that is durable, False if another run was faster.

        Raises:
            LedgerError: the claim cannot be written, so the item must not be sent.
        """
        if self.store is None:
            return True
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._claims[claim.id] = future
        self.add(claims=[claim])
        return await future

    def release(self, claim: Row) -> None:
        """Undo the claim of an item that was not sent."""
        if claim in self.batch.claims:
            self.batch.claims.remove(claim)
        else:
            self.add(released=[claim.id])

    def add(self, **what: Sequence[Any]) -> None:
        """Let the next transaction write this too, in the fields of a batch."""
        if self.store is None or not any(what.values()):
            return
        for name, several in what.items():
            getattr(self.batch, name).extend(several)
        if self._gathered is None:
            self._commit_soon()
        elif self._is_full:
            self._gathered.set()

    def keep_alive(self) -> None:
        """Renew the lease if it is time."""
        if self.store is not None and self.store.registered and self.store.due:
            self._commit_soon()

    async def rest(self) -> Batch:
        """Return what is left to be written, once nothing is being written."""
        self._resting = True
        if self._gathered is not None:
            self._gathered.set()
        if self._committing is not None:
            await asyncio.wait([self._committing])
        self._resting = False
        rest, self.batch = self.batch, Batch()
        return rest

    def _commit_soon(self) -> None:
        # The task starts after the callbacks that are ready now, so it has more to write.
        if self._committing is None or self._committing.done():
            self._committing = asyncio.get_running_loop().create_task(self._commit())

    @property
    def _is_full(self) -> bool:
        return 0 < min(self._group, self._limiter.in_flight) <= len(self.batch.claims)

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        assert self.store is not None  # noqa: S101 - or there was nothing to write
        while True:
            if not self._is_full:
                self._gathered = asyncio.Event()
                waking = loop.call_later(_GATHERING, self._gathered.set)
                await self._gathered.wait()
                waking.cancel()
                self._gathered = None
            if self._resting:
                return
            batch, self.batch = self.batch, Batch()
            claims, self._claims = self._claims, {}
            try:
                lost = await asyncio.to_thread(self.store.write, batch)
            except BaseException as error:
                self._fail(batch, claims, error)
                if isinstance(error, LedgerError):
                    return
                raise
            for identifier, future in claims.items():
                if not future.done():  # its task was cancelled
                    future.set_result(identifier not in lost)
            if not self.batch:
                return

    def _fail(
        self, batch: Batch, claims: dict[bytes, asyncio.Future[bool]], error: BaseException
    ) -> None:
        """Keep outcomes, to be written later: writing one twice does no harm. No claim is made."""
        for name in ("rows", "released", "superseded", "moved"):
            getattr(self.batch, name)[:0] = getattr(batch, name)
        self.batch.claims = []
        claims, self._claims = claims | self._claims, {}
        for future in claims.values():
            if not future.done():
                future.set_exception(error)
