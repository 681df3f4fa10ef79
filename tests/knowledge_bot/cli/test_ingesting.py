"""`kbot ingest`: what is sent, what is told, and how it ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from calls import SOURCE
from pseudo_terminal import terminal
from scripted_server import answer, close

IN_ONE = ("--collection", "col_1")


def events(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_folder_is_sent_once_and_what_changed_is_sent_again(run, of_the_service, handbook):
    first = run("ingest", "folder", handbook)
    assert (first.exit_code, first.stdout) == (0, "created\t3\nunchanged\t0\nskipped\t1\n")
    assert "skipped: it is hidden\n  .hidden\n" in first.stderr
    second = run("ingest", "folder", handbook)
    assert (second.exit_code, second.stdout) == (0, "created\t0\nunchanged\t3\nskipped\t1\n")
    (handbook / "a.md").write_text("This is new.")
    third = run("ingest", "folder", handbook)
    assert third.stdout == "created\t1\nunchanged\t2\nsuperseded\t1\nskipped\t1\n"
    assert "kbot ledger superseded" in third.stderr


def test_the_ledger_is_kept_with_the_users_data_and_told(run, of_the_service, handbook, tmp_path):
    done = run("ingest", "folder", handbook)
    assert f"remembered in {tmp_path}/data/kbot/ledger.db" in done.stderr
    assert (tmp_path / "data" / "kbot" / "ledger.db").is_file()


def test_a_dry_run_sends_nothing_and_needs_no_key(run, scripted, handbook, tmp_path):
    server = scripted(answer(body=SOURCE))
    done = run("--base-url", server.url, "ingest", "folder", handbook, "--dry-run", *IN_ONE)
    assert (done.exit_code, done.stdout) == (0, "would create\t3\nunchanged\t0\nskipped\t1\n")
    assert server.started == 0
    assert not (tmp_path / "data" / "kbot" / "ledger.db").exists()


def test_each_event_is_a_line_of_json_and_the_last_the_summary(run, answering, handbook):
    server = answering(answer(body=SOURCE))
    server.reply_to = lambda request: (
        answer(400, {"message": "no"}) if b"b.txt" in request.body else answer(body=SOURCE)
    )
    done = run("ingest", "folder", handbook, "--json", *IN_ONE)
    assert done.exit_code == 3
    *told, summary = events(done)
    kinds = {one["name"]: one["kind"] for one in told if one["event"] == "failure"}
    assert kinds == {".hidden": "skipped", "b.txt": "refused"}
    assert summary["event"] == "summary"
    assert (summary["created"], summary["refused"], summary["ok"]) == (2, 1, False)
    assert "the next run tries again" in done.stderr


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_summary_goes_into_jq(program, of_the_service, handbook):
    done = subprocess.run(
        f"{program} ingest folder {handbook} --json | jq -s '.[-1].created'",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "3\n"


@pytest.mark.parametrize(
    ("reply", "code", "word"),
    [
        (answer(401), 4, "401"),
        (answer(402), 4, "402"),
        (answer(400), 3, "the next run tries again"),
        (close, 8, "kbot ledger resolve KEY"),
        (answer(500), 8, "kbot ledger unknown"),
    ],
)
def test_the_exit_code_tells_how_it_ended(run, answering, reply, code, word):
    answering(reply)
    done = run("ingest", "urls", "-", *IN_ONE, stdin="https://h.example/a")
    assert done.exit_code == code
    assert word in done.stderr


def test_what_is_unknown_is_held_and_sent_again_on_request(run, answering):
    server = answering(close, answer(body=SOURCE))
    urls = {"stdin": "https://h.example/a"}
    assert run("ingest", "urls", "-", *IN_ONE, **urls).exit_code == 8
    assert run("ingest", "urls", "-", *IN_ONE, **urls).exit_code == 8
    assert len(server.requests) == 1
    done = run("ingest", "urls", "-", "--on-unknown", "resend", *IN_ONE, **urls)
    assert (done.exit_code, done.stdout) == (0, "created\t1\nunchanged\t0\n")
    assert len(server.requests) == 2


def test_no_more_than_20_failures_are_told_to_a_person(run, answering):
    answering(answer(400))
    urls = "\n".join(f"https://h.example/{number}" for number in range(30))
    done = run("ingest", "urls", "-", *IN_ONE, stdin=urls)
    assert done.stderr.count("  https://h.example/") == 20
    assert "… and 10 more" in done.stderr


def test_a_ledger_that_cannot_be_one_stops_it_before_anything_is_sent(run, answering, handbook):
    server = answering(answer(body=SOURCE))
    for wrong in (handbook / "a.md", handbook, "mysql://h.example/x"):
        done = run("ingest", "folder", handbook, "--ledger", wrong, *IN_ONE)
        assert done.exit_code == 3
        assert done.stderr.startswith("Error: Nothing was sent: ")
    assert server.started == 0


@pytest.mark.parametrize("arguments", [("folder", "none"), ("jsonl", "none"), ("urls", "none")])
def test_a_place_that_is_not_there_is_a_usage_error(run, answering, arguments):
    answering(answer(body=SOURCE))
    assert run("ingest", *arguments, *IN_ONE).exit_code == 2


def slow(connection):
    time.sleep(0.3)
    answer(body=SOURCE)(connection)


def many(tmp_path, count=400):
    (tmp_path / "urls.txt").write_text(
        "".join(f"https://h.example/{number}\n" for number in range(count))
    )
    return tmp_path / "urls.txt"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_it_finish_what_is_under_way(program, run, answering, tmp_path, number):
    server = answering(slow)
    command = [program, "ingest", "urls", many(tmp_path), "--concurrency", "4", "--json", *IN_ONE]
    # Coverage would handle SIGTERM in the child, and the engine leaves others' handlers alone.
    environment = {name: v for name, v in os.environ.items() if not name.startswith("COVERAGE")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        while len(server.requests) < 8:
            time.sleep(0.01)
        process.send_signal(number)
        told, said = process.communicate(timeout=30)
    assert process.returncode == 130
    summary = json.loads(told.splitlines()[-1])
    assert summary["created"] == len(server.requests) < 400
    assert (summary["unknown"], summary["stopped"]) == (0, "requested")
    assert "Stopping: what is under way is finished first." in said
    assert "Interrupted" in said
    assert run("ledger", "unknown").stdout == ""


def test_two_signals_before_the_first_item_are_an_interruption_and_nothing_worse():
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_AT_ONCE], capture_output=True, text=True, check=True
    )
    assert done.stdout == "interrupted\n"
    assert "Traceback" not in done.stderr


_INTERRUPTED_AT_ONCE = """
import asyncio, os, signal, time
from knowledge_bot import Client
from knowledge_bot.ingest import ingest

