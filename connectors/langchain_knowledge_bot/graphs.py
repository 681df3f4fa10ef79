"""What a tool learns of the agent's graph that calls it: what this agent asked it before.

LangGraph is imported here and nowhere else; a tool that begins anew with each question needs none.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.prebuilt import InjectedState
from pydantic import BaseModel, Field

from knowledge_bot.conversations import Place, Said


class FollowingQuestion(BaseModel):
    """What a bot is asked, by an agent that may ask further."""

    question: str = Field(
        description="A question; the bot knows what it was asked before and what it answered."
    )
    state: Annotated[Any, InjectedState] = None
    """What the graph knows; LangGraph's `ToolNode` gives it, and no model sees it."""


def asked_before(state: Any, bot_id: str) -> list[Said]:
    """Return the questions to a bot that stand answered in a graph's state, and the answers.

    They are read from the messages alone, so that an agent that goes on from an older checkpoint,
    after a restart or in another worker, has asked what its messages say and nothing else.

    Args:
        state: the state: messages, or a mapping or an object that has them as `messages`.
        bot_id: the bot.
    """
    questions: dict[str, str] = {}
    said: list[Said] = []
    for message in _messages(state):
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                questions[call["id"] or ""] = str(call["args"].get("question", ""))
        elif isinstance(message, ToolMessage) and isinstance(message.artifact, Mapping):
            told, question = message.artifact, questions.get(message.tool_call_id)
            place = Place.of(told) if told.get("bot_id") == bot_id else None
            if question is not None and place is not None:
                said.append(Said("user", question))
                said.append(Said("assistant", str(told.get("answer", "")), place=place))
    return said


def _messages(state: Any) -> Iterable[Any]:
    if isinstance(state, list):
        return state
    if isinstance(state, Mapping):
        return state.get("messages") or []
    return getattr(state, "messages", None) or []
