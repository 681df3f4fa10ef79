"""What a person asks a ledger, and settles: read, resolve, forget, export."""

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

import psycopg
import pytest

from ingest_texts import texts
from knowledge_bot.ingest import Ledger, LedgerError, Text
from scripted_server import reset

pytestmark = pytest.mark.timeout(60)

CLAIMED_BY_THE_DEAD = "UPDATE kbot_items SET state = 'claimed', run = 7 WHERE key = 't1'"


@pytest.fixture
def ledger(ledger_address: str) -> Ledger:
    return Ledger(ledger_address)


@pytest.fixture
def filled(filled_with, ledger):
    return filled_with(ledger)


def seen(ledger: Ledger) -> dict[str, list[str]]:
    return {
        "unknown": [entry.key for entry in ledger.unknown()],
        "refused": [entry.key for entry in ledger.entries("refused")],
        "gone": [entry.key for entry in ledger.gone()],
        "superseded": [source.key for source in ledger.superseded()],
        "all": [entry.key for entry in ledger.entries()],
        "counts": [list(holding[2:]) for holding in ledger.status()],
    }


SEEN = {
    "unknown": ["lost"],
    "refused": ["bad"],
    "gone": ["left"],
    "superseded": ["t1"],
    "all": ["bad", "left", "lost", "t0", "t1"],
    "counts": [[3, 0, 1, 1, 1]],
}


# Reading.


def test_a_person_sees_what_is_there_and_what_is_not(filled):
    assert seen(filled) == SEEN


def test_an_entry_holds_what_is_known_of_an_item(filled, service):
    entries = {entry.key: entry for entry in filled.entries()}
    assert entries["t1"].source_id == "src_4"
    assert entries["t1"].attempts == 2
    assert (entries["bad"].state, entries["bad"].source_id) == ("refused", None)
    assert "not so" in entries["bad"].error
    assert entries["left"].gone_at is not None
    assert entries["t0"].service == f"{service.url}/public/v1"
    (old,) = filled.superseded()
    assert (old.source_id, old.replaced_by) == ("src_2", "src_4")


def test_reading_waits_for_no_writer_and_writes_nothing(filled):
    with contextlib.closing(filled.database.connect(reading=False)) as writer, writer.transaction():
        writer.run("UPDATE kbot_items SET attempts = attempts + 1")
        assert seen(filled) == SEEN


