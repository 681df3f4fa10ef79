"""The pages on LangChain: their cells run one after the other, and print what is shown."""

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs/langchain").glob("*.md"))
CELL = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]*)#?([^)]*)\)")


# What the pages say that a reader has.
GIVEN = """
from langchain_core.language_models import BaseChatModel, FakeListChatModel

llm: BaseChatModel = FakeListChatModel(responses=[])
"""


class StandIn(BaseChatModel):
    """Calls each tool that it has, with the question for each field; then says what it heard."""

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(tool)["function"] for tool in tools])

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any):
        calls = [
            {
                "name": tool["name"],
                "args": dict.fromkeys(tool["parameters"]["properties"], messages[-1].text),
                "id": f"call_{len(messages)}_{tool['name']}",
            }
            for tool in ([] if messages[-1].type == "tool" else kwargs.get("tools", []))
        ]
        said = AIMessage("" if calls else messages[-1].text, tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=said)])


@pytest.fixture(scope="module")
def service():
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        from handbook_service import handbook_service
    finally:
        sys.path.pop(0)
    with handbook_service() as client:
        yield client


def played(page: str) -> str:
    """Run a page's cells; return the page with what they print now."""
    names: dict[str, Any] = {"llm": StandIn()}

    def play(found: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.parse(found[1]), "a cell", "exec"), names)
        shown = f"```python\n{found[1]}```\n"
        return shown + (f"\n```text\n{printed.getvalue()}```\n" if printed.getvalue() else "")

    return CELL.sub(play, page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_cell_runs_and_prints_what_is_shown(service, page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", service.base_url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", service._configuration.api_key.get_secret_value())
    text = page.read_text(encoding="utf-8")
    assert played(text) == text


@pytest.mark.slow
def test_the_cells_type_check_without_plugins(tmp_path):
    for page in PAGES:
        cells = [cell for cell, _ in CELL.findall(page.read_text(encoding="utf-8"))]
        file = tmp_path / f"page_{page.stem.replace('-', '_')}.py"
        file.write_text("\n".join([GIVEN, *cells]), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, tmp_path],
        env={**os.environ, "MYPYPATH": str(ROOT / "connectors")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "page_" not in done.stdout, done.stdout
    assert "files" in done.stdout, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page):
    for path, heading in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
        assert not heading or heading in anchors, heading


def test_there_are_pages():
    assert {"chat-model", "retriever", "tools", "collection", "langgraph"} <= {
        page.stem for page in PAGES
    }
