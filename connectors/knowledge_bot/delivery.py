"""What a failure means for a request, which failures may be retried, and how long to wait.

The interface has no idempotency key and no way to look a source up (section 4), so a POST is sent
again only where the service cannot have acted on it: it did not arrive as a whole, or the service
said that it refused. `exchange` is the whole policy, without I/O; the clients only carry it out.
"""

import random
import re
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TypeVar

from pydantic_core import from_json

from knowledge_bot.endpoints import Request
from knowledge_bot.errors import (
    APIError,
    ConnectionFailedError,
    ConnectionLostError,
    Delivery,
    KnowledgeBotError,
    RequestTimeoutError,
    UnexpectedResponseError,
    api_error_class,
)

T = TypeVar("T")

# Exponential backoff with full jitter, in seconds.
_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 8.0
_LONGEST_RETRY_AFTER = 120.0

_MESSAGE_LENGTH = 500

# The exceptions of httpx, httpx2 and aiohttp by name: whichever of them is used, it is loaded by
# whoever uses it. These are raised before the first byte of a request leaves.
_BEFORE_SENDING = frozenset(
    {
        "ConnectError",
        "ConnectTimeout",
        "PoolTimeout",
        "ProxyError",
        "UnsupportedProtocol",
        # aiohttp
        "ClientConnectorError",
        "ConnectionTimeoutError",
        "ClientHttpProxyError",
        "InvalidURL",
    }
)


@dataclass(frozen=True, slots=True)
class Send:
    """A step of an exchange: send the request now."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Sleep:
    """A step of an exchange: wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What the service answered.

    Attributes:
        status: the HTTP status.
        headers: the answer's headers; looked up case-insensitively.
        body: the decoded body, or what arrived of an error's.
        excess: why the body was not read to its end, for example that it is too large.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    excess: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """No whole answer came.

    Attributes:
        error: what the transport raised.
        seconds: how long it took.
        incomplete: the body's last byte was never handed to the network.
    """

    error: Exception
    seconds: float
    incomplete: bool = False


def exchange(
    request: Request[T], *, max_retries: int, base_url: str
) -> Generator[Send | Sleep, Answer | Failure | None, T]:
    """Say what to do next until the request has its result.

    Yields `Send`, and takes the `Answer` or `Failure` that came of it; or `Sleep`, and takes None.

    Args:
        request: the call.
        max_retries: how many times it may be sent again.
        base_url: named in the errors.

    Returns:
        What `request.read` makes of the answer.

    Raises:
        KnowledgeBotError: the last attempt's error, with its delivery.
    """
    attempt = 0
    while True:
        reply = yield Send(attempt)
        if isinstance(reply, Answer) and reply.status < 300:
            return _read(request, reply)
        if isinstance(reply, Answer):
            error = _answered(request, reply)
        elif isinstance(reply, Failure):
            error = _failed(request, reply, base_url)
        else:
            raise TypeError("a Send is answered with an Answer or a Failure")
        if attempt >= max_retries or not may_be_sent_again(request, error):
            raise error
        yield Sleep(_pause(attempt, error))
        attempt += 1


def may_be_sent_again(request: Request[T], error: KnowledgeBotError) -> bool:
    """Tell whether sending the request once more can neither duplicate nor is bound to fail."""
    if request.upload is not None and not request.upload.replayable:
        return False
    if isinstance(error, APIError):
        if error.status_code in (429, 503):
            return request.method == "GET" or error.delivery is Delivery.REFUSED
        return request.method == "GET" and error.status_code in (502, 504)
    if isinstance(error, ConnectionFailedError | ConnectionLostError | RequestTimeoutError):
        return request.method == "GET" or error.delivery is Delivery.NOT_DELIVERED
    return False


def outcome_of(request: Request[T], delivery: Delivery) -> str:
    """Return the sentence that tells a person what a failure means for the request."""
    if delivery is Delivery.NOT_DELIVERED:
        return "The service cannot have acted on it; sending it again is safe"
    if request.method == "GET":
        return "Nothing was changed by asking"
    if delivery is Delivery.REFUSED:
        return "The service did not act on it"
    return (
        "The service may have acted on it, so it was not sent again: look there before sending it "
        "once more"
    )


