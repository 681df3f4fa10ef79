"""Settle the unknown items of a ledger from Airflow's web UI.

First trigger the DAG without changing its form: the log lists the items. Look for each in the
service. Then trigger the DAG again, and enter in the form what you found.
"""

from datetime import UTC, datetime

from airflow.sdk import Param, dag

from airflow_knowledge_bot.operators import KnowledgeBotResolveOperator

PARAMS = {
    "outcome": Param(
        "list",
        enum=["list", "created", "not created"],
        title="Outcome",
        description="created: the service has them. not created: it does not, and the next run "
        "sends them. list: only name them.",
    ),
    "items": Param(
        [],
        type=["array", "null"],
        title="Items",
        description="Keys, or ids as the log names them, one a line.",
    ),
    "everything": Param(
        False, type="boolean", title="All that are unknown", description="Instead of naming items."
    ),
    "ledger_conn_id": Param("knowledge_bot_ledger_default", type="string", title="Ledger"),
}


@dag(
    schedule=None,
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    params=PARAMS,
    render_template_as_native_obj=True,
    tags=["example", "knowledge-bot"],
)
def settle_unknown() -> None:
    """Settle items of unknown outcome."""
    KnowledgeBotResolveOperator(
        task_id="settle",
        outcome="{{ params.outcome }}",
        items="{{ params['items'] }}",  # `params.items` would be the dict's method
        everything="{{ params.everything }}",
        ledger_conn_id="{{ params.ledger_conn_id }}",
    )


settle_unknown()
