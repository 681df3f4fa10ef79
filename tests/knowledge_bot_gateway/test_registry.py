"""What the registry of MCP servers reads, and compares with the release."""

import json
import re
import tomllib
from pathlib import Path

from knowledge_bot import __version__
from knowledge_bot_gateway.command import mcp

PACKAGE = Path(__file__).parents[2] / "connectors" / "knowledge_bot_gateway"


def test_the_registry_s_entry_fits_the_release():
    entry = json.loads((PACKAGE / "server.json").read_text())
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    (package,) = entry["packages"]
    assert entry["version"] == package["version"] == __version__
    assert package["identifier"] == project["name"]
    # `uvx NAME mcp` runs the script of that name.
    assert project["name"] in project["scripts"]
    assert [each["value"] for each in package["packageArguments"]] == [mcp.name]
    assert len(entry["description"]) <= 100
    # The registry takes it from the page of the release that the name is this project's.
    named = re.findall(r"mcp-name: (\S+)", (PACKAGE / "README.md").read_text())
    assert named == [entry["name"]]
