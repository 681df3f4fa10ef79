"""A `MemoryService` behind a real socket: for tests of sockets, or of processes that are killed.

`served(service)` runs it in a thread of the test. `surviving(folder)` runs one in a process of its
own: it outlives whoever sends to it, however they end, and keeps on disk what it created, so that
after a crash it can be asked what really arrived.
"""

import contextlib
import json
import os
import random
import secrets
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from knowledge_bot import HTTPRequest, HTTPResponse
from knowledge_bot.testing import MemoryService


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "Server"

    def answer(self) -> None:
        url, headers = f"http://service.test{self.path}", [*self.headers.items()]
        request = HTTPRequest(self.command, url, headers, self.body(), 60, 1 << 24)
        try:
            found = self.server.act(request)
        except TimeoutError:  # longer than the client is patient
            self.connection.settimeout(60)
            self.connection.recv(1)
            raise
        except ConnectionError:  # lost, which a socket tells by a reset
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            raise
        self.send_response_only(found.status)
        for name, text in found.headers.items():
            self.send_header(name, text)
        if found.status != 204:
            self.send_header("Content-Length", str(len(found.body)))
        self.end_headers()
        self.wfile.write(found.body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """A service at a port that the system gives to nobody.

    A test of a service that has ended, elsewhere at the same time, would meet this one if it had
    the port that became free.
    """

    daemon_threads = True
    block_on_close = allow_reuse_address = False
    request_queue_size = 512

    def __init__(self, service: MemoryService) -> None:
        self.service = service
        self.url = ""
        while not self.url:
            port = secrets.choice(range(10_000, 32_000))  # below the range that systems choose from
            with contextlib.suppress(OSError):  # it is taken
                super().__init__(("127.0.0.1", port), _Handler)
                self.url = f"http://127.0.0.1:{port}"

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # without a look for the machine's name

    def handle_error(self, *_: object) -> None:
        """A client that is gone is no error."""

    def act(self, request: HTTPRequest) -> HTTPResponse:
        """Return the answer to a request."""
        return self.service.transport.send(request)


@contextlib.contextmanager
def served(service: MemoryService) -> Iterator[str]:
    """Let a service answer over a socket too; give its address.

    A connection cannot be refused there: it breaks instead, so that the outcome is unknown.
    """
    with Server(service) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield server.url
        finally:
            server.shutdown()


class Surviving(NamedTuple):
    """A service in a process of its own: its address, and the file that names what it created."""

    url: str
    journal: Path

    def created(self) -> Counter[str]:
        """Return how many sources were created under each name."""
        *lines, _half = self.journal.read_bytes().split(b"\n")  # the last may be being written
        return Counter(json.loads(line)["name"] for line in lines)


@contextlib.contextmanager
def surviving(
    folder: Path, delay: float = 0.0, *, collections: tuple[str, ...] = ("col_1", "col_default")
) -> Iterator[Surviving]:
    """Run a service that waits up to `delay` seconds before it acts, and before it answers."""
    journal = folder / "created.jsonl"
    journal.touch()
    command = [sys.executable, __file__, str(journal), str(delay), *collections]
    # A group of its own: a test's Ctrl-C is not meant for it.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            yield Surviving(process.stdout.readline().strip(), journal)
        finally:
            process.kill()


class _Journaling(Server):
    def __init__(self, journal: str, delay: float, collections: list[str]) -> None:
        super().__init__(MemoryService(collections=collections))
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND)
        self._delay = delay

    def act(self, request: HTTPRequest) -> HTTPResponse:
        if request.method == "GET":
            return super().act(request)
        time.sleep(random.uniform(0, self._delay))
        found = super().act(request)
        if found.status == 200 and "/sources/" in request.url:
            os.write(self._journal, json.dumps(json.loads(found.body)["value"]).encode() + b"\n")
        time.sleep(random.uniform(0, self._delay))
        return found


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serving = _Journaling(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
    print(serving.url, flush=True)  # noqa: T201 - told to whoever started it
    serving.serve_forever()
