"""Conversion of the framework's messages and queries, and of a bot's answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from knowledge_bot import ConfigurationError, Message
from knowledge_bot._answers import Answer
from knowledge_bot.conversations import ROLES, Said

# A block that only marks what a provider caches.
_WITHOUT_CONTENT = "cache"


class FollowingMessage(ChatMessage):
    """A message, with the earlier messages of its conversation.

    These are private: they are not sent again, so callbacks and token counters must not see them.
    """

    _before: Sequence[Said] = PrivateAttr(default=())

    @classmethod
    def of(cls, message: ChatMessage, before: Sequence[Said]) -> "FollowingMessage":
        """Return a message with those before it."""
        following = cls(role=message.role, blocks=message.blocks)
        following._before = before
        return following

    @property
    def before(self) -> Sequence[Said]:
        """The messages before it, oldest first."""
        return self._before


def said_of(messages: Sequence[ChatMessage]) -> list[Said]:
    """Return the framework's messages as the core's.

    Raises:
        ConfigurationError: a message that is not a model's holds more than text.
    """
    said: list[Said] = []
    for position, message in enumerate(messages, 1):
        if isinstance(message, FollowingMessage):
            said += message.before
        said.append(_said(position, message))
    return said


def text_of(query: QueryBundle) -> str:
    """Return a query's text.

    Raises:
        ConfigurationError: the query is empty, or contains an image, which no bot can see.
    """
    if query.image_path is not None:
        raise ConfigurationError(
            "query: contains an image, and bots only read text; describe it in the question"
        )
    if not query.query_str.strip():
        raise ConfigurationError("query: is empty; say what is asked. Nothing was sent")
    return query.query_str


def found_in(message: Message) -> dict[str, Any]:
    """Return the names of an answer's `sources`, and whether the bot `found` anything."""
    answer = Answer.of(message)
    return {"sources": list(answer.source_names), "found": not answer.refuses}


def metadata_of(bot_id: str, raw: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer's metadata, as a new dictionary each time.

    Args:
        bot_id: the bot that gave it.
        raw: the service's message.
        found: a mapping with what `found_in` returned.
    """
    return {
        "bot_id": bot_id,
        "conversation_id": raw["conversation_id"],
        "message_id": raw["id"],
        "created_at": raw["created_at"],
        "sources": list(found["sources"]),
        "found": found["found"],
    }


def answer_node(bot_id: str, message: Message) -> NodeWithScore:
    """Return an answer as one node."""
    metadata = metadata_of(bot_id, message.model_dump(mode="json"), found_in(message))
    return _node(message.id, message.answer, metadata)


def source_nodes(text: str, metadata: Mapping[str, Any]) -> list[NodeWithScore]:
    """Return one node for each source that an answer names, with the answer's text.

    An answer that found something but names no source has one node, and one that found nothing has
    none.

    Args:
        text: the answer.
        metadata: what `metadata_of` returned for it.
    """
    if not metadata["found"]:
        return []
    node_id, words = metadata["message_id"], Answer(text).words
    return [
        _node(f"{node_id}-{number}", words, metadata, source)
        for number, source in enumerate(metadata["sources"], 1)
    ] or [_node(node_id, words, metadata)]


def _said(position: int, message: ChatMessage) -> Said:
    # Any other role is a provider's name for the model itself.
    role = ROLES.get(message.role.value, "assistant")
    for block in message.blocks:
        # A model's reasoning and tool calls are left out.
        if isinstance(block, TextBlock) or role == "assistant":
            continue
        if getattr(block, "block_type", None) != _WITHOUT_CONTENT:
            raise ConfigurationError(
                f"messages: number {position} holds a {type(block).__name__}, and bots only read "
                "text; put into words what it shows, or add the file to a collection of the bot "
                "and ask about it. Nothing was sent"
            )
    name = message.additional_kwargs.get("name")  # of a tool
    return Said(role, message.content or "", name if isinstance(name, str) else None)


def _node(
    node_id: str, text: str, metadata: Mapping[str, Any], source: str | None = None
) -> NodeWithScore:
    # What changes with every question must not be embedded or shown to a model. Postprocessors drop
    # nodes without a score.
    volatile = list(metadata)
    node = TextNode(
        id_=node_id,
        text=text,
        metadata={**metadata} if source is None else {"source": source, **metadata},
        excluded_embed_metadata_keys=volatile,
        excluded_llm_metadata_keys=volatile,
    )
    return NodeWithScore(node=node, score=1.0)
