"""The runner of the scheduled ingestion, as a person starts it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge_bot_service import LocalService

EXAMPLES = Path(__file__).parents[2] / "examples"
RUNNER = EXAMPLES / "run_scheduled_ingestion.py"
DOCUMENTS = sorted(path.name for path in (EXAMPLES / "handbook").iterdir())
KEY = "key-of-the-example-test"


@pytest.fixture
def environment(tmp_path):
    """An environment with a home and a folder for temporary files, both empty."""
    (tmp_path / "home").mkdir()
    (tmp_path / "temporary").mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "temporary"),
        # A developer's own Airflow must not be met, or changed.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:////nonexistent/airflow.db",
    }


def run(*command, **environment):
    return subprocess.run(
        [sys.executable, *map(str, command)],
        check=False,
        env=environment,
        cwd=environment["HOME"],
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_the_runner_ingests_asks_prints_the_answers_and_leaves_nothing(environment, tmp_path):
    done = run(RUNNER, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    first, _, second = done.stdout.partition("The second night.")
    sources, _, answers = first.partition("Asked and answered")
    assert f"Sources: created {len(DOCUMENTS) + 1}." in sources
    for name in DOCUMENTS:
        assert f"ready   {name}" in sources
    assert re.search(r"ready   http://127\.0\.0\.1:\d+/opening-hours\.html", sources)
    assert "Checked: 3 of 3 answers are as expected." in sources
    answers = " ".join(answers.split())
    # Facts of the handbook, its PDF and the web page, each with the name of its source.
    for fact, source in (
        ("14 days", "borrowing.md"),
        ("Microwave ovens and anything that runs on gas are not repaired", "repair-evening.md"),
        ("54 euros", "membership.md"),
        ("Ines Okafor", "repair-evening.md"),
        ("11,286 tools", "annual-report-2024.pdf"),
        ("9:30 to 14:00", "/opening-hours.html"),
    ):
        assert fact in answers
        assert source in answers
    # One document changed and one is gone: the bot knows both.
    sources, _, answers = second.partition("Asked and answered")
    assert "Sources: replaced 1, removed 1." in sources
    assert sources.count("ready   ") == len(DOCUMENTS)
    assert "repair-evening.md\n" not in sources.partition("Sources:")[2]
    assert "Checked: 2 of 2 answers are as expected." in sources
    answers = " ".join(answers.split())
    assert "21 days for hand tools" in answers
    assert "14 days for hand tools" not in answers
    assert "I am not sure. The closest I found:" in answers
    assert done.stderr == ""
    assert list((tmp_path / "home").iterdir()) == []
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_refused_key_ends_the_runner_with_a_sentence(environment):
    with LocalService() as service:
        done = run(
            RUNNER,
            **environment,
            KNOWLEDGE_BOT_BASE_URL=service.base_url,
            KNOWLEDGE_BOT_API_KEY=KEY,
        )
    assert done.returncode == 1
    assert "401" in done.stderr
    assert "Traceback" not in done.stderr
    assert KEY not in done.stdout + done.stderr
