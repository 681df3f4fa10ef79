"""The default transport of blocking calls: httpcore's connection pool.

httpx's client adds cookies, redirects and logins, which no call here needs, for a third of a call's
time. It also hides the connection, which has to be watched so that an upload ends when the service
refuses it, and not after the last gigabyte.
"""

import functools
import ssl
import time
from typing import Any, cast

import httpcore

from knowledge_bot._transports import (
    CONNECTIONS,
    KEEPALIVE_SECONDS,
    TLS,
    HTTPRequest,
    HTTPResponse,
    Proxy,
    read_within,
)


class HttpcoreTransport:
    """Sends over a pool of connections."""

    def __init__(self, proxy: Proxy | None, tls: TLS) -> None:
        # Parsing an address costs as much as a tenth of a call; all but one path are constant.
        self._address = functools.lru_cache(maxsize=256)(httpcore.URL)
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls(),
            proxy=httpcore.Proxy(proxy.url, auth=proxy.login) if proxy else None,
            max_connections=CONNECTIONS,
            max_keepalive_connections=CONNECTIONS,
            keepalive_expiry=KEEPALIVE_SECONDS,
            network_backend=_Network(),
        )

    def send(self, request: HTTPRequest) -> HTTPResponse:
        """Send a request."""
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), request.timeout)
        url, body = self._address(request.url), request.body
        headers = [(b"Host", _host(url))]
        headers += [
            (name.encode("ascii"), text.encode("latin-1")) for name, text in request.headers
        ]
        if body is not None and not any(name.lower() == b"content-length" for name, _ in headers):
            headers.append((b"Transfer-Encoding", b"chunked"))
        response = self._pool.handle_request(
            httpcore.Request(
                request.method,
                url,
                headers=headers,
                content=cast("Any", body),
                extensions={"timeout": timeout},
            )
        )
        try:
            named = {
                name.decode("ascii").lower(): text.decode("latin-1")
                for name, text in response.headers
            }
            return read_within(request, response.status, named, response.iter_stream())
        finally:
            response.close()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()


def _host(url: httpcore.URL) -> bytes:
    host = b"[%b]" % url.host if b":" in url.host else url.host
    return host if url.port is None else b"%b:%d" % (host, url.port)


class _Network(httpcore.SyncBackend):
    """Connects as httpcore does, and looks for an answer while a request is still being sent."""

    def connect_tcp(self, *args: Any, **options: Any) -> httpcore.NetworkStream:
        return _WatchedConnection(super().connect_tcp(*args, **options))


# Bytes of an answer's head that are kept while a request is still being sent; httpcore reads longer
# ones in the end.
_LONGEST_HEAD = 64 * 1024


class _WatchedConnection(httpcore.NetworkStream):
    """A connection that stops sending a request once its answer is there (RFC 9112, section 9.3).

    After a failed write, httpcore goes on to read the answer. It bounds each read; here their sum
    is bounded too.
    """

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self._sending = False
        self._arrived = b""
        self._until = 0.0

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        timeout = timeout or 0.0
        if self._sending:
            self._sending, self._until = False, time.monotonic() + 2 * timeout
        if self._arrived:
            arrived, self._arrived = self._arrived[:max_bytes], self._arrived[max_bytes:]
            return arrived
        if (left := self._until - time.monotonic()) <= 0:
            raise httpcore.ReadTimeout("no whole answer in time")
        return self._stream.read(max_bytes, min(timeout, left))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # Of a request without a body, the end is a write of nothing.
        if buffer and self._sending and self._is_answered():
            raise httpcore.WriteError("the answer came before the request was sent")
        self._sending = True
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def _is_answered(self) -> bool:
        if not self._stream.get_extra_info("is_readable"):
            return False
        connection = self._stream.get_extra_info("socket")
        try:
            connection.settimeout(0)
            more = connection.recv(_LONGEST_HEAD)
        except (BlockingIOError, ssl.SSLWantReadError):
            # Readable TLS data may belong to the protocol itself, such as session tickets.
            return False
        except OSError:
            return True
        self._arrived = _without_interim(self._arrived + more)
        ended = not more or len(self._arrived) > _LONGEST_HEAD
        return ended or not _may_be_interim(self._arrived)

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, timeout)
        # Through an https:// proxy TLS runs inside TLS; readable data belongs to the outer layer.
        nested = self._stream.get_extra_info("ssl_object") is not None
        return secured if nested else _WatchedConnection(secured)


def _may_be_interim(head: bytes) -> bool:
    """Return whether a head may become that of an interim answer (RFC 9110, section 15.2)."""
    code = head[9:12]  # 101 has no other answer behind it
    return b"HTTP/1.".startswith(head[:7]) and code[:1] in (b"", b"1") and code != b"101"


def _without_interim(received: bytes) -> bytes:
    """Return what arrived without whole interim answers, such as `100 Continue`."""
    while _may_be_interim(received) and b"\r\n\r\n" in received:
        received = received.partition(b"\r\n\r\n")[2]
    return received