begin = asyncio.run

def begin_late(main):
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
    return begin(main)

asyncio.run = begin_late
try:
    ingest(Client("key", "http://127.0.0.1:9"), [], collections="col_1")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.timeout(60)
def test_a_reader_that_goes_away_leaves_nothing_unknown(program, run, answering, tmp_path):
    answering(answer(400))
    command = [program, "ingest", "urls", many(tmp_path), "--json", *IN_ONE]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read().decode()
        assert process.wait(30) in (3, 130)  # 3: it was done before it noticed
    assert "Traceback" not in said
    assert run("ledger", "unknown").stdout == ""


@pytest.mark.timeout(60)
def test_ctrl_c_on_a_terminal_shows_progress_and_says_that_it_finishes(
    program, answering, tmp_path
):
    answering(slow)
    command = [program, "ingest", "urls", many(tmp_path), "--concurrency", "4", *IN_ONE]
    with terminal(command, {}) as screen:
        screen.expect("created ")
        screen.type("\x03")
        screen.expect("Stopping: what is under way is finished first.")
        screen.expect("outcome")
        assert screen.end() == 130
    assert "Interrupted: what was under way was finished" in screen.shown
    assert "Traceback" not in screen.shown


@pytest.mark.timeout(60)
def test_what_a_killed_run_left_is_told_by_the_ledger(program, run, answering, tmp_path):
    held = threading.Event()
    server = answering(lambda connection: held.wait(20))
    command = [program, "ingest", "urls", many(tmp_path, 5), "--concurrency", "2", *IN_ONE]
    with subprocess.Popen(command) as process:
        while len(server.requests) < 2:
            time.sleep(0.01)
        process.kill()
    held.set()
    assert len(run("ledger", "unknown").stdout.splitlines()) == 2
