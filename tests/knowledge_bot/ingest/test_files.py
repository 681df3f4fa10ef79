"""Files: how a change is noticed, and what is read of unchanged ones."""

import io
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from knowledge_bot.ingest import File, Report
from knowledge_bot.origins import Folder

pytestmark = pytest.mark.timeout(60)

SETTLED = 0.4


@pytest.fixture(autouse=True)
def _short_tick(monkeypatch):
    """A file is trusted by its times sooner than it should be on slow file systems."""
    monkeypatch.setattr("knowledge_bot.ingest._jobs._SETTLED", SETTLED)


def settled(path, content: str):
    """Write a file that is old enough to be trusted by its times, as most are."""
    path.write_text(content)
    time.sleep(SETTLED + 0.1)
    return path


class Stored:
    """An object of a store, which notes how often it is opened."""

    def __init__(self, content: bytes) -> None:
        self.content, self.opened = content, 0
        self.streams: list[io.BytesIO] = []

    def item(self, version: str | None, key: str = "bucket/a.txt") -> File:
        return File(path=key, open=self.open, version=version)

    def open(self) -> io.BytesIO:
        self.opened += 1
        self.streams.append(io.BytesIO(self.content))
        return self.streams[-1]


def test_a_file_is_known_by_its_times_and_then_by_its_content(send, service, ledger, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    os.utime(path, (1, 1))
    assert send([File(path=path)], ledger=ledger).created == 1
    os.utime(path, (2, 2))
    assert send([File(path=path)], ledger=ledger).unchanged == 1
    path.write_text("two")
    os.utime(path, (2, 2))
    report = send([File(path=path)], ledger=ledger)
    assert (report.created, report.superseded) == (1, 1)


@pytest.fixture
def opened():
    """The paths of the files that this process opens."""
    paths: list[str] = []
    listening = True

    def hear(event, arguments):
        if listening and event == "open":
            paths.append(str(arguments[0]))

    sys.addaudithook(hear)  # there is no way to remove it
    yield paths
    listening = False


@pytest.mark.parametrize("origin", [None, "handbook"])
def test_an_unchanged_file_is_not_read(send, ledger, tmp_path, opened, origin):
    path = settled(tmp_path / "a.txt", "one")
    assert send([File(path=path)], ledger=ledger, origin=origin).created == 1
    assert str(path) in opened
    opened.clear()
    assert send([File(path=path)], ledger=ledger, origin=origin).unchanged == 1
    assert str(path) not in opened


def test_a_file_that_was_just_written_is_not_trusted_by_its_times(send, service, ledger, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one")
    status = path.stat()
    send([File(path=path)], ledger=ledger)
    path.write_text("two")  # as long as before, and maybe within the clock's tick
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert send([File(path=path)], ledger=ledger).created == 1


@pytest.mark.parametrize("origin", [None, "handbook"])
@pytest.mark.parametrize("age", [0.0, SETTLED + 0.1], ids=["just written", "settled"])
def test_a_file_that_changes_while_it_is_sent_is_sent_anew(send, service, ledger, origin, age):
    path = Path(ledger.database.file).with_name("a.txt")
    path.write_text("one")
    time.sleep(age)

    def change(name, times):
        if times == 1:
            path.write_text("two, and it is longer")
            time.sleep(SETTLED + 0.2)

    service.judge = change
    assert send([File(path=path)], ledger=ledger, origin=origin).created == 1
    assert send([File(path=path)], ledger=ledger, origin=origin).created == 1
    assert send([File(path=path)], ledger=ledger, origin=origin).unchanged == 1


@pytest.mark.parametrize("origin", [None, "bucket"])
@pytest.mark.parametrize(
    "runs",
    [
        [("v1", b"one", True, True), ("v1", b"one", False, False)],
        [("v1", b"one", True, True), ("v2", b"the second content", True, True)],
        [("v1", b"one", True, True), ("v2", b"one", False, True), ("v2", b"one", False, False)],
        [(None, b"one", True, True), (None, b"one", False, True), (None, b"two", True, True)],
    ],
    ids=["the same", "another version", "another version of the same content", "no version"],
)
def test_an_object_is_opened_where_its_version_is_new_or_unknown_and_sent_where_its_content_is(
    send, service, ledger, runs, origin
):
    stored = Stored(b"")
    for version, content, created, opens in runs:
        stored.content, before = content, stored.opened
        report = send([stored.item(version)], ledger=ledger, origin=origin)
        assert (report.created, report.unchanged) == (created, not created)
        assert (stored.opened > before) is opens
        assert not created or content in service.raw[-1]
    assert b'filename="a.txt"' in service.raw[-1]
    assert all(stream.closed for stream in stored.streams)


def test_runs_at_a_time_over_different_objects_do_not_read_theirs_again_and_again(send, ledger):
    chunks = [[Stored(f"{run} {n}".encode()) for n in range(40)] for run in range(4)]

    def ingested(run: int) -> Report:
        items = [stored.item("v1", f"{run}/{n}.txt") for n, stored in enumerate(chunks[run])]
        return send(items, ledger=ledger)

    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(ingested, range(4)))
    assert [report.created for report in reports] == [40] * 4
    # Once to compare it, once to send it, and once more where it was left to the others at first.
    assert max(stored.opened for chunk in chunks for stored in chunk) <= 3


def test_an_object_is_uploaded_under_the_last_part_of_its_address(send, service, tmp_path):
    (tmp_path / "a").write_bytes(b"The tide.")
    for path in ("s3://bucket/tides/march.txt", "bucket/"):
        send([File(path=path, name="Tides of March", open=lambda: (tmp_path / "a").open("rb"))])
    first, second = (
        body.partition(b'filename="')[2].partition(b'"')[0].decode() for body in service.raw
    )
    assert (first, second) == ("march.txt", "Tides of March")


def test_a_pipe_that_gives_nothing_holds_up_no_run(send, ledger, monkeypatch):
    monkeypatch.setattr("knowledge_bot.ingest._items._PATIENCE", 0.1)
    reading, writing = os.pipe()
    idle = File(path="bucket/idle.txt", open=lambda: os.fdopen(reading, "rb", 0))
    report = send([idle, Stored(b"The tide.").item(None)], ledger=ledger)
    os.close(writing)
    assert (report.created, report.invalid) == (1, 1)


def test_a_named_folder_is_the_same_folder_where_it_is_mounted_elsewhere(
    send, service, ledger, tmp_path
):
    for mount in ("monday", "tuesday"):
        (tmp_path / mount).mkdir()
        for name in ("a.md", "b.md"):
            (tmp_path / mount / name).write_text(f"This is {name}.")
    assert send(Folder(tmp_path / "monday", name="handbook"), ledger=ledger).created == 2
    report = send(Folder(tmp_path / "tuesday", name="handbook"), ledger=ledger)
    assert (report.unchanged, report.created, report.gone) == (2, 0, 0)
    report = send(Folder(tmp_path / "tuesday"), ledger=ledger, origin="handbook")
    assert (report.unchanged, report.created, report.gone) == (2, 0, 0)
