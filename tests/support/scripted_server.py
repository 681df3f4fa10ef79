"""A server over a real socket that answers each request as the test says, also wrongly."""

import contextlib
import itertools
import json
import secrets
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

# Below the range that Linux, macOS and Windows choose from.
_PORTS = range(10_000, 32_000)


@dataclass(frozen=True)
class Received:
    """A request that arrived, with as much of its body as the server reads."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def is_ping(self) -> bool:
        return self.method == "GET" and self.path.endswith("/ping")

    def json(self) -> object:
        return json.loads(self.body)


Reply = Callable[[socket.socket], None]
"""Writes to the connection after a request was read; what it leaves open stays open."""


def answer(
    status: int = 200,
    body: object = b"",
    headers: dict[str, str] | None = None,
    *,
    length: int | None = None,
) -> Reply:
    """An HTTP answer; a body that is not bytes is sent as JSON; `length` lies about its size."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"Content-Type": "application/json", **(headers or {})}
    lines["Content-Length"] = str(len(content) if length is None else length)
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return raw(f"HTTP/1.1 {status} Scripted\r\n{head}\r\n".encode() + content)


def raw(data: bytes) -> Reply:
    """Exactly these bytes."""
    return lambda connection: connection.sendall(data)


def then(*replies: Reply) -> Reply:
    """One after the other, for the same request."""

    def reply(connection: socket.socket) -> None:
        for step in replies:
            step(connection)

    return reply


def close(connection: socket.socket) -> None:
    """An orderly end of the connection."""
    connection.shutdown(socket.SHUT_RDWR)


def reset(connection: socket.socket) -> None:
    """A TCP reset instead of an end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise ConnectionResetError


def silence(connection: socket.socket) -> None:
    """Nothing, until the client gives up."""
    with contextlib.suppress(OSError):
        connection.settimeout(300)  # longer than a busy machine needs to kill a client
        connection.recv(1)


def drip(data: bytes, seconds: float) -> Reply:
    """The bytes, one at a time."""

    def reply(connection: socket.socket) -> None:
        for byte in data:
            connection.sendall(bytes([byte]))
            time.sleep(seconds)

    return reply


def endless(piece: bytes) -> Reply:
    """The same bytes for ever, as fast as they are taken."""

    def reply(connection: socket.socket) -> None:
        while True:
            connection.sendall(piece)

    return reply


pong = answer(body="pong")
"""The documented answer to a ping."""


def _listening() -> socket.socket:
    """Listen at a port that the system gives to nobody.

    A test of a service that has ended, elsewhere at the same time, would meet this server if it had
    the port that became free.
    """
    while True:
        with contextlib.suppress(OSError):  # it is taken
            return socket.create_server(("127.0.0.1", secrets.choice(_PORTS)), backlog=128)


@dataclass
class ScriptedServer:
    """Answers the first request with the first reply, and so on; the last reply repeats.

    Pings have an answer of their own and are no part of the script: an ingestion sends one before
    anything else, and more of them during an outage.

    Attributes:
        on_ping: answers each ping; None has pings take the replies as other requests do.
        reply_to: chooses the reply by the request instead, for requests that overtake each other.
        on_accept: called with a new connection before anything is read of it; True keeps it.
        read_limit: stop reading a request's body after so many bytes and reply at once.
        before: written once a request's head was read, and before its body is.
        keep_bodies: keep what was sent; otherwise it is read and thrown away.
        requests: every request whose body arrived as announced, or up to the limit.
        pings: those that `on_ping` answered instead.
    """

    replies: list[Reply] = field(default_factory=list)
    reply_to: Callable[[Received], Reply] | None = None
    on_ping: Reply | None = pong
    on_accept: Callable[[socket.socket], bool] = lambda connection: True
    read_limit: int | None = None
    before: Reply = lambda connection: None
    keep_bodies: bool = True
    tls: ssl.SSLContext | None = None
    requests: list[Received] = field(default_factory=list)
    pings: list[Received] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        self._socket = _listening()
        self.port: int = self._socket.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._turns = itertools.count()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def stop(self) -> None:
        # A thread blocked in accept() is woken by shutdown, not by close.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection:
            if not self.on_accept(connection):
                return
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with self._lock:
                self._open.add(connection)
            try:
                for received in self._requests_on(connection):
                    if self.on_ping is not None and received.is_ping:
                        self.pings.append(received)
                        self.on_ping(connection)
                        continue
                    with self._lock:
                        self.requests.append(received)
                        turn = min(next(self._turns), len(self.replies) - 1)
                    if self.reply_to is not None:
                        self.reply_to(received)(connection)
                    else:
                        self.replies[turn](connection)
            finally:
                with self._lock:
                    self._open.discard(connection)

    def _requests_on(self, connection: socket.socket) -> Iterator[Received]:
        with connection.makefile("rb") as stream:
            yield from self._read(stream, connection)

    def _read(self, stream: BinaryIO, connection: socket.socket) -> Iterator[Received]:
        while line := stream.readline():
            method, path, _ = line.decode().split(" ", 2)
            headers = {}
            while (line := stream.readline().strip()) != b"":
                name, _, value = line.decode().partition(":")
                before = headers.get(name.strip().lower())
                value = value.strip() if before is None else f"{before}, {value.strip()}"
                headers[name.strip().lower()] = value
            is_ping = self.on_ping is not None and Received(method, path, {}, b"").is_ping
            if not is_ping:
                self.before(connection)
            if self.read_limit is not None and not is_ping:
                length = min(self.read_limit, int(headers.get("content-length", 0)))
                yield Received(method, path, headers, stream.read(length))
                return
            if headers.get("transfer-encoding") == "chunked":
                body = b""
                while size := int(stream.readline(), 16):
                    body += stream.read(size)
                    stream.readline()
                stream.readline()
            else:
                left, body = int(headers.get("content-length", 0)), b""
                while left and (
                    piece := stream.read(min(left, 1 << 18 if not self.keep_bodies else left))
                ):
                    left -= len(piece)
                    body = body + piece if self.keep_bodies else b""
                if left:
                    return
            yield Received(method, path, headers, body)
