"""Ledgers of older versions: nothing is sent again for an upgrade, and no state is lost."""

import contextlib
import io
import itertools
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

import ledger_program
from calls import KEY
from knowledge_bot import Client
from knowledge_bot.ingest import File, Ledger, LedgerError, Text, WebPage, ingest
from knowledge_bot.testing import MemoryService

pytestmark = pytest.mark.timeout(120)

HERE = Path(__file__).parent
OF_VERSION_3 = ("scopes", "origins", "items", "superseded", "pages", "rates", "runs", "ledger")
ITEMS = (
    "SELECT scope, key, state, source_id, source_name, digest, pending, origin, kind, name, "
    "version, attempts, gone_at FROM kbot_items ORDER BY scope, key"
)
CLAIMED = ["claimed, new", "kept 1"]


def make_sqlite(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript((HERE / "version_3.sqlite.sql").read_text(encoding="utf-8"))
        connection.execute("PRAGMA journal_mode=WAL")
    return str(path)


def make_postgresql(address: str) -> str:
    with psycopg.connect(address) as connection:
        connection.execute((HERE / "version_3.postgresql.sql").read_text(encoding="utf-8"))
    return address


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path) -> str:
    """A ledger that knowledge-bot 0.2.0 made."""
    if request.param == "sqlite":
        return make_sqlite(tmp_path / "ledger.db")
    return make_postgresql(request.getfixturevalue("postgresql"))


@pytest.fixture
def path(tmp_path) -> Path:
    return Path(make_sqlite(tmp_path / "ledger.db"))


def rows(address: str, query: str = ITEMS) -> list[tuple]:
    if "://" in address:
        with psycopg.connect(address) as connection:
            return connection.execute(query).fetchall()
    with contextlib.closing(sqlite3.connect(address)) as connection:
        return connection.execute(query).fetchall()


def everything(address: str) -> dict[str, list[tuple]]:
    return {name: rows(address, f"SELECT * FROM kbot_{name} ORDER BY 1") for name in OF_VERSION_3}


def execute(address: str, statement: str) -> None:
    if "://" in address:
        with psycopg.connect(address) as connection:
            connection.execute(statement)
        return
    with contextlib.closing(sqlite3.connect(address)) as connection:
        connection.execute(statement)
        connection.commit()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def contents(*names: str) -> list[Text]:
    return [Text(name=name, content=f"content of {name}") for name in names]


# What 0.2.0 was given, in its last runs.
FROM_THE_HANDBOOK = [
    *contents("stays"),
    File(path="bucket/object", version="etag", open=lambda: io.BytesIO(b"content of object")),
    WebPage(name="page", url="https://pages.test/page", version="v1"),
    Text(name="changed", content="new content of changed"),
]
OTHERS = [
    *contents(*(f"kept {number}" for number in range(3, 20))),
    *contents("was refused, then sent"),
    Text(name="settled", content="x"),
]
UNKNOWN = [
    *contents("unknown", "claimed, new"),
    Text(name="kept 0", content="changed content"),
    Text(name="kept 1", content="changed while sent"),
]
REFUSED = [*contents("refused"), Text(name="kept 2", content="refused change")]


def test_nothing_is_sent_again_after_an_upgrade(address):
    service = MemoryService(collections=["col_1", "col_2"])
    ledger = Ledger(address)
    with Client(KEY, "https://service.test", transport=service.transport) as client:
        one, two, three, four = (
            ingest(client, items, ledger=ledger, origin=origin, collections=collection)
            for items, collection, origin in (
                (FROM_THE_HANDBOOK, "col_1", "handbook"),
                (OTHERS, "col_1", None),
                (contents("stays"), "col_2", None),
                (UNKNOWN, "col_1", None),
            )
        )
        assert [request for request in service.requests if request.method == "POST"] == []
        assert (one.unchanged, one.gone, two.unchanged, three.unchanged) == (4, 2, 19, 1)
        assert four.unknown == 4
        # What was refused is tried again in every run, as before.
        again = ingest(client, REFUSED, ledger=ledger, collections="col_1")
    assert (again.created, again.superseded) == (2, 1)


