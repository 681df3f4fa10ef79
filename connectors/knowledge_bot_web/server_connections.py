"""Limits for a client's connection before its key is known.

uvicorn limits neither the size of a request's head nor the time that a request takes, so anybody
who reaches the port could fill the memory or hold every open file. The limits are applied here,
below the application, for the embedded service and the gateway.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar, Final, NamedTuple

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# What a head may hold: its first line and headers, and a chunked body's trailers, in bytes; how
# many headers. Browsers send some 20 of them, and 2 kB.
_HEAD_BYTES: Final = 64 * 1024
_HEADERS: Final = 200

# How much is read at once, in bytes. Of heads no more than hold 14 requests, since what comes after
# a request waits unread for its answer: each that was read holds a hundred times as much memory. A
# chunked body does not say where it ends; behind one, more than 16 requests at once are refused.
_HEAD_PART: Final = 256
_CHUNKED_PART: Final = 16 * 1024
_PIPELINED: Final = 16

# The file limit that a server asks for, and how many files are not for clients.
_FILES: Final = 16_384
_RESERVE: Final = 256

# The slowest body that is accepted, in bytes per second. The worst telephone line is ten times
# faster.
_BODY_RATE: Final = 500

# A client that is sending sees a connection that is closed under it in place of its answer. So what
# it sends is still taken, and thrown away: this long after a refusal, and the rest of a body whose
# answer did not need it. As long may an answer wait for a client that does not read it. In seconds.
_LINGER: Final = 5.0
_PATIENCE: Final = 60.0

# Seconds between two checks of a connection's times, and between two log lines about too many
# connections.
_TICK: Final = 0.5
_LOGGED_EVERY: Final = 60.0

_log = logging.getLogger(__name__)


def _problem(code: str, message: str) -> dict[str, Any]:
    return {"code": code, "message": message}


@dataclass(slots=True)
class Bounds:
    """What all connections of a server share.

    Attributes:
        connections: how many there may be at once; fewer where the system allows the process fewer
            open files. Beyond it the one that was longest idle is closed for each new one.
        head_seconds: how long a request's head may take, and how long a new connection may wait
            before it begins one.
        body_seconds: a body has to come at 500 bytes a second at least, taken over this time.
        problem: makes the JSON body of a refusal from its code and message.
        logged_at: when the log last said that there are too many.
    """

    connections: int = 2000
    head_seconds: float = 20.0
    body_seconds: float = 30.0
    problem: Callable[[str, str], dict[str, Any]] = _problem
    logged_at: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        files = _open_files()
        # Each connection is an open file. A database, workers and uploads need some as well.
        most = files - min(_RESERVE, files // 2)
        if most < self.connections:
            _log.info("at most %d clients at once: %d files may be open", most, files)
            self.connections = most


def limited_to(bounds: Bounds) -> type[asyncio.Protocol]:
    """Return the protocol class of connections within the bounds, for `uvicorn.Config(http=…)`."""
    return type("LimitedConnection", (_Connection,), {"bounds": bounds})


class _Refusal(NamedTuple):
    status: HTTPStatus
    code: str
    message: str


class _RefusedError(Exception):
    """Raised through the parser, so that it reads no further."""


class _Connection(HttpToolsProtocol):
    bounds: ClassVar[Bounds]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._in_head = self._in_body = False
        # What was received and not read, and how much is left of a body that says its length.
        self._held = memoryview(b"")
        self._body_left: int | None = None
        # What to refuse a request with; what is to be said when those before it have their answers.
        self._refusal: _Refusal | None = None
        self._owed: _Refusal | None = None
        self._is_refused = False
        # Bytes read since a request, a part of its body or a chunk began: those of a head, or of
        # the trailers behind a chunked body, as they come.
        self._head_bytes = 0
        self._has_begun = False
        # Of the present phase, and of the time in it over which a body's bytes are counted.
        self.since = self._counted_since = time.monotonic()
        self._body_bytes = 0
        self._unread, self._unread_since = 0, self.since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._tick = self.loop.call_later(_TICK, self._on_tick)
        if len(self.connections) > self.bounds.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tick.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._held = memoryview(bytes(self._held) + data if self._held else data)
        self._read()

    def _read(self) -> None:
        """Read what was received, up to a request that has to wait for the answer before it."""
        if self._held:
            self._unset_keepalive_if_required()
        while self._held and not self.pipeline and not self._is_refused:
            size = (self._body_left or _CHUNKED_PART) if self._in_body else _HEAD_PART
            part, self._held = self._held[:size], self._held[size:]
            self._has_begun = False
            try:
                self.parser.feed_data(part)
            except httptools.HttpParserUpgrade:
                # Nothing else is spoken here, and the request was answered as it is.
                self._held = memoryview(b"")
            except httptools.HttpParserError:
                # What it could not read, or an error that one of the methods below raised in it.
                self._refuse(self._refusal or _NOT_HTTP)
            self._head_bytes = 0 if self._has_begun else self._head_bytes + len(part)
            if self._head_bytes > _HEAD_BYTES and not self._is_refused:
                self._refuse(_TOO_LARGE)

    def on_message_begin(self) -> None:
        self._has_begun = self._in_head = True
        self.since = time.monotonic()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if len(self.headers) > _HEADERS:
            self._stop_reading(_TOO_LARGE)
        if len(self.pipeline) >= _PIPELINED:
            self._stop_reading(_TOO_MANY)
        # White space around a value is no part of it (RFC 9110, section 5.5); the parser keeps what
        # follows it.
        self.headers[:] = [(name, value.strip(b" \t")) for name, value in self.headers]
        super().on_headers_complete()
        self._has_begun, self._in_head, self._in_body = True, False, True
        headers = dict(self.headers)
        # The parser has refused what is no number, and what has both.
        length = headers.get(b"content-length")
        self._body_left = None if length is None else int(length)
        self.since = self._counted_since = time.monotonic()
        self._body_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._has_begun = True
        self._body_bytes += len(body)
        if self._body_left is not None:
            self._body_left -= len(body)
        super().on_body(body)

    def on_chunk_header(self) -> None:
        self._has_begun = True

    def on_message_complete(self) -> None:
        self._has_begun, self._in_body = True, False
        self.since = time.monotonic()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.since = time.monotonic()
        was_last = not self.pipeline
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._owed is not None and was_last:
            self._unset_keepalive_if_required()
            self._say(self._owed)
            self._owed = None
        elif self.pipeline:
            self.flow.pause_reading()
        else:
            self._read()

    def _stop_reading(self, refusal: _Refusal) -> None:
        self._refusal = refusal
        raise _RefusedError

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits for an answer on it."""
        return not self._is_answering and not self.transport.is_closing()

    @property
    def _is_answering(self) -> bool:
        # There is no cycle before the first request.
        return self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]

    def _on_tick(self) -> None:
        self._tick = self.loop.call_later(_TICK, self._on_tick)
        now = time.monotonic()
        unread = self.transport.get_write_buffer_size()
        if unread == 0 or unread < self._unread:
            self._unread_since = now
        self._unread = unread
        phase = now - self.since
        if (
            now - self._unread_since > _PATIENCE
            or (self._is_refused and self._owed is None and phase > _LINGER)
            or (self._in_body and not self._is_answering and phase > _PATIENCE)
        ):
            self.transport.abort()
        elif self._is_refused:
            pass
        elif self._in_body:
            self._check_body(now)
        elif not self._is_answering and phase > self.bounds.head_seconds:
            if self._in_head:
                self._refuse(_HEAD_TOO_SLOW)
            else:
                self.transport.close()

    def _check_body(self, now: float) -> None:
        seconds = now - self._counted_since
        # While the service itself is not reading, the client cannot send.
        if seconds < self.bounds.body_seconds and not self.flow.read_paused:
            return
        if self._body_bytes < seconds * _BODY_RATE and not self.flow.read_paused:
            self._refuse(_BODY_TOO_SLOW)
        self._counted_since, self._body_bytes = now, 0

    def _make_room(self) -> None:
        now = time.monotonic()
        if now - self.bounds.logged_at > _LOGGED_EVERY:
            self.bounds.logged_at = now
            _log.warning(
                "%d clients are connected, as many as are allowed: for each new one, the one that "
                "was longest idle is disconnected (logged once a minute)",
                self.bounds.connections,
            )
        idle = (
            one
            for one in self.connections
            if isinstance(one, _Connection) and one is not self and one.is_idle
        )
        longest = min(idle, key=lambda one: one.since, default=None)
        if longest is not None:
            longest.transport.abort()
        else:
            self._refuse(_NO_ROOM)

    def _refuse(self, refusal: _Refusal) -> None:
        """Answer with a problem, and read no more requests."""
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        self._held = memoryview(b"")
        _log.info("%s: %s", (self.client or ("-",))[0], refusal.code)
        self.since = time.monotonic()
        self._unset_keepalive_if_required()
        if self.pipeline and self._in_body:
            # Its body will never be complete, so nothing is done for it.
            self.pipeline.popleft()
            self._owed = refusal
        elif self._is_answering and not self._in_body:
            self._owed = refusal
        elif self._is_answering:
            # The application, which waits for the rest of the body, learns that there is none.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.abort()
            else:
                self._say(refusal)
        else:
            self._say(None if self._in_body else refusal)

    def _say(self, refusal: _Refusal | None) -> None:
        """Answer with a problem, if there is one, as the last of this connection."""
        self.since = time.monotonic()
        if refusal is not None:
            self.transport.write(_response(refusal, self.bounds.problem))
        if self.transport.can_write_eof():
            self.transport.write_eof()


