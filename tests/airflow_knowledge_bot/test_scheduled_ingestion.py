"""The scheduled ingestion of the examples, night after night, and its runner on a service."""

import itertools
import json
import logging
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from calls import KEY, MESSAGE, SOURCE
from knowledge_bot.ingest import Ledger
from knowledge_bot_service import LocalService
from page_server import answer as page_answer
from page_server import serving
from scripted_server import answer

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples"
RUNNER = EXAMPLES / "run_scheduled_ingestion.py"
DAG_FILE = EXAMPLES / "scheduled_ingestion.py"
DOCUMENTS = sorted(path.name for path in (EXAMPLES / "handbook").iterdir())


@pytest.fixture
def runner(dags, monkeypatch, capfd):
    """`runner(service, …)`: the runner's exit code and all that it printed, with this service.

    It prepares an Airflow of its own, for which it is too late in this process: it meets the one
    that is there, with the DAG in its folder.
    """
    before, log = dict(os.environ), logging.getLogger("airflow.sdk.definitions.dag")
    level = log.level
    monkeypatch.setattr(sys, "path", sys.path[:])
    dags.parse(DAG_FILE.read_text(encoding="utf-8"), DAG_FILE.stem)

    def run(service, *arguments):
        monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", service.base_url)
        monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", service.api_key)
        monkeypatch.setattr(sys, "argv", [str(RUNNER), *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(RUNNER), run_name="__main__")
        return ended.value.code, "".join(capfd.readouterr())

    yield run
    log.setLevel(level)
    os.environ.clear()
    os.environ.update(before)


def test_two_variables_make_the_runner_use_a_service_of_yours(runner):
    with LocalService(api_key=KEY) as service:
        code, printed = runner(service)
        accepted = sorted(source.name for source in service.sources())
    assert code == 0, printed
    assert accepted == [name for name in DOCUMENTS if name != "repair-evening.md"]
    assert "14 days" in printed
    assert "21 days" in printed.partition("The second night.")[2]
    # `dag.test()` masks no secrets: nothing may print the key in the first place.
    assert KEY not in printed


def test_the_runner_tells_which_task_failed(runner):
    with LocalService(api_key=KEY) as service:
        code, printed = runner(service, "--collection", "col_unknown")
    assert code == 1
    assert "Failed tasks: documents." in printed
    # Airflow's log says it in one sentence, and no try was made in vain.
    assert "The refusal is about the task's parameter 'collections'" in printed
    assert KEY not in printed


class Service:
    """A service of a test's own, which refuses what it is told to, and answers with what it has."""

    def __init__(self):
        self.refused, self.arrived, self.asked = set(), [], []
        self.numbers = itertools.count()

    def reply(self, received):
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


def command(dag_id, conf, tmp_path):
    """Run a DAG as `airflow dags test` in a process of its own; return what it printed."""
    folder, home = tmp_path / "dags", tmp_path / "airflow"
    folder.mkdir()
    home.mkdir()
    (folder / DAG_FILE.name).symlink_to(DAG_FILE)
    # The database as `airflow db migrate` left it, for this process and its tests.
    shutil.copy(Path(os.environ["AIRFLOW_HOME"]) / "airflow.db", home)
    own = {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__DAGS_FOLDER": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "airflow", "dags", "test", dag_id, "--conf", json.dumps(conf)],
        check=False,
        env={**os.environ, **own, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_each_night_sends_what_is_missing_and_nothing_twice(
    dags, connect, monkeypatch, tmp_path, scripted
):
    folder, ledger = tmp_path / "documents", tmp_path / "ledger.db"
    folder.mkdir()
    for name in ("a.txt", "b.txt", "c.txt"):
        (folder / name).write_text(f"This is {name}.")
    service = Service()
    connect(
        scripted(reply_to=service.reply).url,
        default_bot_id="bot_1",
        default_collection_id="col_1",
    )
    monkeypatch.setenv(
        "AIRFLOW_CONN_KNOWLEDGE_BOT_LEDGER_DEFAULT",
        json.dumps({"conn_type": "knowledge_bot_ledger", "host": str(ledger)}),
    )
    opening = {"ask": "When does the desk open?", "contains": "nine"}
    conf = {"known_by": opening, "checks": [opening], "questions": [opening["ask"]]}
    conf |= {"prune": False, "wait_ready": 0}  # the service announces nothing
    dag = dags.parse(DAG_FILE.read_text(encoding="utf-8"), DAG_FILE.stem).ingestion

    with serving() as web:
        page = web.url("/hours")
        web.answers["/hours"] = page_answer(b"<p>We open at nine.")
        conf |= {"folder": str(folder), "pages": [page]}

        # A night that fails: one file is refused. All others are sent.
        service.refused = {"b.txt"}
        done = dags.run(dag, run_conf=conf)
        assert done.state == "failed"
        assert service.came() == ["a.txt", "b.txt", "c.txt", page]
        assert "b.txt" in done.log
        assert KEY not in done.log
        assert service.asked == []  # nothing is asked of a bot that was not fed

        # The one after, by Airflow's own command: only what is missing.
        service.refused = set()
        printed = command(dag.dag_id, conf, tmp_path)
        assert KEY not in printed
        assert service.came() == ["b.txt"]
        assert len(service.asked) == 3  # until it is known, the check, and the question itself

        # A file is removed, one changes, the page gets a new banner.
        (folder / "c.txt").unlink()
        (folder / "a.txt").write_text("This is another text.")
        web.answers["/hours"] = page_answer(b"<header>A sale!</header><p>We open at nine.")
        done = dags.run(dag, run_conf=conf)
        assert done.state == "success", done.log
        assert KEY not in done.log
        assert service.came() == ["a.txt"]
        assert [entry.name for entry in Ledger(ledger).gone()] == ["c.txt"]
        assert "c.txt" in done.log
        assert [entry.name for entry in Ledger(ledger).superseded()] == ["a.txt"]
