"""What a chat model may be told besides messages."""

import inspect
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from langchain_knowledge_bot.text_only import NO_TOOLS

# What other chat models take and this service has no place for (interface section 4): code that
# changes the model should go on working, and hear of it.
WITHOUT_EFFECT = frozenset(
    {
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "n",
        "presence_penalty",
        "seed",
        "stream",
        "streaming",
        "temperature",
        "top_k",
        "top_p",
    }
)

# Between a warning and the line of the user's that it is about.
_FRAMEWORKS = frozenset(
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
    warn_of(arguments)
    named = arguments.get("model") or arguments.get("bot_id") or bot_id
    return named, arguments.get("conversation_id")


def warn_of(arguments: Iterable[str]) -> None:
    """Warn of each argument that has no effect, at the line of the user's that gave it."""
    for name in sorted(WITHOUT_EFFECT.intersection(arguments)):
        warnings.warn(
            f"{name} has no effect: the service has no such setting", stacklevel=users_level()
        )


def users_level() -> int:
    """Return how many frames above the caller the user's code is."""
    frame, level = inspect.currentframe(), 0
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] in _FRAMEWORKS:
        frame, level = frame.f_back, level + 1
    return level
