"""What an example finds where it runs."""

import os

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
