"""What can go wrong, and whether the service may have acted.

    KnowledgeBotError
    ├── ConfigurationError            nothing was sent: a key, a URL or an argument is wrong
    │   └── UnsupportedError          the service does not announce what the call needs
    ├── ConnectionFailedError         the request never reached the service
    ├── RequestTimeoutError           no answer in time
    ├── ConnectionLostError           the connection broke while the request was under way
    ├── UnexpectedResponseError       a 2xx or 3xx that the interface does not document
    └── APIError                      the service answered with an error
        ├── BadRequestError           400
        ├── AuthenticationError       401
        ├── PaymentRequiredError      402
        ├── PermissionDeniedError     403
        ├── NotFoundError             404
        ├── ConflictError             409
        ├── PreconditionFailedError   412
        ├── RateLimitError            429
        └── ServerError               5xx

What is done about a failure is decided by two fields of it, never by its class: `delivery`, whether
the service may have acted, and `may_pass`, whether the same call may succeed later.

Nothing here derives from `RuntimeError` or `OSError`: asynchronous frameworks swallow the
former, and retry wrappers take the latter for a passing fault. An extra that is not installed is no
fault of a call: `MissingExtraError` is an `ImportError`.
"""

from enum import StrEnum
from typing import Any, ClassVar, Self

from knowledge_bot._texts import without_logins
from knowledge_bot._words import PYTHON, Words


class Delivery(StrEnum):
    """What a failure means for the request: may the service have acted on it?

    The interface offers neither an idempotency key nor a way to look a source up, so a
    caller has nothing else to decide a resend by, unless the service announces `idempotency`.
    """

    NOT_DELIVERED = "not_delivered"
    """The service cannot have acted: the request did not reach it, or not as a whole."""
    REFUSED = "refused"
    """The service answered that it did not act."""
    UNKNOWN = "unknown"
    """The service may have acted; there is no way to know from here."""


class InsecureTransportWarning(UserWarning):
    """The API key travels unencrypted: by `http://` to another machine, or to a proxy on one."""


class KnowledgeBotError(Exception):
    """The root of all errors of this project.

    `str()` is written for the person on call: what was tried, what came back, what to do about it,
    and whether the service may have acted.

    Attributes:
        delivery: what the failure means for the request, see `Delivery`.
        may_pass: whether the same call may succeed later without anybody changing anything. It may
            after a timeout, a lost connection, 408, 425, 429 or most of 5xx; after a refusal of
            what was sent, or without a valid key, only a person can help. Whether it may be sent
            again at all, `delivery` says.
        idempotency_key: the key that the request carried, to send it again with; None: it had none.
    """

    may_pass: bool = False
    idempotency_key: str | None = None

    advice: ClassVar[str] = ""
    """What a person can do about it; part of the error's text."""

    def __init__(
        self,
        message: str,
        *,
        delivery: Delivery = Delivery.UNKNOWN,
        may_pass: bool | None = None,
        outcome: str = "",
        advice: str | None = None,
    ) -> None:
        super().__init__()
        self._parts = message, self.advice if advice is None else advice, outcome
        self.said_in(PYTHON)
        self.delivery = delivery
        self.may_pass = type(self).may_pass if may_pass is None else may_pass

    def said_in(self, words: Words) -> Self:
        """Say it in the words of whoever reads it; return it."""
        message, advice, outcome = self._parts
        parts = (part.rstrip(". ") for part in (message, words(advice), outcome) if part)
        text = " ".join(part if part.endswith("?") else f"{part}." for part in parts)
        self.args = (without_logins(text),)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions cross process borders (process pools, task runners). The default rebuilds them
        # through __init__, which fails for subclasses with another signature.
        return _rebuild, (type(self), self.args, self.__dict__)


class ConfigurationError(KnowledgeBotError, ValueError):
    """A key, a URL or an argument is missing or wrong. The service has not acted.

    Attributes:
        argument: the name of what is wrong, with which the text begins; None where it has none.
    """

    argument: str | None = None

    def __init__(self, message: str, *, advice: str | None = None) -> None:
        super().__init__(message, delivery=Delivery.NOT_DELIVERED, advice=advice)

    @classmethod
    def of(cls, argument: str, problem: str, *, advice: str | None = None) -> Self:
        """Return the error of an argument, with what is wrong with it, and what to do about it."""
        error = cls(f"{argument}: {problem}", advice=advice)
        error.argument = argument
        return error

    @classmethod
    def expected(cls, argument: str, what: str, given: object, advice: str = "") -> Self:
        """Return the error of an argument that is something else, with what to do about it."""
        found = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        return cls.of(argument, f"expected {what}, not {found}{advice}")


class UnsupportedError(ConfigurationError):
    """The service does not announce what the call needs, to this API key. Nothing was sent.

    `Client.extensions()` returns what it announces.
    """


class ConnectionFailedError(KnowledgeBotError):
    """The request never reached the service.

    It `may_pass`, unless the service's certificate is not trusted.
    """

    may_pass = True
    advice = "Check the base URL, and that the service runs and can be reached from here"


class RequestTimeoutError(KnowledgeBotError):
    """No answer came in time. Before the request was sent: `NOT_DELIVERED`; after: `UNKNOWN`."""

    may_pass = True


class ConnectionLostError(KnowledgeBotError):
    """The connection broke while the request or its answer was under way."""

    may_pass = True


