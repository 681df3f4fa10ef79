"""The SQLite file: one thread that writes, and a reading connection for each thread."""

import contextlib
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from knowledge_bot_service.config.refusals import log_storage_error, storage_error
from knowledge_bot_service.store.schema import prepare

P = ParamSpec("P")
T = TypeVar("T")
Operation = Callable[[sqlite3.Connection], T]

# A transaction takes at most this many waiting operations: enough to share one fsync between all
# clients, few enough that none of them waits for long.
_GROUP: Final = 256

# And background operations up to this weight together. Measured with passages, each of weight 1:
# more of them make the index no faster.
_WEIGHT: Final = 100

# How long a connection waits for another one's lock, and for readers when the log is to be emptied,
# in milliseconds.
_PATIENCE: Final = 30_000
_LOG_PATIENCE: Final = 100


class DatabaseClosedError(Exception):
    """The service is stopping; nothing was written."""


class ServiceDatabase:
    """One SQLite file with many readers and one writer.

    Writes go through one thread, which puts what waits into one transaction (group commit): eight
    clients share one fsync, and none waits for SQLite's unfair lock. A write is durable when its
    future is done (`synchronous=FULL`: power loss included).

    Args:
        path: the file; made with its tables when it is not there. Its owner alone can read it.

    Raises:
        FolderError: the file is another program's database, or of another version.
        sqlite3.Error: the file cannot be read or written, or is no database.
        OSError: the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch(mode=0o600)
        # SQLite gives its other files the permissions of this one.
        for file in path.parent.glob(f"{path.name}*"):
            file.chmod(0o600)
        self._clients: deque[_Write] = deque()
        self._background: deque[_Write] = deque()
        self._closed = False
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._readers: dict[threading.Thread, sqlite3.Connection] = {}
        writer = self._connect()
        prepare(writer)
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA synchronous = FULL")
        # A deleted text must not stay on the disk: freed pages are overwritten.
        writer.execute("PRAGMA secure_delete = ON")
        self._thread = threading.Thread(
            target=self._write_all, args=(writer,), name="database-writer", daemon=True
        )
        self._thread.start()

    def write(self, operation: Operation[T], *, background: int = 0) -> Future[T]:
        """Run `operation` in the writer's next transaction.

        Args:
            operation: called with the writing connection; its own error undoes only its own work.
            background: above 0, clients go first, but one such operation comes after each of their
                transactions; how many rows it writes.

        Returns:
            A future that is done when the work is durable, with what `operation` returned, or with
            the error that it or the commit raised: a StorageError where the disk or the file is why
            nothing was written.

        Raises:
            DatabaseClosedError: `close` was called.
        """
        write = _Write(operation, background)
        with self._changed:
            if self._closed:
                raise DatabaseClosedError("the service is stopping")
            (self._background if background else self._clients).append(write)
            self._changed.notify()
        return write.future

    def run(
        self,
        operation: Callable[Concatenate[sqlite3.Connection, P], T],
        *values: P.args,
        **more: P.kwargs,
    ) -> T:
        """Write with these values, and wait until that is durable; errors: `write`, its future."""
        return self.write(lambda connection: operation(connection, *values, **more)).result()

    def reader(self) -> sqlite3.Connection:
        """The calling thread's own connection, for reading."""
        thread = threading.current_thread()
        connection = self._readers.get(thread)
        if connection is None:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            with self._lock:
                self._close_abandoned()
                self._readers[thread] = connection
        return connection

    def empty_log(self) -> bool:
        """Empty the write-ahead log, which keeps what stood in the database before the last writes.

        Returns:
            Whether it is empty; not while somebody reads what it holds, as a backup does.

        Raises:
            sqlite3.Error: the disk takes nothing.
        """
        connection = self.reader()
        # Writers wait for it in the meantime.
        connection.execute(f"PRAGMA busy_timeout = {_LOG_PATIENCE}")
        try:
            is_busy: int = connection.execute("PRAGMA wal_checkpoint (TRUNCATE)").fetchone()[0]
        finally:
            connection.execute(f"PRAGMA busy_timeout = {_PATIENCE}")
        return not is_busy

    def close(self) -> None:
        """Finish the writes that wait, then close every connection."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify()
        self._thread.join()
        for connection in self._readers.values():
            connection.close()

    def _close_abandoned(self) -> None:
        # Request threads come and go with the load; each would leave open files behind.
        for thread in [thread for thread in self._readers if not thread.is_alive()]:
            self._readers.pop(thread).close()

    def _connect(self) -> sqlite3.Connection:
        # Threads never share a connection at the same time; `close` is called from another thread.
        connection = sqlite3.connect(
            self._path, isolation_level=None, timeout=_PATIENCE / 1000, check_same_thread=False
        )
        connection.row_factory = sqlite3.Row
        return connection

    def _write_all(self, connection: sqlite3.Connection) -> None:
        is_backgrounds_turn = False
        while first := self._first(background_first=is_backgrounds_turn):
            is_backgrounds_turn = not first.background
            self._commit(connection, first, self._following(first))
        connection.close()

    def _first(self, *, background_first: bool) -> "_Write | None":
        """Wait for the first write of a transaction; None when there will be none."""
        with self._changed:
            while not (self._clients or self._background):
                if self._closed:
                    return None
                self._changed.wait()
            is_background = self._background and (background_first or not self._clients)
            return (self._background if is_background else self._clients).popleft()

    def _following(self, first: "_Write") -> Iterator["_Write"]:
        """The other writes of a transaction, each taken when the one before it is through.

        A client's that comes in the meantime joins, and ends the background work: it waits for one
        operation of that at most.
        """
        count, weight, has_client = 1, first.background, not first.background
        while count < _GROUP:
            with self._lock:
                if self._clients:
                    write, has_client = self._clients.popleft(), True
                elif self._background and not has_client and weight < _WEIGHT:
                    write = self._background.popleft()
                else:
                    return
            count, weight = count + 1, weight + write.background
            yield write

    def _commit(
        self, connection: sqlite3.Connection, first: "_Write", following: Iterable["_Write"]
    ) -> None:
        group = [first]
        failed: BaseException | None = None
        try:
            connection.execute("BEGIN IMMEDIATE")
            first.run(connection)
            for write in following:
                group.append(write)
                write.run(connection)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            failed = error
            with contextlib.suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        # An operation that met a full disk may have ended the transaction of all.
        found = filter(None, (failed, *(write.error for write in group)))
        errors = [storage_error(error) for error in found]
        trouble = next((error for error in errors if error is not None), None)
        if trouble is not None:
            log_storage_error(trouble, self._path)
        for write in group:
            if write.error is not None:
                write.error = storage_error(write.error) or write.error
            if failed is not None:
                write.error = write.error or trouble or failed
            write.settle()


class _Write:
    def __init__(self, operation: Operation[Any], background: int) -> None:
        self.operation = operation
        self.background = background
        self.future: Future[Any] = Future()
        # A client that hangs up cancels its wait, not the write.
        self.future.set_running_or_notify_cancel()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        connection.execute("SAVEPOINT operation")
        try:
            self.result = self.operation(connection)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the future
            self.error = error
            connection.execute("ROLLBACK TO operation")
        connection.execute("RELEASE operation")

    def settle(self) -> None:
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


def new_id(prefix: str) -> str:
    """A fresh id with the documented prefix of its kind (interface section 2), such as `src_`."""
    return prefix + secrets.token_hex(12)


def now() -> int:
    """The time in milliseconds since 1970, as `created_at` carries it."""
    return time.time_ns() // 1_000_000


@contextlib.contextmanager
def one_state(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Make all reads of the block see the database as it is at the first one."""
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        connection.execute("ROLLBACK")
