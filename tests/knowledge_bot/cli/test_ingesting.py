"""`kbot ingest`: what is sent, what is shown, and how it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from calls import SOURCE
from knowledge_bot.testing import no_waiting
from nightly import nightly
from pseudo_terminal import terminal
from scripted_server import answer
from waiting import until

IN_ONE = ("--collection", "col_1")


def events(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_program_gets_every_failure(run, standing_in):
    standing_in(collections=["col_1"])
    lines = "no address\n" * 1200
    done = run("ingest", "urls", "-", "--json", *IN_ONE, stdin=lines)
    assert sum(one["event"] == "failure" for one in events(done)) == 1200


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sql", "shop.db", "select 1", "--key", "a", "--text", "b"], "--origin NAME"),
        (["folder", ".", "--gone-limit", "150%"], "--gone-limit"),
        (["folder", ".", "--prune", "all"], "'gone', 'excluded'"),
    ],
    ids=["no name", "no share", "nothing to prune"],
)
def test_what_cannot_be_is_a_sentence_and_nothing_is_sent(run, standing_in, arguments, said):
    service = standing_in(collections=["col_1"])
    done = run("ingest", *arguments, *IN_ONE)
    assert done.exit_code == 2
    assert said in done.stderr
    assert not service.sources


def test_a_run_that_never_reached_the_service_ends_as_its_report_says(
    run, standing_in, handbook, monkeypatch
):
    """And not by an error of its summary, which would also end a `--watch`."""
    monkeypatch.setattr("knowledge_bot.ingest._pressure._LONGEST_OUTAGE", 0.1)
    service = standing_in(collections=["col_1"])
    service.reachable = False
    with no_waiting():
        done = run("ingest", "folder", handbook, *IN_ONE)
    assert (done.exit_code, "compared with" in done.stderr) == (1, False)
    assert "Stopped before the end: the service is not available" in done.stderr
    assert service.pings == []


AWAY = "postgresql://127.0.0.1:9/ledgers"


def test_a_ledger_that_is_away_is_waited_for_and_that_is_said(run, standing_in, handbook):
    service = standing_in(collections=["col_1"])
    wait = ("--ledger", AWAY, "--ledger-wait", "1s")
    done = run("ingest", "folder", handbook, *wait, *IN_ONE)
    assert (done.exit_code, done.stderr.count("Waiting: ")) == (3, 1)
    assert not service.sources


def test_a_ledger_that_is_away_is_nothing_to_a_service_that_keeps_the_book(
    run, standing_in, handbook
):
    standing_in(collections=["col_1"], extensions={"sync"})
    assert run("ingest", "folder", handbook, "--ledger", AWAY, *IN_ONE).exit_code == 0


def test_a_dry_run_without_a_key_asks_nobody(run, standing_in, handbook, monkeypatch):
    service = standing_in(collections=["col_1"], extensions={"sync"})
    service.reachable = False
    monkeypatch.delenv("KNOWLEDGE_BOT_API_KEY")
    done = run("ingest", "folder", handbook, "--dry-run", *IN_ONE)
    assert (done.exit_code, "compared with what the service has" in done.stderr) == (0, False)
    assert "would create\t3" in done.stdout


@pytest.mark.slow
def test_a_program_gets_the_progress(program, answering, tmp_path):
    answering(slow)
    command = [program, "ingest", "urls", many(tmp_path, 40), "--concurrency", "4", "--json"]
    done = subprocess.run([*command, *IN_ONE], capture_output=True, text=True, check=True)
    seen = [one for one in events(done) if one["event"] == "progress"]
    assert len(seen) >= 2
    assert 0 < seen[1]["created"] < 40 == seen[1]["total"]
    assert seen[1]["current"].startswith("https://h.example/")


def slow(connection):
    time.sleep(0.3)
    answer(body=SOURCE)(connection)


def many(tmp_path, count=400):
    (tmp_path / "urls.txt").write_text(
        "".join(f"https://h.example/{number}\n" for number in range(count))
    )
    return tmp_path / "urls.txt"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", nightly([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], but=1))
def test_a_signal_lets_it_finish_what_is_under_way(program, run, answering, tmp_path, number):
    server = answering(slow)
    command = [program, "ingest", "urls", many(tmp_path), "--concurrency", "4", "--json", *IN_ONE]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert until(lambda: len(server.requests) >= 8)
        process.send_signal(number)
        stdout, said = process.communicate(timeout=30)
    assert process.returncode == 130
    summary = json.loads(stdout.splitlines()[-1])
    assert summary["created"] == len(server.requests) < 400
    assert (summary["unknown"], summary["stopped"]) == (0, "requested")
    assert "Interrupted" in said
    assert run("ledger", "unknown").stdout == ""


@pytest.mark.timeout(60)
def test_a_reader_that_goes_away_ends_it_and_leaves_nothing_unknown(
    program, run, answering, tmp_path
):
    server = answering(slow)
    command = [program, "ingest", "urls", many(tmp_path), "--concurrency", "4", "--json", *IN_ONE]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ)
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read().decode()
        assert process.wait(30) == 130
    assert f"created {len(server.requests)}, unchanged 0" in said
    assert len(server.requests) < 400
    assert "Traceback" not in said
    assert run("ledger", "unknown").stdout == ""


@pytest.mark.timeout(60)
@pytest.mark.slow
def test_a_terminal_shows_how_far_it_is_how_fast_how_long_yet_and_with_what(
    program, answering, tmp_path
):
    answering(slow)
    lines = [{"name": f"n{number}\x1b[2J", "content": str(number)} for number in range(40)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command = [program, "ingest", "jsonl", tmp_path / "items.jsonl", "--concurrency", "4"]
    with terminal([*command, *IN_ONE], {}) as screen:
        screen.expect("created 8")
        screen.expect("created 40")
        assert screen.end() == 0
    assert re.search(r"\n?12 of 40 items  \d[\d.]*/s  0:00:\d\d left  created 12\n", screen.shown)
    assert "n7\\x1b[2J" in screen.shown
    assert "\x1b[2J" not in screen.shown


@pytest.mark.timeout(60)
@pytest.mark.slow
def test_a_terminal_shows_why_nothing_is_sent(program, answering, tmp_path):
    answering(answer(429, headers={"Retry-After": "2"}), answer(body=SOURCE))
    command = [program, "ingest", "urls", many(tmp_path, 3), *IN_ONE]
    with terminal(command, {}) as screen:
        screen.expect("waiting: the service asked for it, going on in 2 s")
        screen.expect("outcome")
        assert screen.end() == 0


@pytest.mark.timeout(60)
@pytest.mark.parametrize("option", nightly(["--dry-run", "--quiet"], but=0))
def test_progress_comes_between_no_lines_and_not_where_quiet_is_wanted(
    program, answering, tmp_path, option
):
    answering(slow)
    with terminal([program, "ingest", "urls", many(tmp_path, 8), option, *IN_ONE], {}) as screen:
        assert screen.end() == 0
    assert "items  " not in screen.shown
    assert ("https://h.example/7\n" in screen.shown) == (option == "--dry-run")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("options", nightly([[], ["--quiet"]], but=0))
def test_a_terminal_that_is_closed_lets_it_finish_what_is_under_way(
    program, run, answering, tmp_path, options
):
    server = answering(slow)
    command = [program, "ingest", "urls", many(tmp_path), "--concurrency", "4", *options, *IN_ONE]
    with terminal(command, {}) as screen:
        while len(server.requests) < 8:
            screen.read(0.05)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), screen._master)
        assert screen._process.wait(30) == 130
    assert run("ledger", "unknown").stdout == ""
    (held,) = json.loads(run("ledger", "status", "--json").stdout)
    assert held["created"] == len(server.requests) < 400


@pytest.mark.timeout(60)
@pytest.mark.slow
def test_a_reader_that_pauses_holds_up_no_request(program, run, answering, tmp_path):
    answering(answer(body=SOURCE))
    lines = "".join(f"no address {'x' * 400} {number}\n" for number in range(400)) + "".join(
        f"https://h.example/{number}\n" for number in range(50)
    )
    (tmp_path / "urls.txt").write_text(lines)
    command = [program, "ingest", "urls", tmp_path / "urls.txt", "--json", *IN_ONE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        assert until(lambda: "\t50\t" in run("ledger", "status").stdout)
        stdout, _ = process.communicate()
    assert process.returncode == 3
    assert json.loads(stdout.splitlines()[-1])["invalid"] == 400


# Where items come from


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every name is Unicode")
def test_a_name_that_is_not_utf_8_is_reported_and_the_rest_is_sent(run, standing_in, handbook):
    service = standing_in(collections=["col_1"])
    for name in (b"caf\xe9.md", b".caf\xe9"):
        (handbook / os.fsdecode(name)).write_text("x")
    (handbook / "link.md").symlink_to(os.fsdecode(b"caf\xe9.md"))
    done = run("ingest", "folder", handbook, *IN_ONE)
    assert (done.exit_code, len(service.requests)) == (3, 3)
    for name in ("\n  caf\\xe9.md\n", "\n  .caf\\xe9\n", "\n  link.md\n"):
        assert name in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="it is Linux's file that cannot be read")
def test_a_list_that_cannot_be_read_to_its_end_is_a_sentence(run, standing_in):
    standing_in(collections=["col_1"])
    done = run("ingest", "urls", "/proc/self/mem", *IN_ONE)
    assert done.exit_code == 3
    assert "Input/output error" in done.stderr


def test_a_secret_that_a_loader_repeats_is_not_shown(run, standing_in, tmp_path, monkeypatch):
    standing_in(collections=["col_1"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    strict = "class Strict:\n  load = print\n  def __init__(self, it): raise ValueError(it)\n"
    (tmp_path / "strict_loaders.py").write_text(strict)
    done = run("ingest", "loader", "strict_loaders:Strict", "--set", "it=s3cret", *IN_ONE)
    assert (done.exit_code, "s3cret" in done.stderr) == (2, False)
    assert "ValueError" in done.stderr
