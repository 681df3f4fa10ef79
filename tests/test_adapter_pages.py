"""The cells of the pages on LangChain and LlamaIndex type-check as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import DOCS, ROOT, blocks

pytestmark = pytest.mark.integration

PAGES = sorted(
    [
        *(DOCS / "langchain").glob("*.md"),
        *(DOCS / "llama-index").glob("*.md"),
        DOCS / "tutorials" / "langchain.md",
        DOCS / "tutorials" / "llama-index.md",
        ROOT / "README.md",
    ]
)

# What the pages on LangChain say that a reader has.
GIVEN = """
from langchain_core.language_models import BaseChatModel, FakeListChatModel

llm: BaseChatModel = FakeListChatModel(responses=[])
"""


@pytest.fixture
def modules(tmp_path):
    """What stands on the pages, of these packages alone in the README, as modules."""
    for page in PAGES:
        cells = [block.text for block in blocks(page) if block.language == "python"]
        ours = [cell for cell in cells if page.parent != ROOT or "llama_index" in cell]
        assert ours
        given = [GIVEN] if "langchain" in f"{page.parent.name} {page.stem}" else []
        name = f"page_{page.parent.name}_{page.stem}.py".replace("-", "_")
        (tmp_path / name).write_text("\n".join([*given, *ours]), encoding="utf-8")
    return sorted(tmp_path.glob("*.py"))


def checked(checker, *arguments, path=()):
    pytest.importorskip(checker)
    done = subprocess.run(
        [sys.executable, "-m", checker, *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "MYPYPATH": str(ROOT / "connectors"),
            "PATH": os.pathsep.join([os.environ["PATH"], *path]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in done.stdout.splitlines() if "page_" in line], done.returncode


def test_mypy_finds_nothing_in_what_is_shown(modules):
    # With the cache of the project, since reading the frameworks takes half a minute.
    assert checked("mypy", "--strict", *modules) == ([], 0)


@pytest.mark.slow
def test_mypy_finds_nothing_without_plugins(modules):
    found, _ = checked("mypy", "--strict", "--config-file", os.devnull, *modules)
    assert found == []


@pytest.mark.slow
def test_pyright_finds_nothing_in_what_is_shown(modules):
    # pyright runs on Node: that of the machine, or the one that Playwright brings.
    playwright = pytest.importorskip("playwright")
    driver = str(Path(playwright.__file__).parent / "driver")
    found = checked("pyright", "--pythonpath", sys.executable, *modules, path=[driver])
    assert found == ([], 0)
