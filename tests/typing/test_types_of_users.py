"""Type checkers with a user's settings: planted mistakes are found, and the pages' cells are fine.

`scripts/lint` checks the planted mistakes with this project's settings.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import DOCS, ROOT, blocks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PLANTED = sorted(Path(__file__).parent.glob("planted_*.py"))
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
def cells(tmp_path):
    """What stands on the pages, of these packages alone in the README, as modules."""
    for page in PAGES:
        shown = [block.text for block in blocks(page) if block.language == "python"]
        ours = [cell for cell in shown if page.parent != ROOT or "llama_index" in cell]
        assert ours
        given = [GIVEN] if "langchain" in f"{page.parent.name} {page.stem}" else []
        name = f"page_{page.parent.name}_{page.stem}.py".replace("-", "_")
        (tmp_path / name).write_text("\n".join([*given, *ours]), encoding="utf-8")
    return sorted(tmp_path.glob("*.py"))


def check(checker, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-m", checker, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("settings", ["pyproject.toml", os.devnull], ids=["ours", "a user's"])
def test_mypy_finds_what_is_planted_and_nothing_in_what_is_shown(cells, settings):
    check(
        *("mypy", "--strict", "--config-file", settings, *PLANTED, *cells),
        MYPYPATH="connectors:airflow_provider:service",
    )


def test_pyright_finds_what_is_planted_and_nothing_in_what_is_shown(cells):
    # pyright runs on Node: that of the machine, or the one that Playwright brings.
    driver = Path(pytest.importorskip("playwright").__file__).parent / "driver"
    check(
        *("pyright", "--pythonpath", sys.executable, *PLANTED, *cells),
        PATH=f"{os.environ['PATH']}{os.pathsep}{driver}",
    )
