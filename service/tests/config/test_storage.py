"""A disk that is full, and database files that are removed, replaced or damaged."""

import contextlib
import os
import sqlite3
import subprocess
import time

import pytest

from in_process import InProcess
from knowledge_bot_service import LocalService
from knowledge_bot_service.config.folder import FolderError
from knowledge_bot_service.run.local import LocalServiceError
from knowledge_bot_service.store.schema import VERSION
from service_calls import add_text, client_of, problem_of, value_of

MIB = 1024 * 1024

TEXT = {"name": "Text", "collections": ["col_default"]}


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 6 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("no disk can be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def write(http, content):
    return http.post("/sources/write", json={"value": TEXT | {"content": content}})


def fill(disk):
    """Take what is left of a disk; returns the file that takes it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


def upload(http, size):
    form = {"name": "File", "collections": "col_default"}
    return http.post(
        "/sources/upload", data=form, files={"file": ("a.txt", b"word " * (size // 5))}
    )


def test_a_full_disk_is_told_and_questions_are_answered(small_disk, capfd):
    service = LocalService(small_disk / "data")
    with service, client_of(service) as http:
        add_text(http, "Lamp", "The lamp in the tower is lit at nine.", "col_default")
        service.wait_until_ready(300)
        filler = fill(small_disk)
        accepted = []
        for number in range(30):
            response = write(http, f"Text {number}. " + "Filling words. " * 4000)
            if response.status_code == 200:
                accepted.append(response.json()["value"]["id"])
        problem = problem_of(response, 507)
        assert problem["code"] == "disk_full"
        for response in (write(http, "word " * 200_000), upload(http, 2 * MIB)):
            problem_of(response, 507)
        health = http.get(service.base_url.removesuffix("/public/v1") + "/healthz")
        assert (health.status_code, health.json()["ready"]) == (503, False)
        assert "Make room there" in health.json()["disk"]
        started = time.monotonic()
        question = {
            "value": {"bot_id": "bot_default", "content": "When is the lamp in the tower lit?"}
        }
        answer = value_of(http.post("/messages", json=question))
        assert "nine" in answer["answer"]
        _, log = capfd.readouterr()
        assert time.monotonic() - started < 30
        errors = [line for line in log.splitlines() if " error " in line]
        assert [line.count("disk is full") for line in errors] == [1]
        assert "Traceback" not in log
        filler.unlink()
        accepted.append(value_of(write(http, "There is space again."))["id"])
        service.wait_until_ready(300)
        states = {one.id: one.status for one in service.sources()}
        assert {states.get(one) for one in accepted} == {"ready"}
        assert not [one for one in (small_disk / "data/material").iterdir() if one.suffix]


def test_a_full_disk_at_the_start_is_a_sentence(small_disk):
    fill(small_disk)
    with pytest.raises(LocalServiceError, match=r"disk is full|No space left"):
        LocalService(small_disk / "data").start()


def test_a_folder_whose_database_is_gone_or_empty_is_not_begun_anew(tmp_path):
    with InProcess(tmp_path) as service, client_of(service) as http:
        add_text(http, "Lamp", "The lamp in the tower is lit at nine.", "col_default")
        service.wait_until_ready(300)
    for file in tmp_path.glob("knowledge.sqlite3*"):
        file.unlink()
    for change in (lambda: None, (tmp_path / "knowledge.sqlite3").touch):
        change()
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(FolderError) as caught:
            InProcess(tmp_path).start()
        message = str(caught.value)
        for told in (str(tmp_path), "knowledge.sqlite3 is missing or empty", "restore"):
            assert told in message
        assert "empty folder" in message
        assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_of_documents_does_not_become_a_data_folder(tmp_path):
    tmp_path.chmod(0o755)
    for name in (".hidden", "kbot.toml", "welcome.md"):
        (tmp_path / name).write_text("The library opens at nine.")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(FolderError, match=r"welcome\.md.* `--with "), InProcess(tmp_path):
        pass
    assert (sorted(tmp_path.iterdir()), tmp_path.stat().st_mode & 0o777) == (before, 0o755)
    (tmp_path / "welcome.md").unlink()
    with InProcess(tmp_path):
        (tmp_path / "welcome.md").touch()  # what a data folder has by then, it keeps
    with InProcess(tmp_path):
        pass


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_a_folder_of_another_version_is_left_as_it_is(tmp_path, version):
    with InProcess(tmp_path):
        pass
    database = tmp_path / "knowledge.sqlite3"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = database.read_bytes()
    with pytest.raises(FolderError, match=f"of version {version}"):
        InProcess(tmp_path).start()
    assert database.read_bytes() == before


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("another program", "of version 0"),
        ("no database", r"cannot open the database .*not a database"),
    ],
)
def test_what_is_no_database_of_a_service_is_left_as_it_is(tmp_path, kind, told):
    database = tmp_path / "knowledge.sqlite3"
    if kind == "no database":
        database.write_bytes(b"not a database" * 1000)
    else:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE recipes (name TEXT)")
    before = database.read_bytes()
    with pytest.raises(FolderError, match=told):
        InProcess(tmp_path).start()
    assert database.read_bytes() == before


def test_a_database_that_is_damaged_while_it_runs_is_told(tmp_path, caplog):
    with InProcess(tmp_path) as service, client_of(service) as http:
        for number in range(40):
            add_text(http, f"Text {number}", f"Lamp {number} is lit. " * 200, "col_default")
        service.wait_until_ready(300)
    file = tmp_path / "knowledge.sqlite3"
    with closing_database(file) as database:
        (size,) = database.execute("PRAGMA page_size").fetchone()
        (root,) = database.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'passage_index_data'"
        ).fetchone()
    with file.open("r+b") as written:
        written.seek((root - 1) * size)
        written.write(os.urandom(size))
    with InProcess(tmp_path) as service, client_of(service) as http:
        value = {"bot_id": "bot_default", "content": "When is lamp 7 lit?"}
        problem = problem_of(http.post("/messages", json={"value": value}), 500)
        assert "damaged" in problem["message"]
    assert "Traceback" not in caplog.text


def test_nobody_else_can_read_the_database(tmp_path):
    with closing_database(tmp_path / "knowledge.sqlite3"):
        pass
    with InProcess(tmp_path) as service, client_of(service) as http:
        add_text(http, "Lamp", "The lamp is lit at nine.", "col_default")
        files = [file for file in tmp_path.rglob("*") if file.is_file()]
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}, files


@contextlib.contextmanager
def closing_database(path):
    """A database that others may read, as earlier versions made it."""
    path.touch(mode=0o644)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        yield connection
