"""`kbot` as its users run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripted_server import answer

KBOT = Path(sys.executable).with_name("kbot")


def kbot(*arguments, **environment):
    return subprocess.run(
        [KBOT, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_ping_prints_pong(scripted):
    done = kbot("ping", KNOWLEDGE_BOT_BASE_URL=scripted(answer(body=b"pong")).url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "pong\n", "")


@pytest.mark.parametrize(("status", "code"), [(401, 4), (404, 1)])
def test_an_expected_error_is_a_sentence_and_an_exit_code(scripted, status, code):
    done = kbot("ping", KNOWLEDGE_BOT_BASE_URL=scripted(answer(status)).url)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith(f"Error: GET /ping was answered with {status}")
    assert "Traceback" not in done.stderr


def test_without_a_service_the_variable_to_set_is_named():
    done = kbot("ping")
    assert done.returncode == 1
    assert "KNOWLEDGE_BOT_BASE_URL" in done.stderr


def test_help_lists_the_commands_of_other_packages_too():
    done = kbot("--help")
    assert done.returncode == 0
    assert "ping" in done.stdout
    assert "serve" in done.stdout


def test_an_unknown_command_is_a_usage_error():
    assert kbot("no-such-command").returncode == 2
