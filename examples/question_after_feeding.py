"""Ask whenever a collection was fed, by whatever DAG: the collection is an asset.

The first DAG feeds the collection and says so; the second one is scheduled on that. The host is the
one of the service's base URL.
"""

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, Param, dag, task

from airflow_knowledge_bot.operators import (
    KnowledgeBotIngestOperator,
    KnowledgeBotSendMessageOperator,
)

logger = logging.getLogger(__name__)

HANDBOOK = Asset("knowledgebot://service.example/col_handbook")
FOLDER = Param(str(Path(__file__).resolve().parent / "handbook"), type="string")
START = datetime(2025, 1, 1, tzinfo=UTC)


@dag(
    schedule="@daily",
    start_date=START,
    catchup=False,
    params={"folder": FOLDER},
    max_active_runs=1,
    tags=["example", "knowledge-bot"],
)
def feed_handbook() -> None:
    """Ingest what changed in the folder."""
    KnowledgeBotIngestOperator(
        task_id="feed",
        folder="{{ params.folder }}",
        ledger_conn_id="knowledge_bot_ledger_default",
        outlets=[HANDBOOK],
    )


@dag(schedule=[HANDBOOK], start_date=START, tags=["example", "knowledge-bot"])
def question_after_feeding() -> None:
    """Ask what somebody wants to know after each feeding."""

    @task(multiple_outputs=False)
    def fed(triggering_asset_events: Any = None) -> dict[str, Any]:
        """Tell what the feeding task left in the asset's event."""
        extra: dict[str, Any] = triggering_asset_events[HANDBOOK][-1].extra
        logger.info("created: %s, unchanged: %s", extra["created"], extra["unchanged"])
        return extra

    fed() >> KnowledgeBotSendMessageOperator(
        task_id="ask", content="How long is the loan period for hand tools?"
    )


feed_handbook()
question_after_feeding()
