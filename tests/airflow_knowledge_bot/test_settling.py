"""Items of unknown outcome, settled from a DAG's form, and the ledger's own connection."""

import contextlib
import json
import sqlite3

import pytest

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.hooks.ledger import KnowledgeBotLedgerHook
from airflow_knowledge_bot.operators import KnowledgeBotResolveOperator
from answering_bot import URL
from calls import KEY
from knowledge_bot import Client, ConfigurationError
from knowledge_bot.ingest import Ledger, LedgerError, Text, ingest


@pytest.fixture
def unknown(service, ledger):
    """A ledger with three items whose answers were lost, and one that is created."""
    service.lose_next_answer(times=3)
    items = [Text(name=name, content=name) for name in ("a", "b", "c", "fine")]
    with Client(KEY, URL) as client:
        report = ingest(client, items, collections="col_1", ledger=Ledger(ledger), concurrency=1)
    assert (report.unknown, report.created) == (3, 1)
    return Ledger(ledger)


def states(ledger: Ledger) -> dict[str, str]:
    return {entry.key: str(entry.state) for entry in ledger.entries()}


def settle(**given):
    return KnowledgeBotResolveOperator(task_id="settle", ledger_conn_id="ledger", **given)


def test_what_was_settled_so_already_is_no_mistake_and_what_is_not_unknown_is_named(unknown):
    assert settle(outcome="created", items="a\tcol_1\ta\n\nb\n").execute({})["settled"] == 2
    again = settle(outcome="created", items=["a", "b"]).execute({})
    assert (again["settled"], again["left"]) == (0, 1)
    with pytest.raises(AirflowFailException, match="1 items were settled, and 2 could not be") as e:
        settle(outcome="not created", items=["a", "c", "nowhere"]).execute({})
    assert "'a' is created, not unknown" in str(e.value)
    assert "no item with the key 'nowhere'" in str(e.value)
    assert ".." not in str(e.value)
    assert states(unknown)["c"] == "refused"


def test_what_becomes_unknown_meanwhile_is_left_and_takes_nothing_from_what_was_settled(unknown):
    more = [Text(name=name, content=name) for name in ("fine 2", "fine 3")]
    with Client(KEY, URL) as client:
        ingest(client, more, collections="col_1", ledger=unknown)
    with contextlib.closing(sqlite3.connect(unknown.database.file)) as database:
        lost = "UPDATE kbot_items SET state = 'unknown' WHERE key LIKE 'fine%'"
        database.execute(
            f"CREATE TRIGGER meanwhile AFTER UPDATE ON kbot_items WHEN NEW.key = 'a' BEGIN {lost}; "
            "END"
        )
    told = settle(outcome="created", items=["a"]).execute({})
    assert (told["unknown"], told["settled"], told["left"]) == (3, 1, 5)


def test_a_database_that_fails_is_left_to_airflows_retries(unknown):
    with contextlib.closing(sqlite3.connect(unknown.database.file)) as database:
        fails = "BEGIN SELECT RAISE(ABORT, 'no disk'); END"
        database.execute(f"CREATE TRIGGER full BEFORE INSERT ON kbot_items {fails}")
    with pytest.raises(LedgerError, match="no disk"):
        settle(outcome="created", items=["a"]).execute({})
    assert states(unknown)["a"] == "unknown"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"outcome": "maybe"}, "'outcome' is 'created', 'not created', or empty .* not 'maybe'"),
        ({"outcome": None}, "'outcome' is 'created'"),
        ({"outcome": "created"}, "Give one of the task's parameters"),
        ({"outcome": "created", "items": ["a"], "everything": True}, "to say what is settled"),
        ({"items": ["a"]}, "'outcome' is empty, so nothing was settled"),
        ({"outcome": "created", "items": [1]}, "'items' gives keys or ids"),
        ({"outcome": "created", "everything": "all"}, "'everything' is true or false, not 'all'"),
    ],
)
def test_what_cannot_be_meant_is_a_sentence_and_settles_nothing(unknown, given, expected):
    with pytest.raises(AirflowFailException, match=expected):
        settle(**given).execute({})
    assert list(states(unknown).values()).count("unknown") == 3


def test_a_ledger_connection_that_a_template_made_nothing_of_is_reported():
    task = KnowledgeBotResolveOperator(task_id="settle", ledger_conn_id=" ")
    with pytest.raises(AirflowFailException, match="'ledger_conn_id' is empty once it is rendered"):
        task.execute({})


def test_without_a_ledger_nothing_is_unknown(ledger):
    assert settle().execute({}) == {"unknown": 0, "settled": 0, "left": 0, "items": []}
    assert not ledger.exists()


# The connection -----------------------------------------------------------------------------------


@pytest.fixture
def connection(monkeypatch):
    def put(**parts):
        parts = {"conn_type": "knowledge_bot_ledger"} | parts
        monkeypatch.setenv("AIRFLOW_CONN_KEPT", json.dumps(parts))

    return put


def test_a_database_makes_it_postgresql_and_a_path_alone_a_file(connection):
    connection(host="/srv/ledger.db")
    assert str(KnowledgeBotLedgerHook("kept").get_conn()) == "/srv/ledger.db"
    connection(host="db.example", schema="ledgers", login="me", password="p@ss", port=5433)
    ledger = KnowledgeBotLedgerHook("kept").get_conn()
    assert ledger.database.url == "postgresql://me:p%40ss@db.example:5433/ledgers"
    assert "p@ss" not in repr(ledger)
    connection(schema="ledgers")
    with pytest.raises(ConfigurationError, match="'knowledge_bot_ledger'"):
        KnowledgeBotLedgerHook("kept").get_conn()


def test_the_test_button_reads_postgresql(connection):
    connection(host="127.0.0.1", port=1, schema="ledgers", login="me", password="secret-of-it")
    ok, text = KnowledgeBotLedgerHook("kept").test_connection()
    assert not ok
    assert "secret-of-it" not in text
