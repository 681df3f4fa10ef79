"""Bots of the Knowledge-Bot Service in LangChain."""

from typing import TYPE_CHECKING

from knowledge_bot import __version__
from knowledge_bot.adapters import lazy_names, require

if TYPE_CHECKING:
    from langchain_knowledge_bot.chat_models import ChatKnowledgeBot
    from langchain_knowledge_bot.collections import KnowledgeBotCollection
    from langchain_knowledge_bot.retrievers import KnowledgeBotRetriever
    from langchain_knowledge_bot.tools import KnowledgeBotTool, KnowledgeBotToolkit

require(__name__, "langchain", "langchain_core")

__all__ = [
    "ChatKnowledgeBot",
    "KnowledgeBotCollection",
    "KnowledgeBotRetriever",
    "KnowledgeBotTool",
    "KnowledgeBotToolkit",
    "__version__",
]

_HOMES = {
    "chat_models": ("ChatKnowledgeBot",),
    "collections": ("KnowledgeBotCollection",),
    "retrievers": ("KnowledgeBotRetriever",),
    "tools": ("KnowledgeBotTool", "KnowledgeBotToolkit"),
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
