"""`kbot serve`, as a person runs it."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from serve_command import SERVE, key_in, serving

pytestmark = pytest.mark.integration


def bots(base_url: str, key: str) -> int:
    return httpx.get(f"{base_url}/bots", headers={"X-API-KEY": key}).status_code


def test_admin_lets_sources_be_deleted_and_the_log_says_by_whom(tmp_path: Path) -> None:
    with serving(tmp_path, "--admin") as (base_url, printed, _):
        headers = {"X-API-KEY": key_in(printed)}
        body = {"name": "Rules", "collections": ["col_default"], "content": "No running."}
        added = httpx.post(f"{base_url}/sources/write", headers=headers, json={"value": body})
        source = added.json()["value"]["id"]
        root = base_url.removesuffix("/public/v1")
        deleted = httpx.delete(f"{root}/page/sources/{source}", headers=headers)
        assert deleted.json() == {"id": source, "name": "Rules"}
    # Whoever misses it can find out who deleted it.
    assert f"source {source} was deleted with the key" in (tmp_path / "printed.txt").read_text()


def test_it_prints_where_it_is_and_a_key_that_a_restart_keeps(tmp_path: Path) -> None:
    with serving(tmp_path) as (base_url, printed, _):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/public/v1", base_url)
        page = printed.partition("Page: ")[2].split()[0]
        assert httpx.get(page).text.startswith("<!doctype html>")
        key = key_in(printed)
        assert bots(base_url, key) == 200
        assert bots(base_url, "other") == 401
    kept = tmp_path / "kbot-data" / "api-key"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text().strip() == key
    with serving(tmp_path) as (base_url, printed, _):
        assert key_in(printed) == key
        assert bots(base_url, key) == 200


def test_a_key_that_was_given_is_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, "--api-key", "given-key") as (base_url, printed, _):
        assert bots(base_url, "given-key") == 200
        assert "given-key" not in printed
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key-of-the-environment")
    with serving(tmp_path) as (base_url, printed, _):
        assert bots(base_url, "key-of-the-environment") == 200
        assert "key-of-the-environment" not in printed


def test_the_environments_key_is_not_taken_where_the_file_has_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "service.toml").write_text('api_keys = ["file-key"]\n')
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key-of-another-service")
    with serving(tmp_path, "--config", "service.toml") as (base_url, printed, _):
        assert bots(base_url, "file-key") == 200
        assert bots(base_url, "key-of-another-service") == 401
        assert "KNOWLEDGE_BOT_API_KEY is set, and not used" in printed
        assert "key-of-another-service" not in printed
    with serving(tmp_path, "--config", "service.toml", "--api-key", "given") as (base_url, *_):
        assert bots(base_url, "given") == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_address_that_is_printed_can_be_used(tmp_path: Path, host: str) -> None:
    (tmp_path / "service.toml").write_text(f'host = "{host}"\nport = 0\n')
    with serving(tmp_path, "--config", "service.toml") as (base_url, printed, _):
        assert httpx.get(f"{base_url}/ping").json() == "pong"
        assert "http://127.0.0.1:" in base_url or "http://[::1]:" in base_url
        assert "in plain text" in printed
    with serving(tmp_path, "--config", "service.toml", "--host", "127.0.0.1") as (_, printed, _):
        assert "in plain text" not in printed


def test_the_data_folder_is_told_and_that_it_is_new(tmp_path: Path) -> None:
    told = f"Data:     {tmp_path / 'kbot-data'}"
    with serving(tmp_path) as (_, printed, _):
        assert f"{told} (new: it was made now, and is empty)\n" in printed
    with serving(tmp_path) as (_, printed, _):
        assert f"{told}\n" in printed


def test_being_told_to_stop_is_no_failure(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, _, process):
        process.terminate()
        assert process.wait(10) == 0


def test_a_file_declares_collections_and_bots(tmp_path: Path) -> None:
    (tmp_path / "service.toml").write_text(
        'data = "elsewhere"\napi_keys = ["file-key"]\n[[collections]]\nid = "col_a"\nname = "A"\n'
        '[[bots]]\nid = "bot_a"\nname = "A bot"\ncollections = ["col_a"]\n'
    )
    with serving(tmp_path, "--config", "service.toml") as (base_url, printed, _):
        answer = httpx.get(f"{base_url}/bots", headers={"X-API-KEY": "file-key"})
        assert answer.json()["value"]["data"] == [{"id": "bot_a", "name": "A bot"}]
        assert "file-key" not in printed
    assert (tmp_path / "elsewhere").is_dir()


def refused(folder: Path, *arguments: str) -> str:
    """What `kbot serve` says when it refuses to start."""
    done = subprocess.run(
        [*SERVE, *arguments], cwd=folder, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: ")
    return done.stderr


def test_a_port_in_use_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refused(tmp_path, "--port", port)
    assert "127.0.0.1" in said
    assert port in said
    assert "in use" in said


def test_a_port_that_cannot_be_is_a_wrong_use(tmp_path: Path) -> None:
    done = subprocess.run(
        [*SERVE, "--port", "99999"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "99999" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_configuration_is_a_clear_error(tmp_path: Path) -> None:
    assert "none.toml" in refused(tmp_path, "--config", "none.toml")
    (tmp_path / "odd.toml").write_text("colour = 1\n")
    assert "colour" in refused(tmp_path, "--config", "odd.toml")
    assert "allow_fetch" in refused(tmp_path, "--allow-fetch", "everything")


def test_a_missing_key_of_the_language_model_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(
        '[answers]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n'
        'api_key_env = "TESTS_NO_SUCH_KEY"\n'
    )
    assert "TESTS_NO_SUCH_KEY is not set" in refused(tmp_path, "--config", "model.toml")


def test_a_data_folder_in_use_is_a_clear_error(tmp_path: Path) -> None:
    with serving(tmp_path):
        assert "in use by another service" in refused(tmp_path, "--port", "0")


def test_a_data_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "file" in refused(tmp_path, "--port", "0", "--data", "file")


def test_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, _, process):
        process.send_signal(signal.SIGINT)
        process.wait(10)
        assert "Traceback" not in (tmp_path / "printed.txt").read_text()


def test_importing_the_command_loads_none_of_what_serving_needs() -> None:
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import knowledge_bot_service.command\n"
        "heavy = {'fastapi', 'uvicorn', 'pydantic', 'sqlite3', 'snowballstemmer', 'trafilatura'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
