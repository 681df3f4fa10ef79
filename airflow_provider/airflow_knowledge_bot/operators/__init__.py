"""The operators. Retries of a task create nothing twice in the service.

None of them can be deferred: a triggerer that restarts runs its triggers again, and would send
their requests again. If answers are slow, raise the connection's `timeout`.
"""

from airflow_knowledge_bot.operators.audits import KnowledgeBotAuditOperator
from airflow_knowledge_bot.operators.checks import KnowledgeBotCheckOperator
from airflow_knowledge_bot.operators.ingest import KnowledgeBotIngestOperator
from airflow_knowledge_bot.operators.ledgers import KnowledgeBotResolveOperator
from airflow_knowledge_bot.operators.request import (
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotCreateWebpageSourceOperator,
    KnowledgeBotSendMessageOperator,
    KnowledgeBotUploadSourceOperator,
)

__all__ = [
    "KnowledgeBotAuditOperator",
    "KnowledgeBotCheckOperator",
    "KnowledgeBotCreateTextSourceOperator",
    "KnowledgeBotCreateWebpageSourceOperator",
    "KnowledgeBotIngestOperator",
    "KnowledgeBotResolveOperator",
    "KnowledgeBotSendMessageOperator",
    "KnowledgeBotUploadSourceOperator",
]
