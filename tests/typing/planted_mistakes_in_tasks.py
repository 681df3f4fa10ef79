"""Tasks that are right, and tasks that are wrong, as in `planted_mistakes.py`."""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from airflow_knowledge_bot.operators import (
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotCreateWebpageSourceOperator,
    KnowledgeBotIngestOperator,
    KnowledgeBotSendMessageOperator,
    KnowledgeBotUploadSourceOperator,
)
from airflow_knowledge_bot.sensors import KnowledgeBotPingSensor
from knowledge_bot.origins import Folder

Add = KnowledgeBotCreateTextSourceOperator
Page = KnowledgeBotCreateWebpageSourceOperator
Up = KnowledgeBotPingSensor
Ingest = KnowledgeBotIngestOperator


def right_tasks() -> None:
    """An operator takes its own arguments, and those of every operator."""
    Up(task_id="up", poke_interval=5, timeout=60, retries=1)
    Add(task_id="add", source_name="n", content="c", on_unknown="resend", retry_delay=3, outlets=[])
    KnowledgeBotSendMessageOperator(task_id="ask", content="?", do_xcom_push=False)
    Ingest(task_id="fill", ledger_conn_id="l", origin=Folder("f"), rate=5, wait_ready=60)


def wrong_tasks() -> None:
    """What an operator cannot take is found before Airflow parses the DAG."""
    Add(task_id="a", source_name="n", content="c", on_unknown="fail")  # type: ignore[arg-type]
    Page(task_id="a", source_name="n", urls="u")  # type: ignore[call-arg]
    KnowledgeBotUploadSourceOperator(task_id="a", source_name="n", file=3)  # type: ignore[arg-type]
    Ingest(task_id="a", ledger_conn_id="l", origin=[], rate="5m")  # type: ignore[arg-type]
    Add(task_id="a", source_name="n", content="c", retry=3)  # type: ignore[call-arg]
    Up(task_id="a", poke_intervall=3)  # type: ignore[call-arg]
