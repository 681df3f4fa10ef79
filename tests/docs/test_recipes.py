"""What the recipes' blocks of other programs do: the crontab's line, the timer, the jobs of CI."""

import configparser
import http.server
import os
import shlex
import shutil
import subprocess
import threading
from urllib.parse import urlsplit

import pytest
import yaml

from docs.pages import DOCS, blocks
from docs.services import HANDBOOK
from docs.test_blocks import PROGRAMS
from in_process import OnAPort
from waiting import free_port

NIGHTS = DOCS / "recipes" / "every-night.md"
CI = DOCS / "recipes" / "ci.md"

pytestmark = pytest.mark.slow

QUESTIONS = """
[[questions]]
ask = "What does a membership cost?"
contains = "36"
"""


@pytest.fixture
def home(tmp_path):
    (tmp_path / "docs").symlink_to(HANDBOOK)
    (tmp_path / "questions.toml").write_text(QUESTIONS)
    return tmp_path


def here(command, home):
    """A command of a page with the programs and folders of this test."""
    places = {
        "/opt/kbot/bin/kbot": str(PROGRAMS / "kbot"),
        "/srv/handbook": str(home / "docs"),
        "/var/log/": f"{home}/",
    }
    for place, mine in places.items():
        assert place in command or place == "/var/log/"
        command = command.replace(place, mine)
    return command


def as_cron(command, home):
    """Run a command as cron does: in a shell, with nearly nothing in the environment."""
    return subprocess.run(
        ["/bin/sh", "-c", command],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def crontab():
    (block,) = (one for one in blocks(NIGHTS) if "MAILTO" in one.text)
    return block.text.splitlines()[-1].split(maxsplit=5)[5]


def login(service, home):
    subprocess.run(
        [PROGRAMS / "kbot", "--base-url", service.base_url, "login", "--key-stdin"],
        env={"HOME": str(home)},
        input=service.api_key,
        text=True,
        check=True,
        capture_output=True,
    )


# Night after night under cron: what is done to the folder, the exit code, and words of the mail.
WEEK = (
    ("a good night", lambda docs: None, 0, ""),
    ("the share is not mounted", lambda docs: docs.rename(docs.with_name("away")), 2, "docs"),
    ("an empty folder is in its place", lambda docs: docs.mkdir(), 3, "--gone-limit 1"),
    ("it is there again", lambda docs: docs.rmdir() or back(docs), 0, ""),
    ("nobody can read one", lambda docs: (docs / "a.pptx").write_text("no slides"), 3, "a.pptx"),
    ("the same", lambda docs: None, 0, ""),
    ("a file is gone, another is new", lambda docs: (docs / "a.pptx").rename(docs / "a.md"), 0, ""),
    ("the service is another", lambda docs: None, 1, "leads to"),
)


def back(docs):
    docs.with_name("away").rename(docs)


@pytest.mark.timeout(300)
def test_cron_mails_where_a_person_is_needed_and_only_then(home):
    docs = home / "docs"
    docs.unlink()
    shutil.copytree(HANDBOOK, docs)
    with OnAPort(home / "data") as service:
        login(service, home)
        port = urlsplit(service.base_url).port
        for happens, does, code, mail in WEEK[:-1]:
            does(docs)
            night = as_cron(here(crontab(), home), home)
            assert (night.returncode, night.stdout) == (code, ""), (happens, night)
            assert bool(night.stderr) == bool(code), (happens, night)
            assert mail in night.stderr, (happens, night)
    assert "created\t12" in (home / "handbook.log").read_text()
    happens, _, code, mail = WEEK[-1]
    other = http.server.ThreadingHTTPServer(
        ("127.0.0.1", port), http.server.SimpleHTTPRequestHandler
    )
    with other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        night = as_cron(here(crontab(), home), home)
        other.shutdown()
    assert (night.returncode, night.stdout) == (code, ""), (happens, night)
    assert mail in night.stderr, (happens, night)


def test_the_units_of_systemd_run_the_line_of_cron(home):
    units = {}
    for block in blocks(NIGHTS):
        if block.language == "ini":
            unit = configparser.ConfigParser(interpolation=None, delimiters="=")
            unit.optionxform = str
            unit.read_string(block.text)
            units[block.text.splitlines()[0].rpartition("/")[2]] = unit
    feeding = units["handbook.service"]
    assert set(units) == {"handbook.service", "handbook.timer", "tell@.service"}
    assert feeding["Unit"]["OnFailure"] == "tell@%n.service"
    assert shlex.split(feeding["Service"]["ExecStart"]) == shlex.split(crontab().partition(">>")[0])


@pytest.mark.timeout(180)
def test_the_gate_of_ci_passes_with_the_right_documents_and_fails_without(home):
    jobs = [yaml.safe_load(one.text) for one in blocks(CI) if one.language == "yaml"]
    script = jobs[0]["jobs"]["answers"]["steps"][-1]["run"]
    for questions, code in ((QUESTIONS, 0), (QUESTIONS.replace("36", "37"), 3)):
        (home / "questions.toml").write_text(questions)
        port = str(free_port())
        commands = script.replace("8700", port).replace("--wait 2m", f"--wait {5 if code else 60}s")
        done = subprocess.run(
            ["bash", "-e", "-c", f"trap 'kill %1' EXIT\n{commands}"],
            cwd=home,
            env=os.environ
            | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "RUNNER_TEMP": str(home / port)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "<testsuite" in (home / "answers.xml").read_text()
    for job in jobs[1:]:
        assert "kbot" in str(job)
