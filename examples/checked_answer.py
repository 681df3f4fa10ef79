"""Check every day that a service is up and that its bot answers correctly.

The questions, and what the answers must contain, are the DAG's params.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from airflow_knowledge_bot.operators import KnowledgeBotCheckOperator
from airflow_knowledge_bot.sensors import KnowledgeBotPingSensor

QUESTIONS = Param(
    [
        {"ask": "Where do visitors park?", "contains": "behind the workshop"},
        {"ask": "Who has the keys of the workshop?", "contains": ["desk", "caretaker"]},
    ],
    type="array",
    items={"type": "object", "required": ["ask"]},
    description="What is asked, with what the answers must hold.",
)


@dag(
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    # If the service is away, the task is retried. A wrong answer fails at once.
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    params={"questions": QUESTIONS},
    tags=["example", "knowledge-bot"],
)
def checked_answer() -> None:
    """Wait, then check."""
    # This task starts in the triggerer, so that no worker is started only to defer.
    service_is_up = KnowledgeBotPingSensor(
        task_id="service_is_up", start_from_trigger=True, poke_interval=10, timeout=600
    )

    @task
    def questions(params: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the questions of this run."""
        return params["questions"]

    check = KnowledgeBotCheckOperator(task_id="check", questions=questions())
    service_is_up >> check


checked_answer()
