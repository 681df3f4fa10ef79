"""What goes to a bot and what comes back, in the framework's terms."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from knowledge_bot import ConfigurationError, Message
from knowledge_bot._answers import Answer
from knowledge_bot.transcripts import Role, Turn, render

History = Literal["transcript", "latest", "replay", "error"]
"""What is sent of a list that holds more than the user's messages."""

# Whatever else the framework has or gets is some model's name for what it says itself.
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "tool": "tool",
    "function": "tool",
}

# What a provider keeps of a prompt says nothing to anybody.
_WITHOUT_CONTENT = "cache"


def turns_of(messages: Sequence[ChatMessage]) -> list[Turn]:
    """Return the framework's messages as turns of a transcript.

    Raises:
        ConfigurationError: a message holds more than text, and no model said it.
    """
    return [_turn(position, message) for position, message in enumerate(messages, 1)]


def texts_of(turns: Sequence[Turn], history: History) -> list[str]:
    """Return what is sent of a list of turns, as one message or, with "replay", several.

    Raises:
        ConfigurationError: the list asks nothing, or `history` forbids it.
    """
    if not turns:
        raise ConfigurationError("messages: is empty; pass at least the question")
    others = sorted({turn.role for turn in turns} - {"user"})
    if others and history == "error":
        raise ConfigurationError(
            f"messages: besides the user's there are some of {', '.join(others)}, and with "
            'history="error" the user\'s alone are sent. Leave them out, or set '
            'history="transcript" to send them as text. Nothing was sent'
        )
    asked = [list(run) for role, run in groupby(turns, lambda turn: turn.role) if role == "user"]
    if not asked or (turns[-1].role != "user" and history != "latest"):
        raise ConfigurationError(
            f"messages: the last one is of role {turns[-1].role}, so that nothing is asked. End "
            "the list with a question of the user's. Nothing was sent"
        )
    if not any(turn.text.strip() for turn in asked[-1]):
        raise ConfigurationError("the question is empty; say what is asked. Nothing was sent")
    if not others or history == "transcript":
        return [render(turns)]
    wanted = asked[-1:] if history == "latest" else asked
    return [render(run) for run in wanted if any(turn.text.strip() for turn in run)]


def text_of(query: QueryBundle) -> str:
    """Return a query's text.

    Raises:
        ConfigurationError: the query holds an image, which no bot can see.
    """
    if query.image_path is not None:
        raise ConfigurationError(
            "query: holds an image, and a bot reads text only; describe the image in the question"
        )
    return query.query_str


def metadata_of(bot_id: str, message: Message) -> dict[str, Any]:
    """Return where an answer came from and what it says of it; a new dictionary each time."""
    return {
        "bot_id": bot_id,
        "conversation_id": message.conversation_id,
        "message_id": message.id,
        "created_at": message.model_dump(mode="json", include={"created_at"})["created_at"],
        **found_in(message),
    }


def found_in(message: Message) -> dict[str, Any]:
    """Return the names of an answer's `sources`, and whether the bot `found` anything."""
    answer = Answer.of(message)
    return {"sources": list(answer.source_names), "found": not answer.refuses}


def answer_node(bot_id: str, message: Message) -> NodeWithScore:
    """Return an answer as one node."""
    return _node(message.id, message.answer, metadata_of(bot_id, message))


def source_nodes(bot_id: str, message: Message) -> list[NodeWithScore]:
    """Return one node for each source that an answer names, with the answer's words.

    An answer that found something and names no source is one node; one that found nothing is none.
    """
    answer = Answer.of(message)
    if answer.refuses:
        return []
    metadata = metadata_of(bot_id, message)
    if not answer.source_names:
        return [_node(message.id, answer.words, metadata)]
    return [
        _node(f"{message.id}-{number}", answer.words, metadata, source)
        for number, source in enumerate(answer.source_names, 1)
    ]


def _turn(position: int, message: ChatMessage) -> Turn:
    role = _ROLES.get(message.role.value, "assistant")
    for block in message.blocks:
        # A model's reasoning and its calls of tools stay with it.
        if isinstance(block, TextBlock) or role == "assistant":
            continue
        if getattr(block, "block_type", None) != _WITHOUT_CONTENT:
            raise ConfigurationError(
                f"messages: number {position} holds a {type(block).__name__}, and a bot reads text "
                "only; put into words what it shows, or add the file to a collection that the bot "
                "reads and ask about it. Nothing was sent"
            )
    return Turn(role, message.content or "")


def _node(
    node_id: str, text: str, metadata: dict[str, Any], source: str | None = None
) -> NodeWithScore:
    # What changes with every question is no part of what is embedded or shown to a model. A node
    # without a score is dropped by postprocessors.
    volatile = list(metadata)
    node = TextNode(
        id_=node_id,
        text=text,
        metadata=metadata if source is None else {"source": source, **metadata},
        excluded_embed_metadata_keys=volatile,
        excluded_llm_metadata_keys=volatile,
    )
    return NodeWithScore(node=node, score=1.0)
