"""What a tool reads from the state of a LangGraph agent: the questions it was asked before.

LangGraph is only imported here; a tool that starts a conversation for each question needs none.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.prebuilt import InjectedState
from pydantic import BaseModel, Field

from knowledge_bot.conversations import Place, Said


class FollowingQuestion(BaseModel):
    """A question of an agent that may ask follow-up questions."""

    question: str = Field(
        description="A question; the bot knows what it was asked before and what it answered."
    )
    state: Annotated[Any, InjectedState] = None
    """The graph's state; LangGraph's `ToolNode` passes it, and no model sees it."""


def asked_before(state: Any, bot_id: str) -> list[Said]:
    """Return the answered questions to a bot in a graph's state, with their answers.

    They are read only from the messages, so that an agent that continues from an older checkpoint,
    after a restart or in another worker, has asked exactly what its messages say.

    Args:
        state: messages, or a mapping or an object that has them as `messages`.
        bot_id: the bot.
    """
    questions: dict[str, str] = {}
    said: list[Said] = []
    for message in _messages(state):
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                questions[call["id"] or ""] = str(call["args"].get("question", ""))
        elif isinstance(message, ToolMessage) and isinstance(message.artifact, Mapping):
            artifact, question = message.artifact, questions.get(message.tool_call_id)
            place = Place.of(artifact) if artifact.get("bot_id") == bot_id else None
            if question is not None and place is not None:
                said.append(Said("user", question))
                said.append(Said("assistant", str(artifact.get("answer", "")), place=place))
    return said


def _messages(state: Any) -> Iterable[Any]:
    if isinstance(state, list):
        return state
    if isinstance(state, Mapping):
        return state.get("messages") or []
    return getattr(state, "messages", None) or []
