"""Ledgers that cannot be used, and what a person asks one."""

import contextlib
import pickle
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calls import KEY
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, LedgerError, Text, ingest

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
    assert "notes.txt" in refused(service, Ledger(tmp_path / "notes.txt"))
    assert (tmp_path / "notes.txt").read_text() == "Remember the milk. " * 100


def test_the_database_of_another_program_is_no_ledger(service, tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE albums (title TEXT)")
    before = path.read_bytes()
    assert "'albums'" in refused(service, Ledger(path))
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_ledger(service, tmp_path):
    (tmp_path / "ledger.db").touch()
    assert fill(service, Ledger(tmp_path / "ledger.db")).created == 3


@pytest.mark.parametrize(("path", "said"), [("missing/ledger.db", "cannot be"), (".", "a folder")])
def test_a_place_that_holds_no_file_is_reported(service, tmp_path, path, said):
    assert said in refused(service, Ledger(tmp_path / path))


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("mysql://host/db", "not in 'mysql'"),
        ("sqlite://", "kept in a file"),
        ("sqlite:///:memory:", "kept in a file"),
        ("postgresql://u:s3cret@h:port/db", "not a database URL"),
        ("sqlite://here.db", "sqlite:///kbot.db"),
        ("sqlite:////data/a?b.db", "two ways"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(address, said):
    with pytest.raises(LedgerError, match=said) as caught:
        Ledger(address).status()
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["two words.db", "ไทย.db", "a?b.db", "a#b.db", "100%20.db", "a'b.db"]
)
def test_a_path_may_hold_any_character(service, tmp_path, name):
    ledger = Ledger(tmp_path / name)
    fill(service, ledger)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert ledger.status()[0].created == 3
    assert fill(service, Ledger(str(tmp_path / name))).unchanged == 3


def test_a_password_is_not_shown(service):
    ledger = Ledger("postgresql://kbot:s3cret@127.0.0.1:9/kbot", wait=0)
    said = refused(service, ledger) + repr(ledger)
    assert "s3cret" not in said
    assert "127.0.0.1:9/kbot" in said


def test_a_missing_driver_is_named_with_the_extra():
    program = (
        "import sys\n"
        "sys.modules['psycopg'] = None\n"  # as if it were not installed
        "from knowledge_bot.ingest import Ledger, LedgerError\n"
        "try:\n    Ledger('postgresql://h/d').status()\n"
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


def test_a_ledger_that_is_not_there_is_reported_to_a_reader(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    for read in (ledger.status, lambda: next(ledger.export())):
        with pytest.raises(LedgerError):
            read()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
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
    assert 0 < len(created_then) < 2000
    report = fill(service, Ledger(ledger), 2000)
    assert (
        len(service.created)
        == len(set(service.created))
        == 2000 - report.unknown + len(created_then & {outcome.name for outcome in report.failures})
    )
    assert report.stopped is None


def taken_for_dead(ledger) -> None:
    with contextlib.closing(ledger.database.connect(reading=False)) as connection:
        connection.run("DELETE FROM kbot_runs")


def test_a_result_that_comes_after_a_person_settled_it_is_named_as_one_too_many(
    service, ledger_address
):
    ledger = Ledger(ledger_address)

    def settle_meanwhile(name, times):
        taken_for_dead(ledger)
        ledger.resolve("t0", created=True, source_id="src_by_hand")

    service.judge = settle_meanwhile
    fill(service, ledger, 1)
    (entry,) = ledger.entries()
    assert (entry.state, entry.source_id) == ("created", "src_by_hand")
    assert [(one.source_id, one.replaced_by) for one in ledger.superseded()] == [
        ("src_1", "src_by_hand")
    ]


def test_a_result_that_comes_after_another_run_sent_it_again_is_named_as_one_too_many(
    service, ledger_address
):
    ledger = Ledger(ledger_address)

    def resend_meanwhile(name, times):
        if times == 1:
            taken_for_dead(ledger)
            assert fill(service, ledger, 1, on_unknown="resend").created == 1

    service.judge = resend_meanwhile
    fill(service, ledger, 1)
    (entry,) = ledger.entries("created")
    (other,) = ledger.superseded()
    assert {entry.source_id, other.source_id} == {"src_1", "src_2"}
    service.judge = lambda name, times: None
    assert fill(service, ledger, 1).unchanged == 1


def test_a_result_that_comes_after_its_owner_was_taken_for_dead_counts(service, ledger_address):
    ledger = Ledger(ledger_address)

    def meanwhile(name, times):
        taken_for_dead(ledger)
        assert [entry.key for entry in ledger.unknown()] == ["t0"]

    service.judge = meanwhile
    assert fill(service, ledger, 1).created == 1
    (holding,) = ledger.status()
    assert (holding.created, holding.unknown) == (1, 0)


def test_a_note_is_kept_by_its_name_and_travels_with_an_export(service, ledger, tmp_path):
    assert ledger.note("a", lambda note: None) == {}
    with ThreadPoolExecutor(8) as pool:
        for _ in range(24):
            pool.submit(ledger.note, "a", lambda note: note.update(n=note.get("n", 0) + 1))
    ledger.note("b", lambda note: note.update(of={"b": [1, None]}))
    other = Ledger(tmp_path / "other.db")
    other.import_from(ledger.export())
    for each in (ledger, other):
        assert each.note("a", lambda note: None) == {"n": 24}
        assert each.note("b", lambda note: None) == {"of": {"b": [1, None]}}
    with pytest.raises(ZeroDivisionError):
        ledger.note("a", lambda note: note.update(n=1 // 0))
    assert ledger.note("a", dict.clear) == {}
    assert ledger.note("a", lambda note: None) == {}
