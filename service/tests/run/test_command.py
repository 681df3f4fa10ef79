"""`kbot serve`, as a person runs it."""

import re
import socket

import httpx
import pytest

from knowledge_bot_service.config.folder import DataFolder
from knowledge_bot_service.config.keys import KeyList
from knowledge_bot_service.config.settings import ServiceConfiguration
from loaded_modules import loaded_by
from serve_command import called, key_in, serving


def bots(base_url, key):
    return httpx.get(f"{base_url}/bots", headers={"X-API-KEY": key}).status_code


def test_it_prints_where_it_is_and_a_key_that_a_restart_keeps_and_ends_quietly(tmp_path):
    told = f"Data:     {tmp_path / 'kbot-data'}"
    with serving(tmp_path) as (base_url, printed, process):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/public/v1", base_url)
        page = printed.partition("Page: ")[2].split()[0]
        assert httpx.get(page).text.startswith("<!doctype html>")
        key = key_in(printed)
        assert bots(base_url, key) == 200
        assert bots(base_url, "other") == 401
        assert "in plain text" not in printed
        assert f"{told} (new: it was made now, and is empty)\n" in printed
        assert "in use by another service" in refused(tmp_path, "--port", "0")
        # Whoever misses a source can find out who deleted it.
        headers = {"X-API-KEY": key}
        body = {"name": "Rules", "collections": ["col_default"], "content": "No running."}
        added = httpx.post(f"{base_url}/sources/write", headers=headers, json={"value": body})
        source = added.json()["value"]["id"]
        assert httpx.delete(f"{base_url}/sources/{source}", headers=headers).status_code == 204
        log = (tmp_path / "printed.txt").read_text()
        assert f"source {source} was deleted with the key generated" in log
        # Being told to stop is no failure.
        process.terminate()
        assert process.wait(20) == 0
    kept = tmp_path / "kbot-data" / "api-key"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text().strip() == key
    with DataFolder(tmp_path / "kbot-data") as folder:
        assert KeyList(folder, ServiceConfiguration()).generated == key


def test_the_environments_key_is_taken_where_there_is_no_other_and_not_printed(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key-of-the-environment")
    with serving(tmp_path) as (base_url, printed, _):
        assert bots(base_url, "key-of-the-environment") == 200
        assert "key-of-the-environment" not in printed
        assert "API key:  that of KNOWLEDGE_BOT_API_KEY" in printed


def test_a_file_declares_collections_bots_and_keys_and_options_come_before_it(
    tmp_path, monkeypatch
):
    (tmp_path / "service.toml").write_text(
        'data = "elsewhere"\nhost = "0.0.0.0"\nport = 0\n'
        '[[keys]]\nname = "file"\nrole = "manage"\nkey = "file-key"\n'
        '[[collections]]\nid = "col_a"\nname = "A"\n'
        '[[bots]]\nid = "bot_a"\nname = "A bot"\ncollections = ["col_a"]\n'
    )
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key-of-another-service")
    with serving(tmp_path, "--config", "service.toml") as (base_url, printed, _):
        answer = httpx.get(f"{base_url}/bots", headers={"X-API-KEY": "file-key"})
        assert answer.json()["value"]["data"] == [{"id": "bot_a", "name": "A bot"}]
        assert "file-key" not in printed
        assert bots(base_url, "key-of-another-service") == 401
        assert "KNOWLEDGE_BOT_API_KEY is set, and not used" in printed
        assert "key-of-another-service" not in printed
        # An address that is printed can be used.
        assert httpx.get(f"{base_url}/ping").json() == "pong"
        assert "http://127.0.0.1:" in base_url
        assert "in plain text" in printed
    assert (tmp_path / "elsewhere").is_dir()


def refused(folder, *arguments):
    """What `kbot serve` says when it refuses to start."""
    done = called(folder, *arguments)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: ")
    return done.stderr


def test_a_port_in_use_is_a_clear_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refused(tmp_path, "--port", port)
    assert "127.0.0.1" in said
    assert port in said
    assert "in use" in said
    assert "kbot serve" in said
    assert "--port" in said


@pytest.mark.parametrize("command", [(), ("backup", "new")])
def test_a_configuration_that_is_not_there_is_a_wrong_use_also_beside_a_folder(tmp_path, command):
    (tmp_path / "data").mkdir()
    done = called(tmp_path, *command, "--data", "data", "--config", "none.toml")
    assert done.returncode == 2
    assert "Error: Invalid value for '--config': File 'none.toml' does not exist." in done.stderr
    assert list(tmp_path.rglob("*")) == [tmp_path / "data"]


def test_what_it_cannot_start_with_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "odd.toml").write_text("colour = 1\n")
    (tmp_path / "model.toml").write_text(
        '[answers]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n'
        'api_key_env = "TESTS_NO_SUCH_KEY"\n'
    )
    told = {
        ("--config", "odd.toml"): "colour",
        ("--allow-fetch", "everything"): "allow_fetch",
        ("--port", "0", "--config", "model.toml"): "TESTS_NO_SUCH_KEY",
        ("--port", "0", "--data", "file"): "file",
    }
    for arguments, expected in told.items():
        assert expected in refused(tmp_path, *arguments)


def test_a_word_that_is_no_command_and_a_folder_without_keys_are_answered_with_what_to_do(tmp_path):
    (tmp_path / "docs").mkdir()
    told = {
        ("docs",): "Did you mean `kbot serve --with docs`?",
        ("nodocs",): "has backup, keys, restore",
        ("keys", "list", "--data", "none"): "there is no data folder none; --data names",
        ("backup", "new", "--data", "docs"): "Name the data folder",
    }
    for arguments, expected in told.items():
        done = called(tmp_path, *arguments)
        assert done.returncode in (1, 2)
        assert expected in done.stderr
    assert "keeps no keys" in called(tmp_path, "keys", "list", "--data", "docs").stderr


def test_importing_the_command_loads_none_of_what_serving_needs():
    heavy = {"fastapi", "uvicorn", "pydantic", "sqlite3", "snowballstemmer", "trafilatura"}
    assert not loaded_by("import knowledge_bot_service.run.command") & heavy
