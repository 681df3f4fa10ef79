"""Bots of the Knowledge-Bot Service in LangChain."""

from langchain_knowledge_bot.retrievers import KnowledgeBotRetriever

__all__ = ["KnowledgeBotRetriever"]
