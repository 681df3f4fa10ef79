"""Conversion of LangChain's messages to the core's, and of the service's answers to LangChain's."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    ContentBlock,
    TextContentBlock,
)
from langchain_core.messages.block_translators import register_translator

from knowledge_bot.adapters.retrieval import Answer
from knowledge_bot.conversations import ROLES, Place, Reply, Said, placeholder
from knowledge_bot.transcripts import Role

PROVIDER = "knowledge_bot"

# LangChain's and its providers' names for them.
_ROLES: dict[str, Role] = {**ROLES, "ai": "assistant", "human": "user"}


def said_in(messages: Sequence[BaseMessage], bot_id: str) -> list[Said]:
    """Return messages as the core's, with the positions of the bot's own answers."""
    return [_said(number, message, bot_id) for number, message in enumerate(messages, 1)]


def message_fields(bot_id: str, reply: Reply, stop: Sequence[str]) -> dict[str, Any]:
    """Return the fields of an `AIMessage` or its chunk, by which `said_in` recognises it.

    The service sends the whole answer, so it is cut here, before the first of `stop`.
    """
    answer = Answer.of(reply.message)
    # What the service cites beside its sources' names, in the fields of `Citation`.
    cited = [{"title": one.name, "url": one.url, "cited_text": one.text} for one in answer.cited]
    citations = [{name: text for name, text in one.items() if text is not None} for one in cited]
    text = answer.text
    # Other models accept a single text too; it must not be read as a list of letters.
    for end in filter(None, [stop] if isinstance(stop, str) else stop):
        text = text.partition(end)[0]
    return {
        "content": text,
        "id": reply.message.id,
        "response_metadata": {
            "model_provider": PROVIDER,
            "model_name": bot_id,
            **answer.as_dict(bot_id),
            **reply.kept(text),
            **({"citations": citations} if citations else {}),
            "finish_reason": "stop",
        },
    }


def _content_blocks(message: AIMessage) -> list[ContentBlock]:
    """Return an answer as LangChain's standard blocks, with its sources as annotations."""
    text: TextContentBlock = {"type": "text", "text": message.text}
    metadata = message.response_metadata
    cited = metadata.get("citations")
    if not isinstance(cited, list):
        sources = metadata.get("sources")
        cited = [{"title": str(name)} for name in sources] if isinstance(sources, list) else []
    annotations: list[Any] = [{"type": "citation", **one} for one in cited]
    if annotations:
        text["annotations"] = annotations
    return [text]


# The framework's way for external providers: the content stays a text.
register_translator(PROVIDER, _content_blocks, _content_blocks)


def _said(number: int, message: BaseMessage, bot_id: str) -> Said:
    role, name = _speaker(message)
    place = None
    if isinstance(message, AIMessage):
        metadata = message.response_metadata
        if metadata.get("model_provider") == PROVIDER and metadata.get("bot_id") == bot_id:
            place = Place.of(metadata)
    text, other = _text(message)
    unreadable = f"message {number} ({message.type}) holds a block of type {other!r}"
    return Said(role, text, name or message.name, place, unreadable if other else "")


def _speaker(message: BaseMessage) -> tuple[Role, str | None]:
    if isinstance(message, ChatMessage):
        # Its role may be any text; an unknown one is the name of an assistant.
        role = _ROLES.get(message.role.lower())
        return (role, None) if role else ("assistant", message.role)
    kind = message.type.removesuffix("MessageChunk").lower()  # a chunk's type is its class's name
    return _ROLES.get(kind, "assistant"), None


def _text(message: BaseMessage) -> tuple[str, str]:
    """Return a message's text, and the type of what is not text in it; empty if there is none."""
    if isinstance(message.content, str):
        return message.content, ""
    texts, other = [], ""
    for block in message.content:
        if isinstance(block, str):
            texts.append(block)
        elif block.get("type") == "text":
            texts.append(str(block.get("text", "")))
        elif not isinstance(message, AIMessage):  # a model's reasoning and tool calls are left out
            other = str(block.get("type"))[:40]
            texts.append(placeholder(other, block.get("filename") or block.get("name")))
    return "".join(texts), other
