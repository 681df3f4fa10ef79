"""The cells of the pages on LlamaIndex type-check as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import DOCS, ROOT, blocks

pytestmark = pytest.mark.integration

PAGES = sorted(
    [
        *(DOCS / "llama-index").glob("*.md"),
        DOCS / "tutorials" / "llama-index.md",
        ROOT / "README.md",
    ]
)


@pytest.fixture
def modules(tmp_path):
    """What stands on the pages, of this package alone in the README, as modules."""
    for page in PAGES:
        cells = [block.text for block in blocks(page) if block.language == "python"]
        ours = [cell for cell in cells if page.parent != ROOT or "llama_index" in cell]
        assert ours
        (tmp_path / f"{page.parent.name}_{page.stem}.py").write_text(
            "\n".join(ours), encoding="utf-8"
        )
    return sorted(tmp_path.glob("*.py"))


def checked(checker, *arguments, path=()):
    pytest.importorskip(checker)
    done = subprocess.run(
        [sys.executable, "-m", checker, *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": os.pathsep.join([os.environ["PATH"], *path])},
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout


def test_mypy_finds_nothing_in_what_is_shown(modules):
    # With the cache of the project, since reading the framework takes half a minute.
    assert checked("mypy", "--strict", *modules) == ""


@pytest.mark.slow
def test_pyright_finds_nothing_in_what_is_shown(modules):
    # pyright runs on Node: that of the machine, or the one that Playwright brings.
    playwright = pytest.importorskip("playwright")
    driver = str(Path(playwright.__file__).parent / "driver")
    assert checked("pyright", "--pythonpath", sys.executable, *modules, path=[driver]) == ""
