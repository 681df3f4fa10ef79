"""The example DAG, run for real: by its runner, and as Airflow's own command runs it."""

import json
import os
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
        timeout=120,
    )


def test_the_runner_ingests_asks_prints_the_answers_and_leaves_nothing(environment, tmp_path):
    done = run(RUNNER, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    sources, _, answers = done.stdout.partition("Asked and answered")
    assert f"Ingested {len(DOCUMENTS) + 1} sources" in sources
    for name in (*DOCUMENTS, "Opening hours"):
        assert f"ready   {name}" in sources
    assert "Checked: 3 of 3 answers are as expected." in sources
    answers = " ".join(answers.split())
    # Facts of the handbook, its PDF and the web page, each with the name of its source.
    for fact, source in (
        ("14 days", "borrowing.md"),
        ("54 euros", "membership.md"),
        ("Ines Okafor", "repair-evening.md"),
        ("11,286 tools", "annual-report-2024.pdf"),
        ("9:30 to 14:00", "Opening hours"),
    ):
        assert fact in answers
        assert source in answers
    assert done.stderr == ""
    assert list((tmp_path / "home").iterdir()) == []
    assert list((tmp_path / "temporary").iterdir()) == []


def test_two_variables_make_the_runner_use_a_service_of_yours(environment):
    with LocalService(api_key=KEY) as service:
        done = run(
            RUNNER,
            **environment,
            KNOWLEDGE_BOT_BASE_URL=service.base_url,
            KNOWLEDGE_BOT_API_KEY=service.api_key,
        )
        accepted = sorted(source.name for source in service.sources())
    assert done.returncode == 0, done.stdout + done.stderr
    assert accepted == DOCUMENTS
    assert "14 days" in done.stdout
    # `dag.test()` masks no secrets: nothing may print the key in the first place.
    assert KEY not in done.stdout + done.stderr


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


def test_the_runner_tells_which_task_failed(environment):
    with LocalService(api_key=KEY) as service:
        done = run(
            RUNNER,
            "--collection",
            "col_unknown",
            **environment,
            KNOWLEDGE_BOT_BASE_URL=service.base_url,
            KNOWLEDGE_BOT_API_KEY=service.api_key,
        )
    assert done.returncode == 1
    assert "Failed tasks: upload." in done.stdout
    # Airflow's log says it in one sentence, and no try was made in vain.
    assert "It is about the task's parameter 'collections'" in done.stdout + done.stderr
    assert KEY not in done.stdout + done.stderr


def test_the_dag_runs_as_it_stands_and_next_time_uploads_only_what_changed(environment, tmp_path):
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "scheduled_ingestion.py").symlink_to(EXAMPLES / "scheduled_ingestion.py")
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "hours.txt").write_text("The desk opens at nine.")
    del environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    with LocalService(api_key=KEY) as service:
        connection = {
            "conn_type": "knowledge_bot",
            "host": service.base_url,
            "password": service.api_key,
            "extra": {"default_bot_id": "bot_default", "default_collection_id": "col_default"},
        }
        environment |= {
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW_CONN_KNOWLEDGE_BOT_DEFAULT": json.dumps(connection),
        }

        def airflow(*arguments):
            done = run("-m", "airflow", *arguments, **environment)
            assert done.returncode == 0, done.stdout + done.stderr
            assert KEY not in done.stdout + done.stderr

        opening = {"ask": "When does the desk open?", "contains": "nine"}
        given = {"known_by": opening, "checks": [opening], "questions": [opening["ask"]]}
        conf = json.dumps({"folder": str(folder), **given})
        airflow("db", "migrate")
        airflow("dags", "test", "scheduled_ingestion", "--conf", conf)
        (folder / "ferry.txt").write_text("The ferry leaves at ten.")
        airflow("dags", "test", "scheduled_ingestion", "--conf", conf)
        assert sorted(source.name for source in service.sources()) == ["ferry.txt", "hours.txt"]
