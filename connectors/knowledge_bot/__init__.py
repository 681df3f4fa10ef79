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

__version__ = "0.2.0"

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

# Errors, unless named here.
_HOMES = {
    "_chats": ("AsyncChat", "Chat"),
    "_client": ("AsyncClient", "Client"),
    "_transports": ("AsyncTransport", "HTTPRequest", "HTTPResponse", "Transport"),
    "models": ("Bot", "Collection", "Conversation", "Header", "Message", "Source"),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "errors")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
