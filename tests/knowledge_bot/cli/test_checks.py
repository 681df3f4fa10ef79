"""`kbot check`: what is asked, what is shown, and how it ends."""

import contextlib
import signal
import subprocess
import time

import pytest

from calls import KEY
from knowledge_bot.testing import MemoryService
from nightly import nightly
from pseudo_terminal import terminal
from served import served
from two_questions import HALF, QUESTIONS, RIGHT
from waiting import until


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "questions.toml"
    path.write_text(QUESTIONS)
    return path


@pytest.fixture
def bots(monkeypatch):
    """`bots(bot_1={question: answer})`: bots that the environment names."""
    with contextlib.ExitStack() as stopping:

        def start(**given):
            service = MemoryService(bots=given)
            monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", stopping.enter_context(served(service)))
            monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
            return service

        yield start


@pytest.mark.slow
def test_a_person_sees_a_table_and_how_far_it_is(program, bots, file):
    bots(bot_1={asked: ["Later.", "Later.", right] for asked, right in RIGHT.items()})
    command = [program, "check", "bot_1", file, "--wait", "30s", "--interval", "1s"]
    with terminal(command, {}, columns=80) as screen:
        screen.expect("0 of 2 passed, 2 open")
        screen.expect("asking again in 1 s")
        screen.expect("verdict     tries  seconds  question")
        screen.expect("passed          3")
        assert screen.end() == 0
    tail = screen.shown[screen.shown.rindex("verdict ") :]
    assert all(len(line) <= 80 for line in tail.splitlines()[:4])


@pytest.mark.parametrize("number", nightly([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], but=1))
def test_a_signal_ends_it_with_what_is_known(program, bots, file, tmp_path, number):
    bots(bot_1=HALF)
    junit = tmp_path / "junit.xml"
    command = [program, "check", "bot_1", file, "--wait", "10m", "--junit", junit]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        while "asked again" not in running.stderr.readline():
            assert running.poll() is None
        running.send_signal(number)
        stdout, stderr = running.communicate(timeout=20)
    assert running.returncode == 130, stderr
    assert [line.split("\t")[0] for line in stdout.splitlines()] == ["passed", "failed"]
    assert "Error: Interrupted: 1 of 2 passed." in stderr
    assert "Traceback" not in stderr
    assert 'tests="2"' in junit.read_text()


@pytest.mark.slow
def test_a_second_ctrl_c_waits_for_nothing(program, bots, file):
    service = bots(bot_1={})
    service.time_out_next(times=None)
    command = [program, "check", "bot_1", file]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert until(lambda: len(service.requests) == 2)
        running.send_signal(signal.SIGINT)
        while "Stopping" not in (line := running.stderr.readline()):
            assert line
        time.sleep(0.7)  # within half a second, a second signal belongs to the first
        began = time.monotonic()
        running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=20)
    assert time.monotonic() - began < 4.5
    assert running.returncode == 130, stderr
    assert stdout.count("unanswered\t") == 2
    assert "Traceback" not in stderr
