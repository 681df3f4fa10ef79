"""The operators: what creates something in the service creates it no second time in its retries.

None of them can be deferred: a triggerer that is restarted runs its triggers again, and would send
their requests again with them. Where answers are slow, raise the connection's `timeout`.
"""

from airflow_knowledge_bot.operators.checks import KnowledgeBotCheckOperator
from airflow_knowledge_bot.operators.ingest import KnowledgeBotIngestOperator
from airflow_knowledge_bot.operators.ledgers import KnowledgeBotResolveOperator
from airflow_knowledge_bot.operators.messages import KnowledgeBotSendMessageOperator
from airflow_knowledge_bot.operators.sources import (
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotCreateWebpageSourceOperator,
    KnowledgeBotUploadSourceOperator,
)

__all__ = [
    "KnowledgeBotCheckOperator",
    "KnowledgeBotCreateTextSourceOperator",
    "KnowledgeBotCreateWebpageSourceOperator",
    "KnowledgeBotIngestOperator",
    "KnowledgeBotResolveOperator",
    "KnowledgeBotSendMessageOperator",
    "KnowledgeBotUploadSourceOperator",
]
