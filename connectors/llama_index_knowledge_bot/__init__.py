"""Bots and collections of the Knowledge-Bot Service in LlamaIndex."""

from llama_index_knowledge_bot.engines import KnowledgeBotChatEngine, KnowledgeBotQueryEngine
from llama_index_knowledge_bot.llm import KnowledgeBotLLM
from llama_index_knowledge_bot.retriever import KnowledgeBotRetriever
from llama_index_knowledge_bot.sink import CollectionSink
from llama_index_knowledge_bot.tools import KnowledgeBotToolSpec, bot_tools

__all__ = [
    "CollectionSink",
    "KnowledgeBotChatEngine",
    "KnowledgeBotLLM",
    "KnowledgeBotQueryEngine",
    "KnowledgeBotRetriever",
    "KnowledgeBotToolSpec",
    "bot_tools",
]
