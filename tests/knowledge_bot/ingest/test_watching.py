"""`watch_folder`: when it runs again, when it does not, and how it ends."""

import shutil
import threading
import time
from contextlib import contextmanager
from functools import partial

import pytest

from knowledge_bot import Client, ConfigurationError
from knowledge_bot.ingest import Ledger, Report, Stop, ingest, watch_folder
from knowledge_bot.origins import Folder
from knowledge_bot.testing import MemoryService
from waiting import until

# Seconds in which a run that was not to begin would have begun, and been over.
_LONG_ENOUGH = 0.6


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr("knowledge_bot.ingest._watching._LOOK", 0.1)
    monkeypatch.setattr("knowledge_bot.ingest._watching._AGAIN", 0.2)


@pytest.fixture
def service():
    return MemoryService(collections=["col_1"])


class Watching:
    """A folder that is watched in a thread, and the reports of the runs."""

    def __init__(self, folder, find, run):
        self.stop, self.reports, self.away, self.error = threading.Event(), [], 0, None

        def noted(items):
            report = run(items)
            self.reports.append(report)
            return report

        def watch():
            try:
                watch_folder(folder, find, noted, stop=self.stop, on_away=self._on_away)
            except Exception as error:  # noqa: BLE001 - for the test to look at
                self.error = error

        self.thread = threading.Thread(target=watch, daemon=True)
        self.thread.start()

    def _on_away(self):
        self.away += 1

    def after(self, runs):
        """Wait until so many runs are over; return the last."""
        assert until(lambda: len(self.reports) >= runs), self.error
        return self.reports[-1]

    def stays_at(self, runs):
        return not until(lambda: len(self.reports) != runs, _LONG_ENOUGH)

    def created(self, count):
        """Wait until so many items were created over all runs."""
        return until(lambda: sum(report.created for report in self.reports) == count)


@pytest.fixture
def watching(service, tmp_path):
    """`watching(folder)`: watched, and fed to the service, until the block ends."""

    @contextmanager
    def watching(folder, ledger=tmp_path / "ledger.db", on_outcome=None, **how):
        with Client("key", "https://service.test", transport=service.transport) as client:
            run = partial(
                ingest,
                client,
                collections="col_1",
                ledger=Ledger(ledger),
                gone_limit=1,
                on_outcome=on_outcome,
            )
            one = Watching(folder, partial(Folder, folder, **how), run)
            try:
                yield one
            finally:
                one.stop.set()
                one.thread.join(20)
            assert not one.thread.is_alive()

    return watching


def test_it_runs_again_after_each_change_and_not_without_one(watching, service, handbook):
    with watching(handbook) as runs:
        assert runs.after(1).created == 3
        assert runs.stays_at(1)
        (handbook / "new.md").write_text("This is new.")
        assert runs.after(2).created == 1
        (handbook / "new.md").write_text("This is newer.")
        assert runs.after(3).created == 1
        (handbook / "node_modules" / "below").mkdir(parents=True)
        (handbook / "node_modules" / "below" / "d.md").write_text("This is deep.")
        assert runs.after(4).created == 1
        (handbook / "new.md").unlink()
        assert runs.after(5).gone == 1
    assert len(service.requests) == 6
    assert runs.error is None


def test_many_changes_at_once_lead_to_one_run(watching, handbook):
    with watching(handbook) as runs:
        runs.after(1)
        for number in range(20):
            (handbook / f"{number}.md").write_text(f"Number {number}.")
        assert runs.after(2).created == 20
        assert runs.stays_at(2)


def test_a_file_is_sent_when_it_is_written_to_its_end(watching, service, handbook, monkeypatch):
    monkeypatch.setattr("knowledge_bot.ingest._watching._LOOK", 0.3)
    with watching(handbook) as runs:
        runs.after(1)
        with (handbook / "large.md").open("w") as file:
            for _ in range(10):
                file.write("One more line.\n")
                file.flush()
                time.sleep(0.1)
        assert runs.after(2).created == 1
    assert service.requests[-1].body.count(b"One more line.") == 10


