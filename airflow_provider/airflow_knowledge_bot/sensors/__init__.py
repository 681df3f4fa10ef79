"""The sensors: one waits for the service, one for what a bot answers."""

from airflow_knowledge_bot.sensors.knowledge_bot import (
    KnowledgeBotAnswerSensor,
    KnowledgeBotPingSensor,
)

__all__ = ["KnowledgeBotAnswerSensor", "KnowledgeBotPingSensor"]
