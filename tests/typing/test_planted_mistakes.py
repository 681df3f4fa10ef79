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


def expected() -> dict[int, str]:
    """The code that mypy has for each line with a mistake."""
    lines = PLANTED.read_text(encoding="utf-8").splitlines()
    marked = (
        (number, re.search(r"# expect: ([a-z-]+)$", line)) for number, line in enumerate(lines, 1)
    )
    return {number: mark[1] for number, mark in marked if mark}


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


@pytest.mark.parametrize("settings", ["this project's", "a user's"])
def test_mypy_reports_exactly_the_planted_mistakes(tmp_path, settings):
    options = ["--strict"]  # with the cache of `scripts/lint`
    if settings == "a user's":  # without pydantic's plugin
        options += ["--config-file", os.devnull, "--cache-dir", tmp_path]
    packages = {**os.environ, "MYPYPATH": "connectors:airflow_provider"}
    told = run(sys.executable, "-m", "mypy", *options, PLANTED, env=packages)
    found = re.findall(r"planted_mistakes\.py:(\d+): error: .*\[([\w-]+)\]$", told, re.MULTILINE)
    assert {int(number): code for number, code in found} == expected(), told


@pytest.mark.slow
def test_pyright_reports_exactly_the_planted_mistakes():
    # pyright runs on Node: that of the machine, or the one that Playwright brings.
    path = f"{os.environ['PATH']}{os.pathsep}{Path(playwright.__file__).parent / 'driver'}"
    told = run(
        sys.executable,
        *("-m", "pyright", "--outputjson", "--pythonpath", sys.executable, PLANTED),
        env={**os.environ, "PATH": path},
    )
    report = json.loads(told)
    lines = {mistake["range"]["start"]["line"] + 1 for mistake in report["generalDiagnostics"]}
    assert lines == set(expected()), told
