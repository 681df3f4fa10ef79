"""What a run asks its ledger before it decides about items."""

from collections.abc import Sequence
from typing import Any

from knowledge_bot.ingest.ledger.entries import State
from knowledge_bot.ingest.ledger.ledger import Ledger
from knowledge_bot.ingest.ledger.rows import Row


class Lookups:
    """Looks rows up over one connection; used by one thread at a time.

    Args:
        ledger: a ledger that is there.
        owner: the id of the run, whose own claims are no surprise.
        bury: whether claims of workers that died may be turned into unknown outcomes.
    """

    def __init__(self, ledger: Ledger, owner: str, *, bury: bool) -> None:
        self._ledger, self._owner, self._bury = ledger, owner, bury
        self._store = ledger.store()
        self._connection: Any = None

    def rows(self, ids: Sequence[str]) -> dict[str, Row]:
        """Return the rows of these ids.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        if not ids:
            return {}
        with self._ledger.reporting("read"):
            rows = self._read(ids)
            owners = {row.owner for row in rows.values() if row.state == State.CLAIMED}
            owners.discard(self._owner)
            if owners and self._bury and self._any_dead(owners):
                self._ledger.bury()
                rows = self._read(ids)
        return rows

    def signatures(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the signatures of those files that the service has as they were.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        if not ids:
            return {}
        with self._ledger.reporting("read"):
            connection = self._connected()
            with connection.begin():
                return self._store.signatures(connection, ids)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def _read(self, ids: Sequence[str]) -> dict[str, Row]:
        connection = self._connected()
        with connection.begin():
            return self._store.lookup(connection, ids)

    def _any_dead(self, owners: set[str]) -> bool:
        connection = self._connected()
        with connection.begin():
            return self._store.any_dead(connection, owners)

    def _connected(self) -> Any:
        if self._connection is None:
            engine = self._ledger.database().engine
            self._connection = engine.connect().execution_options(kbot_reading=True)
        return self._connection
