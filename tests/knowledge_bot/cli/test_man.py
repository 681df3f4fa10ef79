"""`kbot man`: the manual page."""

import re
import shutil
import subprocess

import pytest

from knowledge_bot.cli.exits import Exit

FORMATTERS = [
    command
    for command in (
        ["groff", "-man", "-Tutf8", "-ww"],
        ["mandoc", "-man", "-Tutf8"],
        ["man", "-l", "-"],
    )
    if shutil.which(command[0])
]


@pytest.fixture
def page(kbot):
    done = kbot("man")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_it_has_the_sections_of_a_manual_page(page):
    assert page.startswith(".TH KBOT 1 ")
    assert re.findall(r"^\.SH (.*)", page, re.MULTILINE) == [
        *("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS"),
        *("ENVIRONMENT", "FILES", "EXIT STATUS"),
    ]
    assert page.isascii()
    assert "\b" not in page


def test_it_holds_every_command_code_variable_and_file(page):
    commands = re.findall(r'^\.SS "(.*)"', page, re.MULTILINE)
    for command in ("kbot login", "kbot ingest folder", "kbot ledger resolve", "kbot serve"):
        assert command in commands
    _, _, status = page.partition(".SH EXIT STATUS")
    for code in Exit:
        assert rf"\fB{code.value}\fR" in status
    for name in ("KNOWLEDGE_BOT_API_KEY", "KBOT_PROFILE", "NO_COLOR", "config.toml", "ledger.db"):
        assert name in page
    assert r"\fB\-\-profile NAME\fR" in page


def test_each_line_is_a_request_that_there_is_or_text(page):
    requests = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert requests <= {
        *(".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi", ".RS", ".RE", ".nh", ".ad"),
    }


@pytest.mark.parametrize("command", FORMATTERS, ids=lambda command: command[0])
def test_it_is_formatted_without_a_complaint(page, command):
    done = subprocess.run(
        command,
        input=page,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = re.sub(".\b|\x1b[^m]*m", "", done.stdout)
    assert "kbot ingest folder handbook --collection col_handbook\n" in shown
    assert "`kbot login`" in shown
