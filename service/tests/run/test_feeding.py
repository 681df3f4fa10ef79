"""`kbot serve --with FOLDER`: one command that serves, feeds a folder, and watches it."""

import re
import signal
from contextlib import contextmanager

import httpx
import pytest

from in_process import OnAPort
from knowledge_bot_service.config.folder import DataFolder
from knowledge_bot_service.config.settings import parse_settings
from knowledge_bot_service.run.feeding import Feeding
from serve_command import called, key_in, serving
from service_calls import ask, client_of, put_text
from waiting import until

pytestmark = pytest.mark.timeout(120)

QUESTION = "What does a reminder cost?"


@pytest.fixture
def handbook(tmp_path):
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "fees.md").write_text("A reminder costs two euros.")
    (folder / "hours.md").write_text("The library opens at nine on Saturdays.")
    return folder


def names(http):
    listed = http.get("/sources", params={"status": "ready", "limit": 500}).json()["value"]["data"]
    return sorted(one["name"] for one in listed)


def runs(told):
    """The counts of each run that was told of."""
    lines = re.findall(r"^Fed .*?: (.*)\.$", told, re.MULTILINE)
    return [{k: int(n) for k, n in (one.split() for one in line.split(", "))} for line in lines]


@contextmanager
def fed(service, folder, **options):
    settings = parse_settings({"data": str(service.data)}, origin="test")
    with Feeding(folder, settings, service.base_url, **options) as feeding:
        feeding.start(service.api_key)
        yield


def test_it_feeds_what_is_there_and_what_changes_and_a_restart_sends_nothing_again(
    tmp_path, handbook, capfd
):
    log = tmp_path / "printed.txt"
    with serving(tmp_path, "--with", "handbook") as (base_url, printed, process):
        # Everything that a person needs next, and nothing else.
        assert f"KNOWLEDGE_BOT_BASE_URL={base_url}" in printed
        assert len(log.read_text().splitlines()) < 20
        headers = {"X-API-KEY": key_in(printed)}
        with httpx.Client(base_url=base_url, headers=headers, timeout=30) as http:
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
    manual = handbook.rename(tmp_path / "manual")  # its name is not what its files are known by
    with OnAPort(tmp_path / "kbot-data") as service, fed(service, manual):  # at another address
        assert until(lambda: runs(capfd.readouterr().err) == [{"unchanged": 2}], 90)


def test_a_source_that_is_deleted_comes_back_as_long_as_its_file_is_there(
    tmp_path, handbook, capfd
):
    told = [""]

    def at_rest():
        told.append(capfd.readouterr().err)
        return runs("".join(told))[-1:] == [{"unchanged": 2}]

    with (
        OnAPort(tmp_path / "data") as service,
        client_of(service) as http,
        fed(service, handbook),
    ):
        for is_over in (lambda: True, at_rest):  # before the first run is at its end, and later
            assert until(lambda: names(http) == ["fees.md", "hours.md"], 90)
            assert until(is_over, 90)
            (fees,) = http.get("/sources", params={"name": "fees.md"}).json()["value"]["data"]
            assert http.delete(f"/sources/{fees['id']}").status_code == 204
        assert until(lambda: names(http) == ["fees.md", "hours.md"], 90)
        assert "two" in ask(http, QUESTION, bot="bot_default")["answer"]


def test_a_folder_that_vanishes_is_told_at_the_next_look_and_fed_when_it_is_back(
    tmp_path, handbook, capfd
):
    told = [""]

    def said(what, times=1):
        told.append(capfd.readouterr().err)
        return "".join(told).count(what) == times

    with OnAPort(tmp_path / "data") as service, client_of(service) as http, fed(service, handbook):
        assert until(lambda: said("Fed "), 90)
        handbook.rename(tmp_path / "elsewhere")
        assert until(lambda: said(f"{handbook} is away: waiting until it is back."), 10)
        (tmp_path / "elsewhere").rename(handbook)
        assert until(lambda: said("Fed ", 2), 30)
        assert names(http) == ["fees.md", "hours.md"]


def test_a_folder_that_another_origin_holds_is_not_said_to_be_fed_or_empty(
    tmp_path, handbook, capfd
):
    with OnAPort(tmp_path / "data") as service, client_of(service) as http:
        for one in sorted(handbook.iterdir()):
            put_text(http, one.name, one.read_text(), "col_default", origin="another")
        told = [""]
        with fed(service, handbook):

            def stopped():
                told.append(capfd.readouterr().err)
                return "Stopped before the end: " in "".join(told)

            assert until(stopped, 90)
        assert "Fed " not in "".join(told)
        assert total(http) == 2


def test_a_restored_backup_is_sent_what_changed_since_and_nothing_twice(tmp_path, handbook):
    for number in range(60):
        (handbook / f"{number}.md").write_text(f"The depot {number} is dry.")
    everything = sorted(one.name for one in handbook.iterdir())
    with OnAPort(tmp_path / "data") as service, client_of(service) as http:
        address = service.base_url
        with fed(service, handbook):
            # While it is fed: what is on its way is in the one or in the other.
            assert until(lambda: total(http) >= 20, 90)
            assert called(tmp_path, "backup", "copy", "--data", "data").returncode == 0
            assert until(lambda: names(http) == everything, 90)
    assert called(tmp_path, "restore", "copy", "--data", "restored").returncode == 0
    with (
        OnAPort(tmp_path / "restored", port=httpx.URL(address).port) as service,
        client_of(service) as http,
        fed(service, handbook),
    ):
        assert until(lambda: names(http) == everything, 90)


def total(http):
    counts = http.get("/sources", params={"counts": True}).json()["value"]["counts"]
    return sum(counts.values())


def test_what_holds_keys_and_what_it_writes_itself_is_not_fed(tmp_path):
    (tmp_path / "kbot.toml").write_text("# keys")
    (tmp_path / "hours.md").write_text("The library opens at nine.")
    with DataFolder(tmp_path / "older") as older:
        older.api_key()
    with OnAPort(tmp_path / "data") as service, client_of(service) as http:
        with fed(service, tmp_path, leave_out=[tmp_path / "kbot.toml"]):
            assert until(lambda: names(http) == ["hours.md"], 90)
        assert total(http) == 1


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


def test_what_was_fed_in_another_way_is_not_fed_twice(tmp_path, handbook, capfd):
    with OnAPort(tmp_path / "data") as service, client_of(service) as http:
        for name in ("fees.md", "hours.md"):
            put_text(http, name, "An older text.", "col_default", origin="/srv/handbook")
        with fed(service, handbook):
            said = ""

            def is_told():
                nonlocal said
                said += capfd.readouterr().err
                return "the origin '/srv/handbook' has 2 of the first 2 names" in said

            assert until(is_told, 90), said
        assert total(http) == 2


@pytest.mark.slow  # what is missed twice goes ten seconds later
def test_many_that_vanish_at_once_are_removed_by_themselves(tmp_path, handbook):
    for number in range(30):
        (handbook / f"{number}.md").write_text(f"The depot {number} is dry.")
    with (
        OnAPort(tmp_path / "data") as service,
        client_of(service) as http,
        fed(service, handbook),
    ):
        assert until(lambda: len(names(http)) == 32, 90)
        for number in range(12):  # more than is removed when it is missed for the first time
            (handbook / f"{number}.md").unlink()
        assert until(lambda: total(http) == 20, 90)
