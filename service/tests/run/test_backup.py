"""Backups: whole, of one moment, taken while the service works; and what is made from them."""

import io
import json
import os
import shlex
import sqlite3
import subprocess
import tarfile
import threading
import time
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from in_process import InProcess, web
from knowledge_bot_service import LocalService
from knowledge_bot_service.config.folder import FolderError
from knowledge_bot_service.store.schema import VERSION
from serve_command import SERVE, called
from service_calls import BOTS, COLLECTIONS, add_text, ask, client_of
from waiting import until

pytestmark = pytest.mark.integration


def run(*arguments):
    return called(Path(), *arguments)


def refused(*arguments):
    done = run(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    return done.stderr


def ids_in(folder):
    with closing(sqlite3.connect(folder / "knowledge.sqlite3")) as connection:
        return {row[0] for row in connection.execute("SELECT public_id FROM source")}


def test_nothing_that_was_accepted_before_a_backup_is_missing_in_it(tmp_path):
    stop, accepted = threading.Event(), list[str]()

    def feed(service, number):
        with client_of(service) as http:
            count = 0
            while not stop.is_set():
                count += 1
                name = f"File {number}-{count}"
                answer = http.post(
                    "/sources/upload",
                    data={"value": json.dumps({"name": name, "collections": ["col_one"]})},
                    files={"file": (f"{name}.txt", f"The depot {number}-{count} is dry. " * 20)},
                )
                accepted.append(answer.json()["value"]["id"])
                time.sleep(0.01)

    with LocalService(tmp_path / "data", collections=COLLECTIONS, bots=BOTS) as service:
        with client_of(service) as http:
            add_text(http, "Hours", "The library opens at nine.")
            service.wait_until_ready()
            ask(http, "When does the library open?")
        feeding = [threading.Thread(target=feed, args=(service, one)) for one in range(2)]
        for thread in feeding:
            thread.start()
        try:
            assert until(lambda: len(accepted) >= 20)
            made = []
            for number in range(2):
                before = set(accepted)
                file = tmp_path / f"{number}.tar"
                done = subprocess.run(
                    [*SERVE, "backup", file, "--data", tmp_path / "data"],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                assert done.returncode == 0, done.stderr
                made.append((file, before))
        finally:
            stop.set()
            for thread in feeding:
                thread.join()
    for file, before in made:
        folder = tmp_path / f"restored-{file.stem}"
        assert file.stat().st_mode & 0o777 == 0o600
        restored = run("restore", file, "--data", folder)
        assert restored.returncode == 0, restored.stderr
        assert before <= ids_in(folder)
    # The last one works as the service did, with what was not read yet.
    with InProcess(folder, collections=COLLECTIONS, bots=BOTS) as service:
        service.wait_until_ready(60)
        assert {state.status for state in service.sources()} == {"ready"}
        with client_of(service) as http:
            assert "nine" in ask(http, "When does the library open?")["answer"]
            assert len(http.get("/bots/bot_one/conversations").json()["value"]["data"]) >= 1
    assert not list(tmp_path.glob(".kbot-*"))
    assert not list((tmp_path / "data/material").glob("backup-*"))


@pytest.fixture(scope="module")
def backup(tmp_path_factory):
    """A backup of a folder with a source, and a key of its own."""
    folder = tmp_path_factory.mktemp("backups")
    with InProcess(folder / "data") as service, client_of(service) as http:
        add_text(http, "Hours", "The library opens at nine.", "col_default")
        service.wait_until_ready()
    run("keys", "add", "kiosk", "--role", "read", "--data", folder / "data")
    run("backup", folder / "backup.tar", "--data", folder / "data")
    return folder / "backup.tar"


def test_keys_of_the_folder_go_along(backup, tmp_path):
    run("restore", backup, "--data", tmp_path / "data")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (
        run("keys", "list", "--data", tmp_path / "data").stdout == "kiosk\tread\tnever\tall\tall\n"
    )


def test_nothing_is_written_over(backup, tmp_path):
    before = backup.read_bytes()
    told = refused("backup", backup, "--data", backup.parent / "data")
    assert str(backup) in told
    assert backup.read_bytes() == before
    (tmp_path / "data").mkdir()
    (tmp_path / "data/mine.txt").write_text("mine")
    assert str(tmp_path / "data") in refused("restore", backup, "--data", tmp_path / "data")
    assert [path.name for path in tmp_path.rglob("*")] == ["data", "mine.txt"]


def test_a_folder_in_use_is_not_restored_to(backup, service):
    assert "Stop the service" in refused("restore", backup, "--data", service.data)
    assert web.get(f"{service.base_url}/ping").status_code == 200


def test_what_is_no_data_folder_is_not_backed_up(tmp_path):
    told = refused("backup", tmp_path / "b.tar", "--data", tmp_path / "none")
    assert str(tmp_path / "none") in told
    assert list(tmp_path.iterdir()) == []


def test_a_folder_for_backups_that_is_not_there_is_told(backup, tmp_path):
    told = refused("backup", tmp_path / "none/b.tar", "--data", backup.parent / "data")
    assert "No such file or directory" in told


MANIFEST, DATABASE = "kbot-backup.json", "knowledge.sqlite3"


def changed(backup, target, change):
    """A copy of a backup in which something is wrong that its checksums do not tell."""
    with tarfile.open(backup) as old:
        members = {one.name: old.extractfile(one).read() for one in old.getmembers()}
    database = members[DATABASE]
    if change == "no database":
        del members[DATABASE]
    if change == "damaged":
        members[DATABASE] = database[:4096] + b"\xff" * 4096 + database[8192:]
    if change == "later":
        members[DATABASE] = database[:60] + (VERSION + 1).to_bytes(4, "big") + database[64:]
    manifest = json.loads(members.pop(MANIFEST))
    manifest["sha256"] = {name: sha256(data).hexdigest() for name, data in members.items()}
    if change == "later release":
        manifest["format"] += 1
    if change == "first format":
        manifest = {"format": 1, "made": manifest["made"]}
    with tarfile.open(target, "w") as new:
        for name, data in {MANIFEST: json.dumps(manifest).encode(), **members}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            new.addfile(member, io.BytesIO(data))
        if change == "outside":
            new.addfile(tarfile.TarInfo("keys/../../outside"), io.BytesIO())
        if change == "link":
            link = tarfile.TarInfo("material/link")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            new.addfile(link)
    return target


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("no database", "has no database"),
        ("damaged", "in"),
        ("later", "a later release of knowledge-bot made it"),
        ("later release", "a later release of knowledge-bot made"),
        ("outside", "which no backup has"),
        ("link", "which no backup has"),
    ],
)
def test_a_backup_in_which_something_is_wrong_is_refused(backup, tmp_path, change, told):
    file = changed(backup, tmp_path / "changed.tar", change)
    assert told in refused("restore", file, "--data", tmp_path / "data")
    assert [path.name for path in tmp_path.iterdir()] == ["changed.tar"]


