"""A ledger in PostgreSQL behind a connection pooler."""

from collections.abc import Callable

import pytest

from ingest_texts import texts
from knowledge_bot.ingest import Ledger

PREPARED = "SELECT count(*) FROM pg_prepared_statements"


@pytest.fixture
def pooled(postgresql: str, pooler: Callable[[str], str]) -> str:
    """The address of a PostgreSQL behind a pooler."""
    return pooler(postgresql)


@pytest.mark.parametrize(("address", "prepares"), [("postgresql", True), ("pooled", False)])
def test_nothing_is_prepared_where_a_pooler_stands_between(
    request, address, prepares, send, service
):
    ledger = Ledger(request.getfixturevalue(address))
    assert send(texts(20), ledger=ledger).created == 20
    connection = ledger.database.open(reading=False)
    assert connection is not None
    for _ in range(10):
        connection.rows("SELECT 1")
    assert bool(connection.rows(PREPARED)[0][0]) is prepares
    connection.close()
