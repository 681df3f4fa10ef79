"""LangChain's messages as turns of a conversation, and the service's answers as LangChain's."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, ToolMessage

from knowledge_bot import ConfigurationError, Message
from langchain_knowledge_bot.conversations import Place, Turn

PROVIDER = "knowledge_bot"

_SPEAKERS = {"human": "User", "ai": "Assistant", "system": "System"}


def turns_of(messages: Sequence[BaseMessage], bot_id: str) -> list[Turn]:
    """Return messages as turns of a conversation with a bot.

    Raises:
        ConfigurationError: a message holds something other than text.
    """
    return [_turn(number, message, bot_id) for number, message in enumerate(messages, 1)]


def metadata_of(bot_id: str, message: Message) -> dict[str, Any]:
    """Return what is told of an answer besides its text, as plain JSON.

    Checkpoints and caches give other classes back as something else, or not at all.
    """
    return {
        "bot_id": bot_id,
        "conversation_id": message.conversation_id,
        "message_id": message.id,
        "created_at": message.model_dump(mode="json", include={"created_at"})["created_at"],
    }


def message_fields(bot_id: str, message: Message, stop: Sequence[str]) -> dict[str, Any]:
    """Return what an `AIMessage` or its chunk is made of; `turns_of` knows it again by these.

    The service writes an answer whole, so it is cut here, before the first of `stop`.
    """
    text = message.answer
    # A single text, as other models take it too, is no list of letters.
    for end in filter(None, [stop] if isinstance(stop, str) else stop):
        text = text.partition(end)[0]
    return {
        "content": text,
        "id": message.id,
        "response_metadata": {
            "model_provider": PROVIDER,
            "model_name": bot_id,
            **metadata_of(bot_id, message),
            "finish_reason": "stop",
        },
    }


def _turn(number: int, message: BaseMessage, bot_id: str) -> Turn:
    text = _text(number, message)
    if isinstance(message, HumanMessage):
        return Turn(_speaker(message), text, is_human=True)
    place = _place(message, bot_id) if isinstance(message, AIMessage) else None
    return Turn(_speaker(message), text, place=place)


def _place(message: AIMessage, bot_id: str) -> Place | None:
    told = message.response_metadata
    if told.get("model_provider") != PROVIDER or told.get("bot_id") != bot_id:
        return None
    conversation_id = told.get("conversation_id")
    return Place(conversation_id, told.get("message_id")) if conversation_id else None


def _speaker(message: BaseMessage) -> str:
    if isinstance(message, ChatMessage):
        return message.role.capitalize()
    if isinstance(message, ToolMessage):
        return f"Tool ({message.name})" if message.name else "Tool"
    kind = message.type.removesuffix("MessageChunk").lower()  # a chunk's type is its class's name
    speaker = _SPEAKERS.get(kind, kind.capitalize())
    return f"{speaker} ({message.name})" if message.name else speaker


def _text(number: int, message: BaseMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    texts = []
    for block in message.content:
        if isinstance(block, str):
            texts.append(block)
        elif block.get("type") == "text":
            texts.append(str(block.get("text", "")))
        elif not isinstance(message, AIMessage):  # a model's reasoning and tool calls stay with it
            raise ConfigurationError(
                f"messages: message {number} ({message.type}) holds a block of type "
                f"{str(block.get('type'))[:40]!r}; the service takes text alone (interface section "
                "4). Leave it out, or put what it shows into words. Nothing was sent"
            )
    return "".join(texts)
