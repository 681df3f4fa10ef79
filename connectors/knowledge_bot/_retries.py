"""What a failure means for a request, which failures may be retried, and how long to wait.

The interface has no idempotency key and no way to look a source up (section 4), so a POST is sent
again only where the service cannot have acted on it: it did not arrive as a whole, or the service
said that it refused. `retry_policy` decides it all, without I/O; the clients only carry it out.
"""

import ssl
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from knowledge_bot._configuration import Configuration
from knowledge_bot._endpoints import Request
from knowledge_bot._responses import outcome_of, read_result
from knowledge_bot._transports import Destination, HTTPResponse, chain
from knowledge_bot.errors import (
    APIError,
    ConnectionFailedError,
    ConnectionLostError,
    Delivery,
    KnowledgeBotError,
    RequestTimeoutError,
)

T = TypeVar("T")

# Exponential backoff with full jitter, in seconds.
_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 8.0
_LONGEST_RETRY_AFTER = 120.0

# Exceptions of httpcore, httpx, httpx2 and aiohttp that mean that no byte of a request was sent. By
# name, so that none of these libraries is loaded for it.
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
        # Python's own, from a user's transport
        "ConnectionRefusedError",
        "gaierror",
    }
)


NOT_NOW = frozenset({408, 429, 503})
"""Statuses that may pass. A 408 says that no whole request arrived (RFC 9110, section 15.5.9)."""


@dataclass(slots=True)
class Failure:
    """An attempt that brought no complete answer.

    Attributes:
        error: what the transport raised.
        seconds: how long it took.
        incomplete: the body's last byte was never handed to the network.
    """

    error: Exception
    seconds: float
    incomplete: bool = False


def retry_policy(
    request: Request[T], settings: Configuration, destination: Destination
) -> Generator[float | None, HTTPResponse | Failure, T]:
    """Have the request sent until it has its result.

    Yields the seconds to wait before it is sent, None before the first time, and takes the
    `HTTPResponse` or the `Failure` that came of it.

    Args:
        request: the call.
        settings: how many times it may be sent again, and the API key, which no error repeats.
        destination: where it goes, as the errors name it.

    Returns:
        What `request.read` makes of the answer.

    Raises:
        KnowledgeBotError: the last attempt's error, with its delivery.
    """
    attempt, pause = 0, None
    while True:
        reply = yield pause
        if isinstance(reply, Failure):
            error = _failed(request, reply, destination)
            error.__cause__ = reply.error
        else:
            try:
                return read_result(request, reply, destination, settings.api_key)
            except KnowledgeBotError as answered:
                # Its frames, and pydantic's error behind it, hold the whole answer.
                error = answered.with_traceback(None)
                error.__context__ = None
        if attempt >= settings.max_retries or not may_be_sent_again(request, error):
            raise error
        pause = seconds_to_wait(_pause(attempt, error))
        attempt += 1


def may_be_sent_again(request: Request[T], error: KnowledgeBotError) -> bool:
    """Return whether sending the request again is safe, and may succeed."""
    if request.upload is not None and not request.upload.replayable:
        return False
    if isinstance(error, APIError):
        if error.status_code in NOT_NOW:
            return request.method == "GET" or error.delivery is Delivery.REFUSED
        return request.method == "GET" and error.status_code in (502, 504)
    if isinstance(error, ConnectionFailedError | ConnectionLostError | RequestTimeoutError):
        return request.method == "GET" or error.delivery is Delivery.NOT_DELIVERED
    return False


class _Waiting:
    allowed = True


@contextmanager
def no_waiting() -> Iterator[None]:
    """Let nothing in this process wait before it sends a request again, within the block.

    An ingestion still waits for a service that cannot be reached, and pings it meanwhile.
    """
    before, _Waiting.allowed = _Waiting.allowed, False
    try:
        yield
    finally:
        _Waiting.allowed = before


def seconds_to_wait(seconds: float) -> float:
    """Return the seconds, or 0 within `no_waiting`."""
    return seconds if _Waiting.allowed else 0.0


def _pause(attempt: int, error: KnowledgeBotError) -> float:
    if isinstance(error, APIError) and error.retry_after is not None:
        return min(error.retry_after, _LONGEST_RETRY_AFTER)
    import random  # slow to load

    return random.uniform(0, min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2**attempt))  # noqa: S311


def _failed(request: Request[T], failure: Failure, destination: Destination) -> KnowledgeBotError:
    error = failure.error
    names = {cls.__name__ for cls in type(error).__mro__}
    never_left = isinstance(error, ConnectionFailedError) or not _BEFORE_SENDING.isdisjoint(names)
    delivery = Delivery.NOT_DELIVERED if never_left or failure.incomplete else Delivery.UNKNOWN
    outcome = outcome_of(request, delivery)
    reason = _in_short(error)
    if any("Timeout" in name for name in names):
        if never_left:
            phase = "no connection"
        else:
            phase = "no progress of the upload" if failure.incomplete else "no whole answer"
        return RequestTimeoutError(
            f"{request} to {destination}: {phase}, given up after {failure.seconds:.1f} s",
            delivery=delivery,
            outcome=outcome,
        )
    if never_left:
        return ConnectionFailedError(
            f"{request}: no connection to {destination}: {reason}",
            delivery=delivery,
            outcome=outcome,
            advice=_advice(error, destination),
        )
    where = "before the whole request was sent" if failure.incomplete else "before a whole answer"
    return ConnectionLostError(
        f"{request} to {destination}: the connection broke {where}: {reason}",
        delivery=delivery,
        outcome=outcome,
    )


def _advice(error: BaseException, destination: Destination) -> str | None:
    """Return what to do about a connection that was not made; None: what the error's class says."""
    for behind in chain(error):
        if isinstance(behind, ssl.SSLCertVerificationError):
            return (
                "Its certificate is not trusted here: name the certificate authority with verify= "
                "or SSL_CERT_FILE, and check that the base URL is the service's own name"
            )
        if isinstance(behind, ssl.SSLError):
            return (
                "Check that the base URL's port speaks TLS, or begins with http:// if it does not"
            )
    if destination.proxy is not None:
        return (
            "Check the proxy's address and login in HTTP_PROXY or HTTPS_PROXY, or name the "
            "service's host in NO_PROXY"
        )
    return None


def _in_short(error: BaseException) -> str:
    # aiohttp's own text names an `ssl:default` for http:// too; what the system said is enough.
    reason = getattr(error, "os_error", None) or error
    if isinstance(reason, KnowledgeBotError):  # from a user's transport
        reason = str(reason).partition(f". {reason.advice}")[0] if reason.advice else reason
    return (" ".join(str(reason).split()) or type(reason).__name__)[:300]
