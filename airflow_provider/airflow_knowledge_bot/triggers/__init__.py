"""The triggers: one waits for the service, one tells of new and changed sources.

Neither asks a bot or changes anything: a triggerer that restarts runs its triggers again.
"""

from airflow_knowledge_bot.triggers.knowledge_bot import (
    KnowledgeBotPingTrigger,
    KnowledgeBotSourcesEventTrigger,
)

__all__ = ["KnowledgeBotPingTrigger", "KnowledgeBotSourcesEventTrigger"]
