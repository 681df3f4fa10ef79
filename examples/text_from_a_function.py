"""Make a source from the text that a function returns: `@task.knowledge_bot_text`."""

from datetime import UTC, datetime

from airflow.sdk import dag, task

STOCK = {"cordless drill": 4, "wallpaper table": 2, "tile cutter": 0}


@dag(
    schedule="@daily",
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["example", "knowledge-bot"],
)
def text_from_a_function() -> None:
    """Count the tools, then add the result as a source."""

    @task(multiple_outputs=False)
    def count() -> dict[str, int]:
        """Count the tools on the shelf."""
        return STOCK

    @task.knowledge_bot_text(name="Stock of {{ dag_run.run_after.date() }}", retries=2)
    def stock(counted: dict[str, int]) -> str:
        """Return the text of the source."""
        return "\n".join(f"There are {number} of: {tool}." for tool, number in counted.items())

    stock(count())


text_from_a_function()
