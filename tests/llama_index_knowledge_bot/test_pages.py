"""The pages of docs/llama-index: their cells run one after the other, and print what is shown."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge_bot import Client
from knowledge_bot_service import LocalService

pytestmark = pytest.mark.timeout(180)

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/llama-index").glob("*.md"))
CELL = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
LENDING = {"borrowing.md", "damage-and-loss.md", "membership.md", "reservations.md"}
END = "=== end of a cell ==="


@pytest.fixture(scope="module")
def service():
    """A service with three bots that have read the handbook, as for the examples."""
    collections = {"col_lending": "Lending", "col_workshop": "Workshop"}
    bots = {"bot_handbook": [*collections], "bot_lending": ["col_lending"]}
    with (
        LocalService(
            collections=collections, bots={**bots, "bot_workshop": ["col_workshop"]}
        ) as running,
        Client(running.api_key, running.base_url) as client,
    ):
        for file in sorted((ROOT / "examples/handbook").iterdir()):
            collection = "col_lending" if file.name in LENDING else "col_workshop"
            client.upload_source(name=file.name, collections=collection, file=file)
        running.wait_until_ready(60)
        yield running


def cells(page):
    return CELL.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_cell_runs_and_prints_what_is_shown(service, tmp_path, page):
    shutil.copytree(ROOT / "examples/handbook", tmp_path / "handbook")
    code = "".join(f"{code}print({END!r})\n" for code, _ in cells(page))
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code],
        cwd=tmp_path,
        env={
            **os.environ,
            "KNOWLEDGE_BOT_BASE_URL": service.base_url,
            "KNOWLEDGE_BOT_API_KEY": service.api_key,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split(f"{END}\n")
    assert printed == [*(shown for _, shown in cells(page)), ""]


@pytest.fixture
def modules(tmp_path):
    """What stands on the pages and, of this package, in the README, as modules."""
    for page in PAGES:
        code = "\n".join(code for code, _ in cells(page))
        (tmp_path / f"{page.stem}.py").write_text(code, encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    ours = "\n".join(block for block in blocks if "llama_index" in block)
    assert ours
    (tmp_path / "readme.py").write_text(ours, encoding="utf-8")
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, heading = target.partition("#")
        file = (page.parent / path).resolve()
        assert file.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}
            assert heading in anchors, target
