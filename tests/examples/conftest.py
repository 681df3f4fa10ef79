"""What an example finds where it runs."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def home(tmp_path):
    """An empty folder, and another one for temporary files; both are empty afterwards."""
    folders = tmp_path / "home", tmp_path / "temporary"
    for folder in folders:
        folder.mkdir()
    yield folders[0]
    for folder in folders:
        assert [*folder.iterdir()] == []


@pytest.fixture
def environment(home):
    temporary = home.with_name("temporary")
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(temporary)}


@pytest.fixture
def alone(home, environment):
    """`alone(file)`: an example that ran in a process of its own."""

    def run(file):
        return subprocess.run(
            [sys.executable, str(file)],
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    return run
