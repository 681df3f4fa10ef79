"""The hooks: a service, and a ledger, as connections name them. They raise the core's errors."""

from airflow_knowledge_bot.hooks.knowledge_bot import KnowledgeBotHook
from airflow_knowledge_bot.hooks.ledger import KnowledgeBotLedgerHook

__all__ = ["KnowledgeBotHook", "KnowledgeBotLedgerHook"]
