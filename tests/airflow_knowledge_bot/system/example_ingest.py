"""Nights of a folder: fed, fed again without a change, asked about, and removed at the end."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from airflow.sdk import DAG, task

from airflow_knowledge_bot.hooks import KnowledgeBotHook
from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator
from airflow_knowledge_bot.sensors import KnowledgeBotAnswerSensor
from system_tests import ENV_ID, get_test_run, watcher

with DAG(
    "example_knowledge_bot_ingest",
    schedule="@once",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"retries": 0},
    tags=["example", "knowledge-bot"],
) as dag:

    @task
    def write() -> str:
        """Write the documents of the first night."""
        folder = Path(mkdtemp(prefix="knowledge-bot-"))
        for name, text in {
            "opening.md": f"The workshop of {ENV_ID} opens at nine.",
            "parking.md": f"Visitors of {ENV_ID} park behind the workshop.",
        }.items():
            # Of this run alone: what has its name is deleted at the end.
            (folder / f"{folder.name}-{name}").write_text(text, encoding="utf-8")
        return str(folder)

    @task
    def edit(folder: str) -> None:
        """Change one document, and drop the other one."""
        name = Path(folder).name
        Path(folder, f"{name}-parking.md").unlink()
        text = f"The workshop of {ENV_ID} opens at half past ten."
        Path(folder, f"{name}-opening.md").write_text(text, encoding="utf-8")

    def night(number: int) -> KnowledgeBotIngestOperator:
        """Feed the folder, and remove what is gone from it."""
        return KnowledgeBotIngestOperator(
            task_id=f"night_{number}",
            folder=folder,
            origin=f"example_ingest_{ENV_ID}",
            ledger_conn_id="ledger",
            prune=True,
            wait_ready=60,
        )

    def known(time: str) -> KnowledgeBotAnswerSensor:
        """Wait until the bot answers what the folder says by now."""
        asked = {"ask": f"When does the workshop of {ENV_ID} open?", "contains": time}
        task_id = f"known_{time.replace(' ', '_')}"
        return KnowledgeBotAnswerSensor(task_id=task_id, questions=[asked], timeout=60)

    @task
    def compare(*nights: dict[str, Any]) -> None:
        """Compare what the nights did."""
        counts = ("created", "unchanged", "replaced", "removed")
        did = [tuple(night[name] for name in counts) for night in nights]
        assert did == [(2, 0, 0, 0), (0, 2, 0, 0), (0, 0, 1, 1)], did

    @task(trigger_rule="all_done")
    def remove(folder: str) -> None:
        """Delete the folder, and what is left of it in the service."""
        shutil.rmtree(folder)
        with KnowledgeBotHook().get_conn() as client:
            for source in client.list_sources():
                if source.name.startswith(f"{Path(folder).name}-"):
                    client.delete_source(source.id)

    folder = write()
    first, second, third = map(night, (1, 2, 3))
    compared = compare(first.output, second.output, third.output)
    first >> known("nine") >> second >> edit(folder) >> third >> known("half past ten")
    compared >> remove(folder)
    # The last task decides how a run ended, and `remove` succeeds after a failure, too.
    [*dag.tasks] >> watcher()

test_run = get_test_run(dag)