def _open_files() -> int:
    """How many files the process may open, after the limit was raised as far as it goes."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows, which has no such limit
        return _FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # macOS has a hard limit that is higher than what it takes.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _FILES if soft == resource.RLIM_INFINITY else soft


def _response(refusal: _Refusal, problem: Callable[[str, str], dict[str, Any]]) -> bytes:
    status, code, message = refusal
    body = json.dumps(problem(code, message)).encode()
    retry = b"retry-after: 5\r\n" if status is HTTPStatus.SERVICE_UNAVAILABLE else b""
    return (
        b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        b"cache-control: no-store\r\nconnection: close\r\n%s\r\n%s"
        % (status, status.phrase.encode(), len(body), retry, body)
    )


_TOO_LARGE: Final = _Refusal(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "headers_too_large",
    f"The request's address and headers are larger than {_HEAD_BYTES:,} bytes, or more than "
    f"{_HEADERS} headers. Nothing was done.",
)
_NOT_HTTP: Final = _Refusal(
    HTTPStatus.BAD_REQUEST,
    "invalid_request",
    "What was sent is not HTTP/1.1. Nothing was done.",
)
_TOO_MANY: Final = _Refusal(
    HTTPStatus.BAD_REQUEST,
    "invalid_request",
    f"More than {_PIPELINED} requests came at once behind a chunked body. This one and those after "
    "it were not read, and nothing was done for them; send them again.",
)
_HEAD_TOO_SLOW: Final = _Refusal(
    HTTPStatus.REQUEST_TIMEOUT,
    "request_too_slow",
    "The request's headers did not arrive in time. Nothing was done.",
)
_BODY_TOO_SLOW: Final = _Refusal(
    HTTPStatus.REQUEST_TIMEOUT,
    "request_too_slow",
    f"The request's body came at less than {_BODY_RATE} bytes a second, and was given up. "
    "Nothing was stored.",
)
_NO_ROOM: Final = _Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "too_many_connections",
    "As many clients are connected as are allowed. Nothing was done; try again later.",
)
