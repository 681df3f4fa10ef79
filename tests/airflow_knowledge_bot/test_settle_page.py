"""The page about unknown items: its steps, its commands and its DAG settle what it says."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator
from calls import KEY, SOURCE
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest
from scripted_server import answer, close

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "airflow"
PAGE = (FOLDER / "settle.md").read_text(encoding="utf-8")
COMMANDS, SHELL = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
(DAG_FILE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
KEYS = [f"/srv/handbook/{name}.md" for name in ("hours", "fees", "tools")]
ITEMS = [Text(name=key.rpartition("/")[2], content=key, key=key) for key in KEYS]

RUNNING = """
import json, runpy, sys
from airflow.utils.db import initdb
initdb()
for conf in json.loads(sys.argv[2]):
    found = runpy.run_path(sys.argv[1])  # anew: a DAG keeps what one test run was given
    dag = found["dag"] if "settle_two" in sys.argv[1] else found["settle_unknown"]()
    (task,) = dag.test(run_conf=conf).get_task_instances()
    print("RAN", json.dumps([task.state, task.xcom_pull(task_ids="settle")]))
"""


@pytest.fixture
def service(scripted):
    """A service whose answers are lost while `service.is_down`."""

    def reply(received):
        if received.path.endswith("/ping"):
            return answer(body="pong")
        return close if server.is_down else answer(body={"value": SOURCE})

    server = scripted(reply_to=reply)
    server.is_down = True
    return server


@pytest.fixture
def unknown(service, ledger):
    """A ledger with three items whose answers were lost."""
    with Client(KEY, service.url, timeout=2) as client:
        assert ingest(client, ITEMS, collections="col_1", ledger=Ledger(ledger)).unknown == 3
    return Ledger(ledger)


@pytest.fixture
def run(tmp_path, ledger):
    """`run(file, confs)`: run a DAG with each of some confs; states and XComs."""

    def run_it(file, confs):
        done = subprocess.run(
            [sys.executable, "-c", RUNNING, file, json.dumps(confs)],
            env=os.environ
            | {
                "AIRFLOW_HOME": str(tmp_path / "airflow"),
                "AIRFLOW__CORE__DAGS_FOLDER": str(Path(file).parent),
                "AIRFLOW_CONN_KNOWLEDGE_BOT_LEDGER_DEFAULT": json.dumps(
                    {"conn_type": "knowledge_bot_ledger", "host": str(ledger)}
                ),
            },
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        lines = done.stdout.splitlines()
        return [json.loads(line[4:]) for line in lines if line.startswith("RAN ")]

    return run_it


def states(ledger):
    return {entry.key: str(entry.state) for entry in ledger.entries()}


def test_the_confs_of_its_commands_settle_what_it_says(run, unknown):
    confs = []
    for line in COMMANDS.splitlines():
        *command, last = shlex.split(line)
        assert command[:3] == ["airflow", "dags", "trigger"]
        confs.append(json.loads(last) if "--conf" in command else {})
    ran = run(ROOT / "examples" / "settle_unknown.py", confs)
    assert [(state, told["settled"], told["left"]) for state, told in ran] == [
        ("success", 0, 3),
        ("success", 1, 2),
        ("success", 2, 0),
    ]
    assert states(unknown) == dict(zip(KEYS, ("created", "refused", "refused"), strict=True))


def test_its_dag_tells_sources(run, unknown, tmp_path):
    file = tmp_path / "dags" / "settle_two.py"
    file.parent.mkdir()
    file.write_text(DAG_FILE)
    ((state, told),) = run(file, [{}])
    assert (state, told["settled"], told["left"]) == ("success", 2, 1)
    sources = {entry.key: entry.source_id for entry in unknown.entries()}
    assert [sources[key] for key in KEYS] == ["src_42", None, None]


def test_its_shell_settles_all_and_the_next_run_sends_what_was_not_created(
    unknown, service, ledger
):
    done = subprocess.run(
        ["bash", "-ec", SHELL.replace("/var/lib/airflow/ledger.db", str(ledger))],
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert states(unknown) == dict(zip(KEYS, ("created", "created", "refused"), strict=True))
    assert next(one.source_id for one in unknown.entries() if one.key == KEYS[0]) == "src_42"

    service.is_down = False
    with Client(KEY, service.url) as client:
        report = ingest(client, ITEMS, collections="col_1", ledger=Ledger(ledger))
    assert (report.created, report.unchanged, report.ok) == (1, 2, True)


def test_its_fields_are_those_of_the_form():
    fields = re.findall(r"^\| ([A-Z][\w ]*) \|", PAGE, re.MULTILINE)
    example = (ROOT / "examples" / "settle_unknown.py").read_text()
    assert fields == re.findall(r'title="(.*?)"', example)
    offered = set(re.findall(r'enum=\["(.*?)"\]', example)[0].split('", "'))
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| Outcome ")]
    assert set(re.findall(r"`([a-z ]+)`", row)) == offered


def test_what_it_says_of_the_operator_is_there():
    KnowledgeBotIngestOperator(
        task_id="feed",
        folder="/data",
        ledger_conn_id="ledger",
        on_unknown="resend",
        fail_on=("refused", "undelivered", "invalid"),
    )
