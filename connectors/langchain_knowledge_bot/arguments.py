"""What a chat model may be told besides messages."""

from collections.abc import Mapping
from typing import Any

from knowledge_bot._model_settings import WITHOUT_EFFECT, warn_of_settings
from langchain_knowledge_bot.text_only import NO_TOOLS

# Between a warning and the line of the user's that it is about.
FRAMEWORKS = frozenset(
    {
        "asyncio",
        "concurrent",
        "langchain",
        "langchain_classic",
        "langchain_core",
        "langchain_knowledge_bot",
        "langgraph",
        "langsmith",
        "pydantic",
        "threading",
    }
)

_OF_A_CALL = ("bot_id", "model", "conversation_id", "stop")
_OF_TOOLS = ("functions", "parallel_tool_calls", "tool_choice", "tools")


def named_in(arguments: Mapping[str, Any], bot_id: str) -> tuple[str, str | None]:
    """Return the bot, by default `bot_id`, and the conversation that a call's arguments name.

    Raises:
        TypeError: an argument that there is not.
    """
    unknown = arguments.keys() - WITHOUT_EFFECT - set(_OF_A_CALL)
    if unknown:
        instead = f" {NO_TOOLS}." if unknown.intersection(_OF_TOOLS) else ""
        raise TypeError(
            f"ChatKnowledgeBot: there is no argument {min(unknown)!r} of a call; there are "
            f"{', '.join(_OF_A_CALL)}.{instead} Nothing was sent."
        )
    warn_of_settings(arguments, inside=FRAMEWORKS)
    named = arguments.get("model") or arguments.get("bot_id") or bot_id
    return named, arguments.get("conversation_id")
