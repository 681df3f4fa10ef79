"""Ask a bot whenever a DAG has fed its collection, which is an asset.

The first DAG feeds the collection and sends an asset event. The event starts the second DAG. The
asset's host is that of the service's base URL.
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
from knowledge_bot.origins import Folder

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
    """Ingest new and changed files of the folder."""
    KnowledgeBotIngestOperator(
        task_id="feed",
        origin=Folder("{{ params.folder }}"),
        ledger_conn_id="knowledge_bot_ledger_default",
        outlets=[HANDBOOK],
    )


@dag(schedule=[HANDBOOK], start_date=START, tags=["example", "knowledge-bot"])
def question_after_feeding() -> None:
    """Ask a question after each feeding."""

    @task(multiple_outputs=False)
    def fed(triggering_asset_events: Any = None) -> dict[str, Any]:
        """Log and return what the feeding task wrote into the asset event."""
        extra: dict[str, Any] = triggering_asset_events[HANDBOOK][-1].extra
        logger.info("created: %s, unchanged: %s", extra["created"], extra["unchanged"])
        return extra

    fed() >> KnowledgeBotSendMessageOperator(
        task_id="ask", content="How long is the loan period for hand tools?"
    )


feed_handbook()
question_after_feeding()