def _read(request: Request[T], answer: Answer) -> T:
    if answer.excess:
        raise _unexpected(request, answer, answer.excess)
    try:
        return request.read(answer.body)
    except ValueError as error:  # invalid JSON, invalid UTF-8, pydantic's ValidationError
        raise _unexpected(request, answer, f"it cannot be read: {_in_short(error)}") from error


def _answered(request: Request[T], answer: Answer) -> KnowledgeBotError:
    if answer.status < 400:
        target = answer.headers.get("location", "nowhere").partition("?")[0][:200]
        return _unexpected(
            request,
            answer,
            f"it redirects to {target}. Redirects are never followed, since the API key would go "
            "along; set base_url to the service's own address",
        )
    retry_after = _retry_after(answer.headers.get("retry-after"))
    refused = answer.status < 500 or (answer.status == 503 and retry_after is not None)
    delivery = Delivery.REFUSED if refused else Delivery.UNKNOWN
    code, message = _error_body(answer)
    return api_error_class(answer.status)(
        answer.status,
        code,
        message,
        answer.headers.get("x-request-id"),
        retry_after=retry_after,
        delivery=delivery,
        outcome=outcome_of(request, delivery),
        request=str(request),
    )


def _failed(request: Request[T], failure: Failure, base_url: str) -> KnowledgeBotError:
    names = _class_names(failure.error)
    timed_out = any("Timeout" in name for name in names)
    never_left = not _BEFORE_SENDING.isdisjoint(names)
    delivery = Delivery.NOT_DELIVERED if never_left or failure.incomplete else Delivery.UNKNOWN
    outcome = outcome_of(request, delivery)
    reason = _in_short(failure.error)
    if timed_out:
        if never_left:
            phase = "no connection"
        else:
            phase = "no progress of the upload" if failure.incomplete else "no whole answer"
        return RequestTimeoutError(
            f"{request} to {base_url}: {phase}, given up after {failure.seconds:.1f} s",
            delivery=delivery,
            outcome=outcome,
        )
    if never_left:
        return ConnectionFailedError(
            f"{request}: no connection to {base_url}: {reason}", delivery=delivery, outcome=outcome
        )
    where = "before the whole request was sent" if failure.incomplete else "before a whole answer"
    return ConnectionLostError(
        f"{request} to {base_url}: the connection broke {where}: {reason}",
        delivery=delivery,
        outcome=outcome,
    )


def _class_names(error: BaseException) -> set[str]:
    # httpx-aiohttp raises httpx.ConnectTimeout for every loss of a connection, also long after the
    # request was sent; only the aiohttp exception behind it tells what happened.
    cause = error.__cause__
    if cause is not None and type(cause).__module__.partition(".")[0] == "aiohttp":
        error = cause
    return {cls.__name__ for cls in type(error).__mro__}


def _unexpected(request: Request[T], answer: Answer, why: str) -> UnexpectedResponseError:
    return UnexpectedResponseError(
        f"{request} was answered with {answer.status}, but {why}",
        status_code=answer.status,
        body=answer.body,
        outcome=outcome_of(request, Delivery.UNKNOWN),
    )


def _error_body(answer: Answer) -> tuple[str | None, str]:
    """Read `code` and `message` (interface section 7), or the start of whatever came instead."""
    try:
        body = from_json(answer.body)
        if isinstance(body, dict) and isinstance(body.get("value"), dict):
            body = body["value"]
        code, message = body.get("code"), body.get("message")
    except (ValueError, AttributeError):
        text = re.sub(r"<[^>]*>|\s+", " ", answer.body[:4000].decode("utf-8", "replace"))
        return None, " ".join(text.split())[:_MESSAGE_LENGTH]
    return (
        str(code)[:_MESSAGE_LENGTH] if code is not None else None,
        str(message)[:_MESSAGE_LENGTH] if message is not None else "",
    )


def _pause(attempt: int, error: KnowledgeBotError) -> float:
    if isinstance(error, APIError) and error.retry_after is not None:
        return min(error.retry_after, _LONGEST_RETRY_AFTER)
    return random.uniform(0, min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2**attempt))  # noqa: S311


def _retry_after(value: str | None) -> float | None:
    """Return the seconds of a `Retry-After` (RFC 9110, section 10.2.3); None where it has none."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # asctime's format, which stands for UTC (section 5.6.7)
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, moment.timestamp() - time.time())


def _in_short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:300]
