"""What a tool reads from the state of a LangGraph agent: the questions it was asked before.

LangGraph is only imported here; a tool that starts a conversation for each question needs none.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.prebuilt import InjectedState
from pydantic import BaseModel, Field, create_model

from knowledge_bot import ConfigurationError
from knowledge_bot.conversations import Place, Said


class FollowingQuestion(BaseModel):
    """A question of an agent that may ask follow-up questions."""

    question: str = Field(
        description="A question; the bot knows what it was asked before and what it answered."
    )
    state: Annotated[Any, InjectedState] = None
    """The graph's state; LangGraph's `ToolNode` passes it, and no model sees it."""


def with_state(schema: type[BaseModel]) -> type[BaseModel]:
    """Return a schema that `ToolNode` passes the graph's state to as well."""
    if "state" in schema.model_fields:
        return schema
    field: Any = (Annotated[Any, InjectedState], None)
    return create_model(schema.__name__, __base__=schema, __doc__=schema.__doc__, state=field)


def asked_before(state: Any, bot_id: str) -> list[Said]:
    """Return the answered questions to a bot in a graph's state, with their answers.

    They are read only from the messages, so that an agent that continues from an older checkpoint,
    after a restart or in another worker, has asked exactly what its messages say.

    Args:
        state: messages, or a mapping or an object that has them under any name, as LangGraph's
            states are: dicts, dataclasses, models of pydantic and named tuples.
        bot_id: the bot.

    Raises:
        ConfigurationError: the state has no messages.
    """
    said: list[Said] = []
    for message in _messages(state):
        artifact = message.artifact if isinstance(message, ToolMessage) else None
        if not isinstance(artifact, Mapping) or artifact.get("bot_id") != bot_id:
            continue
        place, question = Place.of(artifact), artifact.get("question")
        if place is not None and isinstance(question, str):
            said.append(Said("user", question))
            said.append(Said("assistant", str(artifact.get("answer", "")), place=place))
    return said


def _messages(state: Any) -> Sequence[Any]:
    """Return a state's messages: those by that name, or else under the graph's own name."""
    if state is None:
        return ()
    if isinstance(state, list | tuple) and not hasattr(state, "_fields"):
        return state
    named = state if isinstance(state, Mapping) else _fields_of(state)
    several = [named.get("messages"), *named.values()]
    found = (each for each in several if isinstance(each, list | tuple) and each)
    for each in found:
        if all(isinstance(one, BaseMessage) for one in each):
            return each
    raise ConfigurationError.of(
        "conversation",
        '"continue" reads the agent\'s messages, from a list or from a state that has one in a '
        f"field or under a key. This {type(state).__name__} has none, but "
        f"{', '.join(map(str, named)) or 'nothing'}. Nothing was sent",
    )


def _fields_of(state: Any) -> Mapping[str, Any]:
    """Return an object's fields by their names; of what has none, such as a number, none."""
    slots = [name for each in type(state).__mro__ for name in getattr(each, "__slots__", ())]
    names = [*getattr(state, "__dict__", ()), *slots, *getattr(state, "_fields", ())]
    return {name: getattr(state, name) for name in names if hasattr(state, name)}
