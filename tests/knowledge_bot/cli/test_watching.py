"""`kbot ingest folder --watch`: when it runs again, when it does not, and how it ends."""

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from calls import SOURCE
from scripted_server import answer
from waiting import until

pytestmark = pytest.mark.timeout(90)

# Seconds in which a run that was not to begin would have begun, and been over.
_LONG_ENOUGH = 1.5


class Watching:
    """A `kbot` that watches, and the lines of JSON that it wrote to a file."""

    def __init__(self, process, output):
        self.process, self._output = process, output

    @property
    def runs(self):
        lines = self._output.read_text().splitlines()
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [one for one in found if one["event"] == "summary"]

    def after(self, runs):
        """Wait until so many runs are over, and it waits for a change; return the last."""
        said = self._output.read_text
        assert until(lambda: said().count("Ctrl-C ends it.") >= runs), said()
        return self.runs[-1]

    def stays_at(self, runs):
        """Whether no other run is over within the time that one would have taken."""
        return not until(lambda: len(self.runs) != runs, _LONG_ENOUGH)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(20)
        assert "Traceback" not in self._output.read_text()
        return code


@pytest.fixture
def watching(program, tmp_path):
    @contextmanager
    def watching(folder, *options, output=None):
        output = output or tmp_path / "output"
        command = [program, "ingest", "folder", folder, "--watch", "--json", *options]
        with (
            output.open("w") as stdout,
            subprocess.Popen(
                [*command, "--collection", "col_1"], stdout=stdout, stderr=stdout
            ) as process,
        ):
            try:
                yield Watching(process, output)
            finally:
                process.kill()

    return watching


def test_it_runs_again_after_each_change_and_not_without_one(watching, answering, handbook):
    server = answering(answer(body=SOURCE))
    with watching(handbook) as kbot:
        assert kbot.after(1)["created"] == 3
        assert kbot.stays_at(1)
        (handbook / "new.md").write_text("This is new.")
        assert kbot.after(2)["created"] == 1
        (handbook / "new.md").write_text("This is newer.")
        assert kbot.after(3)["created"] == 1
        (handbook / "new.md").unlink()
        assert kbot.after(4)["gone"] == 1
        (handbook / "node_modules" / "below").mkdir(parents=True)
        (handbook / "node_modules" / "below" / "d.md").write_text("This is deep.")
        assert kbot.after(5)["created"] == 1
    assert len(server.requests) == 6


def test_many_changes_at_once_lead_to_one_run(watching, answering, handbook):
    server = answering(answer(body=SOURCE))
    with watching(handbook) as kbot:
        kbot.after(1)
        for number in range(20):
            (handbook / f"{number}.md").write_text(f"Number {number}.")
        assert kbot.after(2)["created"] == 20
    assert len(server.requests) == 23


def test_a_file_is_sent_when_it_is_written_to_its_end(watching, answering, handbook):
    server = answering(answer(body=SOURCE))
    with watching(handbook) as kbot:
        kbot.after(1)
        with (handbook / "large.md").open("w") as file:
            for _ in range(20):
                file.write("One more line.\n")
                file.flush()
                time.sleep(0.1)
        assert kbot.after(2)["created"] == 1
        assert kbot.stays_at(2)
    assert len(server.requests) == 4
    assert server.requests[-1].body.count(b"One more line.") == 20


def test_a_change_while_a_run_is_under_way_is_not_missed(watching, answering, handbook):
    def reply_to(request):
        # It has arrived whole, and a folder made now is in no list that the run has read.
        if b"a.md" in request.body and not (handbook / "0").exists():
            (handbook / "a.md").write_text("This is another.")
            (handbook / "0").mkdir()
            (handbook / "0" / "0.md").write_text("This is first.")
        return answer(body=SOURCE)

    server = answering(answer(body=SOURCE))
    server.reply_to = reply_to
    with watching(handbook) as kbot:
        assert kbot.after(1)["created"] == 3
        assert until(lambda: sum(run["created"] for run in kbot.runs) == 5)
        assert kbot.stays_at(len(kbot.runs))
    assert len(server.requests) == 5
    contents = b"".join(request.body for request in server.requests)
    assert b"This is another." in contents
    assert b"This is first." in contents


def test_a_change_of_what_is_not_ingested_leads_to_no_run(watching, answering, handbook):
    answering(answer(body=SOURCE))
    (handbook / ".kbotignore").write_text("*.log\n")
    options = [word for kind in ("md", "tmp", "log") for word in ("--include", f"*.{kind}")]
    with watching(handbook, *options, "--exclude", "*.tmp") as kbot:
        kbot.after(1)
        # Hidden, excluded, named in .kbotignore, and of another kind.
        for name in (".new.md", "new.tmp", "new.log", "new.txt"):
            (handbook / name).write_text("This is new.")
        assert kbot.stays_at(1)
        (handbook / "new.md").write_text("This is new.")
        assert kbot.after(2)["created"] == 1


def test_what_the_ignored_names_no_longer_cover_is_sent(watching, answering, handbook):
    answering(answer(body=SOURCE))
    (handbook / ".kbotignore").write_text("*.md\n")
    with watching(handbook) as kbot:
        assert kbot.after(1)["created"] == 1
        (handbook / ".kbotignore").write_text("deeper/\n")
        assert kbot.after(2)["created"] == 1


