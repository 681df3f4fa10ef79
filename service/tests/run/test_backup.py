"""Backups: whole, of one moment, taken while the service works; and what is made from them."""

import json
import os
import shutil
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from in_process import InProcess, OnAPort
from knowledge_bot_service.config.folder import FolderError
from knowledge_bot_service.store.schema import VERSION
from serve_command import called
from service_calls import BOTS, COLLECTIONS, add_text, ask, client_of
from waiting import until


def run(tmp_path, *arguments):
    return called(tmp_path, *arguments)


def refused(tmp_path, *arguments):
    done = called(tmp_path, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def ids_in(folder):
    with closing(sqlite3.connect(folder / "knowledge.sqlite3")) as connection:
        return {row[0] for row in connection.execute("SELECT public_id FROM source")}


def upload(http, name):
    answer = http.post(
        "/sources/upload",
        data={"value": json.dumps({"name": name, "collections": ["col_one"]})},
        files={"file": (f"{name}.txt", f"The depot {name} is dry. " * 20)},
    )
    return answer.json()["value"]["id"]


def test_nothing_that_was_accepted_before_a_backup_is_missing_in_it(tmp_path):
    stop, accepted = threading.Event(), list[str]()

    def feed(service):
        with client_of(service) as http:
            while not stop.is_set():
                accepted.append(upload(http, f"File {len(accepted)}"))
                time.sleep(0.01)

    with OnAPort(tmp_path / "data", collections=COLLECTIONS, bots=BOTS) as service:
        with client_of(service) as http:
            add_text(http, "Hours", "The library opens at nine.")
            service.wait_until_ready(300)
            ask(http, "When does the library open?")
        feeding = threading.Thread(target=feed, args=(service,))
        feeding.start()
        try:
            assert until(lambda: len(accepted) >= 20)
            before = set(accepted)
            done = run(tmp_path, "backup", "copy", "--data", "data")
            assert done.returncode == 0, done.stderr
        finally:
            stop.set()
            feeding.join()
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o700
    assert run(tmp_path, "restore", "copy", "--data", "restored").returncode == 0
    assert before <= ids_in(tmp_path / "restored")
    # It works as the service did, with what was not read yet.
    with InProcess(tmp_path / "restored", collections=COLLECTIONS, bots=BOTS) as service:
        service.wait_until_ready(300)
        assert {state.status for state in service.sources()} == {"ready"}
        with client_of(service) as http:
            assert "nine" in ask(http, "When does the library open?")["answer"]
            assert len(http.get("/bots/bot_one/conversations").json()["value"]["data"]) >= 1
    assert not list(tmp_path.glob("*/.kbot-*"))


@pytest.fixture(scope="module")
def backup(tmp_path_factory):
    """A backup of a folder with a source, and keys of its own."""
    folder = tmp_path_factory.mktemp("backups")
    with InProcess(folder / "data") as service, client_of(service) as http:
        add_text(http, "Hours", "The library opens at nine.", "col_default")
        service.wait_until_ready(300)
    (folder / "data/api-key").touch(0o600)
    (folder / "data/api-key").write_text("key-of-the-folder")
    assert run(folder, "keys", "add", "kiosk", "--role", "read", "--data", "data").returncode == 0
    assert run(folder, "backup", "backup", "--data", "data").returncode == 0
    return folder / "backup"


def test_a_backup_is_a_data_folder_with_its_keys(backup, tmp_path):
    run(tmp_path, "restore", backup, "--data", "data")
    for folder in (backup, tmp_path / "data"):
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "api-key").read_text() == "key-of-the-folder"
        assert (folder / "api-key").stat().st_mode & 0o777 == 0o600
        listed = run(tmp_path, "keys", "list", "--data", folder).stdout
        assert listed == "kiosk\tread\tnever\tall\tall\n"
        assert ids_in(folder) == ids_in(backup.parent / "data")


def test_nothing_is_written_over(backup, tmp_path):
    before = ids_in(backup)
    told = refused(tmp_path, "backup", backup, "--data", backup.parent / "data")
    assert str(backup) in told
    assert ids_in(backup) == before
    (tmp_path / "data").mkdir()
    (tmp_path / "data/mine.txt").write_text("mine")
    assert "not an empty folder" in refused(tmp_path, "restore", backup, "--data", "data")
    assert [path.name for path in tmp_path.rglob("*")] == ["data", "mine.txt"]


def damage(database):
    content = database.read_bytes()
    database.write_bytes(content[:4096] + b"\xff" * 4096 + content[8192:])


def make_later(database):
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")


@pytest.mark.parametrize(
    "change",
    [lambda file: file.unlink(), lambda file: file.write_bytes(b"x" * 9000), damage, make_later],
    ids=["no database", "another file", "damaged", "another version"],
)
def test_a_backup_in_which_something_is_wrong_is_refused(backup, tmp_path, change):
    copy = shutil.copytree(backup, tmp_path / "copy")
    change(copy / "knowledge.sqlite3")
    refused(tmp_path, "restore", "copy", "--data", "data")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_a_folder_that_is_empty_stays_the_one_it_was(backup, tmp_path):
    (tmp_path / "volume").mkdir()
    before = (tmp_path / "volume").stat()
    # As /var/lib/kbot is a link where systemd makes a user for the service.
    (tmp_path / "data").symlink_to("volume")
    assert run(tmp_path, "restore", backup, "--data", "data").returncode == 0
    after = (tmp_path / "volume").stat()
    assert (after.st_ino, after.st_dev) == (before.st_ino, before.st_dev)
    with InProcess(tmp_path / "data") as service:
        assert [one.name for one in service.sources()] == ["Hours"]
    # Without its database it is not begun anew.
    (tmp_path / "data/knowledge.sqlite3").unlink()
    with pytest.raises(FolderError, match="missing or empty"):
        InProcess(tmp_path / "data").start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_what_root_restores_belongs_to_the_owner_of_the_folder(backup, tmp_path):
    (tmp_path / "data").mkdir()
    os.chown(tmp_path / "data", 10001, 10001)
    assert run(tmp_path, "restore", backup, "--data", "data").returncode == 0
    made = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(10001, 10001)}


def test_the_chats_of_the_gateway_go_along(tmp_path):
    with InProcess(tmp_path / "data") as service:
        heads = service.data / "heads.sqlite3"
        with closing(sqlite3.connect(heads, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE head (id TEXT)")
            connection.execute("INSERT INTO head VALUES ('conv_1')")
            assert run(tmp_path, "backup", "copy", "--data", "data").returncode == 0
    with closing(sqlite3.connect(tmp_path / "copy" / "heads.sqlite3")) as connection:
        assert connection.execute("SELECT id FROM head").fetchall() == [("conv_1",)]
