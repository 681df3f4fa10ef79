"""How a ledger's rows lie in PostgreSQL: small, and updated without their indexes."""

import psycopg
import pytest

from calls import KEY
from ingest_texts import texts
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, ingest
from knowledge_bot.testing import MemoryService
from waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

COUNT = 2000


@pytest.fixture
def connection(postgresql):
    with psycopg.connect(postgresql, autocommit=True) as connection:
        yield connection


def send(address: str, content: str) -> None:
    # Eight at once: what one transaction updates of a page has room on it, however large it gets.
    service = MemoryService(collections=["col_1"])
    with Client(KEY, "https://service.test", transport=service.transport) as client:
        items = texts(COUNT, content)
        report = ingest(client, items, collections="col_1", ledger=Ledger(address), concurrency=8)
    assert report.created == COUNT


def of_items(connection, columns: str) -> tuple[int, ...]:
    """Return some of what PostgreSQL counts of the table, when the runs' sessions have told it."""
    running = (
        "SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, 'knowledge-bot')"
    )
    assert until(lambda: connection.execute(running).fetchone() == (0,)), "a session has not ended"
    found = connection.execute(
        f"SELECT {columns} FROM pg_stat_user_tables WHERE relid = 'kbot_items'::regclass"
    ).fetchone()
    return tuple(found)


def test_a_row_is_written_once_and_small(postgresql, connection):
    send(postgresql, "one")
    assert of_items(connection, "n_tup_ins, n_tup_upd, n_tup_del") == (COUNT, 0, 0)
    ((size,),) = connection.execute("SELECT pg_total_relation_size('kbot_items')").fetchall()
    assert size / COUNT <= 380


def test_a_result_of_a_changed_item_leaves_the_indexes_alone(postgresql, connection):
    send(postgresql, "one")
    send(postgresql, "two")
    updated, in_place = of_items(connection, "n_tup_upd, n_tup_hot_upd")
    assert updated == COUNT
    assert in_place >= 0.95 * updated