def test_no_state_is_lost_by_an_upgrade(address):
    before, others = rows(address), everything(address)
    assert [row[1] for row in before if row[2] == "claimed"] == CLAIMED
    counts = [list(one[2:]) for one in Ledger(address).status()]
    assert counts == [[25, 0, 2, 4, 2], [1, 0, 0, 0, 0]]
    after = rows(address)
    assert after == [(*row[:2], row[2].replace("claimed", "unknown"), *row[3:]) for row in before]
    for table in ("scopes", "origins", "pages", "rates"):
        assert rows(address, f"SELECT * FROM kbot_{table} ORDER BY 1") == others[table]
    columns = "source_id, replaced_by, scope, key, name, superseded_at"
    kept = rows(address, f"SELECT {columns} FROM kbot_superseded ORDER BY 1")
    assert kept == others["superseded"]
    assert rows(address, "SELECT * FROM kbot_runs") == []
    died = {entry.key: entry.error for entry in Ledger(address).unknown()}
    assert all("died before" in died[key] for key in CLAIMED)
    assert rows(address, "SELECT version FROM kbot_ledger") == [(4,)]


SHAPE_IN_POSTGRESQL = """
    SELECT table_name, column_name, data_type, is_nullable, is_identity, column_default
    FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2;
    SELECT replace(indexdef, current_schema() || '.', '') FROM pg_indexes
    WHERE schemaname = current_schema() ORDER BY 1;
    SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = current_schema()::regnamespace ORDER BY 1;
    SELECT relname, reloptions FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace ORDER BY 1
"""
SHAPE_IN_SQLITE = """
    SELECT tables.name, columns.name, columns.type IN ('BIGINT', 'INTEGER'), "notnull", pk
    FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
    WHERE tables.type = 'table' ORDER BY 1, 2;
    SELECT name, sql FROM sqlite_master WHERE type = 'index' ORDER BY 1;
    SELECT count(*) FROM sqlite_master WHERE sql LIKE '%CHECK (state IN%'
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_upgraded_ledger_is_like_a_new_one(request, tmp_path, kind):
    if kind == "sqlite":
        old, new, shape = (
            make_sqlite(tmp_path / "old.db"),
            str(tmp_path / "new.db"),
            SHAPE_IN_SQLITE,
        )
    else:
        new_schema = request.getfixturevalue("new_schema")
        old, new, shape = make_postgresql(new_schema()), new_schema(), SHAPE_IN_POSTGRESQL
    for address in (old, new):
        Ledger(address).database.open(reading=False).close()
    for query in shape.split(";"):
        assert rows(old, query) == rows(new, query)


def test_an_upgrade_waits_for_runs_of_the_older_package(address, tmp_path):
    execute(address, "UPDATE kbot_runs SET lease_until = 9e9")
    before = everything(address), files(tmp_path)
    for use in (Ledger(address).status, lambda: Ledger(address).forget(everything=True)):
        with pytest.raises(LedgerError, match=r"in use by .* \(process 4711 on worker-1\)"):
            use()
    assert (everything(address), files(tmp_path)) == before
    execute(address, "UPDATE kbot_runs SET lease_until = 1")
    assert len(list(Ledger(address).unknown())) == 4


def test_many_who_open_it_at_once_upgrade_it_once(address, tmp_path):
    with ThreadPoolExecutor(6) as threads:
        there = list(threads.map(lambda _: Ledger(address).exists(), range(6)))
    assert there == [True] * 6
    assert rows(address, "SELECT version FROM kbot_ledger") == [(4,)]
    assert not (tmp_path / "ledger.db.version-3-2").exists()


def test_a_worker_of_the_older_package_cannot_claim_in_an_upgraded_ledger(address):
    assert Ledger(address).exists()
    errors = (sqlite3.IntegrityError, psycopg.errors.CheckViolation)
    with pytest.raises(errors):
        execute(address, "UPDATE kbot_items SET state = 'claimed' WHERE key = 'stays'")


def test_a_copy_of_the_file_is_kept_and_never_overwritten(path, tmp_path):
    before, was = everything(str(path)), path.read_bytes()
    (tmp_path / "ledger.db.version-3").write_text("mine")
    Ledger(path).status()
    assert sorted(files(tmp_path)) == [
        "ledger.db",
        "ledger.db.version-3",
        "ledger.db.version-3-2",
    ]
    assert (tmp_path / "ledger.db.version-3").read_text() == "mine"
    assert everything(str(tmp_path / "ledger.db.version-3-2")) == before
    assert path.read_bytes() != was


def test_what_is_in_the_log_of_the_file_is_in_its_copy(path, tmp_path):
    with contextlib.closing(sqlite3.connect(path)) as writer:
        writer.execute("UPDATE kbot_items SET attempts = 9 WHERE key = 'stays'")
        writer.commit()  # it is in ledger.db-wal alone as long as somebody has the file open
        assert Ledger(path).exists()
    copied = rows(str(tmp_path / "ledger.db.version-3"))
    assert {row[11] for row in copied if row[1] == "stays"} == {9}


def test_a_dry_run_upgrades_nothing(path, tmp_path):
    before = files(tmp_path)
    service = MemoryService(collections=["col_1"])
    with (
        Client(KEY, "https://service.test", transport=service.transport) as client,
        pytest.raises(LedgerError, match="kbot ledger status"),
    ):
        ingest(client, OTHERS, ledger=Ledger(path), collections="col_1", dry_run=True)
    assert files(tmp_path) == before


def test_a_reader_who_may_not_write_is_told_what_to_do(as_nobody):
    with tempfile.TemporaryDirectory() as name:
        folder, ledger = Path(name), Ledger(make_sqlite(Path(name) / "ledger.db"))
        before = files(folder)
        (folder / "ledger.db").chmod(0o444)
        folder.chmod(0o555)
        with as_nobody(), pytest.raises(LedgerError, match="read-only") as caught:
            ledger.status()
        folder.chmod(0o755)
        assert "kbot ledger status" in str(caught.value)
        assert files(folder) == before


# Ledgers that cannot be used.


def version(number: int) -> str:
    return f"UPDATE kbot_ledger SET version = {number}"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (version(1), "older design"),
        (version(2), "older design"),
        (version(5), "update knowledge-bot"),
        ("DELETE FROM kbot_ledger", "a part of a ledger"),
        ("DROP TABLE kbot_items", "a part of a ledger"),
    ],
)
def test_what_cannot_be_upgraded_is_left_alone(address, tmp_path, statement, said):
    execute(address, statement)
    before = files(tmp_path)
    ledger = Ledger(address)
    for use in (ledger.status, ledger.exists, lambda: ledger.forget("stays")):
        with pytest.raises(LedgerError, match=said):
            use()
    with pytest.raises(LedgerError, match=said):
        ledger.database.open(reading=False)
    assert files(tmp_path) == before


def test_a_file_that_was_cut_off_is_left_alone(path):
    path.write_bytes(path.read_bytes()[:-20_000])
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="damaged"):
        list(Ledger(path).entries())
    assert path.read_bytes() == before


# Killed.

STATES = "SELECT scope, key, state FROM kbot_items ORDER BY scope, key"
MANY = """
    INSERT INTO kbot_items (id, scope, key, kind, state, run, revision, attempts, updated_at)
    WITH RECURSIVE numbers (number) AS (
        SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 20000
    )
    SELECT {id}, 1, 'item ' || number, 'text', 'created', 1, 1, 1, 1 FROM numbers
