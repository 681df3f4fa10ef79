"""The runner of the scheduled ingestion, as a person starts it."""

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
RUNNER = EXAMPLES / "run_scheduled_ingestion.py"
DOCUMENTS = sorted(path.name for path in (EXAMPLES / "handbook").iterdir())


@pytest.fixture
def environment(environment):
    """One in which a developer's own Airflow is not met, or changed."""
    return environment | {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:////nonexistent/airflow.db"
    }


@pytest.mark.slow  # .ci/run runs scripts/demo itself
def test_the_runner_ingests_asks_prints_the_answers_and_leaves_nothing(alone):
    done = alone(RUNNER)
    assert done.returncode == 0, done.stdout + done.stderr
    first, _, second = done.stdout.partition("The second night.")
    sources, _, answers = first.partition("Asked and answered")
    assert f"Sources: created {len(DOCUMENTS) + 1}." in sources
    for name in DOCUMENTS:
        assert f"ready   {name}" in sources
    assert re.search(r"ready   http://127\.0\.0\.1:\d+/opening-hours\.html", sources)
    assert "Checked: 4 of 4 answers are as expected." in sources
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
