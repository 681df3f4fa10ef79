"""The API core: a typed, delivery-aware client of the Knowledge-Bot Service.

Importing this package loads neither httpx nor pydantic; a name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge_bot._chats import AsyncChat, Chat
    from knowledge_bot._client import AsyncClient, Client
    from knowledge_bot._transports import AsyncTransport, HTTPRequest, HTTPResponse, Transport
    from knowledge_bot.errors import (
        APIError,
        AuthenticationError,
        BadRequestError,
        ConfigurationError,
        ConflictError,
        ConnectionFailedError,
        ConnectionLostError,
        Delivery,
        InsecureTransportWarning,
        KnowledgeBotError,
        NotFoundError,
        PaymentRequiredError,
        PermissionDeniedError,
        RateLimitError,
        RequestTimeoutError,
        ServerError,
        UnexpectedResponseError,
    )
    from knowledge_bot.models import Bot, Collection, Conversation, Header, Message, Source

__version__ = "0.1.0"

__all__ = [
    "APIError",
    "AsyncChat",
    "AsyncClient",
    "AsyncTransport",
    "AuthenticationError",
    "BadRequestError",
    "Bot",
    "Chat",
    "Client",
    "Collection",
    "ConfigurationError",
    "ConflictError",
    "ConnectionFailedError",
    "ConnectionLostError",
    "Conversation",
    "Delivery",
    "HTTPRequest",
    "HTTPResponse",
    "Header",
    "InsecureTransportWarning",
    "KnowledgeBotError",
    "Message",
    "NotFoundError",
    "PaymentRequiredError",
    "PermissionDeniedError",
    "RateLimitError",
    "RequestTimeoutError",
    "ServerError",
    "Source",
    "Transport",
    "UnexpectedResponseError",
    "__version__",
]

# Each imports the ones before it, so that a name costs no more than what it needs.
_HOMES = ("errors", "models", "_transports", "_chats", "_client")


def __getattr__(name: str) -> object:
    if name in __all__:
        for home in _HOMES:
            value = getattr(import_module(f"{__name__}.{home}"), name, None)
            if value is not None:
                globals()[name] = value  # found without this function from now on
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