"""


def kill_upgrades(count: int, make: Callable[[], str]) -> None:
    """Kill upgrades of fresh ledgers: each is left as it was, or upgraded whole."""
    address, before = "", sorted(rows(make(), STATES))
    after = [(*row[:2], row[2].replace("claimed", "unknown")) for row in before]

    def start() -> list[str]:
        nonlocal address
        address = make()
        return ["upgrade", address]

    def check() -> None:
        found = sorted(rows(address, STATES))  # first: what was killed may still hold a lock
        ((version,),) = rows(address, "SELECT version FROM kbot_ledger")
        assert found == {3: before, 4: after}[version]
        assert Ledger(address).exists()  # whatever was left can be upgraded
        assert sorted(rows(address, STATES)) == after

    ledger_program.kill(count, start, check)


@pytest.fixture(params=["sqlite", "postgresql"])
def make_larger(request, tmp_path) -> Callable[[], str]:
    """Makes ledgers whose upgrade takes long enough to be killed in."""
    if request.param == "postgresql":
        new_schema = request.getfixturevalue("new_schema")

        def make() -> str:
            address = make_postgresql(new_schema())
            execute(address, MANY.format(id="decode(md5(number::text), 'hex')"))
            return address

        return make
    template = make_sqlite(tmp_path / "template.db")
    execute(template, MANY.format(id="randomblob(16)"))
    numbers = itertools.count()

    def copy() -> str:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        return str(shutil.copy(template, folder / "ledger.db"))

    return copy


@pytest.mark.integration
def test_an_upgrade_that_is_killed_leaves_a_whole_ledger(make_larger):
    kill_upgrades(3, make_larger)


@pytest.mark.slow
def test_twenty_upgrades_that_are_killed_leave_whole_ledgers(make_larger):
    kill_upgrades(20, make_larger)
