"""Bots of the Knowledge-Bot Service in LlamaIndex."""

from llama_index_knowledge_bot.retriever import KnowledgeBotRetriever

__all__ = ["KnowledgeBotRetriever"]
