"""`kbot ping`, `collections`, `bots` and `conversations`."""

import json
import shutil
import subprocess

import pytest

from pseudo_terminal import terminal
from scripted_server import answer

BOTS = {
    "value": {
        "data": [
            {"id": "bot_1", "name": "First", "language": "en"},
            {"id": "bot_2", "name": "Second\twith a tab"},
        ]
    }
}


def test_ping_prints_pong(kbot, service):
    done = kbot("ping", KNOWLEDGE_BOT_BASE_URL=service.base_url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "pong\n", "")


def test_a_list_in_a_pipe_is_one_line_each_with_tabs(run, answering):
    answering(answer(body=BOTS))
    assert run("bots").stdout == "bot_1\tFirst\nbot_2\tSecond with a tab\n"


def test_a_list_as_json_is_one_array_with_every_field(run, answering):
    answering(answer(body=BOTS))
    assert json.loads(run("bots", "--json").stdout) == BOTS["value"]["data"]


def test_an_empty_list_is_empty(run, answering):
    answering(answer(body={"data": []}))
    assert run("collections").stdout == ""
    assert run("collections", "--json").stdout == "[]\n"


def test_the_lists_are_those_of_the_service(run, of_the_service):
    assert run("collections").stdout == "col_handbook\tHandbook\n"
    assert run("bots").stdout == "bot_guide\tbot_guide\n"
    assert run("ask", "bot_guide", "When was this asked?").exit_code == 0
    assert "\tWhen was this asked?\n" in run("conversations", "bot_guide").stdout


def test_a_list_on_a_terminal_is_a_table(program, answering):
    answering(answer(body=BOTS))
    with terminal([program, "bots"], {}) as screen:
        assert screen.end() == 0
    lines = screen.shown.split("\n")
    assert [line.split() for line in lines if "bot_1" in line] == [["bot_1", "First"]]
    assert any("id" in line and "name" in line for line in lines)
    assert "──" in screen.shown


def test_no_color_means_no_colour(program, answering):
    answering(answer(body=BOTS))
    with terminal([program, "bots"], {"TERM": "xterm-256color"}) as screen:
        assert screen.end() == 0
    assert "\x1b[" in screen.shown  # the head is bold
    with terminal([program, "bots"], {"TERM": "xterm-256color", "NO_COLOR": "1"}) as screen:
        assert screen.end() == 0
    assert "\x1b[3" not in screen.shown


def test_an_id_is_never_cut_short_in_a_narrow_terminal(program, answering):
    answering(answer(body={"data": [{"id": "bot_" + "x" * 60, "name": "N" * 60}]}))
    with terminal([program, "bots"], {}, columns=40) as screen:
        assert screen.end() == 0
    assert screen.shown.count("x") == 60
    assert "…" not in screen.shown


@pytest.mark.parametrize("command", [["bots"], ["bots", "--json"]])
def test_a_name_cannot_steer_the_terminal(program, answering, command):
    answering(answer(body={"data": [{"id": "bot_1", "name": "\x1b]0;title\x07\x9b2J[bold]x"}]}))
    with terminal([program, *command], {"NO_COLOR": "1"}) as screen:
        assert screen.end() == 0
    assert "\x1b]" not in screen.shown
    assert "\x07" not in screen.shown
    assert "[bold]x" in screen.shown


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_a_list_goes_into_jq(program, of_the_service):
    done = subprocess.run(
        f"{program} bots --json | jq -r '.[].id'",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "bot_guide\n"
