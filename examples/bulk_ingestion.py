"""Ingest a large folder with many workers: one task for each chunk of files, one origin for all.

No task, retry or later run sends a file twice. A service that announces `sync` sees to that; for
others it is the ledger in PostgreSQL. Create two connections in Airflow: `knowledge_bot_default`
(type Knowledge-Bot, with a default collection) and `knowledge_bot_ledger_default` (type
Knowledge-Bot ledger, or Postgres; on a single machine also a SQLite file, with its path as host).
"""

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import Param, dag, task

from airflow_knowledge_bot.hooks import KnowledgeBotHook, KnowledgeBotLedgerHook
from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator
from knowledge_bot.ingest import complete

# Airflow's default for `[core] max_map_length`. A task that returns a longer list fails.
MOST_TASKS = 1024

PARAMS = {
    "folder": Param("/data/documents", type="string", description="On a disk all workers see."),
    "chunk": Param(50, type="integer", minimum=1, description="Files in a task, or more."),
}


@dag(
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    # A retry is safe: what an earlier try was sending is known, or held.
    default_args={"retries": 2, "retry_delay": timedelta(seconds=5)},
    params=PARAMS,
    doc_md=__doc__,
    tags=["example", "knowledge-bot"],
)
def bulk_ingestion() -> None:
    """Cut the folder into chunks, and ingest each chunk in its own task."""

    @task
    def chunks(params: dict[str, Any]) -> list[list[dict[str, str]]]:
        """List the files, in at most as many chunks as Airflow maps."""
        folder = Path(params["folder"])
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        size = max(params["chunk"], math.ceil(len(files) / MOST_TASKS))
        names = [str(path.relative_to(folder)) for path in files]
        items = [
            {"path": str(path), "name": name, "key": name}
            for path, name in zip(files, names, strict=True)
        ]
        return [items[start : start + size] for start in range(0, len(items), size)]

    @task(multiple_outputs=False)
    def tell_what_is_gone(chunks: list[list[dict[str, str]]]) -> dict[str, int]:
        """Say which files there are, so that the others are gone."""
        ledger = KnowledgeBotLedgerHook("knowledge_bot_ledger_default").get_conn()
        keys = [item["key"] for chunk in chunks for item in chunk]
        with KnowledgeBotHook().get_conn() as client:
            return complete(client, "documents", keys, ledger=ledger).counts

    parts = chunks()
    ingested = KnowledgeBotIngestOperator.partial(
        task_id="ingest",
        origin_name="documents",
        complete=False,
        ledger_conn_id="knowledge_bot_ledger_default",
        concurrency=4,
    ).expand(origin=parts)
    ingested >> tell_what_is_gone(parts)


bulk_ingestion()
