"""The page for operators: what it shows is what happens."""

import re
import shlex
from pathlib import Path

import httpx
import pytest

from in_process import InProcess
from knowledge_bot_service.config.settings import read_settings
from serve_command import called, key_in, serving
from service_calls import problem_of
from waiting import until

PAGE = Path(__file__).parents[3] / "docs/service/operate.md"
TEXT = PAGE.read_text("utf-8")


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_its_configuration_can_be_read(tmp_path):
    (configuration,) = blocks("toml")
    (tmp_path / "kbot.toml").write_text(configuration)
    settings = read_settings(tmp_path / "kbot.toml")
    assert [key.role for key in settings.keys] == ["manage", "read"]


@pytest.mark.slow
def test_its_configuration_starts_a_service_with_its_keys_and_limits(tmp_path, monkeypatch):
    (configuration,) = blocks("toml")
    file = tmp_path / "kbot.toml"
    file.write_text(configuration.replace("/var/lib/kbot", "data"))
    (tmp_path / "import.key").write_text("key-of-the-import\n")
    monkeypatch.setenv("INTRANET_CHAT_KEY", "key-of-the-chat")
    body = {"value": {"name": "Hours", "collections": ["col_handbook"], "content": "Nine to six."}}
    with serving(tmp_path, "--config", "kbot.toml") as (base_url, _, _process):
        chat, importing = ({"X-API-KEY": key} for key in ("key-of-the-chat", "key-of-the-import"))
        problem_of(httpx.post(f"{base_url}/sources/write", json=body, headers=chat), 403)
        added = httpx.post(f"{base_url}/sources/write", json=body, headers=importing)
        assert added.status_code == 200
        # The gateway beside it takes the same keys.
        root = base_url.removesuffix("/public/v1")
        bearer = {"Authorization": "Bearer key-of-the-chat"}
        listed = httpx.get(f"{root}/v1/models", headers=bearer, timeout=60)
        assert [one["id"] for one in listed.json()["data"]] == ["bot_guide"]
        question = {
            "model": "bot_guide",
            "messages": [{"role": "user", "content": "What are the hours?"}],
        }
        answered = httpx.post(
            f"{root}/v1/chat/completions", json=question, headers=bearer, timeout=60
        )
        assert answered.status_code == 200
        wrong = {"Authorization": "Bearer wrong"}
        assert httpx.get(f"{root}/v1/models", headers=wrong).status_code == 401


@pytest.mark.slow
def test_its_lines_of_the_log_and_its_metrics_are_those_of_the_service(tmp_path):
    with serving(tmp_path) as (base_url, printed, _process):
        httpx.get(f"{base_url}/ping")
        httpx.post(
            f"{base_url}/sources/upload",
            data={"name": "Program", "collections": "col_default"},
            files={"file": ("tool.exe", b"MZ\x90\x00" + bytes(200))},
            headers={"X-API-KEY": key_in(printed)},
        )
        assert until(lambda: " failed: " in (tmp_path / "printed.txt").read_text())
        httpx.get(f"{base_url}/bots", headers={"X-API-KEY": "wrong"})
        told = httpx.get(base_url.replace("/public/v1", "/metrics")).text

    def shape(line):
        line = re.sub(r"^\S+T\S+", "TIME", line)
        line = re.sub(r"src_[0-9a-f]+", "ID", line)
        line = re.sub(r"(info|warning) \S+", r"\1 CLIENT", line)
        return re.sub(r"(POST|GET) \S+|[\d.]+|key \S+$", "", line)

    logged = {shape(line) for line in (tmp_path / "printed.txt").read_text().splitlines()}
    (shown,) = [block for block in blocks("text") if " info " in block]
    assert {shape(line) for line in shown.splitlines()} <= logged
    named = set(re.findall(r"`(kbot_service_\w+)`", TEXT))
    assert len(named) >= 3
    for name in named:
        assert f"# TYPE {name.removesuffix('_total') if name not in told else name} " in told, name


def test_its_commands_for_keys_and_backups_run_in_their_order(tmp_path):
    (tmp_path / "kbot.toml").write_text(
        '[[collections]]\nid = "col_handbook"\nname = "Handbook"\n'
        '[[bots]]\nid = "bot_guide"\nname = "Guide"\ncollections = ["col_handbook"]\n'
    )
    with InProcess(tmp_path / "data"):
        done = []
        for line in "".join(blocks("console")).splitlines():
            program, *arguments = shlex.split(line)
            if program != "kbot":
                continue
            places = {"/var/lib/kbot": str(tmp_path / "data")}
            places |= dict.fromkeys(("/backups", "/etc/kbot"), str(tmp_path))
            for place, here in places.items():
                arguments = [one.replace(place, here) for one in arguments]
            ran = called(tmp_path, *arguments[1:])
            assert ran.returncode == 0, ran.stderr
            done.append(arguments[2] if arguments[1] == "keys" else arguments[1])
        assert done == ["add", "list", "revoke", "backup", "restore"]
    assert (tmp_path / "data-restored/knowledge.sqlite3").exists()
