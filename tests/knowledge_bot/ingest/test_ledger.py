"""Ledgers that cannot be used, and what a person asks one."""

import os
import pickle
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from calls import KEY
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, LedgerError, Stop, Text, ingest
from scripted_server import reset

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def ledger(ledger_address: str) -> Ledger:
    return Ledger(ledger_address)


def fill(service, ledger, count=3, content="text", **options):
    items = (Text(name=f"t{number}", content=content) for number in range(count))
    with Client(KEY, service.url, timeout=5) as client:
        return ingest(client, items, collections="col_1", ledger=ledger, **options)


def refused(service, ledger) -> str:
    with pytest.raises(LedgerError) as caught:
        fill(service, ledger)
    assert service.arrived == []
    return str(caught.value)


def test_a_file_that_is_no_database_is_no_ledger(service, tmp_path):
    (tmp_path / "notes.txt").write_text("Remember the milk. " * 100)
    told = refused(service, Ledger(tmp_path / "notes.txt"))
    assert "notes.txt" in told
    assert "not a SQLite file" in told
    assert (tmp_path / "notes.txt").read_text() == "Remember the milk. " * 100


def test_the_database_of_another_program_is_no_ledger(service, tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE albums (title TEXT)")
    before = path.read_bytes()
    assert "'albums'" in refused(service, Ledger(path))
    assert path.read_bytes() == before


def test_a_ledger_of_a_newer_version_is_left_alone(service, tmp_path):
    path = tmp_path / "ledger.db"
    Ledger(path).prepare()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE kbot_ledger SET version = 99")
    assert "newer knowledge-bot (ledger version 99" in refused(service, Ledger(path))


def test_an_empty_file_becomes_a_ledger(service, tmp_path):
    (tmp_path / "ledger.db").touch()
    assert fill(service, Ledger(tmp_path / "ledger.db")).created == 3


@pytest.mark.parametrize("path", ["missing/ledger.db", "."])
def test_a_place_that_holds_no_file_is_told(service, tmp_path, path):
    assert "cannot be" in refused(service, Ledger(tmp_path / path))


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("mysql://host/db", "not in 'mysql'"),
        ("sqlite://", "kept in a file"),
        ("sqlite:///:memory:", "kept in a file"),
        ("postgresql://u:s3cret@h:port/db", "not a database URL"),
    ],
)
def test_an_address_that_is_none_is_told(address, told):
    with pytest.raises(LedgerError, match=told) as caught:
        Ledger(address).prepare()
    assert "s3cret" not in str(caught.value)


def test_a_password_is_not_shown(service):
    ledger = Ledger("postgresql://kbot:s3cret@127.0.0.1:9/kbot")
    told = refused(service, ledger) + repr(ledger)
    assert "s3cret" not in told
    assert "127.0.0.1:9/kbot" in told


def test_a_missing_driver_is_named_with_the_extra():
    # find_spec answers for a fresh interpreter in which the drivers are hidden.
    program = (
        "import sys, importlib.util\n"
        "find = importlib.util.find_spec\n"
        "hidden = ('psycopg', 'psycopg2')\n"
        "importlib.util.find_spec = lambda name, *a: None if name in hidden else find(name, *a)\n"
        "from knowledge_bot.ingest import Ledger, LedgerError\n"
        "try:\n    Ledger('postgresql://h/d').prepare()\n"
        "except LedgerError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "knowledge-bot[postgresql]" in done.stdout, done.stderr


def test_a_ledger_travels_to_other_processes(service, ledger_address):
    ledger = Ledger(ledger_address)
    fill(service, ledger)
    assert pickle.loads(pickle.dumps(ledger)).status() == ledger.status()


def test_a_ledger_that_is_not_there_is_told_to_a_reader(tmp_path):
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger(tmp_path / "ledger.db").status()
    assert list(tmp_path.iterdir()) == []


def test_a_person_reads_and_settles(service, ledger_address):
    ledger = Ledger(ledger_address)
    service.judge = lambda name, times: reset if name == "t1" else None
    fill(service, ledger)
    (holding,) = ledger.status()
    assert (holding.created, holding.unknown, holding.claimed, holding.refused) == (2, 1, 0, 0)
    assert holding.collections == ("col_1",)
    (entry,) = ledger.unknown()
    assert (entry.key, entry.kind, entry.attempts) == ("t1", "text", 1)
    assert "connection broke" in entry.error
    with pytest.raises(LedgerError, match="no item"):
        ledger.resolve("t9", created=True)
    with pytest.raises(LedgerError, match="created, not unknown"):
        ledger.resolve("t0", created=True)
    settled = ledger.resolve(entry.id, created=True, source_id="src_7")
    assert (settled.state, settled.source_id, settled.error) == ("created", "src_7", "")
    service.judge = lambda name, times: None
    assert fill(service, ledger, content="new").superseded == 3
    assert {old.source_id for old in ledger.superseded()} == {"src_1", "src_2", "src_7"}


def test_a_key_of_several_items_is_settled_by_id(service, ledger_address):
    ledger = Ledger(ledger_address)
    service.judge = lambda name, times: reset
    fill(service, ledger, 1)
    with Client(KEY, service.url) as client:
        items = [Text(name="t0", content="text")]
        ingest(client, items, collections="col_2", ledger=ledger)
    with pytest.raises(LedgerError, match="several items"):
        ledger.resolve("t0", created=False)
    for entry in list(ledger.unknown()):
        assert ledger.resolve(entry.id, created=False).state == "refused"


def test_a_full_disk_ends_the_run_and_loses_nothing(service, tmp_path):
    # A file size limit stands for the full disk where none can be mounted: the kernel refuses the
    # write in the same place.
    script = Path(__file__).with_name("limited_disk.py")
    ledger = tmp_path / "ledger.db"
    done = subprocess.run(
        [sys.executable, script, service.url, ledger],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "stopped: ledger" in done.stdout, done.stdout + done.stderr
    assert str(ledger) in done.stdout
    created_then = set(service.created)
    assert 0 < len(created_then) < 5000
    report = fill(service, Ledger(ledger), 5000)
    assert (
        len(service.created)
        == len(set(service.created))
        == 5000 - report.unknown + len(created_then & {failure.name for failure in report.failures})
    )
    assert report.stopped is None


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system takes root")
def test_a_full_file_system_is_told(service, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this container may not mount")
    try:
        report = fill(service, Ledger(disk / "ledger.db"), 5000)
        assert report.stopped is Stop.LEDGER
        assert "full" in report.stop_reason
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    assert len(service.created) == len(set(service.created))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system takes root")
def test_a_read_only_folder_is_told(service, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this container may not mount")
    try:
        told = refused(service, Ledger(disk / "ledger.db"))
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    assert "cannot be made" in told or "cannot be opened" in told


def test_a_result_that_comes_after_its_owner_was_taken_for_dead_counts(service, ledger_address):
    ledger = Ledger(ledger_address)

    def meanwhile(name, times):
        import sqlalchemy as sa

        with ledger.connected(reading=False) as connection, connection.begin():
            connection.execute(sa.text("delete from kbot_owners"))
        assert [entry.key for entry in ledger.unknown()] == ["t0"]

    service.judge = meanwhile
    assert fill(service, ledger, 1).created == 1
    (holding,) = ledger.status()
    assert (holding.created, holding.unknown) == (1, 0)
