"""The one thread of a run that writes to the ledger, in groups.

Whatever gathers while one transaction is made durable goes into the next, results and claims
together; where that is quick, not all of the claims, so that some are sent while others are
written. An item's result is handed over before the next claim is, so a committed ledger never holds
more claims than requests may be in flight.
"""

import asyncio
import math
import queue
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from knowledge_bot.ingest.ledger.databases import Database
from knowledge_bot.ingest.ledger.entries import LedgerError
from knowledge_bot.ingest.ledger.failures import DATABASE_ERRORS, explained, is_passing
from knowledge_bot.ingest.ledger.owners import HEARTBEAT, LEASE, Owner
from knowledge_bot.ingest.ledger.rows import Replaced, Row, Touch
from knowledge_bot.ingest.ledger.store import Store

# How long a failure that can pass by itself is waited for, and how often it is tried, in seconds.
_PATIENCE = 30.0
_PAUSE = 0.2

# What is handed over at once holds at most this part of all claims that there can be, and while
# transactions take less than so many seconds, none takes more. If one took all, requests would go
# out and come back in step, and loop and disk would wait for each other. Where the disk is slow,
# large groups are what helps.
_PART = 1 / 4
_QUICK = 0.002

# Long enough for the writer to wake up, in seconds; a sleep takes some 50 µs more.
_YIELD = 1e-6


@dataclass
class _Group:
    """What goes into one transaction."""

    claims: list[tuple[Row, asyncio.Future[bool]]] = field(default_factory=list)
    results: list[Row] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    withdrawn: list[Row] = field(default_factory=list)
    touched: list[Touch] = field(default_factory=list)

    def add(self, other: "_Group") -> None:
        """Take in what another group holds."""
        self.claims += other.claims
        self.results += other.results
        self.replaced += other.replaced
        self.withdrawn += other.withdrawn
        self.touched += other.touched

    @property
    def rare(self) -> bool:
        """Whether there is more than claims and results."""
        return bool(self.replaced or self.withdrawn or self.touched)

    def __bool__(self) -> bool:
        return bool(self.claims or self.results or self.rare)


class Writer:
    """Takes what is to be written from an event loop and writes it in a thread of its own.

    Args:
        database: the ledger's database.
        store: its statements.
        owner: who claims.
        loop: the loop in which claims are awaited.
        concurrency: how many claims there can be at once.
    """

    def __init__(
        self,
        database: Database,
        store: Store,
        owner: Owner,
        loop: asyncio.AbstractEventLoop,
        concurrency: int,
    ) -> None:
        self._database, self._store, self._owner, self._loop = database, store, owner, loop
        self._next = _Group()
        self._handed_over: queue.SimpleQueue[_Group | None] = queue.SimpleQueue()
        self._due = False
        self._renewed = 0.0
        self._part = math.ceil(concurrency * _PART)
        self._quick = True
        self._connection: Any = None
        self._thread = threading.Thread(target=self._run, name="ledger writer", daemon=True)
        self.unrecorded: list[Row] = []
        """Results that could not be written; final once `join` has returned."""

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
        if len(self._next.claims) == self._part:
            self._hand_over()
        future: asyncio.Future[bool] = self._loop.create_future()
        self._next.claims.append((row, future))
        self._hand_over_soon()
        return future

    def record(self, row: Row, replaced: Sequence[Replaced] = ()) -> None:
        """Write what came of a claim, with the next group."""
        self._next.results.append(row)
        self._next.replaced.extend(replaced)
        self._hand_over_soon()

    def withdraw(self, claim: Row) -> None:
        """Undo the claim of a new item that was not sent."""
        self._next.withdrawn.append(claim)
        self._hand_over_soon()

    def touch(self, touched: Sequence[Touch]) -> None:
        """Note files whose size or times changed and whose content did not."""
        self._next.touched.extend(touched)
        self._hand_over_soon()

    def end(self) -> None:
        """Take nothing more: what is left is written, and the lease given up."""
        self._hand_over()
        self._handed_over.put(None)

    def join(self) -> None:
        """Wait for the thread to end, which takes an `end`. Blocks."""
        self._thread.join()

    def _hand_over_soon(self) -> None:
        """Hand over once the loop has done what it can do now, and so has more to write."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._due = False
        if self._next:
            self._handed_over.put(self._next)
            self._next = _Group()
            if self._quick:
                # A busy loop gives up the interpreter's lock too briefly for another thread to get
                # it, and all claims would gather until it has nothing left to do.
                time.sleep(_YIELD)

    def _run(self) -> None:
        ended = False
        while not ended:
            group, ended = self._take()
            group.results[:0], self.unrecorded = self.unrecorded, []
            try:
                lost = self._commit(group, leave=ended)
            except LedgerError as error:
                self.unrecorded = group.results
                self._settle(group, error)
            else:
                self._settle(group, lost)
        self._disconnect()

    def _take(self) -> tuple[_Group, bool]:
        """Return what goes into the next transaction, and whether it is the last one.

        It waits for something to write, until the lease is to be renewed.
        """
        most = self._part if self._quick else sys.maxsize
        group = _Group()
        with suppress(queue.Empty):
            while len(group.claims) < most:
                wait = 0.0 if group else HEARTBEAT / 2
                added = self._handed_over.get(block=wait > 0, timeout=wait)
                if added is None:
                    if group:
                        self._handed_over.put(None)  # nothing else comes after it
                    return group, not group
                group.add(added)
        return group, False

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
            except DATABASE_ERRORS as error:
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
        rows = [row for row, _ in group.claims] + group.results
        began = time.time()
        renew = began - self._renewed > HEARTBEAT
        if rows and not (renew or group.rare or leave):
            lost = store.write_alone(connection, rows)
        else:
            with connection.begin():
                if renew and not leave:
                    # First: an owner that was taken for dead is back before its claims.
                    store.renew(connection, self._owner)
                lost = store.write(connection, rows)
                store.supersede(connection, group.replaced)
                store.withdraw(connection, group.withdrawn)
                store.touch(connection, group.touched)
                if leave:
                    store.leave(connection, self._owner)
        if renew:
            self._renewed = began
        self._quick = time.time() - began < _QUICK
        return lost

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()
