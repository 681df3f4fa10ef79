"""`kbot ingest folder --watch` as a process: what it says of each run, and how it ends.

When it runs again is told of `watch_folder` (tests/knowledge_bot/ingest/test_watching.py).
"""

import contextlib
import json
import signal
import subprocess

import pytest

from knowledge_bot.testing import MemoryService
from nightly import nightly
from served import served
from waiting import until

pytestmark = pytest.mark.timeout(90)


@pytest.fixture
def watching(program, handbook, monkeypatch, tmp_path):
    """`watching(service, option, …)`: a `kbot` that watches, with its output in a file."""

    @contextlib.contextmanager
    def watching(service, *options):
        output = tmp_path / "output"
        monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key")
        command = [program, "ingest", "folder", handbook, "--watch", "--collection", "col_1"]
        with (
            served(service) as url,
            output.open("w") as file,
            subprocess.Popen(
                [*command[:1], "--base-url", url, *command[1:], *options],
                stdout=file,
                stderr=file,
            ) as process,
        ):
            try:
                yield process, output.read_text
            finally:
                process.kill()
        assert "Traceback" not in output.read_text()

    return watching


@pytest.fixture
def service():
    return MemoryService(collections=["col_1"])


def test_each_run_is_reported_what_is_skipped_once_and_what_failed_is_in_the_exit_code(
    watching, service, handbook
):
    service.fail_next(400, where=lambda one: b"b.txt" in one.body)
    with watching(service) as (process, said):
        assert until(lambda: said().count("Ctrl-C ends it.") == 1)
        assert ".hidden" in said()
        assert "Error: 1 not created" in said()
        (handbook / "new.md").write_text("This is new.")
        assert until(lambda: said().count("Ctrl-C ends it.") == 2)
        process.send_signal(signal.SIGTERM)
        # The second run sent what the first could not.
        assert process.wait(20) == 130
    assert said().count(".hidden") == 1
    assert len(service.requests) == 5


@pytest.mark.parametrize("number", nightly([signal.SIGTERM, signal.SIGINT, signal.SIGHUP], but=1))
def test_a_signal_lets_a_run_finish_what_is_under_way(watching, run, service, number):
    with watching(service, "--concurrency", "1", "--json") as (process, said):
        with service.holding_answers():
            assert until(lambda: service.requests)
            process.send_signal(number)
            assert until(lambda: "Stopping" in said())
        assert process.wait(20) == 130
    lines = [json.loads(line) for line in said().splitlines() if line.startswith("{")]
    (only,) = [one for one in lines if one["event"] == "summary"]
    assert (only["created"], only["unknown"], len(service.requests)) == (1, 0, 1)
    assert run("ledger", "unknown").stdout == ""


@pytest.mark.slow
def test_a_key_that_is_not_accepted_ends_it(watching, service):
    service.fail_next(401, times=None)
    with watching(service) as (process, _):
        assert process.wait(20) == 4
