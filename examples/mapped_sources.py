"""Add web pages and notes, one task for each, limited by a pool.

The pool limits all DAGs together: `airflow pools set knowledge_bot 4 "requests to the service"`.
"""

from datetime import UTC, datetime

from airflow.sdk import Param, dag, task

from airflow_knowledge_bot.operators import (
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotCreateWebpageSourceOperator,
)

NOTES = [
    {
        "source_name": "Parking",
        "content": "Visitors park behind the workshop, on weekdays from five on.",
    },
    {
        "source_name": "Keys",
        "content": "The keys of the workshop are at the desk, with the caretaker.",
    },
]
PAGES = Param(
    [],
    type="array",
    items={"type": "object", "required": ["source_name", "url"]},
    description="Web pages, each as an object of `source_name` and `url`.",
)


@dag(
    schedule=None,
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    default_args={"pool": "knowledge_bot", "retries": 2},
    params={"pages": PAGES},
    tags=["example", "knowledge-bot"],
)
def mapped_sources() -> None:
    """Map one task to each page and to each note."""

    @task(pool="default_pool")
    def pages(params: dict[str, list[dict[str, str]]]) -> list[dict[str, str]]:
        """Return the pages, one for each mapped task."""
        return params["pages"]

    KnowledgeBotCreateTextSourceOperator.partial(
        task_id="add_note", map_index_template="{{ task.source_name }}"
    ).expand_kwargs(NOTES)
    KnowledgeBotCreateWebpageSourceOperator.partial(
        task_id="add_page", map_index_template="{{ task.source_name }}"
    ).expand_kwargs(pages())


mapped_sources()
