"""Type checkers find the planted mistakes, and nothing else."""

import json
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANTED = Path(__file__).with_name("planted_mistakes.py")


def expected() -> dict[int, str]:
    """The code that mypy has for each line with a mistake."""
    lines = PLANTED.read_text(encoding="utf-8").splitlines()
    marked = (
        (number, re.search(r"# expect: ([a-z-]+)$", line)) for number, line in enumerate(lines, 1)
    )
    return {number: mark[1] for number, mark in marked if mark}


def run(*command: str | Path) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


def test_mypy_reports_exactly_the_planted_mistakes(tmp_path):
    told = run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, PLANTED)
    found = re.findall(r"planted_mistakes\.py:(\d+): error: .*\[([\w-]+)\]$", told, re.MULTILINE)
    assert {int(number): code for number, code in found} == expected(), told


@pytest.mark.slow
def test_pyright_reports_exactly_the_planted_mistakes(tmp_path):
    venv.create(tmp_path, with_pip=True)
    installed = subprocess.run(
        [tmp_path / "bin" / "python", "-m", "pip", "install", "--quiet", "pyright==1.1.414"],
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode != 0:
        pytest.skip(f"pyright cannot be installed here: {installed.stderr.strip()[-300:]}")
    pyright = tmp_path / "bin" / "pyright"
    told = run(pyright, "--outputjson", "--pythonpath", sys.executable, PLANTED)
    report = json.loads(told)
    lines = {mistake["range"]["start"]["line"] + 1 for mistake in report["generalDiagnostics"]}
    assert lines == set(expected()), told