class UnexpectedResponseError(KnowledgeBotError):
    """The service answered with a 2xx or 3xx that the interface does not document.

    It `may_pass` where the answer was cut short.

    Attributes:
        status_code: the HTTP status.
        body: the first 2,000 bytes of the answer: what was created may be named there.
    """

    def __init__(
        self,
        message: str,
        *,
        status_code: int,
        body: bytes = b"",
        delivery: Delivery = Delivery.UNKNOWN,
        may_pass: bool | None = None,
        outcome: str = "",
        advice: str | None = None,
    ) -> None:
        super().__init__(
            message, delivery=delivery, may_pass=may_pass, outcome=outcome, advice=advice
        )
        self.status_code = status_code
        self.body: bytes = body[:2000]


_KEY_IN_USE = "idempotency_key_in_use"
"""The code of a request whose key another one carries that is under way (docs/extensions.md)."""

# Of 4xx what speaks of the moment, and of 5xx what does not (RFC 9110, section 15; RFC 6585, 8470).
_PASSING_REFUSALS = frozenset({408, 425, 429})
_LASTING_FAILURES = frozenset({501, 505})

# What helps with an error of this code, whatever its status.
_OF_CODES = {
    "unknown_bot": "{list_bots}",
    "unknown_collection": "{list_collections}",
    "unknown_conversation": "{list_conversations}",
    "unknown_source": "{list_sources}",
    "unknown_origin": "{list_origins}",
    "origin_exists": "Choose a name that no origin has",
    "entry_moved_on": "Another run put it meanwhile: compare again",
    "digest_mismatch": "It changed while it was read, or on its way: read it again",
}


class APIError(KnowledgeBotError):
    """The service answered with an error status (interface section 7).

    408, 425, 429, and 5xx but 501 and 505 `may_pass`, and so does a 409 that says that a request
    with the same idempotency key is under way.

    Attributes:
        status_code: the HTTP status.
        code: the `code` of the error body, or None where it held none.
        message: the `message` of the error body, at most 500 characters, or the start of the body.
        request_id: the answer's `X-Request-Id`, or None.
        retry_after: seconds that the answer's `Retry-After` asks to wait, or None.
        created_id: of `idempotency_key_reused`, the id of what the first request with the key
            created, where the body names it.
    """

    created_id: str | None = None

    def __init__(
        self,
        status_code: int,
        code: str | None = None,
        message: str = "",
        request_id: str | None = None,
        *,
        retry_after: float | None = None,
        delivery: Delivery = Delivery.UNKNOWN,
        outcome: str = "",
        request: str = "The request",
        advice: str | None = None,
    ) -> None:
        advice = _OF_CODES.get(code or "") if advice is None else advice
        named = f" [{code}]" if code else ""
        traced = f" (request id {request_id})" if request_id else ""
        detail = f": {message}" if message else ""
        super().__init__(
            f"{request} was answered with {status_code}{named}{traced}{detail}",
            delivery=delivery,
            may_pass=(
                status_code in _PASSING_REFUSALS
                or code == _KEY_IN_USE
                or (status_code >= 500 and status_code not in _LASTING_FAILURES)
            ),
            outcome=outcome,
            advice=advice,
        )
        self.status_code = status_code
        self.code = code
        self.message = message
        self.request_id = request_id
        self.retry_after = retry_after


class BadRequestError(APIError):
    """400: the service did not accept the request as it stands."""

    advice = "Correct the request; sent again as it is, it will be refused again"


class AuthenticationError(APIError):
    """401: the API key is missing or not accepted."""

    advice = "Check the API key ({key}) and that it is this service's"


class PaymentRequiredError(APIError):
    """402: the account's plan or quota does not allow the request."""

    advice = (
        "Raise the quota (of an account; or of the embedded service, `sources` under [limits]), or "
        "delete what is not needed, and send it again"
    )


class PermissionDeniedError(APIError):
    """403: the API key may not do this."""

    advice = "Ask the service's owner to allow it for this API key ({key})"


class NotFoundError(APIError):
    """404: there is nothing at this address."""

    advice = (
        "Check the id, and that the base URL leads to a Knowledge-Bot Service and ends in its "
        "version, as in /public/v1"
    )


class ConflictError(APIError):
    """409: the request conflicts with the state of the service."""


class PreconditionFailedError(APIError):
    """412: the entry has another content by now, or an idempotency key has expired."""


class RateLimitError(APIError):
    """429: too many requests; `retry_after` holds the seconds to wait, if it named them."""

    advice = "Send fewer requests at a time, and this one again later"


class ServerError(APIError):
    """5xx: the service failed. 503 and 507 with `Retry-After` are `REFUSED`, others `UNKNOWN`."""


_BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequestError,
    401: AuthenticationError,
    402: PaymentRequiredError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    412: PreconditionFailedError,
    429: RateLimitError,
}


def _class_of(status: int) -> type[APIError]:
    """Return the class of the errors with a status."""
    return ServerError if status >= 500 else _BY_STATUS.get(status, APIError)


class MissingExtraError(ModuleNotFoundError):
    """An extra of the distribution is not installed; the text says how to install it.

        >>> print(MissingExtraError("the gateway", "gateway", "mcp"))
        the gateway needs the extra "gateway": pip install 'knowledge-bot[gateway]'

    Attributes:
        extra: its name, as `pip install` takes it.
        name: a module that it would have brought.
    """

    def __init__(self, needed_by: str, extra: str, module: str) -> None:
        super().__init__(
            f"{needed_by} needs the extra \"{extra}\": pip install 'knowledge-bot[{extra}]'",
            name=module,
        )
        self.extra = extra
        self._needed_by = needed_by

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._needed_by, self.extra, self.name)


def _rebuild(
    cls: type[KnowledgeBotError], args: tuple[Any, ...], state: dict[str, Any]
) -> KnowledgeBotError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error
