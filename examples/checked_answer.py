"""Ask a bot once its service answers, and fail where the answer is not the one that it should be.

A check for every day: the service is up, the sources are there, and the bot finds what they say.
"""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Param, dag, task

from airflow_knowledge_bot.operators import KnowledgeBotSendMessageOperator
from airflow_knowledge_bot.sensors import KnowledgeBotPingSensor

PARAMS = {
    "question": Param("Where do visitors park?", type="string"),
    "expected": Param("behind the workshop", type="string", description="Part of the answer."),
}


@dag(
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    params=PARAMS,
    tags=["knowledge-bot"],
)
def checked_answer() -> None:
    """Wait, ask, check."""
    # It goes to the triggerer at once: no worker is held, and none is started only to defer.
    service_is_up = KnowledgeBotPingSensor(
        task_id="service_is_up", start_from_trigger=True, poke_interval=10, timeout=600
    )
    ask = KnowledgeBotSendMessageOperator(task_id="ask", content="{{ params.question }}")

    @task
    def check(message: dict[str, Any], params: dict[str, str]) -> str:
        """Fail the run where the answer lacks what it should hold."""
        answer: str = message["answer"]
        if params["expected"] not in answer:
            raise ValueError(f"the bot answered {answer!r}, without {params['expected']!r}")
        return answer

    service_is_up >> ask
    check(ask.output)


checked_answer()
