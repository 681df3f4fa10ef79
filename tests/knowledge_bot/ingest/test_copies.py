"""A ledger that moves to another database: as a whole, or not at all."""

import contextlib
import itertools
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import ledger_program
from ingest_texts import texts
from knowledge_bot.ingest import Ledger, LedgerError, Stop, Text
from knowledge_bot.ingest._schema import KEPT_TABLES, LedgerDatabase
from scripted_server import answer, reset

pytestmark = pytest.mark.timeout(120)

MANY = """
    INSERT INTO kbot_items (id, scope, key, kind, state, run, revision, attempts, updated_at)
    WITH RECURSIVE numbers (number) AS (
        SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 20000
    )
    SELECT {id}, 1, 'item ' || number, 'text', 'created', 1, 1, 1, 1 FROM numbers
"""


@pytest.fixture
def place(request, tmp_path) -> Callable[[str], str]:
    """`place(kind)`: the address of a database that holds nothing."""
    numbers = itertools.count()

    def make(kind: str) -> str:
        if kind == "sqlite":
            return str(tmp_path / f"ledger {next(numbers)}.db")
        address: str = request.getfixturevalue("new_schema")()
        return address

    return make


@pytest.fixture
def filled(send, service, place) -> Callable[[str], Ledger]:
    """`filled(kind)`: a ledger with items of each state, one gone and one superseded source."""

    def fill(kind: str) -> Ledger:
        ledger = Ledger(place(kind))
        options = {"ledger": ledger, "origin": "handbook", "concurrency": 1}
        send([*texts(2), Text(name="left", content="left")], **options)
        send(texts(2), ledger=ledger, collections="col_2")
        refusal = answer(400, {"code": "no", "message": "not so"})
        service.judge = lambda name, times: {"lost": reset, "bad": refusal}.get(name)
        items = [*texts(1), Text(name="t1", content="changed")]
        items += [Text(name=name, content=name) for name in ("lost", "bad")]
        send(items, **options)
        service.judge = lambda name, times: None
        return ledger

    return fill


def held(ledger: Ledger) -> list[object]:
    return [*ledger.status(), *ledger.entries(), *ledger.superseded()]


def execute(ledger: Ledger, statement: str, *values: object) -> None:
    with contextlib.closing(ledger.database.connect(reading=False)) as connection:
        connection.run(statement, *values)


def claim(ledger: Ledger, lease_until: float) -> None:
    """Let another machine's run claim a new item."""
    execute(
        ledger,
        "INSERT INTO kbot_claims (id, run, scope, key, kind, claimed_at) "
        "VALUES (?, 7, 1, 'new', 'text', 1)",
        b"new",
    )
    execute(ledger, "INSERT INTO kbot_runs VALUES (7, 1, 'elsewhere', '', 1, '', ?)", lease_until)


KINDS = pytest.mark.parametrize(
    ("kind", "to"), list(itertools.product(["sqlite", "postgresql"], repeat=2))
)


@KINDS
def test_a_copy_holds_all_that_the_ledger_holds(send, filled, place, kind, to):
    ledger, other = filled(kind), Ledger(place(to))
    assert ledger.copy_to(other) == {
        "scopes": 2,
        "origins": 1,
        "items": 7,
        "superseded": 1,
        "notes": 0,
        "pages": 0,
    }
    assert held(other) == held(ledger)
    items = [*texts(1), Text(name="t1", content="changed")]
    again = send(items, ledger=other, origin="handbook")
    assert (again.created, again.unchanged, again.gone) == (0, 2, 1)
    # New rows get new numbers.
    more = send([*items, *texts(5)[2:]], ledger=other, origin="another")
    assert (more.created, more.stopped) == (3, None)
    assert send(texts(1), ledger=other, collections="col_3").created == 1


@KINDS
def test_what_a_dead_worker_was_sending_is_unknown_in_the_copy(filled, place, kind, to):
    ledger, other = filled(kind), Ledger(place(to))
    claim(ledger, lease_until=1)
    ledger.copy_to(other)
    assert [entry.key for entry in other.unknown()] == ["lost", "new"]
    assert held(other) == held(ledger)


@KINDS
def test_nothing_is_copied_while_something_is_being_sent(filled, place, kind, to):
    ledger, other = filled(kind), Ledger(place(to))
    claim(ledger, lease_until=9e9)
    before = held(ledger)
    with pytest.raises(LedgerError, match="right now"):
        ledger.copy_to(other)
    assert not other.exists()
    assert held(ledger) == before


@KINDS
def test_a_run_that_began_before_a_copy_sends_nothing_with_the_old_ledger(
    send, filled, place, kind, to
):
    ledger, other = filled(kind), Ledger(place(to))

    def items() -> Iterator[Text]:
        ledger.copy_to(other)
        yield from texts(3, "new")

    report = send(items(), ledger=ledger)
    assert (report.stopped, report.created, report.unknown) == (Stop.LEDGER, 0, 0)
    assert str(other) in report.stop_reason
    for each in (other, ledger):  # whichever is used from then on
        assert send(texts(3, str(each)), ledger=each).created == 3
    assert "notes" in ledger.copy_to(place(to))


