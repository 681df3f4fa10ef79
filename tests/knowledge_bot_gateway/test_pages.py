"""The gateway's pages: their programs run, and their settings are read, before a fed service."""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from docs.pages import DOCS, ROOT, blocks
from in_process import OnAPort
from knowledge_bot import Client
from waiting import until

pytestmark = pytest.mark.integration

KBOT = Path(sys.executable).with_name("kbot")
BLOCKS = [
    (block.language, block.text)
    for page in ("mcp", "openai")
    for block in blocks(DOCS / "gateway" / f"{page}.md")
    if not block.skipped
]


@pytest.fixture(scope="module")
def service():
    with (
        OnAPort(
            collections={"col_handbook": "Handbook"}, bots={"bot_guide": ["col_handbook"]}
        ) as service,
        Client(service.api_key, service.base_url) as client,
    ):
        for file in sorted((ROOT / "examples/handbook").iterdir()):
            client.upload_source(name=file.name, collections="col_handbook", file=file)
        service.wait_until_ready()
        yield service


@pytest.fixture(scope="module")
def addresses(service, tmp_path_factory):
    """For each address of the pages the one where it is answered here."""
    folder = tmp_path_factory.mktemp("pages")
    with (
        listening(service, folder / "mcp.txt", "mcp", "--http", "127.0.0.1:0") as mcp,
        listening(service, folder / "gateway.txt", "gateway", "--port", "0") as gateway,
    ):
        yield {"http://127.0.0.1:8711": mcp, "http://127.0.0.1:8710": gateway}


@contextmanager
def listening(service, log, *arguments):
    environment = {**os.environ, "KNOWLEDGE_BOT_BASE_URL": service.base_url}
    with (
        log.open("wb") as printed,
        subprocess.Popen([KBOT, *arguments], env=environment, stdout=printed) as process,
    ):
        try:
            assert until(lambda: "MCP:" in log.read_text())
            yield re.search(r"http://[\d.:]+", log.read_text())[0]
        finally:
            process.terminate()


@pytest.mark.parametrize("text", [text for kind, text in BLOCKS if kind == "python"])
def test_a_program_runs_as_it_stands(service, addresses, text):
    program = text
    for result, here in addresses.items():
        program = program.replace(result, here)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "KNOWLEDGE_BOT_API_KEY": service.api_key},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Ines Okafor" in done.stdout


def test_an_editors_settings_start_the_server(service):
    (text,) = [text for kind, text in BLOCKS if kind == "json" and '"command"' in text]
    (server,) = json.loads(text)["mcpServers"].values()
    given = {
        "KNOWLEDGE_BOT_BASE_URL": service.base_url,
        "KNOWLEDGE_BOT_API_KEY": service.api_key,
    }
    assert set(server["env"]) == set(given)
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "editor", "version": "1"},
        },
    }
    done = subprocess.run(
        [server["command"], *server["args"]],
        env={**os.environ, **given, "PATH": f"{KBOT.parent}:{os.environ['PATH']}"},
        input=json.dumps(message) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "knowledge-bot"


def test_promptfoos_settings_are_yaml():
    (text,) = [text for kind, text in BLOCKS if kind == "yaml"]
    assert yaml.safe_load(text)["providers"][0]["config"]["apiBaseUrl"].endswith("/v1")
