"""The ledger as users know it: where it is, what it holds, how an unknown outcome is settled."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from knowledge_bot.ingest.ledger.entries import (
    Entry,
    Holdings,
    LedgerError,
    State,
    SupersededSource,
)

if TYPE_CHECKING:
    from knowledge_bot.ingest.ledger.databases import Database
    from knowledge_bot.ingest.ledger.store import Store


class Ledger:
    """What was sent to which service and collections under which key.

    Any number of runs, processes and machines may use one ledger at the same time; on several
    machines that takes PostgreSQL. It is made, or opened, by what uses it first. Pickling it takes
    the address along, with the password in it.

    Args:
        address: `sqlite:///kbot.db`, the path of a SQLite file, or `postgresql://…` (extra
            `postgresql`). `repr` and errors show no password.
    """

    def __init__(self, address: str | os.PathLike[str]) -> None:
        self._address = os.fspath(address)
        self._opened: tuple[int, Database] | None = None

    def __repr__(self) -> str:
        try:
            return f"Ledger({self.database().told!r})"
        except LedgerError:  # what was given may hold a password all the same
            return "Ledger(<an address that cannot be used>)"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self._address,)

    def status(self) -> list[Holdings]:
        """Count the items by state, for each service and set of collections.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        from knowledge_bot.ingest.ledger import reading

        with self._reading() as connection:
            return reading.holdings(connection)

    def unknown(self) -> Iterator[Entry]:
        """Yield the items whose outcome is unknown, claims of dead workers included.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        from knowledge_bot.ingest.ledger import reading

        with self._reading() as connection:
            yield from reading.entries(connection, State.UNKNOWN)

    def superseded(self) -> Iterator[SupersededSource]:
        """Yield the sources that newer ones replaced, and that a person may remove.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        from knowledge_bot.ingest.ledger import reading

        with self._reading() as connection:
            yield from reading.superseded_sources(connection)

    def resolve(self, key: str, *, created: bool, source_id: str | None = None) -> Entry:
        """Settle an unknown outcome, after a person looked at the service.

        Args:
            key: the item's key, or the entry's id where several share a key.
            created: whether the service has the item. If not, the next run sends it.
            source_id: the source that was created, where it is known.

        Returns:
            The entry as it is now.

        Raises:
            LedgerError: no such item, several, or one whose outcome is not unknown.
        """
        from knowledge_bot.ingest.ledger import reading

        with self._reading() as connection:
            matches = list(reading.entries(connection, None, key))
            entry = _only(matches, key)
        with self.connected(reading=False) as connection, connection.begin():
            row = reading.row(connection, entry.id)
            if row is None or row.state != State.UNKNOWN:
                raise LedgerError(f"{key!r} is {row.state if row else 'gone'}, not unknown")
            reading.settle(connection, self.store(), row, created=created, source_id=source_id)
        with self._reading() as connection:
            return _only(list(reading.entries(connection, None, entry.id)), key)

    def exists(self) -> bool:
        """Tell whether there is a ledger yet, without making one.

        Raises:
            LedgerError: it cannot be read, or there is something else, or a ledger of a newer
                version.
        """
        from knowledge_bot.ingest.ledger.schema import check

        database = self.database()
        try:
            if database.file is not None and not database.file.exists():
                return False
        except OSError as error:
            raise LedgerError(
                f"the ledger {database.told} cannot be read: {error.strerror}"
            ) from error
        with self.connected() as connection, connection.begin():
            return check(connection, database.told, shared=database.shared)

    def prepare(self) -> None:
        """Make the ledger where there is none yet.

        Raises:
            LedgerError: it cannot be made, or there is something else.
        """
        from knowledge_bot.ingest.ledger.schema import check, create

        if self.exists():
            return
        database = self.database()
        with self.reporting("made"):
            database.use_write_ahead_log()
        with self.connected(reading=False) as connection, connection.begin():
            database.lock_for_creation(connection)
            if not check(connection, database.told, shared=database.shared):
                create(connection)

    @contextmanager
    def connected(self, *, reading: bool = True) -> Iterator[Any]:
        """Open a connection; database errors inside become `LedgerError`.

        Args:
            reading: whether its transactions only read, and so wait for no writer.

        Raises:
            LedgerError: the ledger cannot be read, or written.
        """
        with (
            self.reporting("read" if reading else "written"),
            self.database().engine.connect() as connection,
        ):
            yield connection.execution_options(kbot_reading=reading)

    @contextmanager
    def reporting(self, what: str) -> Iterator[None]:
        """Turn database errors inside into `LedgerError`.

        Args:
            what: what is tried, as in "the ledger cannot be read".
        """
        from knowledge_bot.ingest.ledger.failures import DATABASE_ERRORS, explained

        try:
            yield
        except DATABASE_ERRORS as error:
            raise explained(error, self.database(), what) from error

    def bury(self) -> None:
        """Turn the claims of dead workers into unknown outcomes.

        Raises:
            LedgerError: the ledger cannot be written.
        """
        with self.connected(reading=False) as connection, connection.begin():
            self.store().bury(connection)

    def database(self) -> "Database":
        """Return the database, opened once per process: connections do not survive a fork.

        Raises:
            LedgerError: the address is none, or its driver is not installed.
        """
        from knowledge_bot.ingest.ledger.databases import database

        if self._opened is None or self._opened[0] != os.getpid():
            self._opened = os.getpid(), database(self._address)
        return self._opened[1]

    def store(self) -> "Store":
        """Return the statements for this ledger's database."""
        from knowledge_bot.ingest.ledger.store import Store

        return Store(self.database())

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        if not self.exists():
            raise LedgerError(f"there is no ledger at {self.database().told}")
        self.bury()
        with self.connected() as connection, connection.begin():
            yield connection


def _only(matches: list[Entry], key: str) -> Entry:
    if not matches:
        raise LedgerError(f"the ledger knows no item with the key {key!r}")
    if len(matches) > 1:
        told = ", ".join(f"{entry.id} ({', '.join(entry.collections)})" for entry in matches)
        raise LedgerError(f"several items have the key {key!r}; name one by its id: {told}")
    return matches[0]