def test_a_ledger_where_nothing_can_be_written_is_copied_out(filled, as_nobody):
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as free:
        ledger, folder = filled("sqlite"), Path(name)
        claim(ledger, lease_until=1)
        kept = Ledger(shutil.copy(ledger.database.file, folder))
        other = Ledger(f"{free}/other.db")
        for path, mode in ((kept.database.file, 0o444), (folder, 0o555), (Path(free), 0o777)):
            path.chmod(mode)
        try:
            with as_nobody():
                kept.copy_to(other)
                assert other.status() == kept.status()
            assert list(folder.iterdir()) == [kept.database.file]
        finally:
            folder.chmod(0o755)
        assert [entry.key for entry in other.unknown()] == ["lost", "new"]


@KINDS
def test_a_place_that_holds_a_ledger_is_not_written_to(filled, kind, to):
    ledger, other = filled(kind), filled(to)
    before = held(other)
    for there in (other, ledger):
        with pytest.raises(LedgerError, match="holds a ledger already"):
            ledger.copy_to(there)
    assert held(other) == before


def test_the_database_of_another_program_is_not_written_to(filled, tmp_path):
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE albums (title TEXT)")
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="another program"):
        filled("sqlite").copy_to(path)
    assert path.read_bytes() == before


def test_a_ledger_that_is_not_there_cannot_be_copied(tmp_path):
    with pytest.raises(LedgerError):
        Ledger(tmp_path / "no.db").copy_to(tmp_path / "other.db")
    assert list(tmp_path.iterdir()) == []


class Watched(Ledger):
    """Calls a function before something is copied here."""

    meanwhile: Callable[[], None]

    @property
    def database(self) -> LedgerDatabase:
        watched = self

        class Database(LedgerDatabase):
            def create(self, fill):
                watched.meanwhile()
                super().create(fill)

        return Database.of(self._address)


@KINDS
def test_nobody_writes_to_a_ledger_that_is_being_copied(filled, place, monkeypatch, kind, to):
    ledger, other, refused = filled(kind), Watched(place(to)), []
    monkeypatch.setattr("knowledge_bot.ingest._schema.LedgerDatabase.busy", 0.1)

    def write() -> None:
        with contextlib.closing(ledger.database.connect(reading=False)) as connection:
            if not connection.sqlite:
                connection.run("SET lock_timeout = '100ms'")
            for table in KEPT_TABLES:
                with pytest.raises((sqlite3.OperationalError, psycopg.errors.LockNotAvailable)):
                    connection.run(f"DELETE FROM {table}")
                refused.append(table)

    other.meanwhile = write
    ledger.copy_to(other)
    assert refused == list(KEPT_TABLES)
    assert held(other) == held(ledger)


def test_a_file_gets_its_name_once_it_is_whole(tmp_path):
    ledger, there = Ledger(tmp_path / "ledger.db"), []
    ledger.database.create(lambda connection: there.append((tmp_path / "ledger.db").exists()))
    assert there == [False]
    assert ledger.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


def test_a_file_that_somebody_makes_meanwhile_is_left_alone(tmp_path):
    other = tmp_path / "ledger.db"
    with pytest.raises(LedgerError):
        Ledger(other).database.create(lambda connection: other.write_bytes(b"another's"))
    assert other.read_bytes() == b"another's"
    assert list(tmp_path.iterdir()) == [other]


# Killed.


def kill_copies(count: int, ledger: Ledger, address: str, place: Callable[[], str]) -> None:
    """Kill copies of a ledger: each is there as a whole, or can be made by another try."""
    here = len(list(ledger.entries()))
    identifier = "randomblob(16)" if ledger.database.file else "decode(md5(number::text), 'hex')"
    execute(ledger, MANY.format(id=identifier))
    expected, to = ledger.status(), ""
    assert expected[0].created > here

    def start() -> list[str]:
        nonlocal to
        to = place()
        return ["copy", address, to]

    def check() -> None:
        other = Ledger(to)
        if not other.exists():
            assert not Path(to).exists(), "an empty file has the name"
            ledger.copy_to(other)
        assert other.status() == expected
        assert ledger.status() == expected

    ledger_program.kill(count, start, check)


@KINDS
@pytest.mark.integration
def test_a_copy_that_is_killed_leaves_all_or_nothing(filled, place, kind, to):
    ledger = filled(kind)
    kill_copies(2, ledger, ledger._address, lambda: place(to))


@KINDS
@pytest.mark.slow
def test_twenty_copies_that_are_killed_leave_all_or_nothing(filled, place, kind, to):
    ledger = filled(kind)
    kill_copies(20, ledger, ledger._address, lambda: place(to))
