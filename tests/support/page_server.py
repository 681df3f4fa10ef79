"""A web server for tests of fetching: one that answers with any bytes, slowly, or without end."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Answer = Callable[["socket.socket"], None]


def answer(
    body: bytes = b"<p>hello", *headers: str, status: str = "200 OK", kind: str = "text/html"
) -> Answer:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    if kind:
        lines.append(f"Content-Type: {kind}")
    head = "\r\n".join(lines).encode()
    return lambda connection: connection.sendall(head + b"\r\n\r\n" + body)


def redirect(location: str, status: str = "302 Found") -> Answer:
    return answer(b"", f"Location: {location}", status=status)


@dataclass
class Server:
    """Answers each path with what the test gave for it, and keeps the requests it got."""

    port: int
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener.getsockname()[1])

        def handle(connection: socket.socket) -> None:
            try:
                with connection:
                    connection.settimeout(10)
                    if context:
                        connection = context.wrap_socket(connection, server_side=True)
                    with connection:
                        received = b""
                        while b"\r\n\r\n" not in received:
                            if not (piece := connection.recv(65536)):
                                return
                            received += piece
                        request = received.decode("latin-1")
                        server.requests.append(request)
                        path = request.split(" ")[1].partition("?")[0]
                        server.answers.get(path, answer())(connection)
            except OSError:
                return  # the client went away, which is what many of these tests are about

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)
