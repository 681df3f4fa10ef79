"""Every block of every page: run as it stands, one after the other, and it prints what is shown."""

import ast
import difflib
import itertools
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from docs.pages import PAGES, ROOT, blocks, name_of
from docs.services import Services, environment, kind_of
from knowledge_bot_service import LocalService
from pseudo_terminal import terminal
from record_terminal import Screen

COLUMNS = 100
PROGRAMS = Path(sys.executable).parent

# Pages whose blocks have a test of their own, which runs them and holds more to them.
ELSEWHERE = {
    "docs/airflow/connections.md": "airflow_knowledge_bot/test_connections_page.py",
    "docs/airflow/operators.md": "airflow_knowledge_bot/test_operators_page.py",
    "docs/airflow/settle.md": "airflow_knowledge_bot/test_settle_page.py",
    "docs/gateway/mcp.md": "knowledge_bot_gateway/test_pages.py",
    "docs/gateway/openai.md": "knowledge_bot_gateway/test_pages.py",
    "docs/how-to/check-in-airflow.md": "airflow_knowledge_bot/test_check_page.py",
    "docs/how-to/test-your-own-code.md": "test_testing_page.py",
    "docs/many-workers.md": "airflow_knowledge_bot/test_many_workers.py",
}
FIRST = {"README.md", "docs/start.md"}
ALL = [
    pytest.param(page, block, id=f"{name_of(page)}:{block.line}")
    for page in PAGES
    for block in blocks(page)
]


def runs(page):
    """Return whether anything of a page is run here: Python, or a command behind a `$`."""
    return name_of(page) not in ELSEWHERE and any(
        block.language in ("python", "sh") or (block.language == "console" and "$ " in block.text)
        for block in blocks(page)
        if not block.skipped
    )


def played():
    """Yield the pages that are run here: those that people read first in every run."""
    for page in filter(runs, PAGES):
        marks = [] if name_of(page) in FIRST else [pytest.mark.slow]
        yield pytest.param(page, marks=marks, id=name_of(page))


@pytest.fixture(scope="session")
def services(tmp_path_factory):
    return Services(tmp_path_factory.mktemp("services"))


@pytest.mark.parametrize(("page", "block"), ALL)
def test_a_block_can_be_read(page, block):
    match block.language:
        case "python":
            compile(block.text, name_of(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        case "json":
            json.loads(block.text)
        case "yaml":
            yaml.load(block.text, yaml.CSafeLoader)
        case "toml":
            settings = tomllib.loads(block.text)
            if block.file == "kbot.toml":
                LocalService(settings=settings)  # a SettingsError says what is wrong
        case "console" | "bash" | "sh":
            code = re.sub(r"^\$ ", "", block.text, flags=re.MULTILINE)
            if block.language != "console" or "$ " not in block.text:
                subprocess.run(["bash", "-n", "-c", code], check=True)
        case _:
            assert block.language in ("caddyfile", "ini", "nginx", "text"), (
                "no test knows this language"
            )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", list(played()))
def test_every_block_runs_and_prints_what_is_shown(page, services, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(ROOT / "examples" / "handbook", home / "handbook")
    shutil.copy(ROOT / "examples" / "handbook" / "annual-report-2024.pdf", home / "handbook.pdf")
    (home / "examples").symlink_to(ROOT / "examples")
    kind = kind_of(page.read_text(encoding="utf-8"))
    with services.running(kind, tmp_path / "data") as service:
        variables = environment(service, home, PROGRAMS)
        if kind == "handbook":
            variables["KNOWLEDGE_BOT_COLLECTION"] = "col_default"
        installed(home / "kbot", service.api_key)
        with Cells(variables) as cells:
            typed_later = "".join(
                one.text for one in blocks(page) if one.language in ("console", "sh")
            )
            for block in blocks(page):
                if block.file:
                    here = Path(variables["PWD"], block.file)
                    here.write_text(block.text, encoding="utf-8")
                is_typed = block.file and f"python {block.file}" in typed_later
                if not block.skipped and not is_typed:
                    play(block, home, variables, cells, f"{name_of(page)}:{block.line}")


def installed(folder, key):
    """Make what the first blocks of a page leave behind: an environment, and the service's data."""
    for name, text in (("bin/activate", ""), ("data/api-key", key)):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)


def play(block, home, variables, cells, where):
    """Run a block, and compare what it prints."""
    if block.language == "python":
        printed = cells.run(block, where)
        assert not block.shown or timeless(printed) == timeless(block.shown), where
    elif block.language == "sh":
        typed(block.text, block.shown, home, variables, where)
    elif block.language == "console":
        for command, shown in commands(block.text):
            typed(command, shown, home, variables, where)


def commands(text):
    """Yield the commands of a block, each with what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown.strip("\n")


def typed(commands, shown, home, variables, where):
    """Type commands into a terminal, and compare what is left on it; keep what they export."""
    left, screen = home / ".variables", Screen()
    keep = f"trap 'env -0 > {left}' EXIT; cd {variables['PWD']}"
    port = variables["KNOWLEDGE_BOT_BASE_URL"].rpartition(":")[2].partition("/")[0]
    commands = commands.replace(":8700", f":{port}")
    with terminal(
        [shutil.which("bash"), "-ec", f"{keep}\n{commands}"], variables, COLUMNS
    ) as running:
        code = running.end(200)  # Airflow makes its database in one on a busy machine
        screen.write(running.shown)
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in screen.lines]
    printed = "\n".join(line.replace(str(home), "~") for line in lines).strip("\n")
    assert shown or code == 0, f"{where}: {commands} ended with {code}:\n{printed}"
    difference = difflib.unified_diff(
        *(timeless(text).splitlines() for text in (shown, printed)), "page", "printed"
    )
    assert not shown or timeless(shown) == timeless(printed), "\n".join([where, *difference])
    variables.update(one.split("=", 1) for one in left.read_text().split("\0") if one)


def timeless(text):
    """Return a text without what differs from run to run.

    These are times, ids, ports, empty lines and spaces, and the order of lines in a list.
    """
    text = text.expandtabs()
    text = re.sub(r"\b(src|conv|msg)_[0-9a-f]{24}\b|\b[0-9a-f]{32}\b", "ID", text)
    text = re.sub(r"(?<=http://127\.0\.0\.1:)\d+", "8700", text)
    text = re.sub(r" *\d+\.\d+(?= ?s\b| {2})|(?<= {2})\d(?= {2})", " 0", text)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    lists = itertools.groupby(lines, key=lambda line: line.startswith("  "))
    return "\n".join(line for listed, some in lists for line in (sorted(some) if listed else some))


class Cells:
    """A process that runs a page's Python, once there is some."""

    def __init__(self, variables, python=sys.executable):
        self._variables, self._python, self._process = variables, python, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait(20)
            self._process.stdout.close()

    def run(self, block, where):
        """Run a cell; return what it printed."""
        if self._process is None:
            self._process = subprocess.Popen(
                [self._python, Path(__file__).with_name("play_cells.py")],
                cwd=self._variables["PWD"],
                env=self._variables | {"PYTHONPATH": str(ROOT / "tests" / "support")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            )
        cell = {"first": block.first, "file": block.file, "text": block.text, "name": where}
        self._process.stdin.write(json.dumps(cell) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert not answer["failed"], f"{where}\n{answer['failed']}"
        return answer["printed"]


def test_the_pages_with_tests_of_their_own_are_there():
    for page, test in ELSEWHERE.items():
        assert (ROOT / page).exists()
        assert (ROOT / "tests" / test).exists()
