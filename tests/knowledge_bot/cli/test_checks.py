"""`kbot check`: what is asked, what is shown, and how it ends."""

import itertools
import json
import os
import re
import signal
import subprocess
import time

import pytest

from calls import KEY
from pseudo_terminal import terminal
from scripted_server import answer, close, silence
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


def test_enough_that_passes_is_0_and_anything_less_is_3(run, bots, file):
    bots(bot_1=RIGHT, bot_2=HALF)
    done = run("check", "bot_1", file)
    assert done.exit_code == 0
    assert re.fullmatch(
        r"passed\t1\t\d\.\d\d\tbot_1\tWhen do you open\?\t\n"
        r"passed\t1\t\d\.\d\d\tbot_1\tWho leads it\?\t\n",
        done.stdout,
    )
    assert re.fullmatch(r"\(2 of 2 passed; an answer took .* s in all\)\n", done.stderr)
    done = run("check", "bot_2", file)
    assert done.exit_code == 3
    assert done.stdout.splitlines()[1].endswith('\tThe answer does not contain "Mia".')
    assert done.stderr.endswith("Error: 1 of 2 did not pass.\n")
    assert run("check", "bot_2", file, "--min-pass", "0.5").exit_code == 0
    done = run("check", "bot_2", file, "--min-pass", "0.6", "--quiet")
    assert (done.exit_code, done.stderr) == (
        3,
        "Error: 1 of 2 did not pass, and 0.6 of all have to.\n",
    )


def test_the_only_bot_is_asked_where_none_is_named(run, bots, file):
    bots(bot_1=RIGHT)
    done = run("check", file)
    assert (done.exit_code, "(asking bot_1, the only bot)" in done.stderr) == (0, True)


def test_a_file_that_is_forgotten_is_no_bot(run, bots):
    bots(bot_1=RIGHT)
    done = run("check", "bot_1")
    assert (done.exit_code, "there is no FILE of questions for bot_1" in done.stderr) == (2, True)


def test_the_report_is_json_for_programs(run, bots, file):
    bots(bot_1=HALF)
    done = run("check", "bot_1", file, "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["ok"], found["passed"], found["comparison"]) == (
        3,
        False,
        1,
        None,
    )
    assert found["results"][1]["answer"] == "Max does."


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--wait", "soon"), "'soon' is not a time; write it as 90, 90s, 10m or 1h30m"),
        (("--wait", "-1"), "is not a time"),
        (("--wait", ""), "is not a time"),
        (("--min-pass", "90"), "is not in the range 0<=x<=1"),
        (("--concurrency", "0"), "is not in the range"),
        (("--bots", "bot_1"), "name either a BOT or --bots"),
        (("more",), "name one BOT and one FILE"),
        (("--interval", "0"), "interval: expected 0.1 or more"),
        (("--junit", "/nowhere/junit.xml"), "there is no folder /nowhere. Nothing was asked."),
        (("--save-baseline", "/"), "it is a folder. Nothing was asked."),
        (("--baseline", "/nowhere.json"), "/nowhere.json: cannot be read: No such file"),
    ],
)
def test_a_wrong_command_line_asks_nothing(run, bots, file, arguments, message):
    server = bots(bot_1=RIGHT)
    done = run("check", "bot_1", file, *arguments)
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr
    assert server.started == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("[[questions]]\nask = 'x'\n", "line 1: nothing is expected"),
        ("[[questions]]\nask = 'x'\nwants = 'y'", "line 1: 'wants' is not a field"),
        ("[[questions]]\nask = 'x'\nmatches = '('", "line 1: '(' is not a regular expression"),
    ],
)
def test_a_file_that_cannot_be_used_asks_nothing(run, bots, file, content, message):
    server = bots(bot_1=RIGHT)
    file.write_text(content)
    done = run("check", "bot_1", file)
    assert (done.exit_code, server.started) == (2, 0)
    assert done.stderr.startswith(f"Error: {file}")
    assert message in done.stderr


def test_lines_of_json_come_through_a_pipe(kbot, bots):
    bots(bot_1=RIGHT)
    line = json.dumps({"ask": OPENS, "contains": "9:30"})
    assert kbot("check", "bot_1", "-", stdin=line).returncode == 0
    done = kbot("check", "bot_1", "-", stdin=f"{line}\nnonsense")
    assert (done.returncode, "Error: stdin, line 2: is not JSON" in done.stderr) == (2, True)
    done = kbot("check", "bot_1", "-", stdin=b"\xff")
    assert (done.returncode, "stdin: is not UTF-8" in done.stderr) == (2, True)


