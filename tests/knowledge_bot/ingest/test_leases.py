"""What becomes of the claims of a run that died."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from ingest_texts import texts
from knowledge_bot.ingest import Ledger
from knowledge_bot.ingest._schema import DIED, dead_runs
from knowledge_bot.ingest._store import expire

CLAIM = (
    "INSERT INTO kbot_claims (id, run, scope, key, kind, pending, idempotency_key, claimed_at) "
    "VALUES (?, ?, ?, ?, 'text', ?, ?, ?)"
)


@pytest.fixture
def connection(send, ledger_address):
    """A ledger of one item, which a run that is gone was sending again, with a new one."""
    send(texts(1), ledger=Ledger(ledger_address))
    with contextlib.closing(Ledger(ledger_address).database.connect(reading=False)) as opened:
        ((identifier, scope),) = opened.rows("SELECT id, scope FROM kbot_items")
        opened.run(CLAIM, bytes(identifier), 7, scope, "t0", b"content", "key of t0", 10)
        opened.run(CLAIM, b"new", 7, scope, "t1", b"other", None, 11)
        yield opened


def test_the_claims_of_a_dead_run_become_unknown(connection):
    assert dead_runs(connection) == {7}
    before = connection.rows("SELECT digest, source_id FROM kbot_items")
    expire(connection)
    assert connection.rows("SELECT count(*) FROM kbot_claims") == [(0,)]
    columns = "key, state, pending, run, revision, attempts, error, idempotency_key, source_name"
    old, new = connection.rows(f"SELECT {columns} FROM kbot_items ORDER BY key")
    assert old[:2] == ("t0", "unknown")
    assert bytes(old[2]) == b"content"
    assert old[3:] == (7, old[4], 2, DIED, "key of t0", "t0")
    assert new[:2] == ("t1", "unknown")
    assert new[3:] == (7, 1, 1, DIED, None, None)
    assert connection.rows("SELECT digest, source_id FROM kbot_items ORDER BY key")[:1] == before


def test_many_who_find_a_dead_run_expire_it_once(connection, ledger_address):
    def find(_) -> None:
        with contextlib.closing(Ledger(ledger_address).database.connect(reading=False)) as other:
            expire(other)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(find, range(8)))
    attempts = connection.rows("SELECT attempts FROM kbot_items ORDER BY key")
    assert attempts == [(2,), (1,)]