def test_reading_leaves_every_byte_as_it_is(send, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    send(texts(3), ledger=ledger)
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        # A run that is long dead: its claims are unknown to a reader, and stay as they are.
        connection.execute(CLAIMED_BY_THE_DEAD)
        connection.commit()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert seen(ledger)["unknown"] == ["t1"]
    assert seen(ledger)["counts"] == [[2, 0, 0, 1, 0]]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_whoever_may_only_read_a_file_can_read_it(send, as_nobody):
    with tempfile.TemporaryDirectory() as name:
        folder, ledger = Path(name), Ledger(Path(name) / "ledger.db")
        send(texts(3), ledger=ledger)
        (folder / "ledger.db").chmod(0o444)
        folder.chmod(0o555)
        try:
            with as_nobody():
                assert not os.access(folder, os.W_OK, effective_ids=True)
                assert [list(one[2:]) for one in ledger.status()] == [[3, 0, 0, 0, 0]]
                assert len(list(ledger.entries())) == 3
                assert send(texts(4), ledger=ledger, dry_run=True).created == 1
                with pytest.raises(LedgerError, match="read-only"):
                    ledger.forget("t0")
        finally:
            folder.chmod(0o755)


def test_a_role_that_may_only_read_can_read(send, service, postgresql):
    send(texts(3), ledger=Ledger(postgresql))
    with psycopg.connect(postgresql, autocommit=True) as connection:
        with contextlib.suppress(psycopg.errors.DuplicateObject):
            connection.execute("CREATE ROLE reader LOGIN")
        schema = connection.execute("SELECT current_schema()").fetchone()[0]
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
        connection.execute(CLAIMED_BY_THE_DEAD)
    reader = Ledger(postgresql.replace("postgres@", "reader@"))
    assert seen(reader)["unknown"] == ["t1"]
    assert seen(reader)["counts"] == [[2, 0, 0, 1, 0]]
    assert send(texts(4), ledger=reader, dry_run=True).created == 1
    with pytest.raises(LedgerError, match="permission denied"):
        reader.forget("t0")


# Resolving.


def test_an_unknown_outcome_is_settled_either_way(filled, send):
    settled = filled.resolve("lost", created=True, source_id="src_9")
    assert (settled.state, settled.source_id, settled.error) == ("created", "src_9", "")
    assert seen(filled)["unknown"] == []
    lost = [Text(name="lost", content="lost")]
    assert send(lost, ledger=filled, origin="handbook").unchanged == 1


def test_what_the_service_does_not_have_is_sent_by_the_next_run(filled, send, service):
    assert filled.resolve("lost", created=False).state == "refused"
    assert send([Text(name="lost", content="lost")], ledger=filled).created == 1
    assert service.created[-1] == "lost"


def test_a_source_that_was_settled_replaces_the_one_before(send, service, ledger):
    send(texts(1), ledger=ledger)
    service.judge = lambda name, times: reset
    send(texts(1, "new"), ledger=ledger)
    ledger.resolve("t0", created=True, source_id="src_9")
    (old,) = ledger.superseded()
    assert (old.source_id, old.replaced_by) == ("src_1", "src_9")
    assert send(texts(1, "new"), ledger=ledger).unchanged == 1


def test_an_old_content_that_comes_back_after_an_unknown_outcome_is_sent(send, service, ledger):
    send(texts(1), ledger=ledger)
    service.judge = lambda name, times: reset if times == 2 else None
    assert send(texts(1, "new"), ledger=ledger).unknown == 1
    # Which of the two the service answers from, nobody knows.
    assert send(texts(1), ledger=ledger).unknown == 1
    assert send(texts(1), ledger=ledger, on_unknown="resend").created == 1


def test_only_what_is_unknown_can_be_settled(filled):
    with pytest.raises(LedgerError, match="no item"):
        filled.resolve("nothing", created=True)
    with pytest.raises(LedgerError, match="created, not unknown"):
        filled.resolve("t0", created=False)
    assert filled.resolve("t0", created=True).state == "created"  # as it was


def test_a_key_of_several_items_is_settled_by_id(send, service, ledger):
    service.judge = lambda name, times: reset
    for collection in ("col_1", "col_2"):
        send(texts(1), ledger=ledger, collections=collection)
    with pytest.raises(LedgerError, match="several items"):
        ledger.resolve("t0", created=False)
    for entry in list(ledger.unknown()):
        assert ledger.resolve(entry.id, created=False).state == "refused"


# Forgetting.


def test_what_is_forgotten_is_sent_again(filled, send, service):
    assert filled.forget("t1") == 1
    assert seen(filled)["all"] == ["bad", "left", "lost", "t0"]
    assert seen(filled)["superseded"] == []
    assert send([Text(name="t1", content="changed")], ledger=filled).created == 1


def test_items_are_forgotten_by_id_origin_collection_or_all_at_once(filled, send):
    send(texts(2), ledger=filled, collections=["col_2", "col_1"])
    send(texts(2), ledger=filled, collections="col_3", origin="wiki")
    (entry, *_) = (one for one in filled.entries() if one.collections == ("col_3",))
    assert filled.forget(entry.id) == 1
    assert filled.forget(origin="wiki") == 1
    assert filled.forget("t0", collection="col_2") == 1
    assert filled.forget(collection="col_2") == 1
    assert filled.forget(collection="col_2") == 0
    assert seen(filled) == SEEN
    assert filled.forget(everything=True) == 5
    assert seen(filled)["all"] == seen(filled)["superseded"] == []


def test_what_is_gone_and_removed_is_forgotten(filled, send):
    for entry in filled.gone():
        assert filled.forget(entry.id) == 1
    assert seen(filled)["gone"] == []


def test_a_superseded_source_is_forgotten_alone(filled):
    (old,) = filled.superseded()
    assert filled.forget(old.source_id) == 1
    assert seen(filled) == {**SEEN, "superseded": []}


@pytest.mark.parametrize("named", [{}, {"everything": True, "key": "t0"}])
def test_what_to_forget_has_to_be_named(filled, named):
    with pytest.raises(LedgerError):
        filled.forget(**named)
    assert seen(filled) == SEEN


def test_what_is_being_sent_is_not_forgotten(filled, send, service):
    refused = []

    def forget(name, times):
        for named in ({"key": "t1"}, {"everything": True}):
            with pytest.raises(LedgerError):
                filled.forget(**named)
            refused.append(named)

    service.judge = forget
    assert send([Text(name="t1", content="newer")], ledger=filled).created == 1
    assert len(refused) == 2
    assert "t0" in seen(filled)["all"]
