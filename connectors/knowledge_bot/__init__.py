"""The API core: a typed, delivery-aware client of the Knowledge-Bot Service.

Importing this package loads neither httpx nor pydantic; a name is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from knowledge_bot._lazy import lazy_names

if TYPE_CHECKING:
    from knowledge_bot._client import AsyncChat, AsyncClient, Chat, Client
    from knowledge_bot._sync import SyncMissing, SyncTouch
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
        PreconditionFailedError,
        RateLimitError,
        RequestTimeoutError,
        ServerError,
        UnexpectedResponseError,
        UnsupportedError,
    )
    from knowledge_bot.models import (
        Bot,
        Collection,
        Conversation,
        Header,
        Message,
        Passage,
        Source,
        SourceDetails,
        SyncCompletion,
        SyncEntry,
        SyncOrigin,
        SyncPut,
        SyncSums,
    )

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
    "Passage",
    "PaymentRequiredError",
    "PermissionDeniedError",
    "PreconditionFailedError",
    "RateLimitError",
    "RequestTimeoutError",
    "ServerError",
    "Source",
    "SourceDetails",
    "SyncCompletion",
    "SyncEntry",
    "SyncMissing",
    "SyncOrigin",
    "SyncPut",
    "SyncSums",
    "SyncTouch",
    "Transport",
    "UnexpectedResponseError",
    "UnsupportedError",
    "__version__",
]

_HOMES = {
    "_client": ("AsyncChat", "AsyncClient", "Chat", "Client"),
    "_sync": ("SyncMissing", "SyncTouch"),
    "_transports": ("AsyncTransport", "HTTPRequest", "HTTPResponse", "Transport"),
    "errors": tuple(name for name in __all__ if name.endswith(("Delivery", "Error", "Warning"))),
}
_HOMES["models"] = tuple({*__all__}.difference(*_HOMES.values(), {"__version__"}))
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