def test_a_change_while_a_run_is_under_way_is_not_missed(watching, handbook):
    changed = []

    def change(outcome):
        if outcome.name == "a.md" and not changed:  # it is read, and so are the folders
            changed.append(outcome)
            (handbook / "a.md").write_text("This is another.")
            (handbook / "0").mkdir()
            (handbook / "0" / "0.md").write_text("This is first.")

    with watching(handbook, on_outcome=change) as runs:
        assert runs.created(5)
        assert runs.stays_at(len(runs.reports))


def test_a_change_of_what_is_not_ingested_leads_to_no_run(watching, handbook):
    (handbook / ".kbotignore").write_text("*.log\n")
    with watching(handbook, include=["*.md", "*.tmp", "*.log"], exclude=["*.tmp"]) as runs:
        runs.after(1)
        # Hidden, excluded, named in .kbotignore, and of another kind.
        for name in (".new.md", "new.tmp", "new.log", "new.txt"):
            (handbook / name).write_text("This is new.")
        assert runs.stays_at(1)
        (handbook / ".kbotignore").write_text("deeper/\n")
        assert runs.after(2).created == 1  # new.log


def test_what_is_written_beside_the_items_does_not_set_it_off(watching, handbook):
    ledger, log = handbook / "ledger.db", handbook / "log.txt"
    own = [log, *(handbook / f"ledger.db{end}" for end in ("", "-wal", "-shm"))]
    log.touch()
    with watching(handbook, ledger, exclude=own) as runs:
        assert runs.after(1).created == 3
        log.write_text("One run.")
        assert runs.stays_at(1)


def test_a_folder_that_is_away_is_waited_for_and_another_in_its_place_is_ingested(
    watching, handbook, tmp_path
):
    with watching(handbook) as runs:
        assert runs.after(1).created == 3
        handbook.rename(tmp_path / "away")
        assert runs.stays_at(1)
        assert runs.error is None
        (tmp_path / "away").rename(handbook)
        (handbook / "a.md").write_text("This is new.")  # before it is watched again
        last = runs.after(2)
        assert (last.created, last.unchanged) == (1, 2)
        handbook.rename(tmp_path / "away")
        shutil.copytree(tmp_path / "away", handbook)
        (handbook / "newer.md").write_text("This is newer.")
        assert runs.created(5)
        (handbook / "newest.md").write_text("This is the newest.")
        assert runs.created(6)


def test_a_folder_that_is_not_there_yet_is_waited_for(watching, handbook, tmp_path):
    handbook.rename(tmp_path / "away")
    with watching(handbook) as runs:
        assert runs.stays_at(0)
        assert runs.away == 1
        (tmp_path / "away").rename(handbook)
        assert runs.after(1).created == 3
        assert runs.away == 1


def test_a_link_that_leads_elsewhere_is_followed(watching, handbook, tmp_path):
    other, link = tmp_path / "other", tmp_path / "link"
    shutil.copytree(handbook, other)
    (other / "other.md").write_text("This is another.")
    link.symlink_to(handbook)
    with watching(link, name="handbook") as runs:
        assert runs.after(1).created == 3
        (tmp_path / "next").symlink_to(other)
        (tmp_path / "next").rename(link)
        assert runs.created(4)
        (other / "last.md").write_text("This is the last.")
        assert runs.created(5)


def test_what_a_run_leaves_for_the_next_one_leads_to_another_without_a_change(handbook):
    left = [
        *(Report(stopped=Stop.UNAVAILABLE), Report(stopped=Stop.LEDGER), Report(unready=1)),
        *(Report(gone=2), Report(gone=2)),  # the same as before: it is there to stay
    ]
    ends = iter(left)
    runs = Watching(handbook, partial(Folder, handbook), lambda items: next(ends))
    runs.after(len(left))
    assert runs.stays_at(len(left))
    runs.stop.set()
    runs.thread.join(20)
    assert runs.error is None


def test_what_only_a_person_can_change_ends_it(watching, service, handbook):
    service.fail_next(401, times=None)
    with watching(handbook) as runs:
        assert runs.after(1).stopped is Stop.AUTHENTICATION
        assert until(lambda: not runs.thread.is_alive())
    assert runs.error is None


def test_what_cannot_be_found_while_the_folder_is_there_is_raised(handbook):
    def find():
        raise ConfigurationError("a pattern of the caller's")

    runs = Watching(handbook, find, run=None)
    runs.thread.join(20)
    assert isinstance(runs.error, ConfigurationError)
