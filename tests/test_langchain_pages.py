"""The cells of the pages on LangChain type-check as they stand."""

import os
import subprocess
import sys

import pytest

from docs.pages import DOCS, ROOT, blocks

pytestmark = pytest.mark.integration

PAGES = sorted([*(DOCS / "langchain").glob("*.md"), DOCS / "tutorials" / "langchain.md"])

# What the pages say that a reader has.
GIVEN = """
from langchain_core.language_models import BaseChatModel, FakeListChatModel

llm: BaseChatModel = FakeListChatModel(responses=[])
"""


@pytest.mark.slow
def test_the_cells_type_check_without_plugins(tmp_path):
    for page in PAGES:
        cells = [block.text for block in blocks(page) if block.language == "python"]
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
