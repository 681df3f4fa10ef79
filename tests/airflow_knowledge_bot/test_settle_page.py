"""The page about unknown items: its steps, its commands and its DAG settle what it says."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from answering_bot import URL
from calls import KEY
from knowledge_bot import Client
from knowledge_bot.ingest import Ledger, Text, ingest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "airflow"
PAGE = (FOLDER / "settle.md").read_text(encoding="utf-8")
COMMANDS, SHELL = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
(DAG_FILE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
KEYS = [f"/srv/handbook/{name}.md" for name in ("hours", "fees", "tools")]
ITEMS = [Text(name=key.rpartition("/")[2], content=key, key=key) for key in KEYS]


@pytest.fixture
def unknown(service, ledger):
    """A ledger with three items whose answers were lost."""
    service.lose_next_answer(times=3)
    with Client(KEY, URL) as client:
        assert ingest(client, ITEMS, collections="col_1", ledger=Ledger(ledger)).unknown == 3
    return Ledger(ledger)


@pytest.fixture
def connected_ledger(ledger, monkeypatch):
    """The ledger's file, as the connection that the page and the example name."""
    parts = {"conn_type": "knowledge_bot_ledger", "host": str(ledger)}
    monkeypatch.setenv("AIRFLOW_CONN_KNOWLEDGE_BOT_LEDGER_DEFAULT", json.dumps(parts))


def states(ledger):
    return {entry.key: str(entry.state) for entry in ledger.entries()}


@pytest.mark.usefixtures("connected_ledger")
def test_the_confs_of_its_commands_settle_what_it_says(dags, unknown):
    example = (ROOT / "examples" / "settle_unknown.py").read_text(encoding="utf-8")
    settled = []
    for line in COMMANDS.splitlines():
        *command, last = shlex.split(line)
        assert command[:3] == ["airflow", "dags", "trigger"]
        conf = json.loads(last) if "--conf" in command else {}
        # Parsed for each run: a DAG keeps the params of a test run.
        dag = dags.parse(example, "settle_unknown").settle_unknown()
        task = dags.run(dag, run_conf=conf).task
        settled.append((task.state, task.xcom["settled"], task.xcom["left"]))
    assert settled == [("success", 0, 3), ("success", 1, 2), ("success", 2, 0)]
    assert states(unknown) == dict(zip(KEYS, ("created", "refused", "refused"), strict=True))


@pytest.mark.usefixtures("connected_ledger")
def test_its_dag_names_sources(dags, unknown):
    task = dags.run(dags.parse(DAG_FILE, "settle_two").dag).task
    assert (task.state, task.xcom["settled"], task.xcom["left"]) == ("success", 2, 1)
    sources = {entry.key: entry.source_id for entry in unknown.entries()}
    assert [sources[key] for key in KEYS] == ["src_42", None, None]


def test_its_shell_settles_all_and_the_next_run_sends_what_was_not_created(unknown, ledger):
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

    with Client(KEY, URL) as client:
        report = ingest(client, ITEMS, collections="col_1", ledger=Ledger(ledger))
    assert (report.created, report.unchanged, report.ok) == (1, 2, True)


def test_its_fields_are_those_of_the_form():
    fields = re.findall(r"^\| ([A-Z][\w ]*) \|", PAGE, re.MULTILINE)
    example = (ROOT / "examples" / "settle_unknown.py").read_text()
    assert fields == re.findall(r'title="(.*?)"', example)
    offered = set(re.findall(r'enum=\["(.*?)"\]', example)[0].split('", "'))
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| Outcome ")]
    assert set(re.findall(r"`([a-z ]+)`", row)) == offered
