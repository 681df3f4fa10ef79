"""Bots and collections of the Knowledge-Bot Service in LlamaIndex."""

from typing import TYPE_CHECKING

from knowledge_bot import __version__
from knowledge_bot.adapters import lazy_names, require

if TYPE_CHECKING:
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
    "__version__",
    "bot_tools",
]

_HOMES = {
    "engines": ("KnowledgeBotChatEngine", "KnowledgeBotQueryEngine"),
    "llm": ("KnowledgeBotLLM",),
    "retriever": ("KnowledgeBotRetriever",),
    "sink": ("CollectionSink",),
    "tools": ("KnowledgeBotToolSpec", "bot_tools"),
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
