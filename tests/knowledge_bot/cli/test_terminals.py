"""What needs a terminal: prompts, Ctrl-C, tables, and nothing that a service could steer."""

import os
import re
import tomllib
from pathlib import Path

import pytest

from calls import KEY, MESSAGE, SOURCE
from nightly import nightly
from pseudo_terminal import terminal
from scripted_server import answer, silence

ADD = ("add", "text", "--name", "N", "--content", "C", "--collection", "col_1")
ONE = {"data": [{"id": "col_1", "name": "Handbook"}]}
ID = "bot_94287031cb7f51b4c94f2de9"
LONG_ID = f"{ID}_{ID}_{ID}"


@pytest.mark.slow
def test_an_upload_shows_its_progress(program, answering, tmp_path):
    (tmp_path / "large.bin").write_bytes(b"x" * 5_000_000)
    answering(answer(body=SOURCE))
    command = [program, "add", "file", tmp_path / "large.bin", "--collection", "col_1"]
    with terminal(command, {}) as screen:
        assert screen.end() == 0
    assert "large.bin" in screen.shown
    assert "5.0/5.0 MB" in screen.shown


# Dialogues ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_answer_cannot_steer_the_terminal(program, answering):
    answering(answer(body={**MESSAGE, "answer": "Nine.\x1b[2J\nTen."}))
    with terminal([program, "ask", "bot_1", "When?"], {}) as screen:
        assert screen.end() == 0
    assert "\x1b" not in screen.shown
    assert "Nine.\\x1b[2J\nTen.\n" in screen.shown


def test_a_chat_goes_on_after_a_failure_and_ends_with_ctrl_d(program, answering):
    answering(answer(body=MESSAGE), answer(400, {"code": "no", "message": "not now"}))
    with terminal([program, "chat", "bot_1"], {}) as screen:
        screen.expect("you> ")
        screen.type("When do you open?\n")
        screen.expect("At nine.")
        screen.expect("you> ")
        screen.type("And on Sunday?\n")
        screen.expect("400 [no]: not now")
        screen.expect("you> ")
        screen.type("\x04")
        assert screen.end() == 0
    assert "--conversation conv_1" in screen.shown


@pytest.mark.slow
def test_ctrl_c_at_the_prompt_ends_a_chat(program, answering):
    answering(answer(body=MESSAGE))
    with terminal([program, "chat", "bot_1", "--conversation", "conv_7"], {}) as screen:
        screen.expect("you> ")
        screen.interrupt_prompt()
        assert screen.end() == 0
    assert "--conversation conv_7" in screen.shown
    assert "Traceback" not in screen.shown


@pytest.mark.parametrize(("command", "code"), nightly([(ADD, 8), (("bots",), 130)], but=1))
def test_ctrl_c_leaves_uncertain_only_what_is_created(program, answering, command, code):
    server = answering(silence)
    with terminal([program, *command], {}) as screen:
        while not server.requests:
            screen.read(0.05)
        screen.type("\x03")
        assert screen.end() == code
    assert ("POST /sources/write was under way" in screen.shown) == (code == 8)
    assert "Traceback" not in screen.shown


def test_a_login_asks_tries_and_writes_a_file_of_the_users_own(program, scripted, settings_file):
    server = scripted(answer(body=ONE))
    with terminal([program, "login"], {}) as screen:
        screen.expect("Base URL: ")
        screen.type(f"{server.url}\n")
        screen.expect("API key (not shown): ")
        screen.type(f"{KEY}\n")
        assert screen.end() == 0
    assert KEY not in screen.shown
    assert server.requests[0].headers["x-api-key"] == KEY
    assert settings_file.stat().st_mode & 0o777 == 0o600
    assert tomllib.loads(settings_file.read_text()) == {
        "default": {"base_url": server.url, "api_key": KEY, "collections": ["col_1"]}
    }
    assert os.listdir(settings_file.parent) == ["config.toml"]
    elsewhere = {"KNOWLEDGE_BOT_BASE_URL": "http://127.0.0.1:9"}
    with terminal([program, "login", "--profile", "default"], elsewhere) as screen:
        screen.expect(f"Base URL [{server.url}]: ")
        screen.type("\n")
        screen.expect("API key (not shown): ")
        screen.type("another-key\n")
        assert screen.end() == 0
    assert server.requests[-1].headers["x-api-key"] == "another-key"


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    nightly(
        [
            (("--base-url", "http://127.0.0.1:9", "login"), "API key (not shown): "),
            (("login",), "Base URL: "),
        ],
        but=1,
    ),
)
def test_ctrl_c_at_a_prompt_is_an_interruption_and_nothing_worse(program, arguments, prompt):
    with terminal([program, *arguments], {}) as screen:
        screen.expect(prompt)
        screen.interrupt_prompt()
        assert screen.end() == 130
    assert "\nError: Interrupted.\n" in screen.shown
    assert "Aborted" not in screen.shown


