"""What goes to a bot and what comes back, in the framework's terms."""

from collections.abc import Mapping
from typing import Any

from llama_index.core.schema import QueryBundle

from knowledge_bot import ConfigurationError


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


def metadata_of(bot_id: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return where an answer, as the interface writes it, came from; a new dictionary each time."""
    return {
        "bot_id": bot_id,
        "conversation_id": answer["conversation_id"],
        "message_id": answer["id"],
        "created_at": answer["created_at"],
    }
