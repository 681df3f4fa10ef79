"""Bots of the Knowledge-Bot Service in LangChain."""

from importlib import import_module
from typing import TYPE_CHECKING

from knowledge_bot._extras import require

if TYPE_CHECKING:
    from langchain_knowledge_bot.chat_models import ChatKnowledgeBot
    from langchain_knowledge_bot.checks import acheck_runnable, check_runnable
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
    "acheck_runnable",
    "check_runnable",
]

_HOMES = {
    "ChatKnowledgeBot": "chat_models",
    "KnowledgeBotCollection": "collections",
    "KnowledgeBotRetriever": "retrievers",
    "KnowledgeBotTool": "tools",
    "KnowledgeBotToolkit": "tools",
    "acheck_runnable": "checks",
    "check_runnable": "checks",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
