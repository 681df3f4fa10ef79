"""Data folders of earlier versions, of later ones, and what is no database of the service's."""

import gzip
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from in_process import InProcess
from knowledge_bot_service.config.folder import FolderError
from knowledge_bot_service.store.schema import VERSION
from serve_command import SERVE, serving
from service_calls import client_of
from waiting import until

pytestmark = pytest.mark.integration

STORED = Path(__file__).parents[1] / "stored"

# What the stored folders were made with; each release that changes the tables adds one.
SETTINGS = {
    "collections": {"col_handbook": "Handbook", "col_other": "Other"},
    "bots": {"bot_guide": ["col_handbook"]},
}


def stored(version, folder):
    """The data folder of an earlier version's service."""
    folder.mkdir()
    database = folder / "knowledge.sqlite3"
    with gzip.open(STORED / f"version-{version}.sqlite3.gz") as source, database.open("wb") as file:
        shutil.copyfileobj(source, file)
    return folder


def ask(service, question, conversation=None):
    value = {"bot_id": "bot_guide", "content": question, "conversation_id": conversation}
    with client_of(service) as http:
        answer = http.post("/messages", json={"value": value})
    return answer.raise_for_status().json()["value"]["answer"]


def schema_of(database):
    """The version, every table with its columns, and every index with its definition."""
    with closing(sqlite3.connect(database)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT name, type, sql FROM sqlite_master").fetchall()
        return version, {
            (name, *sorted(row[1] for row in connection.execute(f"PRAGMA table_xinfo({name})")))
            if kind == "table"
            else (name, str(sql))
            for name, kind, sql in tables
        }


@pytest.mark.parametrize("version", range(1, VERSION))
def test_a_folder_of_an_earlier_version_goes_on(version, tmp_path):
    folder = stored(version, tmp_path / "data")
    with InProcess(folder, **SETTINGS) as service:
        service.wait_until_ready()
        assert ask(service, "Where are spare keys kept?").endswith("Sources: keys.html")
        assert "beside the stairs" in ask(service, "Where are spare keys kept?")
        # What was accepted and not read yet is read now.
        assert "dry" in ask(service, "Is the cellar dry?")
        with client_of(service) as http:
            listed = http.get("/bots/bot_guide/conversations").json()["value"]["data"]
        first = next(one for one in listed if one["name"] == "When does the library open?")
        assert "six" in ask(service, "And when does it close?", first["id"])
        assert {state.name: state.status for state in service.sources()} == {
            "Hours": "ready",
            "keys.html": "ready",
            "Iğdır": "ready",  # noqa: RUF001 - a town's name
            "A page out of reach": "failed",
            "Not read yet": "ready",
        }
    with InProcess(tmp_path / "new", **SETTINGS):
        pass
    with closing(sqlite3.connect(folder / "knowledge.sqlite3")) as connection:
        counted = connection.execute("SELECT added - removed FROM passage_count").fetchone()
        assert counted == connection.execute("SELECT count(*) FROM passage").fetchone()
        unlike = "SELECT count(*) FROM source WHERE place < 1 OR revision NOT LIKE 'rev_%'"
        assert connection.execute(unlike).fetchone() == (0,)
        unread = "SELECT count(*) FROM source WHERE (status = 'ready') <> (ready_at IS NOT NULL)"
        assert connection.execute(unread).fetchone() == (0,)
        bare = "SELECT count(*) FROM passage WHERE blocks = '[]' OR vectors = x''"
        assert connection.execute(bare).fetchone() == (0,)
    assert schema_of(folder / "knowledge.sqlite3") == schema_of(
        tmp_path / "new" / "knowledge.sqlite3"
    )


def versions_of(folder):
    """The version of the database, and of each copy beside it."""
    found = {}
    for file in folder.glob("knowledge.sqlite3*"):
        if not file.name.endswith(("-wal", "-shm")):
            with closing(sqlite3.connect(file)) as connection:
                found[file.name] = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def test_a_copy_of_the_older_version_is_kept_and_named_in_the_log(tmp_path):
    folder = stored(1, tmp_path / "data")
    before = schema_of(folder / "knowledge.sqlite3")
    with serving(tmp_path, "--data", "data") as (_, _printed, _process):
        pass
    kept = folder / "knowledge.sqlite3.version-1"
    assert str(kept) in (tmp_path / "printed.txt").read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert schema_of(kept) == before
    with closing(sqlite3.connect(kept)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("SELECT count(*) FROM source").fetchone()[0] == 5


@pytest.mark.slow
def test_an_upgrade_that_is_killed_loses_nothing(tmp_path):
    folder = stored(1, tmp_path / "data")
    with closing(sqlite3.connect(folder / "knowledge.sqlite3")) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        for number in range(2500):  # work for the upgrade, which analyses each again
            text = f"The depot {number} beside the harbour is dry. " * 20
            passage = connection.execute(
                "INSERT INTO passage (source, text) VALUES (1, ?)", (text,)
            ).lastrowid
            connection.execute(
                "INSERT INTO passage_index (rowid, scope, title, body) VALUES (?, 'x', '', ?)",
                (passage, text),
            )
        held = connection.execute("SELECT count(*) FROM passage").fetchone()[0]
    log, during = tmp_path / "log", 0
    for attempt in range(3):
        with (
            log.open("wb") as printed,
            subprocess.Popen(
                [*SERVE, "--port", "0", "--data", folder], stdout=printed, stderr=printed
            ) as process,
        ):
            assert until(
                lambda log=log, process=process: (
                    "bringing it to version" in log.read_text() or process.poll() is not None
                ),
                30,
            )
            time.sleep(0.02 * attempt)
            process.kill()
        during += versions_of(folder)["knowledge.sqlite3"] == 0
    assert during, "one of them at least was killed in the middle"
    with InProcess(folder, **SETTINGS) as service:
        service.wait_until_ready(60)
        assert ask(service, "Where are spare keys kept?").endswith("Sources: keys.html")
        assert len(service.sources()) == 5
    assert versions_of(folder) == {"knowledge.sqlite3": VERSION, "knowledge.sqlite3.version-1": 0}
    with closing(sqlite3.connect(folder / "knowledge.sqlite3")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("SELECT count(*) FROM passage").fetchone()[0] == held + 1


def test_a_folder_of_a_later_version_is_left_as_it_is(tmp_path):
    with InProcess(tmp_path / "data"):
        pass
    database = tmp_path / "data" / "knowledge.sqlite3"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = database.read_bytes()
    with pytest.raises(FolderError, match=r"a later release of knowledge-bot made it"):
        InProcess(tmp_path / "data").start()
    assert database.read_bytes() == before


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("another program", "a database of another program"),
        ("no database", r"cannot open the database .*not a database"),
    ],
)
def test_what_is_no_database_of_a_service_is_left_as_it_is(tmp_path, kind, told):
    (tmp_path / "data").mkdir()
    database = tmp_path / "data" / "knowledge.sqlite3"
    if kind == "no database":
        database.write_bytes(b"not a database" * 1000)
    else:
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE recipes (name TEXT)")
    before = database.read_bytes()
    with pytest.raises(FolderError, match=told):
        InProcess(tmp_path / "data").start()
    assert database.read_bytes() == before
