"""The gateway's pages: their programs run, and their settings are read."""

import json

import pytest
import yaml

from docs.pages import DOCS, blocks
from gateways import app_of, serving
from knowledge_bot.testing import MemoryService
from knowledge_bot_gateway.command import mcp

BLOCKS = [
    (block.language, block.text)
    for page in ("mcp", "openai")
    for block in blocks(DOCS / "gateway" / f"{page}.md")
    if not block.skipped
]


@pytest.mark.parametrize("text", [text for kind, text in BLOCKS if kind == "python"])
def test_a_program_runs_as_it_stands(text, monkeypatch, capsys):
    service = MemoryService(bots={"bot_default": lambda _: "Ines Okafor leads it."})
    app = app_of(api_key=None, keys=())
    with service.standing_in(), serving(app) as address:
        monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key-of-a-reader")
        for told in ("http://127.0.0.1:8711", "http://127.0.0.1:8710"):
            text = text.replace(told, address)
        exec(compile(text, "page", "exec"), {"__name__": "page"})
    assert "Ines Okafor" in capsys.readouterr().out


def test_an_editors_settings_name_the_command_and_what_it_reads():
    (text,) = [text for kind, text in BLOCKS if kind == "json" and '"command"' in text]
    (server,) = json.loads(text)["mcpServers"].values()
    assert (server["command"], server["args"]) == ("kbot", [mcp.name])
    assert set(server["env"]) == {"KNOWLEDGE_BOT_BASE_URL", "KNOWLEDGE_BOT_API_KEY"}


def test_promptfoos_settings_are_yaml():
    (text,) = [text for kind, text in BLOCKS if kind == "yaml"]
    assert yaml.safe_load(text)["providers"][0]["config"]["apiBaseUrl"].endswith("/v1")
