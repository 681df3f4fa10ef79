"""A DAG that Airflow runs, with its own retries, its own store and a deferred task."""

import os
import subprocess
import sys

import airflow.sdk
import pytest

from calls import KEY, SOURCE
from scripted_server import answer

pytestmark = pytest.mark.integration

# What is kept between the tries of a task; Airflow 3.1 and 3.2 have nothing of the kind.
HAS_STATE_STORE = hasattr(airflow.sdk, "NEVER_EXPIRE")

DAG_FILE = """
from datetime import timedelta
from airflow.sdk import dag
from airflow_knowledge_bot.operators import KnowledgeBotCreateTextSourceOperator
from airflow_knowledge_bot.sensors import KnowledgeBotPingSensor

def fails_at_first(context, result):
    if context["ti"].try_number == 1:
        raise RuntimeError("the worker had a bad day")

@dag(schedule=None)
def adds_one_source():
    up = KnowledgeBotPingSensor(task_id="up", deferrable=True, poke_interval=0.5, timeout=60)
    up >> KnowledgeBotCreateTextSourceOperator(
        task_id="add", name="Hours", collections="col_1", content="We open at nine.",
        retries=1, retry_delay=timedelta(0), post_execute=fails_at_first,
    )

adds = adds_one_source()
if __name__ == "__main__":
    from airflow.utils.db import initdb
    initdb()
    for task in sorted(adds.test().get_task_instances(), key=lambda task: task.task_id):
        print(task.task_id, task.state, task.try_number)
"""


def test_a_deferred_wait_and_a_retry_after_the_post_make_one_request(scripted, connect, tmp_path):
    server = scripted(answer(503), answer(body="pong"), answer(body={"value": SOURCE}))
    connect(server.url, max_retries=0)
    (tmp_path / "dags").mkdir()
    file = tmp_path / "dags" / "adds_one_source.py"
    file.write_text(DAG_FILE)
    done = subprocess.run(
        [sys.executable, str(file)],
        env=os.environ
        | {
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines()[-2:] == ["add success 2", "up success 1"], done.stdout
    posts = 1 if HAS_STATE_STORE else 2
    assert [request.method for request in server.requests] == ["GET", "GET", *["POST"] * posts]
    # `dag.test()` masks no secrets: nothing may print the key in the first place.
    assert KEY not in done.stdout + done.stderr


MAPPED = """
from airflow.sdk import dag
from airflow_knowledge_bot.operators import KnowledgeBotCreateTextSourceOperator

@dag(schedule=None)
def adds_some():
    names = ["Hours", "Prices"]
    KnowledgeBotCreateTextSourceOperator.partial(
        task_id="add", collections="col_1", content="Text."
    ).expand(name=names)
    KnowledgeBotCreateTextSourceOperator.partial(
        task_id="own", collections="col_1", content="Text.", map_index_template="my {{ task.name }}"
    ).expand(name=names)

adds = adds_some()
if __name__ == "__main__":
    from airflow.utils.db import initdb
    initdb()
    run = adds.test()
    print(sorted(task.rendered_map_index for task in run.get_task_instances()))
"""


def test_mapped_tasks_are_named_by_their_sources(good, tmp_path):
    file = tmp_path / "dags" / "adds_some.py"
    file.parent.mkdir()
    file.write_text(MAPPED)
    done = subprocess.run(
        [sys.executable, str(file)],
        env=os.environ
        | {
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(file.parent),
        },
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "['Hours', 'Prices', 'my Hours', 'my Prices']"
