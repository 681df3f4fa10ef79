"""The LangChain examples, run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(tmp_path):
    """`run(example, …)`: what it printed, from an empty home and working directory."""
    home = tmp_path / "home"
    home.mkdir()

    def start(example, *arguments):
        done = subprocess.run(
            [sys.executable, str(EXAMPLES / f"langchain_{example}.py"), *arguments],
            cwd=home,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
        return done.stdout

    yield start
    # Neither in the working directory nor among the temporary files is anything left.
    assert [path for path in tmp_path.rglob("*") if path != home] == []


@pytest.mark.parametrize(
    ("example", "told"),
    [
        ("chain", ["54 euros", "present value", "14 days", "4 days only"]),
        ("rag", ["bot_lending: I could not find that", "Ear protection is compulsory"]),
        ("agent", ["Name: ask_workshop", "Ear protection is compulsory"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_example_runs_and_tells_facts_of_the_handbook(run, example, told):
    printed = run(example)
    for fact in told:
        assert fact in printed


def test_a_conversation_in_a_graph_survives_a_restart(run):
    before, after = run("graph").strip().split("\n\nA new process; ")
    assert "holds 0 messages" in before
    assert "14 days" in before
    assert "holds 2 messages" in after
    # "And for large machines?" is about loan periods only where the bot knows what came before.
    assert "lent for 4 days only" in after
    assert len(set(re.findall(r"conv_\w+", f"{before} {after}"))) == 1
    assert "conversations of the bot: 1" in after
