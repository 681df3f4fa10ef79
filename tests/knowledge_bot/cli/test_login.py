"""`kbot login` and `kbot logout`."""

import os
import tomllib

import pytest

from calls import KEY
from pseudo_terminal import terminal
from scripted_server import answer

ONE = {"data": [{"id": "col_1", "name": "Handbook"}]}
TWO = {"data": [*ONE["data"], {"id": "col_2", "name": "Archive"}]}


def login(run, server, *options):
    return run("--base-url", server.url, "login", "--key-stdin", *options, stdin=f"{KEY}\n")


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
        "default": "default",
        "profiles": {"default": {"base_url": server.url, "api_key": KEY, "collections": ["col_1"]}},
    }
    assert os.listdir(settings_file.parent) == ["config.toml"]


def test_what_was_written_is_used(run, of_the_service, monkeypatch):
    monkeypatch.delenv("KNOWLEDGE_BOT_API_KEY")
    monkeypatch.delenv("KNOWLEDGE_BOT_COLLECTION")
    assert run("login", "--key-stdin", stdin=KEY).exit_code == 0
    monkeypatch.delenv("KNOWLEDGE_BOT_BASE_URL")
    assert run("bots").stdout == "bot_guide\tbot_guide\n"
    assert run("add", "text", "--name", "A", "--content", "We open at nine.").exit_code == 0
    assert run("logout").exit_code == 0
    assert run("bots").exit_code == 2


def test_a_key_that_is_not_accepted_is_not_written(run, scripted, settings_file):
    done = login(run, scripted(answer(401)))
    assert done.exit_code == 4
    assert not settings_file.exists()


def test_a_login_over_another_replaces_it_as_a_whole(run, scripted, settings_file):
    first, second = scripted(answer(body=ONE)), scripted(answer(body=TWO))
    assert login(run, first).exit_code == 0
    settings_file.chmod(0o644)
    replaced = login(run, second)
    assert replaced.exit_code == 0
    assert f"The profile default was {first.url} until now." in replaced.stderr
    assert settings_file.stat().st_mode & 0o777 == 0o600
    kept = tomllib.loads(settings_file.read_text())["profiles"]
    assert kept == {"default": {"base_url": second.url, "api_key": KEY}}


def test_collections_are_kept_when_they_exist(run, scripted, settings_file):
    server = scripted(answer(body=TWO))
    assert login(run, server, "--collection", "col_2").exit_code == 0
    kept = tomllib.loads(settings_file.read_text())["profiles"]["default"]
    assert kept["collections"] == ["col_2"]
    done = login(run, server, "--collection", "col_9")
    assert done.exit_code == 2
    assert "no collection col_9; it has col_1, col_2" in done.stderr


@pytest.mark.parametrize("arguments", [("login",), ("login", "--key-stdin")])
def test_without_a_terminal_the_service_must_be_named(run, arguments):
    done = run(*arguments, stdin=KEY)
    assert done.exit_code == 2
    assert "kbot --base-url URL login --key-stdin" in done.stderr


def test_without_a_terminal_the_key_must_be_piped(run):
    done = run("--base-url", "http://127.0.0.1:9", "login", stdin="")
    assert done.exit_code == 2
    assert "--key-stdin" in done.stderr


def test_an_empty_pipe_holds_no_key(run):
    done = run("--base-url", "http://127.0.0.1:9", "login", "--key-stdin", stdin="\n")
    assert done.exit_code == 2


def test_a_key_in_the_environment_is_said_to_win(run, scripted):
    server = scripted(answer(body=ONE))
    done = run(
        *("--base-url", server.url, "login", "--key-stdin"),
        stdin=KEY,
        KNOWLEDGE_BOT_API_KEY="another",
    )
    assert "KNOWLEDGE_BOT_API_KEY is set, and wins over the file" in done.stderr
    assert server.requests[0].headers["x-api-key"] == KEY


def test_a_folder_that_cannot_be_written_is_a_sentence(run, scripted, tmp_path):
    (tmp_path / "file").write_text("")
    server = scripted(answer(body=ONE))
    done = run(
        *("--base-url", server.url, "login", "--key-stdin"),
        stdin=KEY,
        KBOT_CONFIG=str(tmp_path / "file" / "config.toml"),
    )
    assert done.exit_code == 1
    assert "config.toml: cannot be written" in done.stderr


def test_a_device_is_neither_replaced_nor_removed(run, scripted, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    keeping = os.open(pipe, os.O_RDWR)  # who opens it would wait
    os.set_blocking(keeping, False)
    server = scripted(answer(body=ONE))
    settings = {"KBOT_CONFIG": str(pipe)}
    for arguments in (("logout",), ("logout", "--all"), ("login", "--key-stdin")):
        done = run("--base-url", server.url, *arguments, stdin=KEY, **settings)
        assert done.exit_code == 2
        assert "is not a file" in done.stderr
    assert pipe.is_fifo()
    assert server.started == 0
    os.close(keeping)


def test_a_link_to_the_file_stays_one(run, scripted, tmp_path):
    server = scripted(answer(body=ONE))
    link, kept = tmp_path / "config.toml", tmp_path / "dotfiles" / "kbot.toml"
    kept.parent.mkdir()
    kept.touch(mode=0o600)
    link.symlink_to(kept)
    login = ("--base-url", server.url, "login", "--key-stdin")
    assert run(*login, stdin=KEY, KBOT_CONFIG=str(link)).exit_code == 0
    assert link.is_symlink()
    assert KEY in kept.read_text()


def test_a_second_logout_has_nothing_to_remove(run, scripted, settings_file):
    login(run, scripted(answer(body=ONE)))
    assert "is removed" in run("logout").stderr
    assert not settings_file.exists()
    done = run("logout")
    assert done.exit_code == 0
    assert "There is no" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (("login",), "Base URL: "),
        (("--base-url", "http://127.0.0.1:9", "login"), "API key (not shown): "),
    ],
)
def test_ctrl_c_at_a_prompt_is_an_interruption_and_nothing_worse(program, arguments, prompt):
    with terminal([program, *arguments], {}) as screen:
        screen.expect(prompt)
        screen.interrupt_prompt()
        assert screen.end() == 130
    assert "\nError: Interrupted.\n" in screen.shown
    assert "Aborted" not in screen.shown


@pytest.mark.parametrize("address", ["service.example", "ftp://h.example", "http://u:pw@h.example"])
def test_an_address_that_is_none_is_reported_before_the_key_is_asked_for(program, address):
    with terminal([program, "login"], {}) as screen:
        screen.expect("Base URL: ")
        screen.type(f"{address}\n")
        assert screen.end() == 2
    assert "base_url" in screen.shown
    assert "API key" not in screen.shown


def test_a_key_that_would_travel_unencrypted_is_warned_of_before_it_is_typed(program):
    with terminal([program, "--base-url", "http://192.0.2.1", "login"], {}) as screen:
        screen.expect("travel unencrypted")
        screen.expect("API key (not shown): ")
        screen.interrupt_prompt()
        screen.end()
    assert screen.shown.count("unencrypted") == 1


def test_a_broken_file_is_removed_by_a_logout_of_all_alone(run, scripted, settings_file):
    settings_file.parent.mkdir()
    settings_file.write_text("base_url = ")
    server = scripted(answer(body=ONE))
    done = login(run, server)
    assert (done.exit_code, server.started) == (2, 0)
    assert "kbot logout --all" in done.stderr
    assert run("logout").exit_code == 2
    assert run("logout", "--all").exit_code == 0
    assert login(run, server).exit_code == 0
