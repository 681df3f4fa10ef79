"""`kbot check`: what is asked, what is shown, and how it ends."""

import itertools
import json
import signal
import subprocess
import time

import pytest

from calls import KEY
from pseudo_terminal import terminal
from scripted_server import answer, silence
from waiting import until

QUESTIONS = """\
[[questions]]
ask = "When do you open?"
contains = "9:30"

[[questions]]
ask = "Who leads it?"
contains = "Mia"
"""

OPENS, LEADS = "When do you open?", "Who leads it?"
RIGHT = {OPENS: "At 9:30.", LEADS: "Mia does."}
HALF = {OPENS: "At 9:30.", LEADS: "Max does."}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "questions.toml"
    path.write_text(QUESTIONS)
    return path


@pytest.fixture
def bots(answering):
    """`bots(bot_1={question: answer})`: a server of bots; values may be replies."""

    def start(**given):
        numbers = itertools.count(1)

        def reply(request):
            if request.method == "GET":
                return answer(body={"data": [{"id": bot, "name": bot} for bot in given]})
            value = json.loads(request.body)["value"]
            known = given.get(value["bot_id"])
            if known is None:
                return answer(400, {"code": "unknown_bot", "message": "There is no such bot"})
            said = known(value["content"]) if callable(known) else known[value["content"]]
            if not isinstance(said, str):
                return said
            number = next(numbers)
            body = {"id": f"msg_{number}", "answer": said, "conversation_id": f"conv_{number}"}
            return answer(body={**body, "created_at": 1})

        return answering(reply_to=reply)

    return start


def asked(server):
    return [one.json()["value"]["content"] for one in server.requests if one.method == "POST"]


def test_a_person_sees_a_table_and_how_far_it_is(program, bots, file):
    count = itertools.count()
    server = bots(bot_1=lambda asked: "Mia, at 9:30." if next(count) >= 4 else "Later.")
    environment = {"KNOWLEDGE_BOT_BASE_URL": server.url, "KNOWLEDGE_BOT_API_KEY": KEY}
    command = [program, "check", "bot_1", file, "--wait", "30s", "--interval", "1s"]
    with terminal(command, environment, columns=80) as screen:
        screen.expect("0 of 2 passed, 2 open")
        screen.expect("asking again in 1 s")
        screen.expect("verdict     tries  seconds  question")
        screen.expect("passed          3")
        assert screen.end() == 0
    tail = screen.shown[screen.shown.rindex("verdict ") :]
    assert all(len(line) <= 80 for line in tail.splitlines()[:4])


def test_it_waits_until_the_bot_knows(run, bots, file):
    known = time.monotonic() + 1
    server = bots(bot_1=lambda asked: "Mia, at 9:30." if time.monotonic() > known else "Later.")
    done = run("check", "bot_1", file, "--wait", "1m", "--interval", "0.4")
    assert done.exit_code == 0
    assert done.stderr.startswith("0 of 2 passed; the others are asked again.\n")
    assert 2 < len(asked(server)) <= 8


@pytest.mark.parametrize("given", ["10", "10s", "0.5m", "1h30m"])
def test_a_time_is_written_in_several_ways(run, bots, file, given):
    bots(bot_1=RIGHT)
    assert run("check", "bot_1", file, "--wait", given).exit_code == 0


def test_what_does_not_pass_is_shown_by_github(run, bots, file, monkeypatch):
    bots(bot_2={**HALF, LEADS: "Max,\n100 %."})
    assert "::error" not in run("check", "bot_2", file).stderr
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    file.write_text(QUESTIONS.replace("Who leads", "Who: leads").replace("Mia", "Mia\\n%"))
    bots(bot_2={OPENS: "At 9:30.", "Who: leads it?": "Max."})
    done = run("check", "bot_2", file)
    (shown,) = (line for line in done.stderr.splitlines() if line.startswith("::"))
    name = str(file).replace(":", "%3A")
    assert shown.startswith(f"::error file={name},title=Who%3A leads it?::The answer does not")
    assert "%0A" in shown
    assert "%25" in shown


def test_the_first_night_makes_the_file_that_every_night_compares_with(run, bots, file, tmp_path):
    last = tmp_path / "last.json"
    said = {OPENS: "At 9:30.", LEADS: "Mia does."}
    bots(bot_1=said)
    nightly = ("check", "bot_1", file, "--baseline", last, "--save-baseline", last)
    done = run(*nightly)
    assert (done.exit_code, last.exists()) == (0, True), done.stderr
    # A night without an answer to one: it stands as it did, and a real break is seen after it.
    said[OPENS] = answer(500)
    assert run(*nightly, "--min-pass", "0").exit_code == 3
    said[OPENS] = "At noon."
    done = run(*nightly, "--min-pass", "0")
    assert (done.exit_code, f"  worse: {OPENS}" in done.stderr) == (3, True)
    missing = ("check", "bot_1", file, "--baseline", tmp_path / "other.json")
    assert run(*missing, "--save-baseline", last).exit_code == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_what_is_known(program, bots, file, tmp_path, number):
    server = bots(bot_1=HALF)
    junit = tmp_path / "junit.xml"
    command = [program, "check", "bot_1", file, "--wait", "10m", "--junit", junit]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert until(lambda: len(server.requests) == 2)
        time.sleep(0.5)
        running.send_signal(number)
        stdout, stderr = running.communicate(timeout=20)
    assert running.returncode == 130, stderr
    assert [line.split("\t")[0] for line in stdout.splitlines()] == ["passed", "failed"]
    assert "Error: Interrupted: 1 of 2 passed." in stderr
    assert "Traceback" not in stderr
    assert 'tests="2"' in junit.read_text()


def test_a_second_ctrl_c_waits_for_nothing(program, bots, file):
    server = bots(bot_1=lambda _: silence)
    command = [program, "check", "bot_1", file]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert until(lambda: len(server.requests) == 2)
        running.send_signal(signal.SIGINT)
        while "Stopping" not in (line := running.stderr.readline()):
            assert line
        time.sleep(0.7)  # within half a second, a second signal belongs to the first
        began = time.monotonic()
        running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=20)
    assert time.monotonic() - began < 4.5
    assert running.returncode == 130, stderr
    assert stdout.count("The message may have been sent.") == 2
    assert "Traceback" not in stderr


def test_a_full_disk_is_reported(program, bots, file):
    bots(bot_1=RIGHT)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [program, "check", "bot_1", file, "--junit", "/dev/full"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "stdout cannot be written: No space left on device. 2 of 2 passed." in done.stderr


def test_nothing_of_a_service_steers_a_terminal(program, bots, file):
    server = bots(bot_1=lambda _: "\x1b[2J\x1b]0;evil\x07 gone")
    environment = {"KNOWLEDGE_BOT_BASE_URL": server.url, "KNOWLEDGE_BOT_API_KEY": KEY}
    with terminal([program, "check", "bot_1", file], environment, columns=80) as screen:
        screen.expect("2 of 2 did not pass")
        assert screen.end() == 3
    assert "\x1b[2J" not in screen.shown
    assert "\\x1b[2J" in screen.shown