@pytest.mark.parametrize(
    "address", nightly(["ftp://h.example", "service.example", "http://u:pw@h.example"], but=1)
)
def test_an_address_that_is_none_is_reported_before_the_key_is_asked_for(program, address):
    with terminal([program, "login"], {}) as screen:
        screen.expect("Base URL: ")
        screen.type(f"{address}\n")
        assert screen.end() == 2
    assert "base_url" in screen.shown
    assert "API key" not in screen.shown


@pytest.mark.slow
def test_a_key_that_would_travel_unencrypted_is_warned_of_before_it_is_typed(program):
    with terminal([program, "--base-url", "http://192.0.2.1", "login"], {}) as screen:
        screen.expect("travel unencrypted")
        screen.expect("API key (not shown): ")
        screen.interrupt_prompt()
        screen.end()
    assert screen.shown.count("unencrypted") == 1


def test_a_device_is_not_replaced(run, scripted):
    server = scripted(answer(body=ONE))
    done = run("--base-url", server.url, "login", "--key-stdin", stdin=KEY, KBOT_CONFIG=os.devnull)
    assert (done.exit_code, os.devnull in done.stderr) == (2, True)
    assert not Path(os.devnull).is_file()


# Tables -------------------------------------------------------------------------------------------


@pytest.fixture
def shown(program, answering):
    """What `kbot bots` shows of some bots on a terminal of so many columns."""

    def show(columns, bots, *options, **environment):
        answering(answer(body={"data": [{"id": one, "name": name} for one, name in bots]}))
        command = [program, "bots", *options]
        with terminal(command, environment, columns=columns) as screen:
            assert screen.end() == 0
        return screen.shown

    return show


def plain(shown):
    return re.sub("\x1b[^m]*m", "", shown)


def test_a_list_is_a_table_where_names_go_over_several_lines_and_ids_do_not(shown):
    screen = shown(44, [(ID, "Everything about the workshop and its saws")])
    assert max(map(len, plain(screen).splitlines())) <= 44
    for part in (ID, "Everything", "workshop", "──"):
        assert part in screen


@pytest.mark.slow
def test_where_ids_do_not_fit_each_field_has_a_line(shown):
    screen = plain(shown(60, [(LONG_ID, "One"), (ID, "Two\nlines\t\x1b[2J")]))
    assert screen == (f"id    {LONG_ID}\nname  One\n\nid    {ID}\nname  Two lines \\x1b[2J\n")


@pytest.mark.parametrize("columns", nightly([5, 1, 20], but=1))
def test_no_terminal_is_too_narrow(shown, columns):
    assert ID in shown(columns, [(ID, "Guide")])


@pytest.mark.slow
def test_no_color_leaves_no_bold_either(shown):
    for columns in (80, 20):
        assert "\x1b[1m" in shown(columns, [(ID, "Guide")])
        assert "\x1b" not in shown(columns, [(ID, "Guide")], NO_COLOR="1")


@pytest.mark.parametrize("options", nightly([[], ["--json"]], but=1))
def test_a_name_cannot_steer_the_terminal(shown, options):
    screen = shown(100, [("bot_1", "\x1b]0;title\x07\x9b2J[bold]x")], *options, NO_COLOR="1")
    assert "\x1b]" not in screen
    assert "\x07" not in screen
    assert "[bold]x" in screen