def test_a_ledger_and_an_output_in_the_folder_do_not_set_it_off(watching, answering, handbook):
    server = answering(answer(body=SOURCE))
    ledger = ("--ledger", handbook / "ledger.db")
    with watching(handbook, *ledger, output=handbook / "output.log") as kbot:
        kbot.after(1)
        assert kbot.stays_at(1)
        (handbook / "new.md").write_text("This is new.")
        assert kbot.after(2)["created"] == 1
        assert kbot.stays_at(2)
    assert len(server.requests) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_between_two_runs(watching, answering, handbook, number):
    answering(answer(body=SOURCE))
    with watching(handbook) as kbot:
        kbot.after(1)
        assert kbot.end(number) == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_a_run_finish_what_is_under_way(watching, run, answering, handbook, number):
    def slow(connection):
        time.sleep(0.5)
        answer(body=SOURCE)(connection)

    server = answering(slow)
    with watching(handbook, "--concurrency", "1") as kbot:
        assert until(lambda: server.requests)
        assert kbot.end(number) == 130
        (only,) = kbot.runs
    assert (only["created"], only["unknown"]) == (len(server.requests), 0)
    assert only["created"] < 3
    assert run("ledger", "unknown").stdout == ""


def test_what_failed_is_reported_is_tried_with_the_next_change_and_is_in_the_exit_code(
    watching, answering, handbook
):
    server = answering()
    server.reply_to = lambda request: (
        answer(400, {"message": "no"}) if b"b.txt" in request.body else answer(body=SOURCE)
    )
    with watching(handbook) as kbot:
        assert kbot.after(1)["refused"] == 1
        (handbook / "new.md").write_text("This is new.")
        run = kbot.after(2)
        assert (run["created"], run["refused"]) == (1, 1)
        assert kbot.end() == 3


def test_a_key_that_is_not_accepted_ends_it(watching, answering, handbook):
    answering(answer(401))
    with watching(handbook) as kbot:
        assert kbot.process.wait(20) == 4


def test_a_folder_that_is_away_is_waited_for_and_another_in_its_place_is_ingested(
    watching, answering, handbook, tmp_path, monkeypatch
):
    server = answering(answer(body=SOURCE))
    monkeypatch.chdir(tmp_path)
    with watching(handbook.name) as kbot:
        assert kbot.after(1)["created"] == 3
        handbook.rename(tmp_path / "away")
        assert kbot.stays_at(1)
        assert kbot.process.poll() is None
        (tmp_path / "away").rename(handbook)
        (handbook / "a.md").write_text("This is new.")  # before it is watched again
        last = kbot.after(2)
        assert (last["created"], last["unchanged"]) == (1, 2)
        handbook.rename(tmp_path / "away")
        shutil.copytree(tmp_path / "away", handbook)
        (handbook / "newer.md").write_text("This is newer.")
        assert until(lambda: len(server.requests) == 5)
        (handbook / "newest.md").write_text("This is the newest.")
        assert until(lambda: len(server.requests) == 6)
        assert kbot.end() == 130
    assert len(server.requests) == 6


def test_a_link_that_leads_elsewhere_is_followed(watching, answering, handbook, tmp_path):
    """What changes there while the first run is under way is noted, too."""
    other, link = tmp_path / "other", tmp_path / "link"

    def changing(connection):
        (other / "last.md").write_text("This is the last.")
        answer(body=SOURCE)(connection)

    server = answering(*[answer(body=SOURCE)] * 3, changing, answer(body=SOURCE))
    shutil.copytree(handbook, other)
    (other / "other.md").write_text("This is another.")
    link.symlink_to(handbook)
    with watching(link, "--origin", "handbook") as kbot:
        assert kbot.after(1)["created"] == 3
        (tmp_path / "next").symlink_to(other)
        (tmp_path / "next").rename(link)
        assert kbot.after(3)["created"] == 1
    assert len(server.requests) == 5


def test_a_name_that_is_not_utf_8_does_not_end_it(watching, answering, handbook):
    answering(answer(body=SOURCE))
    with watching(handbook) as kbot:
        kbot.after(1)
        (Path(os.fsdecode(bytes(handbook) + b"/\xe9.md"))).write_text("This is old.")
        until(lambda: len(kbot.runs) > 1, _LONG_ENOUGH)
        (handbook / "new.md").write_text("This is new.")
        assert until(lambda: sum(run["created"] for run in kbot.runs) == 4)
        assert kbot.process.poll() is None


def test_what_is_skipped_is_reported_in_the_first_run_alone(program, answering, handbook):
    answering(answer(body=SOURCE))
    (handbook / "empty.md").touch()
    command = [program, "ingest", "folder", handbook, "--watch", "--collection", "col_1"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        first = "".join(iter(process.stderr.readline, f"Watching {handbook}; Ctrl-C ends it.\n"))
        (handbook / "new.md").write_text("This is new.")
        second = process.stderr.readline() + process.stderr.readline()
        process.kill()
    assert "\n  .hidden\n" in first
    assert "\n  empty.md\n" in first
    assert "skipped: " not in second
    assert "Watching" in second
