"""A ledger that moves to another database: as a whole, or not at all."""

import contextlib
import itertools
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest_texts import texts
from knowledge_bot.ingest import Ledger, LedgerError, Text, WebPage

pytestmark = pytest.mark.timeout(60)


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
def filled(send, filled_with, place) -> Callable[[str], Ledger]:
    """`filled(kind)`: a ledger of all kinds of items, in two collections, and a note."""

    def fill(kind: str) -> Ledger:
        ledger = filled_with(Ledger(place(kind)))
        send(texts(2), ledger=ledger, collections="col_2")
        ledger.note("a task", lambda note: note.update(told=['"quoted"', "ä"]))
        return ledger

    return fill


def held(ledger: Ledger) -> list[object]:
    note = ledger.note("a task", lambda note: None)
    return [*ledger.status(), *ledger.entries(), *ledger.superseded(), note]


def held_but_new(ledger: Ledger) -> list[object]:
    return [one for one in held(ledger) if getattr(one, "key", "") != "new"]


def execute(ledger: Ledger, statement: str, *values: object) -> None:
    with contextlib.closing(ledger.database.connect(reading=False)) as connection:
        connection.run(statement, *values)


def claim(ledger: Ledger, lease_until: float) -> None:
    """Let another machine's run claim a new item."""
    execute(
        ledger,
        "INSERT INTO kbot_items (id, run, origin, collections, key, kind, state, generation, "
        "attempts, updated_at) VALUES (?, 7, 1, 1, 'new', 'text', 'claimed', 1, 1, 1)",
        b"new",
    )
    execute(ledger, "INSERT INTO kbot_runs VALUES (7, 'elsewhere', '', 1, '', ?)", lease_until)


EITHER_WAY = pytest.mark.parametrize(
    ("kind", "to"), [("sqlite", "sqlite"), ("sqlite", "postgresql"), ("postgresql", "sqlite")]
)


@EITHER_WAY
def test_what_was_imported_is_all_that_the_ledger_held(send, filled, place, kind, to):
    ledger, other = filled(kind), Ledger(place(to))
    claim(ledger, lease_until=1)  # of a worker that died
    assert other.import_from(ledger.export()) == {
        "origins": 2,
        "collections": 2,
        "items": 8,
        "superseded": 1,
        "notes": 1,
    }
    assert [entry.key for entry in other.unknown()] == ["lost", "new"]
    assert held_but_new(other) == held_but_new(ledger)
    items = [*texts(1), Text(name="t1", content="changed")]
    again = send(items, ledger=other, origin="handbook")
    assert (again.created, again.unchanged, again.gone) == (0, 2, 1)
    # New rows get new numbers.
    more = send([*items, *texts(5)[2:]], ledger=other, origin="another")
    assert (more.created, more.stopped) == (5, None)
    assert send(texts(1), ledger=other, collections="col_3").created == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_nothing_is_exported_while_something_is_being_sent(filled, place, kind):
    ledger = filled(kind)
    claim(ledger, lease_until=9e9)
    with pytest.raises(LedgerError):
        next(ledger.export())


def test_a_ledger_where_nothing_can_be_written_is_exported(filled, place, as_nobody):
    ledger, other = filled("sqlite"), Ledger(place("sqlite"))
    with tempfile.TemporaryDirectory() as name:
        kept = Ledger(shutil.copy(ledger.database.file, name))
        for path, mode in ((kept.database.file, 0o444), (Path(name), 0o555)):
            path.chmod(mode)
        try:
            with as_nobody():
                lines = list(kept.export())
        finally:
            Path(name).chmod(0o755)
    other.import_from(lines)
    assert held(other) == held(ledger)


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines.clear(),
        lambda lines: lines.pop(),
        lambda lines: lines.pop(0),
        lambda lines: lines.pop(5),
        lambda lines: lines.append(lines[5]),
        lambda lines: lines.insert(3, lines[-2]),
        lambda lines: lines.__setitem__(3, lines[3][:-9]),
        lambda lines: lines.__setitem__(0, '{"ledger": 99}'),
        lambda lines: lines.__setitem__(4, '{"items": {"key": "alone"}}'),
        lambda lines: lines.__setitem__(4, '{"albums": {"title": "A"}}'),
        lambda lines: lines.__setitem__(4, '["items"]'),
    ],
)
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_lines_that_are_no_whole_export_make_no_ledger(filled, place, kind, change):
    lines = list(filled("sqlite").export())
    change(lines)
    other = Ledger(place(kind))
    with pytest.raises(LedgerError):
        other.import_from(lines)
    assert not other.exists()


@EITHER_WAY
def test_a_place_that_holds_a_ledger_is_not_written_to(filled, kind, to):
    ledger, other = filled(kind), filled(to)
    before = held(other)
    with pytest.raises(LedgerError):
        other.import_from(ledger.export())
    assert held(other) == before


def test_an_export_is_lines_of_json_that_name_their_columns(filled):
    lines = [json.loads(line) for line in filled("sqlite").export()]
    items = [line["items"] for line in lines if "items" in line]
    assert {item["key"] for item in items} == {"t0", "t1", "left", "lost", "bad"}


def test_an_export_holds_no_content_and_no_value_of_a_header(send, ledger):
    page = WebPage(name="Größe", url="https://h.example/2", headers={"Cookie": "s3cret"})
    assert send([page, Text(name="t", content="classified")], ledger=ledger).created == 2
    exported = "".join(ledger.export())
    assert "s3cret" not in exported
    assert "classified" not in exported


# What is no ledger of this version.


@pytest.mark.parametrize(
    "statement",
    [
        *(f"UPDATE kbot_ledger SET version = {number}" for number in (1, 5, 99)),
        "DELETE FROM kbot_ledger",
        "DROP TABLE kbot_items",
    ],
)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_ledger_of_another_version_or_a_part_of_one_is_left_alone(filled, kind, statement):
    ledger = filled(kind)
    execute(ledger, statement)
    file = ledger.database.file
    before = file and file.read_bytes()
    for use in (ledger.status, ledger.exists, lambda: ledger.forget("t0")):
        with pytest.raises(LedgerError):
            use()
    with pytest.raises(LedgerError):
        ledger.database.open(reading=False)
    assert (file and file.read_bytes()) == before


def test_the_database_of_another_program_is_not_written_to(filled, tmp_path):
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE albums (title TEXT)")
    before = path.read_bytes()
    with pytest.raises(LedgerError):
        Ledger(path).import_from(filled("sqlite").export())
    assert path.read_bytes() == before


def test_a_file_that_was_cut_off_is_left_alone(filled):
    path = filled("sqlite").database.file
    path.write_bytes(path.read_bytes()[:-20_000])
    before = path.read_bytes()
    with pytest.raises(LedgerError):
        list(Ledger(path).entries())
    assert path.read_bytes() == before
