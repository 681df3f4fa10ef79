"""Errors of asking a bot, which are both the client's own and LangChain's `ModelError`s.

LangChain's middleware retries a call unless its error is a `ModelError` whose `is_retryable` is
False. Here it is True only if the service has not acted and may do so later. LangGraph's
`RetryPolicy` retries a node after any error except some of Python's own, such as `RuntimeError`: an
error after which the service may have acted is therefore a `RuntimeError` as well.
"""

from typing import Any, cast

from langchain_core.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
    ModelRateLimitError,
    ModelTimeoutError,
)

from knowledge_bot import (
    APIError,
    AuthenticationError,
    BadRequestError,
    ConfigurationError,
    ConflictError,
    ConnectionFailedError,
    ConnectionLostError,
    Delivery,
    KnowledgeBotError,
    NotFoundError,
    PaymentRequiredError,
    PermissionDeniedError,
    RateLimitError,
    RequestTimeoutError,
    ServerError,
    UnexpectedResponseError,
)
from knowledge_bot.conversations import ForkError, HeadsError


class ChatError(KnowledgeBotError, ModelError):
    """The base of the errors that a call of a chat model raises."""

    is_retryable = False


class PassingChatError(ChatError):
    """The service has not acted, and may do so if the call is repeated later."""

    is_retryable = True


class UnknownDeliveryError(ChatError, RuntimeError):
    """The service may have acted, so the question is not retried automatically."""


class ChatConfigurationError(ChatError, ConfigurationError, ModelInvalidRequestError):
    """The messages or arguments of the call cannot be sent; nothing was sent."""


class ChatForkError(ChatConfigurationError, ForkError):
    """The messages are a fork, and `on_fork` is "error"; nothing was sent."""


class ChatHeadsError(ChatError, HeadsError):
    """Shared heads cannot be read or written; nothing was sent."""


class ChatConnectionFailedError(PassingChatError, ConnectionFailedError, ModelConnectionError):
    """The call never reached the service."""


class ChatConnectTimeoutError(PassingChatError, RequestTimeoutError, ModelTimeoutError):
    """No connection was made in time, so nothing was sent."""


class ChatTimeoutError(UnknownDeliveryError, RequestTimeoutError, ModelTimeoutError):
    """No answer came in time; the service may have received the message."""


class ChatConnectionLostError(UnknownDeliveryError, ConnectionLostError, ModelConnectionError):
    """The connection broke; the service may have received the message."""


class ChatUnexpectedResponseError(UnknownDeliveryError, UnexpectedResponseError, ModelAPIError):
    """The answer cannot be understood; the service has received the message."""


class ChatAPIError(ChatError, APIError, ModelAPIError):
    """The service refused with a status that has no class of its own."""


class ChatUnexpectedStatusError(UnknownDeliveryError, APIError, ModelAPIError):
    """The service answered with a status that does not say whether it has acted."""


class ChatBadRequestError(ChatError, BadRequestError, ModelInvalidRequestError):
    """400."""


class ChatAuthenticationError(ChatError, AuthenticationError, ModelAuthenticationError):
    """401."""


class ChatPaymentRequiredError(ChatError, PaymentRequiredError):
    """402. LangChain has no class for it."""


class ChatPermissionDeniedError(ChatError, PermissionDeniedError, ModelPermissionDeniedError):
    """403."""


class ChatNotFoundError(ChatError, NotFoundError, ModelNotFoundError):
    """404."""


class ChatConflictError(ChatError, ConflictError):
    """409. LangChain has no class for it."""


class ChatRateLimitError(PassingChatError, RateLimitError, ModelRateLimitError):
    """429."""


class ChatServerError(UnknownDeliveryError, ServerError, ModelAPIError):
    """5xx; the service may have acted."""


class ChatUnavailableError(PassingChatError, ServerError, ModelAPIError):
    """503 with `Retry-After`: the service said that it did not act."""


_UNKNOWN: dict[type[KnowledgeBotError], type[ChatError]] = {
    APIError: ChatUnexpectedStatusError,
    ConnectionLostError: ChatConnectionLostError,
    RequestTimeoutError: ChatTimeoutError,
    ServerError: ChatServerError,
    UnexpectedResponseError: ChatUnexpectedResponseError,
}
_KNOWN: dict[type[KnowledgeBotError], type[ChatError]] = {
    APIError: ChatAPIError,
    AuthenticationError: ChatAuthenticationError,
    BadRequestError: ChatBadRequestError,
    ConfigurationError: ChatConfigurationError,
    ConflictError: ChatConflictError,
    ConnectionFailedError: ChatConnectionFailedError,
    ForkError: ChatForkError,
    HeadsError: ChatHeadsError,
    NotFoundError: ChatNotFoundError,
    PaymentRequiredError: ChatPaymentRequiredError,
    PermissionDeniedError: ChatPermissionDeniedError,
    RateLimitError: ChatRateLimitError,
    RequestTimeoutError: ChatConnectTimeoutError,
    ServerError: ChatUnavailableError,
}


# The classes above that are no `RuntimeError`, each made into one when first needed.
_NEVER_AGAIN: dict[type[ChatError], type[ChatError]] = {}


def as_chat_error(error: KnowledgeBotError, *, alone: bool = True) -> ChatError:
    """Return a client's error as one of LangChain's too, with the same text and traceback.

    Args:
        error: what the client raised.
        alone: whether it was the only question. If not, others may have been answered, and a retry
            would ask these twice: then the error is not retryable, and a `RuntimeError`.
    """
    kind, unknown = type(error), error.delivery is Delivery.UNKNOWN
    first, second = (_UNKNOWN, _KNOWN) if unknown else (_KNOWN, _UNKNOWN)
    chat_error = first.get(kind) or second.get(kind, ChatError)
    if unknown or not alone:
        chat_error = _never_again(chat_error)
    return _made(chat_error, error.args, vars(error)).with_traceback(error.__traceback__)


def _made(kind: type[ChatError], args: tuple[Any, ...], attributes: dict[str, Any]) -> ChatError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


def _never_again(kind: type[ChatError]) -> type[ChatError]:
    if issubclass(kind, UnknownDeliveryError):
        return kind
    if (made := _NEVER_AGAIN.get(kind)) is not None:
        return made

    attributes = {
        "__doc__": kind.__doc__,
        "__module__": kind.__module__,
        "__reduce__": _reduced,
        "is_retryable": False,
    }
    made = cast("type[ChatError]", type(kind.__name__, (kind, RuntimeError), attributes))
    return _NEVER_AGAIN.setdefault(kind, made)


def _reduced(error: ChatError) -> tuple[Any, ...]:
    """Return what pickle restores an error of such a class from."""
    return _made_never_again, (type(error).__mro__[1], error.args, vars(error))


def _made_never_again(
    kind: type[ChatError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> ChatError:
    return _made(_never_again(kind), args, attributes)
