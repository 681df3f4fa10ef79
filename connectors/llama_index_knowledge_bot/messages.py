"""Conversion of the framework's messages and queries, and of a bot's answers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    MessageRole,
    TextBlock,
)
from llama_index.core.schema import (
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)

from knowledge_bot import ConfigurationError, Message
from knowledge_bot.adapters.retrieval import Answer, Retrieved, answered, retrieved
from knowledge_bot.conversations import ROLES, Said, placeholder

# A block that only marks what a provider caches.
_WITHOUT_CONTENT = "cache"


def said_of(messages: Sequence[ChatMessage]) -> list[Said]:
    """Return the framework's messages as the core's."""
    return [_said(position, message) for position, message in enumerate(messages, 1)]


def text_of(query: QueryBundle) -> str:
    """Return a query's text.

    Raises:
        ConfigurationError: the query is empty, or contains an image, which no bot can see.
    """
    if query.image_path is not None:
        raise ConfigurationError.of(
            "query", "contains an image, and bots only read text; describe it in the question"
        )
    if not query.query_str.strip():
        raise ConfigurationError.of("query", "is empty; say what is asked. Nothing was sent")
    return query.query_str


def node_of(found: Retrieved) -> NodeWithScore:
    """Return a passage, or an answer, as a node, and its score beside it."""
    beside = [name for name in found.fields if name != "source"]  # of no use in a prompt
    node = TextNode(
        id_=found.id,
        text=found.text,
        metadata={**found.fields},
        excluded_embed_metadata_keys=beside,
        excluded_llm_metadata_keys=beside,
    )
    if source_id := found.fields.get("source_id"):
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=source_id)
    # Postprocessors drop nodes without a score.
    return NodeWithScore(node=node, score=1.0 if found.score is None else found.score)


def completion_of(bot_id: str, message: Message, *, streamed: bool = False) -> CompletionResponse:
    """Return a bot's answer as what a completion gives."""
    return CompletionResponse(text=message.answer, **_told(bot_id, message, streamed))


def reply_of(bot_id: str, message: Message, *, streamed: bool = False) -> ChatResponse:
    """Return a bot's answer as what a chat gives."""
    # The message's own additional_kwargs stay empty: the framework prints them into prompts.
    said = ChatMessage(role=MessageRole.ASSISTANT, content=message.answer)
    return ChatResponse(message=said, **_told(bot_id, message, streamed))


def source_nodes(response: ChatResponse | CompletionResponse) -> list[NodeWithScore]:
    """Return what an answer was given from: the passages that it names, as nodes.

    Where it names only sources, each is a node with the answer's text. An answer that names no
    source has one node if it found something, and none otherwise.
    """
    message: Any = response.raw
    answer = Answer.of(message)
    if cited := answer.cited:
        return list(map(node_of, map(retrieved, cited)))
    whole = answered(response.additional_kwargs["bot_id"], answer, answer.words)
    named = [
        replace(whole, id=f"{whole.id}-{number}", fields={**whole.fields, "source": source})
        for number, source in enumerate(answer.source_names, 1)
    ]
    return list(map(node_of, named or ([whole] if whole.found else [])))


def _told(bot_id: str, message: Message, streamed: bool) -> dict[str, Any]:
    return {
        "delta": message.answer if streamed else None,
        "raw": message,
        "additional_kwargs": Answer.of(message).as_dict(bot_id),
    }


def _said(position: int, message: ChatMessage) -> Said:
    # Any other role is a provider's name for the model itself.
    role = ROLES.get(message.role.value, "assistant")
    text, unreadable = message.content or "", ""
    for block in message.blocks:
        # A model's reasoning and tool calls are left out.
        kind = getattr(block, "block_type", "")
        if isinstance(block, TextBlock) or role == "assistant" or kind == _WITHOUT_CONTENT:
            continue
        text += placeholder(kind, getattr(block, "title", None))
        unreadable = f"message {position} holds a block of type {kind!r}"
    name = message.additional_kwargs.get("name")  # of a tool
    return Said(role, text, name if isinstance(name, str) else None, unreadable=unreadable)
