"""What a failure means for a request, which failures may be retried, and how long to wait.

The interface has no idempotency key and no way to look a source up (section 4), so a POST is sent
again only where the service cannot have acted on it: it did not arrive as a whole, or the service
said that it refused. Where the service announces that it takes keys (docs/extensions.md), each POST
has one, and is sent again like a GET. `retry_policy` decides it all, without I/O; the clients only
carry it out.
"""

import math
import ssl
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar, cast

from knowledge_bot._configuration import Configuration
from knowledge_bot._endpoints import (
    ANNOUNCEMENT,
    PING,
    UNKNOWN_ORIGIN,
    UNKNOWN_PASSAGE,
    UNKNOWN_SOURCE,
    Request,
    read_pong,
)
from knowledge_bot._extensions import HEADER, Announced, check_announced, end_of_life, new_key
from knowledge_bot._responses import echoes_key, outcome_of, read_result
from knowledge_bot._transports import Destination, HTTPResponse, chain
from knowledge_bot.errors import (
    APIError,
    ConnectionFailedError,
    ConnectionLostError,
    Delivery,
    KnowledgeBotError,
    RateLimitError,
    RequestTimeoutError,
)

T = TypeVar("T")

# Exponential backoff with full jitter, in seconds.
_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 8.0

LONGEST_RETRY_AFTER = 120.0
"""Seconds that are waited because an answer asks for it; who asks for more gets no second try."""

# Seconds that a POST waits to learn what the service announces.
_PATIENCE = 5.0

# Exceptions of httpcore, httpx, httpx2 and aiohttp that mean that no byte of a request was sent. By
# name, so that none of these libraries is loaded for it. The first two will not pass by themselves.
_NO_ADDRESS = frozenset({"InvalidURL", "UnsupportedProtocol"})
_BEFORE_SENDING = _NO_ADDRESS | frozenset(
    {
        "ConnectError",
        "ConnectTimeout",
        "PoolTimeout",
        "ProxyError",
        # aiohttp
        "ClientConnectorError",
        "ConnectionTimeoutError",
        "ClientHttpProxyError",
        # Python's own, from a user's transport
        "ConnectionRefusedError",
        "gaierror",
    }
)

# What aiohttp raises instead of writing a piece, so that no whole request arrived. It has no class
# for that.
_UNWRITTEN = "Cannot write to closing transport"


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

    def __post_init__(self) -> None:
        self.incomplete |= any(str(each) == _UNWRITTEN for each in chain(self.error))


@dataclass(slots=True)
class Attempt:
    """What a client does next: it waits, and sends.

    Attributes:
        request: what is sent.
        timeout: seconds, as of `HTTPRequest`.
        number: which attempt of this request it is, from 1.
        pause: seconds to wait before it, None before the first one.
        ahead_of: the call that waits for the answer, where this is no attempt of its own.
    """

    request: Request[Any]
    timeout: float
    number: int
    pause: float | None
    ahead_of: Request[Any] | None


Steps: TypeAlias = Generator[Attempt, HTTPResponse | Failure, T]
"""Yields what to send, takes what came of it, and returns the result."""


def retry_policy(
    request: Request[T], settings: Configuration, destination: Destination, announced: Announced
) -> Steps[T]:
    """Have a call's requests sent until it has its result.

    A call that needs an extension, and a POST, for its key, ask first what the service announces,
    where that is not known. A POST does without the answer.

    Raises:
        UnsupportedError: the service does not announce what the call needs.
        KnowledgeBotError: the last attempt's error, with its delivery.
    """
    if request.needs or request.takes_key:
        yield from _ask(request, settings, destination, announced)
    extensions = announced.extensions or {}
    if request.needs == ANNOUNCEMENT:
        return cast("T", extensions)
    if request.needs:
        check_announced(request.needs, f"{request} to {destination}", extensions)
    if request.takes_key and "idempotency" in extensions:
        request.idempotency_key = request.idempotency_key or new_key()
    return (yield from _attempts(request, settings, destination, announced))


def _ask(
    request: Request[Any], settings: Configuration, destination: Destination, announced: Announced
) -> Steps[None]:
    """Ask what the service announces, unless that is known, or no ping reaches it."""
    unanswered = request.needs and announced.extensions is None
    if not settings.ping or (time.monotonic() < announced.until and not unanswered):
        return
    ping: Request[Any] = Request("GET", PING, read_pong)
    if not request.needs:
        settings = replace(settings, timeout=min(settings.timeout, _PATIENCE), max_retries=0)
    try:
        yield from _attempts(ping, settings, destination, announced, ahead_of=request)
    except KnowledgeBotError as error:
        announced.pause()
        if request.needs and announced.extensions is None:
            error.delivery = Delivery.NOT_DELIVERED  # of the call itself nothing was sent
            raise


