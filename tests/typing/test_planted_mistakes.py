"""Type checkers find the planted mistakes, and nothing else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import playwright
import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
PLANTED = Path(__file__).with_name("planted_mistakes.py")
IN_TASKS = PLANTED.with_name("planted_mistakes_in_tasks.py")


def expected(*files: Path) -> set[tuple[str, int, str]]:
    """The code that mypy has for each line with a mistake."""
    return {
        (file.name, number, mark[1])
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (mark := re.search(r"# expect: ([a-z-]+)$", line))
    }


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


def found_by_mypy(files: tuple[Path, ...], *options: str) -> set[tuple[str, int, str]]:
    packages = {**os.environ, "MYPYPATH": "connectors:airflow_provider:service"}
    told = run(sys.executable, "-m", "mypy", "--strict", *options, *files, env=packages)
    found = re.findall(r"(planted_\w+\.py):(\d+): error: .*\[([\w-]+)\]$", told, re.MULTILINE)
    assert len(re.findall(": error: ", told)) == len(found), told
    return {(file, int(number), code) for file, number, code in found}


def test_mypy_reports_exactly_the_planted_mistakes():
    # With this project's settings, and the cache of `scripts/lint`.
    files = (PLANTED, IN_TASKS)
    assert found_by_mypy(files) == expected(*files)


@pytest.mark.parametrize(
    "files",
    # Airflow's own modules, which have no model of pydantic, take as long again.
    [(PLANTED,), pytest.param((PLANTED, IN_TASKS), marks=pytest.mark.slow)],
    ids=["all but tasks", "all"],
)
def test_mypy_reports_them_with_a_users_settings_without_pydantics_plugin(files):
    # With a cache of its own, since reading the frameworks takes a quarter of a minute.
    cache = ROOT / ".mypy_cache" / "without_plugins"
    found = found_by_mypy(files, "--config-file", os.devnull, "--cache-dir", str(cache))
    assert found == expected(*files)


@pytest.mark.slow
def test_pyright_reports_exactly_the_planted_mistakes():
    # pyright runs on Node: that of the machine, or the one that Playwright brings.
    path = f"{os.environ['PATH']}{os.pathsep}{Path(playwright.__file__).parent / 'driver'}"
    told = run(
        sys.executable,
        *("-m", "pyright", "--outputjson", "--pythonpath", sys.executable, PLANTED, IN_TASKS),
        env={**os.environ, "PATH": path},
    )
    report = json.loads(told)
    lines = {
        (Path(mistake["file"]).name, mistake["range"]["start"]["line"] + 1)
        for mistake in report["generalDiagnostics"]
    }
    assert lines == {(file, line) for file, line, _ in expected(PLANTED, IN_TASKS)}, told