def test_a_backup_of_the_first_format_has_no_checksums_and_is_restored(backup, tmp_path):
    file = changed(backup, tmp_path / "changed.tar", "first format")
    assert run("restore", file, "--data", tmp_path / "data").returncode == 0
    assert ids_in(tmp_path / "data") == ids_in(backup.parent / "data")


@pytest.mark.parametrize("text", [b"opens at nine", b'"role":"read"'])
def test_a_text_that_was_changed_in_a_backup_is_noticed(backup, tmp_path, text):
    content = backup.read_bytes()
    assert text in content
    (tmp_path / "changed.tar").write_bytes(content.replace(text, text[:-1] + b"#"))
    told = refused("restore", tmp_path / "changed.tar", "--data", tmp_path / "data")
    assert str(tmp_path / "changed.tar") in told
    assert [path.name for path in tmp_path.iterdir()] == ["changed.tar"]


def test_a_file_that_is_missing_in_a_backup_is_noticed(backup, tmp_path):
    with tarfile.open(backup) as old, tarfile.open(tmp_path / "less.tar", "w") as new:
        for member in old.getmembers():
            if member.name != "keys/kiosk":
                new.addfile(member, old.extractfile(member))
    told = refused("restore", tmp_path / "less.tar", "--data", tmp_path / "data")
    assert "lacks keys/kiosk" in told
    assert [path.name for path in tmp_path.iterdir()] == ["less.tar"]


def test_a_disk_that_is_full_is_told(backup, tmp_path):
    # A file may have 20 KiB here, which is how a full disk looks to a program.
    command = shlex.join([*SERVE, "backup", f"{tmp_path}/b.tar", "--data", f"{backup.parent}/data"])
    done = subprocess.run(
        ["sh", "-c", f"ulimit -f 40; trap '' XFSZ; {command}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert str(tmp_path) in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_empty_stays_the_one_it_was(backup, tmp_path):
    (tmp_path / "volume").mkdir()
    before = (tmp_path / "volume").stat()
    # As /var/lib/kbot is a link where systemd makes a user for the service.
    (tmp_path / "data").symlink_to("volume")
    assert run("restore", backup, "--data", tmp_path / "data").returncode == 0
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
    done = run("restore", backup, "--data", tmp_path / "data")
    assert done.returncode == 0
    assert "chown" not in done.stderr
    made = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(10001, 10001)}
    # Where there was no folder, nobody can know whose it is to be.
    done = run("restore", backup, "--data", tmp_path / "new")
    assert f"chown -R USER: {tmp_path}/new" in done.stderr


def test_what_is_no_backup_is_refused(backup, tmp_path):
    for content in (b"", b"not a tar" * 1000, backup.read_bytes()[:30_000]):
        (tmp_path / "odd.tar").write_bytes(content)
        told = refused("restore", tmp_path / "odd.tar", "--data", tmp_path / "data")
        assert told.count("\n") == 1
    assert "No such file" in refused("restore", tmp_path / "none.tar", "--data", tmp_path / "data")
    assert [path.name for path in tmp_path.iterdir()] == ["odd.tar"]


def test_the_chats_of_the_gateway_go_along(tmp_path):
    with InProcess(tmp_path / "data") as service:
        heads = service.data / "heads.sqlite3"
        with closing(sqlite3.connect(heads, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE head (id TEXT)")
            connection.execute("INSERT INTO head VALUES ('conv_1')")
            assert run("backup", tmp_path / "b.tar", "--data", service.data).returncode == 0
    assert run("restore", tmp_path / "b.tar", "--data", tmp_path / "restored").returncode == 0
    with closing(sqlite3.connect(tmp_path / "restored" / "heads.sqlite3")) as connection:
        assert connection.execute("SELECT id FROM head").fetchall() == [("conv_1",)]