def test_a_file_of_promptfoo_is_read_and_what_it_cannot_is_named(run, bots, tmp_path):
    bots(bot_1=RIGHT)
    file = tmp_path / "promptfooconfig.yaml"
    text = "prompts: ['{{q}}']\ntests:\n  - vars: {q: 'When do you open?'}\n    assert:\n"
    file.write_text(f"{text}      - {{type: icontains, value: 9:30}}\n")
    assert run("check", "bot_1", file).exit_code == 0
    file.write_text(f"{text}      - {{type: llm-rubric, value: kind}}\n")
    done = run("check", "bot_1", file)
    assert done.exit_code == 1
    assert "the assertion 'llm-rubric' is not read here (line 5)" in done.stdout
    more = text.removeprefix("prompts: ['{{q}}']\ntests:\n")
    file.write_text(f"{file.read_text()}{more}      - {{type: contains, value: 9:30}}\n")
    done = run("check", "bot_1", file)
    assert done.exit_code == 3
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["unasked", "passed"]


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


def test_a_budget_of_messages_ends_a_wait(run, bots, file):
    server = bots(bot_2=HALF)
    done = run("check", "bot_2", file, "--wait", "10m", "--interval", "0.1", "--max-messages", "5")
    assert done.exit_code == 3
    assert "5 messages were sent" in done.stderr
    assert len(asked(server)) == 5


def test_several_bots_are_asked(run, bots, file):
    bots(bot_1=RIGHT, bot_2=HALF)
    done = run("check", "--bots", "bot_1, bot_2", file)
    assert done.exit_code == 3
    assert [line.split("\t")[3] for line in done.stdout.splitlines()] == ["bot_1"] * 2 + [
        "bot_2"
    ] * 2


def test_what_got_worse_since_the_baseline_is_a_failure(run, bots, file, tmp_path):
    last = tmp_path / "last.json"
    said = dict(HALF)
    bots(bot_1=said)
    done = run("check", "bot_1", file, "--save-baseline", last)
    assert (done.exit_code, last.exists()) == (3, True)
    arguments = ("check", "bot_1", file, "--baseline", last, "--min-pass", "0.5")
    done = run(*arguments)
    assert (done.exit_code, "Since the baseline: 1 still failing" in done.stderr) == (0, True)
    said.update({OPENS: "At ten.", LEADS: "Mia does."})
    done = run(*arguments)
    assert done.exit_code == 3
    assert f'  worse: {OPENS}: The answer does not contain "9:30".' in done.stderr
    assert f"  better: {LEADS}" in done.stderr
    assert done.stderr.endswith("Error: 1 got worse since the baseline.\n")
    found = json.loads(run(*arguments, "--json").stdout)["comparison"]
    assert [one["ask"] for one in found["worse"]] == [OPENS]


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


def test_junit_is_written_whatever_comes_of_it(run, bots, file, tmp_path):
    bots(bot_1=HALF)
    junit = tmp_path / "junit.xml"
    assert run("check", "bot_1", file, "--junit", junit).exit_code == 3
    assert '<testsuite name="kbot check bot_1" tests="2" failures="1"' in junit.read_text()


def test_a_bot_that_is_not_there_is_named(run, bots, file, tmp_path):
    bots(bot_guide=RIGHT, bot_shop=RIGHT)
    last = tmp_path / "last.json"
    done = run("check", "bot_gone", file, "--wait", "1m", "--save-baseline", last)
    assert done.exit_code == 1
    assert (
        "There is no bot_gone: the message was refused with 400, and the service has" in done.stderr
    )
    assert "bot_guide, bot_shop" in done.stderr
    assert f"{last} was left as it was" in done.stderr
    assert not last.exists()


@pytest.mark.parametrize("status", [401, 402, 403])
def test_a_key_or_an_account_that_is_refused_is_4(run, bots, file, status):
    bots(bot_1=lambda _: answer(status, {"message": "no"}))
    done = run("check", "bot_1", file)
    assert (done.exit_code, f"was answered with {status}" in done.stderr) == (4, True)


def test_a_service_that_is_away_is_1_and_lost_answers_are_3(run, bots, file):
    away = run(
        "--base-url", "http://127.0.0.1:9", "check", "bot_1", file, KNOWLEDGE_BOT_API_KEY=KEY
    )
    assert away.exit_code == 1
    assert (
        "Error: No question was answered. No answer: POST /messages: no connection" in away.stderr
    )
    bots(bot_1=lambda asked: close if asked == OPENS else "Mia does.")
    lost = run("check", "bot_1", file)
    assert lost.exit_code == 3
    assert "The message may have been sent." in lost.stdout


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


def test_a_reader_that_goes_away_hides_no_failure(program, bots, file):
    bots(bot_1=HALF)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [program, "check", "bot_1", file],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (
        done.returncode,
        "The reader of stdout has gone away. 1 of 2 did not" in done.stderr,
    ) == (
        3,
        True,
    )


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
