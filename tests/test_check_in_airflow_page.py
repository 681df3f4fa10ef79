"""The page on checks in Airflow: its DAGs run as they stand."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge_bot_service import LocalService

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/how-to/check-in-airflow.md").read_text(encoding="utf-8")
FILES = {
    name: text
    for text in re.findall(r"^```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for name in re.findall(r"\A# (\S+)\n", text)
}
RUN = """
import json
from airflow.utils.db import initdb
initdb()
import checked_bots, checked_handbook
for dag in (checked_handbook.dag, checked_bots.dag):
    run = dag.test()
    for one in run.get_task_instances():
        print("RAN", json.dumps([one.dag_id, one.task_id, one.map_index, one.state]))
"""


def test_every_block_is_a_file():
    assert list(FILES) == ["questions.toml", "checked_handbook.py", "checked_bots.py"]
    assert PAGE.count("```") == 2 * len(FILES)


def test_the_dags_run_as_they_stand(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    shutil.copytree(ROOT / "examples" / "handbook", tmp_path / "handbook")
    with LocalService(
        collections={"col_handbook": "Handbook"},
        bots={"bot_guide": ["col_handbook"], "bot_desk": ["col_handbook"]},
    ) as service:
        connection = {
            "conn_type": "knowledge_bot",
            "host": service.base_url,
            "password": service.api_key,
        }
        ledger = {"conn_type": "sqlite", "host": str(tmp_path / "ledger.db")}
        done = subprocess.run(
            [sys.executable, "-c", RUN],
            cwd=tmp_path,
            env={
                **{name: value for name, value in os.environ.items() if "AIRFLOW_" not in name},
                "AIRFLOW_HOME": str(tmp_path / "airflow"),
                "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW_CONN_KNOWLEDGE_BOT_DEFAULT": json.dumps(connection),
                "AIRFLOW_CONN_KNOWLEDGE_BOT_LEDGER_DEFAULT": json.dumps(ledger),
            },
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    ran = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("RAN ")]
    assert sorted(ran) == [
        ["checked_bots", "each_bot", 0, "success"],
        ["checked_bots", "each_bot", 1, "success"],
        ["checked_bots", "questions", -1, "success"],
        ["checked_bots", "this_year", -1, "success"],
        ["checked_handbook", "check", -1, "success"],
        ["checked_handbook", "feed", -1, "success"],
        ["checked_handbook", "known", -1, "success"],
    ]
