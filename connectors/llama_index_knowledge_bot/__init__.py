"""Bots and collections of the Knowledge-Bot Service in LlamaIndex."""

from importlib import import_module
from typing import TYPE_CHECKING

from knowledge_bot._extras import require

if TYPE_CHECKING:
    from llama_index_knowledge_bot.checks import acheck_query_engine, check_query_engine
    from llama_index_knowledge_bot.engines import KnowledgeBotChatEngine, KnowledgeBotQueryEngine
    from llama_index_knowledge_bot.llm import KnowledgeBotLLM
    from llama_index_knowledge_bot.retriever import KnowledgeBotRetriever
    from llama_index_knowledge_bot.sink import CollectionSink
    from llama_index_knowledge_bot.tools import KnowledgeBotToolSpec, bot_tools

require(__name__, "llama-index", "llama_index.core")

__all__ = [
    "CollectionSink",
    "KnowledgeBotChatEngine",
    "KnowledgeBotLLM",
    "KnowledgeBotQueryEngine",
    "KnowledgeBotRetriever",
    "KnowledgeBotToolSpec",
    "acheck_query_engine",
    "bot_tools",
    "check_query_engine",
]

_HOMES = {
    "CollectionSink": "sink",
    "KnowledgeBotChatEngine": "engines",
    "KnowledgeBotLLM": "llm",
    "KnowledgeBotQueryEngine": "engines",
    "KnowledgeBotRetriever": "retriever",
    "KnowledgeBotToolSpec": "tools",
    "acheck_query_engine": "checks",
    "bot_tools": "tools",
    "check_query_engine": "checks",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
