"""`kbot serve --with FOLDER`: one command that serves, feeds a folder, and watches it."""

import signal

import httpx
import pytest

from knowledge_bot_service.config.folder import DataFolder
from serve_command import called, key_in, serving
from service_calls import add_text, ask
from waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

QUESTION = "What does a reminder cost?"


@pytest.fixture
def handbook(tmp_path):
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "fees.md").write_text("A reminder costs two euros.")
    (folder / "hours.md").write_text("The library opens at nine on Saturdays.")
    return folder


def names(http):
    listed = http.get("/sources", params={"status": "ready"}).json()["value"]["data"]
    return sorted(one["name"] for one in listed)


def client(base_url, printed):
    return httpx.Client(base_url=base_url, headers={"X-API-KEY": key_in(printed)}, timeout=30)


def test_it_feeds_what_is_there_and_what_changes_and_a_restart_sends_nothing_again(
    tmp_path, handbook
):
    log = tmp_path / "printed.txt"
    with serving(tmp_path, "--with", "handbook") as (base_url, printed, process):
        # Everything that a person needs next, and nothing else.
        assert f"KNOWLEDGE_BOT_BASE_URL={base_url}" in printed
        assert len(log.read_text().splitlines()) < 20
        with client(base_url, printed) as http:
            assert until(lambda: names(http) == ["fees.md", "hours.md"], 90)
            assert "two" in ask(http, QUESTION, bot="bot_default")["answer"]
            (handbook / "new.md").write_text("The canoes are kept by Ruth Okafor.")
            assert until(lambda: "new.md" in names(http), 90)
            (handbook / "fees.md").write_text("A reminder costs three euros.")
            assert until(lambda: "three" in ask(http, QUESTION, bot="bot_default")["answer"], 90)
            assert "two" not in ask(http, QUESTION, bot="bot_default")["answer"]
            (handbook / "hours.md").unlink()
            assert until(lambda: names(http) == ["fees.md", "new.md"], 90)
        process.send_signal(signal.SIGINT)
        process.wait(20)
        assert not {"Traceback", "Error"} & {*log.read_text().replace(":", " ").split()}
    port = str(httpx.URL(base_url).port)
    with serving(tmp_path, "--with", "handbook", "--port", port) as (_, _, process):
        assert until(lambda: "unchanged" in log.read_text(), 90)
        assert until(lambda: "Watching" in log.read_text(), 90)
        counts = dict(line.split("\t") for line in log.read_text().splitlines() if "\t" in line)
        assert counts == {"created": "0", "unchanged": "2"}
        process.terminate()
        assert process.wait(20) == 0
    # At another address, everything would be sent twice.
    done = called(tmp_path, "--port", "0", "--with", "handbook")
    assert done.returncode == 1
    assert port in done.stderr
    assert "--port" in done.stderr


def test_it_feeds_again_when_its_ledger_can_be_written_again(tmp_path, handbook):
    log = tmp_path / "printed.txt"
    options = ("--with", "handbook", "--data", "data")
    with (
        serving(tmp_path, *options) as (base_url, printed, _),
        client(base_url, printed) as http,
    ):
        assert until(lambda: "Watching" in log.read_text(), 90)
        (ledger,) = (tmp_path / "data").glob("ledger-*.db")
        ledger.rename(tmp_path / "away.db")
        ledger.mkdir()
        (handbook / "new.md").write_text("The canoes are kept by Ruth Okafor.")
        assert until(lambda: "Error" in log.read_text(), 90)
        assert names(http) == ["fees.md", "hours.md"]
        ledger.rmdir()
        (tmp_path / "away.db").rename(ledger)
        assert until(lambda: names(http) == ["fees.md", "hours.md", "new.md"], 90)


def test_a_restored_backup_is_sent_what_changed_since_and_nothing_twice(tmp_path, handbook):
    for number in range(60):
        (handbook / f"{number}.md").write_text(f"The depot {number} is dry.")
    log, made = tmp_path / "printed.txt", []
    with serving(tmp_path, "--with", "handbook", "--data", "data") as (base_url, printed, process):
        with client(base_url, printed) as http:
            # Also while it is fed: what is on its way is in the one or in the other.
            for count in (20, 62):
                assert until(lambda count=count: total(http) >= count, 90)
                made.append(tmp_path / f"{count}.tar")
                assert called(tmp_path, "backup", made[-1], "--data", "data").returncode == 0
            everything = sorted(one.name for one in handbook.iterdir())
        process.send_signal(signal.SIGINT)
        process.wait(20)
    port = str(httpx.URL(base_url).port)
    for file in made:
        data = tmp_path / f"restored-{file.stem}"
        assert called(tmp_path, "restore", file, "--data", data).returncode == 0
        with (
            serving(tmp_path, "--with", "handbook", "--data", str(data), "--port", port),
            client(base_url, printed) as http,
        ):
            assert until(lambda: "Watching" in log.read_text(), 90)
            listed = http.get("/sources", params={"limit": 500}).json()["value"]["data"]
            assert sorted(one["name"] for one in listed) == everything


