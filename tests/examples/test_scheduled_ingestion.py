"""The example DAG, run for real: by its runner, and as Airflow's own command runs it."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from calls import MESSAGE, SOURCE
from knowledge_bot.ingest import Ledger
from knowledge_bot_service import LocalService
from page_server import answer as page_answer
from page_server import serving
from scripted_server import answer

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
    for name in DOCUMENTS:
        assert f"ready   {name}" in sources
    assert re.search(r"ready   http://127\.0\.0\.1:\d+/opening-hours\.html", sources)
    assert "Checked: 3 of 3 answers are as expected." in sources
    answers = " ".join(answers.split())
    # Facts of the handbook, its PDF and the web page, each with the name of its source.
    for fact, source in (
        ("14 days", "borrowing.md"),
        ("54 euros", "membership.md"),
        ("Ines Okafor", "repair-evening.md"),
        ("11,286 tools", "annual-report-2024.pdf"),
        ("9:30 to 14:00", "/opening-hours.html"),
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
    assert "Failed tasks: documents." in done.stdout
    # Airflow's log says it in one sentence, and no try was made in vain.
    assert "The refusal is about the task's parameter 'collections'" in done.stdout + done.stderr
    assert KEY not in done.stdout + done.stderr


class Service:
    """A service of a test's own, which refuses what it is told to, and answers with what it has."""

    def __init__(self):
        self.refused, self.arrived, self.asked = set(), [], []
        self.numbers = itertools.count()

    def reply(self, received):
        if received.path.endswith("/ping"):
            return answer(body="pong")
        if received.path.endswith("/messages"):
            question = received.json()["value"]["content"]
            self.asked.append(question)
            told = MESSAGE | {"answer": "The desk opens at nine."}
            return answer(body={"value": told})
        value = received.body
        if not value.startswith(b"{"):
            value = value.partition(b'name="value"\r\n\r\n')[2].partition(b"\r\n--")[0]
        fields = json.loads(value)
        name = fields.get("value", fields)["name"]
        self.arrived.append(name)
        if name in self.refused:
            return answer(400, {"value": {"code": "bad_file", "message": "It is no document."}})
        return answer(body={"value": SOURCE | {"id": f"src_{next(self.numbers)}", "name": name}})

    def came(self):
        """Return what arrived since the last look."""
        came, self.arrived = sorted(self.arrived), []
        return came


def test_each_night_sends_what_is_missing_and_nothing_twice(environment, tmp_path, scripted):
    dags, folder, ledger = tmp_path / "dags", tmp_path / "documents", tmp_path / "ledger.db"
    dags.mkdir()
    (dags / "scheduled_ingestion.py").symlink_to(EXAMPLES / "scheduled_ingestion.py")
    folder.mkdir()
    for name in ("a.txt", "b.txt", "c.txt"):
        (folder / name).write_text(f"This is {name}.")
    del environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    service = Service()
    opening = {"ask": "When does the desk open?", "contains": "nine"}
    connection = {
        "conn_type": "knowledge_bot",
        "host": scripted(reply_to=service.reply).url,
        "password": KEY,
        "extra": {"default_bot_id": "bot_1", "default_collection_id": "col_1"},
    }
    environment |= {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW_CONN_KNOWLEDGE_BOT_DEFAULT": json.dumps(connection),
        "AIRFLOW_CONN_KNOWLEDGE_BOT_LEDGER_DEFAULT": json.dumps(
            {"conn_type": "knowledge_bot_ledger", "host": str(ledger)}
        ),
    }
    conf = {"known_by": opening, "checks": [opening], "questions": [opening["ask"]]}

    def night(page):
        given = conf | {"folder": str(folder), "pages": [page]}
        arguments = ("-m", "airflow", "dags", "test", "scheduled_ingestion")
        done = run(*arguments, "--conf", json.dumps(given), **environment)
        assert KEY not in done.stdout + done.stderr
        return done

    done = run("-m", "airflow", "db", "migrate", **environment)
    assert done.returncode == 0, done.stderr
    with serving() as web:
        page = web.url("/hours")
        web.answers["/hours"] = page_answer(b"<p>We open at nine.")

        # A night that fails: one file is refused. All others are sent.
        service.refused = {"b.txt"}
        done = night(page)
        assert service.came() == ["a.txt", "b.txt", "c.txt", page]
        assert "b.txt" in done.stdout + done.stderr
        assert service.asked == []  # nothing is asked of a bot that was not fed

        # The one after: only what is missing.
        service.refused = set()
        done = night(page)
        assert done.returncode == 0, done.stdout + done.stderr
        assert service.came() == ["b.txt"]
        assert len(service.asked) == 3  # until it is known, the check, and the question itself

        # A file is removed, one changes, the page gets a new banner.
        (folder / "c.txt").unlink()
        (folder / "a.txt").write_text("This is another text.")
        web.answers["/hours"] = page_answer(b"<header>A sale!</header><p>We open at nine.")
        done = night(page)
        assert done.returncode == 0, done.stdout + done.stderr
        assert service.came() == ["a.txt"]
        assert [entry.name for entry in Ledger(ledger).gone()] == ["c.txt"]
        assert "c.txt" in done.stdout + done.stderr
        assert [entry.name for entry in Ledger(ledger).superseded()] == ["a.txt"]
