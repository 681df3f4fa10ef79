"""The Airflow examples, parsed as Airflow parses them: without a service or a connection."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
print(json.dumps([bag.import_errors, sorted(bag.dag_ids)]))
"""


def test_every_example_is_parsed_without_a_service_or_a_connection(tmp_path):
    dags = tmp_path / "dags"
    dags.mkdir()
    for file in EXAMPLES.glob("*.py"):
        if "@dag" in file.read_text():
            shutil.copy(file, dags)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(dags)],
        env=environment | {"AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    errors, dag_ids = json.loads(done.stdout.splitlines()[-1])
    assert errors == {}
    assert dag_ids == [
        "bulk_ingestion",
        "checked_answer",
        "feed_handbook",
        "mapped_sources",
        "question_after_feeding",
        "scheduled_ingestion",
        "settle_unknown",
        "text_from_a_function",
    ]
