"""Everything that can go wrong between a client and the service, and what must come of it.

`FAULTS` is the table, as data; `fault_runs.py` lets each fault happen.
"""

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import trustme

from calls import SOURCE
from knowledge_bot import (
    APIError,
    AuthenticationError,
    BadRequestError,
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
from scripted_server import (
    Reply,
    ScriptedServer,
    answer,
    close,
    drip,
    endless,
    raw,
    reset,
    silence,
    then,
)
from waiting import free_port

NOT_DELIVERED, REFUSED, UNKNOWN = Delivery.NOT_DELIVERED, Delivery.REFUSED, Delivery.UNKNOWN


@dataclass(frozen=True)
class Outcome:
    """What a call ended in, and how many requests the service saw of it, whole or in part."""

    error: type[KnowledgeBotError]
    delivery: Delivery
    may_pass: bool
    arrived: int


@dataclass(frozen=True)
class Place:
    """Where the calls go, the paths of the requests that arrived there, and how it ends."""

    url: str
    arrived: Callable[[], list[str]] = list
    stop: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Fault:
    """One line of the table; every call is allowed two retries.

    Attributes:
        place: makes the fault happen.
        error: what every call ends in.
        delivery: what that error says of the request.
        posts: how often a POST arrives.
        gets: how often a GET arrives.
        upload: what a large upload ends in, where its length makes a difference.
        timeout: the client's; only what is met by waiting has a short one.
        occupied: the client's connections are all taken by other calls, which wait.
        lasts: nothing arrives, and nothing will before somebody changes something.
    """

    place: Callable[[], AbstractContextManager[Place]]
    error: type[KnowledgeBotError]
    delivery: Delivery
    posts: int
    gets: int
    upload: Outcome | None = None
    timeout: float = 20.0
    occupied: bool = False
    lasts: bool = False

    @property
    def reply(self) -> Reply | None:
        """What a server answers; None where it is the connection that fails."""
        return getattr(self.place, "reply", None)

    @property
    def may_pass(self) -> bool:
        """A GET is repeated where it may, so that it arrives three times if at all."""
        return self.gets != 1 and not self.lasts

    @property
    def is_waited_for(self) -> bool:
        return self.timeout < 20


def replying(reply: Reply, **options: object) -> Callable[[], AbstractContextManager[Place]]:
    """A server that replies so to every request."""

    @contextlib.contextmanager
    def place() -> Iterator[Place]:
        server = ScriptedServer([reply], **options)  # type: ignore[arg-type] # passed through
        try:
            yield Place(server.url, lambda: [one.path for one in server.requests], server.stop)
        finally:
            server.stop()

    if not options:
        place.reply = reply  # type: ignore[attr-defined] # a function takes attributes
    return place


@contextlib.contextmanager
def nobody_listens() -> Iterator[Place]:
    yield Place(f"http://127.0.0.1:{free_port()}")


@contextlib.contextmanager
def no_such_name() -> Iterator[Place]:
    yield Place("https://service.invalid")


@contextlib.contextmanager
def nobody_accepts() -> Iterator[Place]:
    """The backlog is full, so the handshake is never answered."""
    with contextlib.ExitStack() as held:
        deaf = held.enter_context(socket.socket())
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(4):
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(deaf.getsockname())
        yield Place(f"http://127.0.0.1:{deaf.getsockname()[1]}")


def of_an_unknown_authority() -> AbstractContextManager[Place]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return replying(answer(body=SOURCE), tls=context)()


@contextlib.contextmanager
def plain_where_tls_is_meant() -> Iterator[Place]:
    with replying(answer(body=SOURCE))() as place:
        yield Place(place.url.replace("http://", "https://"), place.arrived)


def replied(
    status: int, body: object = b"", **headers: str
) -> Callable[[], AbstractContextManager[Place]]:
    return replying(
        answer(status, body, {name.replace("_", "-"): text for name, text in headers.items()})
    )


NEVER_SENT = Outcome(ConnectionLostError, NOT_DELIVERED, True, 3)
REASON = {"code": "c", "message": "m"}
PAGE = b"<!doctype html><title>Sorry</title><p>We will be back soon"
HALF = answer(body=SOURCE, length=9999)
LOST, LATE, ODD = ConnectionLostError, RequestTimeoutError, UnexpectedResponseError

FAULTS: dict[str, Fault] = {
    "refused connection": Fault(nobody_listens, ConnectionFailedError, NOT_DELIVERED, 0, 0),
    "no such name": Fault(no_such_name, ConnectionFailedError, NOT_DELIVERED, 0, 0),
    "untrusted certificate": Fault(
        of_an_unknown_authority, ConnectionFailedError, NOT_DELIVERED, 0, 0, lasts=True
    ),
    "TLS to a plain port": Fault(
        plain_where_tls_is_meant, ConnectionFailedError, NOT_DELIVERED, 0, 0
    ),
    # The limit of the whole call, at twice the time, must not come first on a busy machine.
    "no connection in time": Fault(nobody_accepts, LATE, NOT_DELIVERED, 0, 0, timeout=1.0),
    "no free connection in time": Fault(
        *(replying(silence), LATE, NOT_DELIVERED, 0, 0),
        timeout=0.4,
        occupied=True,
    ),
    "reset before the body": Fault(replying(reset, read_limit=0), LOST, UNKNOWN, 1, 3, NEVER_SENT),
    "reset in mid-body": Fault(replying(reset, read_limit=20), LOST, UNKNOWN, 1, 3, NEVER_SENT),
    "reset after the body": Fault(replying(reset), LOST, UNKNOWN, 1, 3),
    "closed after the body": Fault(replying(close), LOST, UNKNOWN, 1, 3),
    "no answer in time": Fault(replying(silence), LATE, UNKNOWN, 1, 3, timeout=0.4),
    "truncated answer": Fault(replying(then(HALF, close)), LOST, UNKNOWN, 1, 3),
    "reset in mid-answer": Fault(replying(then(HALF, reset)), LOST, UNKNOWN, 1, 3),
    "slow drip of an answer": Fault(
        replying(then(HALF, drip(bytes(999), 0.05))), LATE, UNKNOWN, 1, 3, timeout=0.4
    ),
    "endless header": Fault(
        replying(then(raw(b"HTTP/1.1 200 OK\r\nA: "), endless(b"a" * 4096))), LOST, UNKNOWN, 1, 3
    ),
    "endless headers": Fault(
        replying(then(raw(b"HTTP/1.1 200 OK\r\n"), endless(b"A: b\r\n" * 500))), LOST, UNKNOWN, 1, 3
    ),
    "not HTTP": Fault(replying(then(raw(b"SSH-2.0-OpenSSH\r\n\r\n"), close)), LOST, UNKNOWN, 1, 3),
    "200 with junk": Fault(replied(200, b"junk"), ODD, UNKNOWN, 1, 1),
    "200 with an HTML page": Fault(replied(200, PAGE), ODD, UNKNOWN, 1, 1),
    "200 with another shape": Fault(replied(200, {"a": 1}), ODD, UNKNOWN, 1, 1),
    "204": Fault(replied(204), ODD, UNKNOWN, 1, 1),
    "302": Fault(replied(302, location="http://127.0.0.1:9/"), ODD, UNKNOWN, 1, 1),
    "307": Fault(replied(307, location="http://127.0.0.1:9/"), ODD, UNKNOWN, 1, 1),
    "400": Fault(replied(400, REASON), BadRequestError, REFUSED, 1, 1),
    "401": Fault(replied(401, REASON), AuthenticationError, REFUSED, 1, 1),
    "402": Fault(replied(402, REASON), PaymentRequiredError, REFUSED, 1, 1),
    "403": Fault(replied(403), PermissionDeniedError, REFUSED, 1, 1),
    "404": Fault(replied(404, PAGE), NotFoundError, REFUSED, 1, 1),
    "409": Fault(replied(409), ConflictError, REFUSED, 1, 1),
    "408": Fault(replied(408), APIError, REFUSED, 3, 3),
    "418": Fault(replied(418), APIError, REFUSED, 1, 1),
    "400 with a header line of 60,000 bytes": Fault(
        replied(400, REASON, content_security_policy="a" * 60_000), BadRequestError, REFUSED, 1, 1
    ),
    "429": Fault(replied(429), RateLimitError, REFUSED, 3, 3),
    "429 with Retry-After": Fault(replied(429, retry_after="0"), RateLimitError, REFUSED, 3, 3),
    "500": Fault(replied(500, b"\xff\xfe"), ServerError, UNKNOWN, 1, 3),
    "502 with an HTML page": Fault(replied(502, PAGE), ServerError, UNKNOWN, 1, 3),
    "503": Fault(replied(503), ServerError, UNKNOWN, 1, 3),
    "503 with Retry-After": Fault(replied(503, retry_after="0"), ServerError, REFUSED, 3, 3),
    "504": Fault(replied(504), ServerError, UNKNOWN, 1, 3),
}