def _attempts(
    request: Request[T],
    settings: Configuration,
    destination: Destination,
    announced: Announced,
    ahead_of: Request[Any] | None = None,
) -> Steps[T]:
    number, pause = 1, None
    doubt: KnowledgeBotError | None = None  # what an earlier attempt ended in, if it was unknown
    key = request.idempotency_key
    expiry = math.inf if key is None else end_of_life(key, announced.extensions or {})
    while True:
        reply = yield Attempt(request, settings.timeout, number, pause, ahead_of)
        if isinstance(reply, Failure):
            error = _failed(request, reply, destination).said_in(settings.words)
            error.__cause__ = reply.error
        else:
            try:
                return _result(request, reply, destination, settings, announced)
            except KnowledgeBotError as answered:
                # Its frames, and pydantic's error behind it, hold the whole answer.
                error = answered.with_traceback(None).said_in(settings.words)
                error.__context__ = None
                _notice_refusal(request, error, announced)
        error.idempotency_key = request.idempotency_key
        pause = pause_after(error, number)
        if error.delivery is Delivery.UNKNOWN and not request.only_reads:
            request.in_doubt = True
        too_late = pause is None or (request.in_doubt and time.time() + pause >= expiry)
        if number > settings.max_retries or too_late or not may_be_sent_again(request, error):
            if doubt is None or not _says_nothing_of_it(error):
                raise error
            doubt.add_note(f"Sent again, it ended in this: {error}")
            raise doubt
        if error.delivery is Delivery.UNKNOWN and not _says_nothing_of_it(error):
            doubt = error
        number += 1


def _result(
    request: Request[T],
    response: HTTPResponse,
    destination: Destination,
    settings: Configuration,
    announced: Announced,
) -> T:
    """Return the result that a response holds, and notice what it says of the service."""
    is_ignored = (
        request.idempotency_key is not None
        and response.status < 300
        and not echoes_key(request, response)
    )
    if is_ignored:
        request.idempotency_key = None
    result = read_result(request, response, destination, settings)
    if is_ignored:  # by the service, and not by something before it, which cannot be read
        announced.give_up_keys()
    if request.path == PING:
        announced.learn(response.headers.get(HEADER))
    return result


def _notice_refusal(request: Request[Any], error: KnowledgeBotError, announced: Announced) -> None:
    """Notice that a path of an extension is not there, so that it may be announced no more."""
    if (
        request.needs
        and isinstance(error, APIError)
        and error.status_code in (404, 405, 501)
        and error.code not in (UNKNOWN_SOURCE, UNKNOWN_PASSAGE, UNKNOWN_ORIGIN)
    ):
        announced.forget()


def _says_nothing_of_it(error: KnowledgeBotError) -> bool:
    """Return whether an attempt got too little far to say anything of the one before it."""
    return error.delivery is Delivery.NOT_DELIVERED or isinstance(error, RateLimitError)


def may_be_sent_again(request: Request[T], error: KnowledgeBotError) -> bool:
    """Return whether sending the request again is safe, and may succeed."""
    if not error.may_pass or (request.upload is not None and not request.upload.replayable):
        return False
    harmless = request.repeatable or request.idempotency_key is not None
    return harmless or error.delivery is not Delivery.UNKNOWN


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


def pause_after(error: KnowledgeBotError, number: int) -> float | None:
    """Return the seconds before the try after this number; None: more than is ever waited."""
    asked = error.retry_after if isinstance(error, APIError) else None
    if asked is not None and asked > LONGEST_RETRY_AFTER:
        return None
    return seconds_to_wait(_backoff(number) if asked is None else asked)


def seconds_to_wait(seconds: float) -> float:
    """Return the seconds, or 0 within `no_waiting`."""
    return seconds if _Waiting.allowed else 0.0


def _backoff(number: int) -> float:
    import random  # slow to load

    return random.uniform(0, min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** (number - 1)))  # noqa: S311


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
            may_pass=not _is_lasting(error, names),
            outcome=outcome,
            advice=_advice(error, destination),
        )
    where = "before the whole request was sent" if failure.incomplete else "before a whole answer"
    return ConnectionLostError(
        f"{request} to {destination}: the connection broke {where}: {reason}",
        delivery=delivery,
        outcome=outcome,
        # A port that speaks TLS hangs up on plain HTTP; the first that is sent shows it.
        advice="If its port speaks TLS, the base URL has to begin with https://"
        if request.path == PING and destination.base_url.startswith("http://")
        else None,
    )


def _is_lasting(error: BaseException, names: set[str]) -> bool:
    """Return whether no connection will be made until a person changes something."""
    return not _NO_ADDRESS.isdisjoint(names) or any(
        isinstance(behind, ssl.SSLCertVerificationError) for behind in chain(error)
    )


def _advice(error: BaseException, destination: Destination) -> str | None:
    """Return what to do about a connection that was not made; None: what the error's class says."""
    for behind in chain(error):
        if isinstance(behind, ssl.SSLCertVerificationError):
            return (
                "Its certificate is not trusted here: name the certificate authority with "
                "{verify}, and check that the base URL is the service's own name"
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
        reason = reason._parts[0]  # noqa: SLF001 - without what to do about it
    return (" ".join(str(reason).split()) or type(reason).__name__)[:300]
