"""DAGs whose tasks break off in the middle, each in its own way."""

import os
import sqlite3
from datetime import timedelta
from pathlib import Path

from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.sdk import DAG, Connection, task

from airflow_knowledge_bot.operators import (
    KnowledgeBotCheckOperator,
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotCreateWebpageSourceOperator,
    KnowledgeBotIngestOperator,
    KnowledgeBotSendMessageOperator,
    KnowledgeBotUploadSourceOperator,
)
from airflow_knowledge_bot.sensors import KnowledgeBotAnswerSensor, KnowledgeBotPingSensor
from knowledge_bot.origins import Folder, Sql

AT_ONCE = {"retries": 2, "retry_delay": timedelta(0)}


class SqliteHook(DbApiHook):
    """Stands in for the provider of SQLite, which is not installed here."""

    conn_name_attr = "conn_id"

    def get_conn(self):
        return sqlite3.connect(":memory:")


Connection.get_hook = lambda self, **_: SqliteHook()


def leaves_its_pid(context):
    """Leave the test the id of the process to kill."""
    folder = Path(os.environ["AIRFLOW_HOME"]) / "pids"
    folder.mkdir(exist_ok=True)
    (folder / context["dag"].dag_id).write_text(str(os.getpid()))


def adds(**options):
    return KnowledgeBotCreateTextSourceOperator(
        task_id="add",
        source_name="{{ dag.dag_id }}",
        collections="col_1",
        content="At nine.",
        **options,
    )


def ingests(name, count, **options):
    return KnowledgeBotIngestOperator(
        task_id="ingest",
        origin=[{"name": f"{name} {number}", "content": "At nine."} for number in range(count)],
        ledger_conn_id="ledger",
        concurrency=2,
        **options,
    )


with DAG("killed_and_hold", schedule=None, default_args=AT_ONCE):
    adds(pre_execute=leaves_its_pid)

with DAG("killed_and_resend", schedule=None, default_args=AT_ONCE):
    adds(pre_execute=leaves_its_pid, on_unknown="resend")

with DAG("ingests_slowly", schedule=None):
    ingests("slow", 400, collections="col_slow")

with DAG("ingests_and_is_killed", schedule=None, default_args=AT_ONCE):
    ingests("cut", 60, collections="col_1", pre_execute=leaves_its_pid)

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


# Each is killed in the middle of what it sends first: before the service acts on it, or after.
KILLED = {"pre_execute": leaves_its_pid, "knowledge_bot_conn_id": "knowledge_bot_embedded"}
SOURCE = {"source_name": "{{ dag.dag_id }}", "collections": "col_house", **KILLED}
INGESTED = {"collections": "col_house", "ledger_conn_id": "ledger", "concurrency": 1, **KILLED}

for moment in ("before", "after"):

    def killed(kind, moment=moment):
        return DAG(f"killed_{kind}_{moment}", schedule=None, default_args=AT_ONCE)

    with killed("text"):
        KnowledgeBotCreateTextSourceOperator(task_id="task", content="At nine.", **SOURCE)

    with killed("page"):
        KnowledgeBotCreateWebpageSourceOperator(
            task_id="task", url="https://page.example/", **SOURCE
        )

    with killed("file"):
        KnowledgeBotUploadSourceOperator(task_id="task", file=__file__, **SOURCE)

    with killed("message"):
        KnowledgeBotSendMessageOperator(
            task_id="task", bot_id="bot_guide", content="Who is {{ dag.dag_id }}?", **KILLED
        )

    with killed("ingest"):
        KnowledgeBotIngestOperator(
            task_id="task",
            origin=[{"name": f"killed_ingest_{moment}", "content": "At nine."}],
            **INGESTED,
        )

    with killed("items"):

        @task.knowledge_bot_ingest(task_id="task", **INGESTED)
        def items(dag):
            yield {"name": dag.dag_id, "content": "At ten."}

        items()

    with killed("rows"):
        KnowledgeBotIngestOperator(
            task_id="task",
            origin=Sql(
                f"SELECT 'killed_rows_{moment}' AS id, 'At eleven.' AS body",
                conn_id="ledger",
                key="id",
                text="body",
                name=f"rows_{moment}",
            ),
            **INGESTED,
        )

    with killed("folder"):
        KnowledgeBotIngestOperator(
            task_id="task", origin=Folder(f"{os.environ.get('AIRFLOW_HOME')}/{moment}"), **INGESTED
        )

    asking = {"bot_id": "bot_guide", "questions": [{"ask": "{{ dag.dag_id }}?", "matches": "."}]}

    with killed("check"):
        KnowledgeBotCheckOperator(task_id="task", **asking, **KILLED)

    with killed("sensor"):
        KnowledgeBotAnswerSensor(task_id="task", poke_interval=1, **asking, **KILLED)

with DAG("nights", schedule=None, default_args=AT_ONCE):
    KnowledgeBotIngestOperator(
        task_id="feed",
        origin=Folder("{{ dag_run.conf['folder'] }}", name="nights"),
        prune="{{ dag_run.conf['prune'] }}",
        wait_ready="{{ dag_run.conf['wait_ready'] }}",
        **INGESTED | {"collections": "col_nights"},
    )
