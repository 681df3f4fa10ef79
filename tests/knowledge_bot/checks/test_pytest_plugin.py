"""`pytest --knowledge-bot-questions FILE`: each question is a test, with its reason."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from calls import KEY

pytestmark = pytest.mark.integration

QUESTIONS = """\
[[questions]]
ask = "When do you open?"
contains = "9:30"

[[questions]]
ask = "Who leads it?"
contains = "Mia"
"""


@pytest.fixture
def bots(serve):
    return serve(bot_1={"When do you open?": "At 9:30.", "Who leads it?": "Max does."})


@pytest.fixture
def run(tmp_path, bots, written):
    """`run("--knowledge-bot-questions", "q.toml", …)` in a folder with a test of its own."""
    written("q.toml", QUESTIONS)
    written("test_own.py", "def test_of_its_own():\n    pass\n")
    written("pytest.ini", "[pytest]\n")

    def start(*arguments, **environment):
        known = {
            "KNOWLEDGE_BOT_BASE_URL": bots.url,
            "KNOWLEDGE_BOT_API_KEY": KEY,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        # By the entry point's name, so that it is one plugin where the distribution is installed.
        plugin = ("-p", "knowledge_bot.checks.pytest", "-p", "no:cacheprovider")
        return subprocess.run(
            [sys.executable, "-m", "pytest", *plugin, *arguments],
            cwd=tmp_path,
            env={**os.environ, **known, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return start


ASKING = ("--knowledge-bot-questions", "q.toml")


def test_each_question_is_a_test_with_its_reason(run, bots):
    done = run(*ASKING, "--knowledge-bot-bot", "bot_1", "-v")
    assert done.returncode == 1
    assert "q.toml::When do you open? PASSED" in done.stdout
    assert "q.toml::Who leads it? FAILED" in done.stdout
    assert "test_own.py::test_of_its_own PASSED" in done.stdout
    assert 'FAILED q.toml::Who leads it? - The answer does not contain "Mia".' in done.stdout
    assert "Max does." in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert len(bots.asked) == 2


def test_the_questions_alone_and_one_alone(run, bots):
    done = run("q.toml", *ASKING, "-v", KNOWLEDGE_BOT_BOT="bot_1")
    assert "1 failed, 1 passed" in done.stdout
    done = run("q.toml::When do you open?", *ASKING, "-v")
    assert (done.returncode, "1 passed" in done.stdout) == (0, True)
    assert "q.toml::Who" not in done.stdout
    assert run("test_own.py", "-k", "own", *ASKING).returncode == 0


def test_questions_are_shared_between_workers(run, bots):
    done = run(*ASKING, "-n", "2", "-p", "xdist")
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert len(bots.asked) == 2


def test_junit_of_pytest_holds_them(run, tmp_path):
    run(*ASKING, "--junitxml", "junit.xml", "q.toml")
    cases = ET.parse(tmp_path / "junit.xml").findall(".//testcase")
    assert [case.get("name") for case in cases] == ["When do you open?", "Who leads it?"]
    assert cases[1].find("failure").get("message").startswith("The answer does not contain")


def test_without_the_option_nothing_is_asked_and_nothing_loaded(run, written, bots):
    heavy = "{'aiohttp', 'httpcore', 'httpx', 'pydantic', 'regex', 'yaml'}"
    written(
        "test_own.py",
        f"import sys\n\ndef test_of_its_own():\n    assert not {heavy} & set(sys.modules)\n",
    )
    done = run()
    assert "1 passed" in done.stdout, done.stdout
    assert bots.server.requests == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "q.toml: is empty"),
        ('[[questions]]\nask = "x"\n', "q.toml, line 1: nothing is expected"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(run, written, bots, content, message):
    written("q.toml", content)
    done = run(*ASKING)
    assert done.returncode == 2
    assert message in done.stdout
    assert "Traceback" not in done.stdout
    assert bots.asked == []


def test_a_file_that_is_not_there_is_an_error(run):
    done = run("--knowledge-bot-questions", "missing.toml")
    assert done.returncode == 4
    assert "--knowledge-bot-questions: there is no file" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        (("--knowledge-bot-bot", "bot_2"), {}, "There is no bot_2: the message was refused"),
        (("--knowledge-bot-bot", "guide"), {}, "bot_id: 'guide' is not an id"),
        ((), {"KNOWLEDGE_BOT_API_KEY": ""}, "no API key"),
        ((), {"KNOWLEDGE_BOT_BASE_URL": ""}, "base URL"),
    ],
)
def test_what_every_question_would_meet_is_met_once(run, bots, arguments, environment, expected):
    done = run("q.toml", *ASKING, *arguments, **environment)
    assert "2 failed" in done.stdout
    assert done.stdout.count(expected) >= 2  # shown for each, and asked once
    assert len(bots.asked) <= 1


def test_which_bot_is_asked_where_there_are_several(run, bots):
    bots.bots["bot_2"] = bots.bots["bot_1"]
    done = run("q.toml", *ASKING)
    assert "Which bot? The service has bot_1, bot_2. Pass --knowledge-bot-bot" in done.stdout
    assert (bots.listed, bots.asked) == (1, [])


def test_a_terminal_obeys_nothing_that_a_bot_says(run, serve, written):
    hostile = "At \x1b[31m ten \x00 \u202e."
    bots = serve(bot_1={"When do you open?": hostile, "Who leads it?": hostile})
    done = run(*ASKING, KNOWLEDGE_BOT_BASE_URL=bots.url, KNOWLEDGE_BOT_BOT="bot_1")
    assert done.returncode == 1
    assert r"\x1b[31m ten \x00 \u202e" in done.stdout
    assert not set("\x1b\x00\u202e") & set(done.stdout)
