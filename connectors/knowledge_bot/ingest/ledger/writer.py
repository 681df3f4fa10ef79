"""The one thread of a run that writes to the ledger, in groups.

Whatever gathers while one transaction is made durable goes into the next, results and claims
together. An item's result is handed over before the next claim is, so a committed ledger never
holds more claims than requests may be in flight.
"""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from knowledge_bot.ingest.ledger.databases import Database
from knowledge_bot.ingest.ledger.entries import LedgerError
from knowledge_bot.ingest.ledger.failures import explained, is_passing
from knowledge_bot.ingest.ledger.owners import HEARTBEAT, LEASE, Owner
from knowledge_bot.ingest.ledger.rows import Replaced, Row, Touch
from knowledge_bot.ingest.ledger.store import Store

# How long a failure that can pass by itself is waited for, and how often it is tried, in seconds.
_PATIENCE = 30.0
_PAUSE = 0.2


@dataclass
class _Group:
    """What goes into one transaction."""

    claims: list[tuple[Row, asyncio.Future[bool]]] = field(default_factory=list)
    results: list[Row] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    withdrawn: list[Row] = field(default_factory=list)
    touched: list[Touch] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any((self.claims, self.results, self.replaced, self.withdrawn, self.touched))


class Writer:
    """Takes what is to be written from an event loop and writes it in a thread of its own.

    Args:
        database: the ledger's database.
        store: its statements.
        owner: who claims.
        loop: the loop in which claims are awaited.
    """

    def __init__(
        self, database: Database, store: Store, owner: Owner, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._database, self._store, self._owner, self._loop = database, store, owner, loop
        self._changed = threading.Condition()
        self._next = _Group()
        self._closing = False
        self._waking = False
        self._renewed = 0.0
        self._connection: Any = None
        self._thread = threading.Thread(target=self._run, name="ledger writer", daemon=True)
        self.unrecorded: list[Row] = []
        """Results that could not be written; final once `close` has returned."""

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    @property
    def lapsed(self) -> bool:
        """Whether the lease may have run out unnoticed, such as while the machine slept."""
        return time.time() - self._renewed > LEASE / 2

    def claim(self, row: Row) -> asyncio.Future[bool]:
        """Claim an item; True when the claim is durable, False where another worker was faster.

        The future raises `LedgerError` where nothing can be written.
        """
        future: asyncio.Future[bool] = self._loop.create_future()
        with self._changed:
            self._next.claims.append((row, future))
            self._wake_soon()
        return future

    def record(self, row: Row, replaced: Sequence[Replaced] = ()) -> None:
        """Write what came of a claim, with the next group."""
        with self._changed:
            self._next.results.append(row)
            self._next.replaced.extend(replaced)
            self._wake_soon()

    def withdraw(self, claim: Row) -> None:
        """Undo the claim of a new item that was not sent."""
        with self._changed:
            self._next.withdrawn.append(claim)
            self._wake_soon()

    def touch(self, touched: Sequence[Touch]) -> None:
        """Note files whose size or times changed and whose content did not."""
        with self._changed:
            self._next.touched.extend(touched)
            self._wake_soon()

    def close(self) -> None:
        """Write what is left, give up the lease, and end the thread. Blocks."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _wake_soon(self) -> None:
        """Wake the thread once the loop has done what it can do now, and so with more to write."""
        if not self._waking:
            self._waking = True
            self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        with self._changed:
            self._waking = False
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._next and not self._closing:
                    self._changed.wait(HEARTBEAT / 2)
                group, self._next = self._next, _Group()
                closing = self._closing and not group
            group.results[:0], self.unrecorded = self.unrecorded, []
            try:
                lost = self._commit(group, leave=closing)
            except LedgerError as error:
                self.unrecorded = group.results
                self._settle(group, error)
            else:
                self._settle(group, lost)
            if closing:
                self._disconnect()
                return

    def _settle(self, group: _Group, outcome: set[str] | LedgerError) -> None:
        def settle() -> None:
            for row, future in group.claims:
                if future.done():  # its task was cancelled
                    continue
                if isinstance(outcome, LedgerError):
                    future.set_exception(outcome)
                else:
                    future.set_result(row.id not in outcome)

        # One call for the whole group: waking the loop costs a system call. The loop may be gone,
        # when a second Ctrl-C ended it.
        if group.claims and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(settle)

    def _commit(self, group: _Group, *, leave: bool) -> set[str]:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return self._transaction(group, leave=leave)
            except sa.exc.DBAPIError as error:
                self._disconnect()
                if not is_passing(error) or time.monotonic() > deadline:
                    raise explained(error, self._database, "written") from error
                time.sleep(_PAUSE)
            except Exception as error:  # a dead thread would let every claim wait for ever
                self._disconnect()
                raise LedgerError(
                    f"the ledger {self._database.told} cannot be written: {error!r}"
                ) from error

    def _transaction(self, group: _Group, *, leave: bool) -> set[str]:
        if self._connection is None:
            self._connection = self._database.engine.connect()
        connection, store = self._connection, self._store
        now = time.time()
        with connection.begin():
            if now - self._renewed > HEARTBEAT and not leave:
                # First: an owner that was taken for dead is back before its claims.
                store.renew(connection, self._owner)
            lost = store.write(connection, [row for row, _ in group.claims] + group.results)
            store.supersede(connection, group.replaced)
            store.withdraw(connection, group.withdrawn)
            store.touch(connection, group.touched)
            if leave:
                store.leave(connection, self._owner)
        if now - self._renewed > HEARTBEAT:
            self._renewed = now
        return lost

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()