def total(http):
    # The service ends a connection that rests, as while a backup is made.
    asked = http.get("/sources", params={"counts": True}, headers={"Connection": "close"})
    counts = asked.json()["value"]["counts"]
    return sum(counts.values())


def test_what_holds_keys_and_what_it_writes_itself_is_not_fed(tmp_path):
    (tmp_path / "kbot.toml").write_text(
        '[[keys]]\nname = "owner"\nrole = "manage"\nkey = "key-of-the-owner"\n'
        '[[keys]]\nname = "other"\nrole = "read"\nkey_file = "other.key"\n'
    )
    (tmp_path / "other.key").write_text("key-of-another")
    (tmp_path / "hours.md").write_text("The library opens at nine.")
    with DataFolder(tmp_path / "older") as older:
        older.api_key()
    with serving(tmp_path, "--with", ".", "--config", "kbot.toml", "--data", "kbot-data") as (
        base_url,
        _,
        _process,
    ):
        headers = {"X-API-KEY": "key-of-the-owner"}
        with httpx.Client(base_url=base_url, headers=headers) as http:
            assert until(lambda: names(http) != [], 90)
            assert until(lambda: "Watching" in (tmp_path / "printed.txt").read_text(), 90)
            assert names(http) == ["hours.md"]


def test_what_cannot_be_fed_is_told_before_anything_is_made(tmp_path, handbook):
    (tmp_path / "several.toml").write_text(
        'collections = [{id = "col_a", name = "A"}, {id = "col_b", name = "B"}]\n'
        'bots = [{id = "bot_a", name = "A", collections = ["col_a"]}]\n'
    )
    before = set(tmp_path.rglob("*"))
    for arguments, code, told in (
        (("--with", "none"), 2, "none"),
        (("--with", "handbook/fees.md"), 2, "fees.md"),
        (("--with", "handbook", "--config", "several.toml"), 1, "2"),
        (("--with", "handbook", "--data", "."), 1, "data folder"),
        (("--with", "handbook", "--with", "handbook"), 2, "one folder"),
    ):
        done = called(tmp_path, "--port", "0", *arguments)
        assert (done.returncode, done.stdout) == (code, "")
        assert told in done.stderr
    assert set(tmp_path.rglob("*")) == before
    assert handbook.is_dir()


def test_what_was_fed_in_another_way_is_not_fed_twice(tmp_path, handbook):
    log, data = tmp_path / "printed.txt", ("--data", "data")
    with serving(tmp_path, *data) as (base_url, printed, _), client(base_url, printed) as http:
        add_text(http, "hours.md", "The library opens at nine.", "col_default")
    done = called(tmp_path, "--port", "0", "--with", "handbook", *data)
    assert (done.returncode, done.stdout) == (1, "")
    assert " 1 of them" in done.stderr
    assert not list((tmp_path / "data").glob("ledger-*"))
    (handbook / "hours.md").rename(handbook / "times.md")
    with serving(tmp_path, "--with", "handbook", *data):
        assert until(lambda: "Watching" in log.read_text(), 90)


def test_many_that_vanish_at_once_are_removed_by_themselves_and_a_renamed_folder_sends_nothing(
    tmp_path, handbook
):
    for number in range(30):
        (handbook / f"{number}.md").write_text(f"The depot {number} is dry.")
    log = tmp_path / "printed.txt"
    with serving(tmp_path, "--with", "handbook") as (base_url, printed, process):
        with client(base_url, printed) as http:
            assert until(lambda: total(http) == 32, 90)
            assert until(lambda: "Watching" in log.read_text(), 90)
            for number in range(12):  # more than is removed when it is missed for the first time
                (handbook / f"{number}.md").unlink()
            assert until(lambda: total(http) == 20, 90)
        process.send_signal(signal.SIGINT)
        process.wait(20)
    handbook.rename(tmp_path / "manual")
    port = str(httpx.URL(base_url).port)
    with serving(tmp_path, "--with", "manual", "--port", port):
        assert until(lambda: "Watching" in log.read_text(), 90)
        counts = dict(line.split("\t") for line in log.read_text().splitlines() if "\t" in line)
        assert counts == {"created": "0", "unchanged": "20"}
