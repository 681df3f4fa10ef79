"""What a claim and its outcome leave of an item's row, and the claims of a run that died."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from ingest_texts import texts
from knowledge_bot.ingest import Ledger
from knowledge_bot.ingest._schema import dead_runs
from knowledge_bot.ingest._statements import DIED
from knowledge_bot.ingest._store import NO_ROW, State, expire

CLAIM = (
    "INSERT INTO kbot_claims (id, run, origin, collections, key, kind, pending, idempotency_key, "
    "claimed_at) VALUES (?, ?, ?, 1, ?, 'text', ?, ?, ?)"
)


BEFORE = NO_ROW._replace(
    key="k",
    name="old",
    state=State.CREATED,
    digest=b"one",
    version="1",
    source_id="src_1",
    generation=3,
    attempts=2,
    error="it could not be read",
    gone_at=1,
    gone_reason="missing",
)
CLAIM_OF_IT = {"name": "new", "pending": b"two", "idempotency_key": "a key", "run": 7}
CLAIMED = BEFORE.claimed(**CLAIM_OF_IT)


def changes(before, after) -> dict[str, object]:
    """What differs in a row, but for the time."""
    pairs = zip(before._fields, before, after, strict=True)
    return {name: new for name, old, new in pairs if new != old and name != "updated_at"}


def test_a_claim_counts_and_keeps_what_the_service_has():
    gone = {"error": None, "gone_at": None, "gone_reason": None}
    counted = {"state": State.CLAIMED, "generation": 4, "attempts": 3, "source_name": "old"}
    assert changes(BEFORE, CLAIMED) == {**CLAIM_OF_IT, **gone, **counted}
    assert NO_ROW.claimed(name="new").source_name is None


def test_an_outcome_is_the_same_whoever_finds_it_out():
    created = {
        "state": State.CREATED,
        "digest": b"two",
        "pending": None,
        "version": None,
        "source_id": "src_2",
        "source_name": None,
        "idempotency_key": None,
    }
    assert changes(CLAIMED, CLAIMED.settled(State.CREATED, source_id="src_2")) == created
    refused = {"state": State.REFUSED, "idempotency_key": None, "error": "no"}
    assert changes(CLAIMED, CLAIMED.settled(State.REFUSED, error="no")) == refused
    unknown = CLAIMED.settled(State.UNKNOWN, error="lost")
    assert changes(CLAIMED, unknown) == {"state": State.UNKNOWN, "error": "lost"}
    # Found out later, it is another version of the row.
    later = unknown.settled(State.CREATED, source_id="src_2")
    assert changes(CLAIMED, later) == {**created, "generation": 5}


@pytest.fixture
def connection(send, ledger_address):
    """A ledger of one item, which a run that is gone was sending again, with a new one."""
    send(texts(1), ledger=Ledger(ledger_address))
    with contextlib.closing(Ledger(ledger_address).database.connect(reading=False)) as opened:
        ((identifier, origin),) = opened.rows("SELECT id, origin FROM kbot_items")
        opened.run(CLAIM, bytes(identifier), 7, origin, "t0", b"content", "key of t0", 10)
        opened.run(CLAIM, b"new", 7, origin, "t1", b"other", None, 11)
        yield opened


def test_the_claims_of_a_dead_run_become_unknown(connection):
    assert dead_runs(connection) == {7}
    before = connection.rows("SELECT digest, source_id FROM kbot_items")
    expire(connection)
    assert connection.rows("SELECT count(*) FROM kbot_claims") == [(0,)]
    columns = "key, state, pending, run, generation, attempts, error, idempotency_key, source_name"
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
