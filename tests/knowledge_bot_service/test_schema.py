"""Data folders of earlier versions, of later ones, and what is no database of the service's."""

import gzip
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from knowledge_bot_service import LocalService
from knowledge_bot_service.local import LocalServiceError
from knowledge_bot_service.schema import VERSION
from service_calls import client_of

STORED = Path(__file__).parent / "stored"

# What the stored folders were made with; each release that changes the tables adds one.
SETTINGS = {
    "collections": {"col_handbook": "Handbook", "col_other": "Other"},
    "bots": {"bot_guide": ["col_handbook"]},
}


def stored(version: int, folder: Path) -> Path:
    """The data folder of an earlier version's service."""
    folder.mkdir()
    database = folder / "knowledge.sqlite3"
    with gzip.open(STORED / f"version-{version}.sqlite3.gz") as source, database.open("wb") as file:
        shutil.copyfileobj(source, file)
    return folder


def ask(service: LocalService, question: str, conversation: str | None = None) -> str:
    value = {"bot_id": "bot_guide", "content": question, "conversation_id": conversation}
    with client_of(service) as http:
        answer = http.post("/messages", json={"value": value})
    return answer.raise_for_status().json()["value"]["answer"]


def schema_of(database: Path) -> tuple[int, set[tuple[str, ...]]]:
    """The version, and every table with its columns."""
    with closing(sqlite3.connect(database)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master")]
        return version, {
            (name, *sorted(row[1] for row in connection.execute(f"PRAGMA table_xinfo({name})")))
            for name in tables
        }


@pytest.mark.parametrize("version", range(1, VERSION))
def test_a_folder_of_an_earlier_version_goes_on(version: int, tmp_path: Path) -> None:
    folder = stored(version, tmp_path / "data")
    with LocalService(folder, **SETTINGS) as service:
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
    with LocalService(tmp_path / "new", **SETTINGS):
        pass
    with closing(sqlite3.connect(folder / "knowledge.sqlite3")) as connection:
        counted = connection.execute("SELECT added - removed FROM passage_count").fetchone()
        assert counted == connection.execute("SELECT count(*) FROM passage").fetchone()
    assert schema_of(folder / "knowledge.sqlite3") == schema_of(
        tmp_path / "new" / "knowledge.sqlite3"
    )


def test_a_folder_of_a_later_version_is_left_as_it_is(tmp_path: Path) -> None:
    with LocalService(tmp_path / "data"):
        pass
    database = tmp_path / "data" / "knowledge.sqlite3"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = database.read_bytes()
    with pytest.raises(LocalServiceError, match=r"a later release of knowledge-bot made it"):
        LocalService(tmp_path / "data").start()
    assert database.read_bytes() == before


def test_another_programs_database_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    database = tmp_path / "data" / "knowledge.sqlite3"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    before = database.read_bytes()
    with pytest.raises(LocalServiceError, match="a database of another program"):
        LocalService(tmp_path / "data").start()
    assert database.read_bytes() == before


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    database = tmp_path / "data" / "knowledge.sqlite3"
    database.write_bytes(b"not a database" * 1000)
    with pytest.raises(LocalServiceError, match=r"cannot open the database .*not a database"):
        LocalService(tmp_path / "data").start()
    assert database.read_bytes() == b"not a database" * 1000
