"""Make sources of the text that a function returns, and of each failure: `@task` and the hook.

A task that calls the hook decides itself what a failure means. Airflow would try it again after
every error, and the service may have the source already; so this one is tried again only where the
service cannot have acted, and the same call may succeed later.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Context, dag, task

try:
    from airflow.sdk.exceptions import AirflowFailException
except ImportError:  # Airflow 3.1
    from airflow.exceptions import AirflowFailException

from airflow_knowledge_bot.hooks import KnowledgeBotHook
from knowledge_bot.errors import Delivery, KnowledgeBotError

STOCK = {"cordless drill": 4, "wallpaper table": 2, "tile cutter": 0}


def note_failure(context: Context) -> None:
    """Add a source about a task that failed, so that a bot can say what the night did.

    Airflow logs what a callback raises, and calls it once.
    """
    failed = context["ti"]
    KnowledgeBotHook().create_text_source(
        name=f"{failed.dag_id}: {failed.task_id} failed",
        content=f"The task {failed.task_id} failed in the run {failed.run_id}.",
    )


@dag(
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    default_args={"on_failure_callback": note_failure},
    tags=["example", "knowledge-bot"],
)
def text_from_a_function() -> None:
    """Count the tools, then add the result as a source."""

    @task(multiple_outputs=False)
    def count() -> dict[str, int]:
        """Count the tools on the shelf."""
        return STOCK

    @task(multiple_outputs=False, retries=2, retry_delay=timedelta(seconds=10))
    def stock(counted: dict[str, int], dag_run: Any = None) -> dict[str, Any]:
        """Add the source, and return its id and its name."""
        lines = [f"There are {number} of: {tool}." for tool, number in counted.items()]
        try:
            return KnowledgeBotHook().create_text_source(
                name=f"Stock of {dag_run.run_after.date()}", content="\n".join(lines)
            )
        except KnowledgeBotError as error:
            if error.may_pass and error.delivery is not Delivery.UNKNOWN:
                raise
            raise AirflowFailException(str(error)) from error

    stock(count())


text_from_a_function()
