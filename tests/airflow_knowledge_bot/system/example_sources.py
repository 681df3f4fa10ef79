"""One source for each way to make one, a question about them, and a check of the answer."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

from airflow.sdk import DAG, task, teardown

from airflow_knowledge_bot.hooks import KnowledgeBotHook
from airflow_knowledge_bot.operators import (
    KnowledgeBotCheckOperator,
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotSendMessageOperator,
    KnowledgeBotUploadSourceOperator,
)
from airflow_knowledge_bot.sensors import KnowledgeBotPingSensor
from system_tests import ENV_ID, get_test_run, watcher

with DAG(
    "example_knowledge_bot_sources",
    schedule="@once",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["example", "knowledge-bot"],
) as dag:
    up = KnowledgeBotPingSensor(task_id="up", timeout=60)

    @task
    def write() -> str:
        """Write the file that is uploaded."""
        written = Path(mkdtemp(prefix="knowledge-bot-"), "ferry.md")
        written.write_text(f"The ferry of {ENV_ID} leaves at ten past seven.", encoding="utf-8")
        return str(written)

    add_text = KnowledgeBotCreateTextSourceOperator(
        task_id="add_text",
        name=f"Keys of {ENV_ID}",
        content=f"The keys of {ENV_ID} are with the caretaker.",
        wait_ready=60,
    )
    file = write()
    upload = KnowledgeBotUploadSourceOperator(
        task_id="upload", name=f"Ferry of {ENV_ID}", file=file, wait_ready=60
    )
    ask = KnowledgeBotSendMessageOperator(task_id="ask", content=f"Who has the keys of {ENV_ID}?")
    check = KnowledgeBotCheckOperator(
        task_id="check",
        questions=[{"ask": f"When does the ferry of {ENV_ID} leave?", "contains": "past seven"}],
    )

    @teardown
    def remove(file: str, sources: list[dict[str, str] | None]) -> None:
        """Delete what the tasks made, also where one of them failed."""
        shutil.rmtree(Path(file).parent)
        with KnowledgeBotHook().get_conn() as client:
            for source in filter(None, sources):
                client.delete_source(source["id"])

    up >> [add_text, upload] >> ask >> check >> remove(file, [add_text.output, upload.output])
    # The last task decides how a run ended, and the teardown succeeds after a failure, too.
    [*dag.tasks] >> watcher()

test_run = get_test_run(dag)
