"""DAGs whose tasks break off in the middle, each in its own way."""

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from airflow_knowledge_bot.operators import (
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotIngestOperator,
)
from airflow_knowledge_bot.sensors import KnowledgeBotPingSensor

AT_ONCE = {"retries": 2, "retry_delay": timedelta(0)}


def fails_at_first(context, result):
    if context["ti"].try_number == 1:
        raise RuntimeError("the worker had a bad day")


def leaves_its_pid(context):
    """Leave the test the id of the process to kill."""
    folder = Path(os.environ["AIRFLOW_HOME"]) / "pids"
    folder.mkdir(exist_ok=True)
    (folder / context["dag"].dag_id).write_text(str(os.getpid()))


def adds(**options):
    return KnowledgeBotCreateTextSourceOperator(
        task_id="add", name="{{ dag.dag_id }}", collections="col_1", content="At nine.", **options
    )


with DAG("exception_after_the_post", schedule=None, default_args=AT_ONCE):
    adds(post_execute=fails_at_first)

with DAG("killed_and_hold", schedule=None, default_args=AT_ONCE):
    adds(pre_execute=leaves_its_pid)

with DAG("killed_and_resend", schedule=None, default_args=AT_ONCE):
    adds(pre_execute=leaves_its_pid, on_unknown="resend")

with DAG("ingests_slowly", schedule=None):
    KnowledgeBotIngestOperator(
        task_id="ingest",
        items=[{"name": f"slow {number}", "content": "At nine."} for number in range(400)],
        collections="col_1",
        ledger_conn_id="ledger",
        concurrency=2,
    )

with DAG("ingests_and_is_killed", schedule=None, default_args=AT_ONCE):
    KnowledgeBotIngestOperator(
        task_id="ingest",
        items=[{"name": f"cut {number}", "content": "At nine."} for number in range(60)],
        collections="col_1",
        ledger_conn_id="ledger",
        concurrency=2,
        pre_execute=leaves_its_pid,
    )

with DAG("races", schedule=None, max_active_runs=3):

    @task.knowledge_bot_ingest(collections="col_1", ledger_conn_id="ledger", concurrency=2)
    def race():
        for number in range(30):
            yield {"name": f"race {number}", "content": "At nine."}

    race()

with DAG("maps_too_many", schedule=None):

    @task
    def contents():
        return ["At nine."] * 1025

    KnowledgeBotCreateTextSourceOperator.partial(
        task_id="add", name="maps_too_many", collections="col_1"
    ).expand(content=contents())

for start in (False, True):
    with DAG(f"waits_start_from_trigger_{start}", schedule=None):
        KnowledgeBotPingSensor(
            task_id="service_is_up",
            knowledge_bot_conn_id="knowledge_bot_{{ dag_run.conf['service'] }}",
            deferrable=True,
            start_from_trigger=start,
            poke_interval=1,
            timeout=300,
        )
