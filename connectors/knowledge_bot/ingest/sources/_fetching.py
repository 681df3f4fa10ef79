"""Fetches from the web politely: slowly, within limits, and never from a private network.

The addresses come from strangers. So a public site cannot lead to private addresses, redirects are
returned instead of followed, and no answer can fill the memory.
"""

import ipaddress
import logging
import socket
import ssl
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from tempfile import SpooledTemporaryFile
from time import monotonic, sleep
from typing import IO, Any
from urllib.parse import quote, urljoin, urlsplit

import httpcore

from knowledge_bot import __version__
from knowledge_bot._httpcore import WrappedStream
from knowledge_bot._responses import retry_after_seconds
from knowledge_bot._retries import seconds_to_wait
from knowledge_bot._transports import Proxy, chain, proxy_for, ssl_context
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest.sources._documents import (
    TOO_LARGE,
    UnreadableError,
    too_large_reason,
    unpacked,
)

logger = logging.getLogger(__name__)

AGENT = "knowledge-bot"
"""The name of this crawler in a robots.txt."""

REDIRECTS = 5
"""Most redirects in a row, the least that RFC 9309, section 2.3.1.2 allows."""

_TIMEOUT = 30.0
# Seconds that one answer may take in all, however steadily its bytes arrive.
_LONGEST_ANSWER = 120.0
_ATTEMPTS = 3
_BACKOFF = 2.0  # seconds before the second attempt, twice as many before the third
_LONGEST_WAIT = 120.0
_TRY_AGAIN = (429, 502, 503, 504)
_IN_MEMORY = 1024 * 1024
_SHORT = 65_536  # bytes of an unwanted answer: reading them costs less than a new connection
_REDIRECTING = (301, 302, 303, 307, 308)

Headers = Iterable[tuple[str, str]]


class UnreachableError(UnreadableError):
    """A server that did not answer, or asked to be left alone for now."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered.

    Attributes:
        status: the status code.
        headers: the headers in order, their names in lower case.
        body: the content, unpacked; empty if it was not wanted.
        cut: whether there was more of it.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    cut: bool = False

    def all(self, name: str) -> list[str]:
        """Return the values of a header."""
        return [value for each, value in self.headers if each == name]

    def first(self, name: str) -> str | None:
        """Return a header's first value."""
        return next(iter(self.all(name)), None)

    def location(self, url: str) -> str | None:
        """Return where this answer redirects to; None if it does not."""
        location = self.first("location") if self.status in _REDIRECTING else None
        if not location:
            return None
        location = _as_sent(location)
        try:
            return urljoin(url, location)
        except ValueError:  # it is not an address
            return location


class Fetcher:
    """Fetches one address after the other, and keeps connections open.

    Attributes:
        interval: seconds from one request to the next.
        requests: how many requests were sent.
        received: how many bytes were received.
    """

    def __init__(
        self, start: str, rate: float, *, allow_private: bool, headers: Headers = ()
    ) -> None:
        self.interval = 1 / rate
        self.requests = self.received = 0
        self._headers, self._always = tuple(headers), allow_private
        self._next = self._until = 0.0
        self._pools: dict[tuple[Proxy | None, bool], httpcore.ConnectionPool] = {}
        self._start = urlsplit(start)
        self._allow_private: bool | None = allow_private or None

    def begin_at(self, start: str) -> None:
        """Trust an address as given by a person: if it is private, it may lead to private ones."""
        before, self._start = self._start, urlsplit(start)
        if before.hostname != self._start.hostname:
            self._allow_private = self._always or None

    def close(self) -> None:
        """Close the connections."""
        for pool in self._pools.values():
            pool.close()

    def get(
        self,
        url: str,
        *,
        headers: Headers = (),
        largest: int,
        wanted: Callable[[Answer], bool] = lambda answer: answer.status == 200,
        into: IO[bytes] | None = None,
    ) -> Answer:
        """Fetch an address; redirects are not followed.

        Args:
            url: the address.
            headers: additional headers.
            largest: most bytes of the content, unpacked; the rest is cut off.
            wanted: says for an answer without its body whether to read the body.
            into: a file that the content is written to, instead of the answer.

        Raises:
            UnreachableError: the server cannot be reached, or is too busy.
            UnreadableError: its address is not allowed, or its answer cannot be read.
        """
        reason, pause = "", 0.0
        for attempt in range(_ATTEMPTS):
            if attempt:
                sleep(seconds_to_wait(pause))
            pause = _BACKOFF * 2**attempt
            try:
                answer = self._once(url, tuple(headers), largest, wanted, into)
            except httpcore.ConnectError as error:
                reason = _reason(error)
                if _is_certificate(error):
                    break
            except (
                httpcore.TimeoutException,
                httpcore.NetworkError,
                httpcore.ProtocolError,
                httpcore.ProxyError,
            ) as error:
                reason = _reason(error)
            else:
                if answer.status not in _TRY_AGAIN:
                    return answer
                reason = f"its server answered {answer.status}"
                asked = retry_after_seconds(answer.first("retry-after"))
                if asked is not None and asked > _LONGEST_WAIT:
                    raise UnreachableError(f"{reason}, and to try again in {asked:.0f} seconds")
                pause = max(pause, asked or 0.0)
        raise UnreachableError(reason)

    def follow(
        self, url: str, *, largest: int, into: IO[bytes] | None = None
    ) -> tuple[Answer | None, str]:
        """Fetch an address and follow its redirects, to any host.

        Returns:
            The last answer and its address; None if there are too many redirects.

        Raises:
            UnreadableError: as by `get`.
        """
        for _ in range(REDIRECTS + 1):
            answer = self.get(url, largest=largest, into=into)
            if (location := answer.location(url)) is None:
                return answer, url
            url = location
        return None, url

    @contextmanager
    def opened(self, url: str) -> Iterator[IO[bytes]]:
        """Open a document, following redirects, and unpack it.

        Raises:
            UnreadableError: it cannot be fetched, or is larger than `TOO_LARGE`.
        """
        with SpooledTemporaryFile(_IN_MEMORY) as file:
            answer, _ = self.follow(url, largest=TOO_LARGE, into=file)
            if answer is None:
                raise UnreadableError("it redirects too often")
            if answer.status != 200:
                raise UnreadableError(f"its server answered {answer.status}")
            if answer.cut:
                raise UnreadableError(too_large_reason())
            file.seek(0)
            yield unpacked(file)

    def _once(
        self,
        url: str,
        headers: Headers,
        largest: int,
        wanted: Callable[[Answer], bool],
        into: IO[bytes] | None,
    ) -> Answer:
        address, pool = _encoded(url), self._pool(url)
        request = httpcore.Request(
            "GET",
            address,
            headers=[
                ("Host", urlsplit(url).netloc.rpartition("@")[2]),
                ("User-Agent", f"{AGENT}/{__version__}"),
                ("Accept", "text/html, application/xhtml+xml, */*;q=0.5"),
                ("Accept-Encoding", "gzip"),
                *[
                    (name, value.encode("latin-1"))
                    for name, value in (*headers, *self._own_headers(url))
                ],
            ],
            extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), _TIMEOUT)},
        )
        self._wait()
        self.requests += 1
        self._until = monotonic() + _LONGEST_ANSWER
        with closing(pool.handle_request(request)) as response:
            answer = Answer(
                response.status,
                tuple(
                    (name.decode("ascii", "replace").lower(), value.decode("latin-1"))
                    for name, value in response.headers
                ),
            )
            if not wanted(answer):
                if _is_short(answer):
                    for _ in self._counted(response.iter_stream()):
                        pass  # so that the connection can be used again
                return answer
            sink = BytesIO() if into is None else into
            sink.seek(0)
            sink.truncate()
            left = largest
            pieces = self._counted(response.iter_stream())
            for piece in _unpacked(pieces, answer.first("content-encoding")):
                sink.write(piece[:left])
                left -= len(piece)
                if left < 0:
                    break
        body = sink.getvalue() if isinstance(sink, BytesIO) else b""
        return replace(answer, body=body, cut=left < 0)

    def _wait(self) -> None:
        now = monotonic()
        if now < self._next:
            sleep(self._next - now)
        self._next = monotonic() + self.interval

    def _counted(self, pieces: Any) -> Iterator[bytes]:
        for piece in pieces:
            self.received += len(piece)
            yield piece

    def _check_time(self) -> None:
        if monotonic() > self._until:
            raise UnreachableError(f"its answer took longer than {_LONGEST_ANSWER:g} seconds")

    def _own_headers(self, url: str) -> Headers:
        """Return the caller's headers if this is their host, and not over a less secure scheme."""
        parts = urlsplit(url)
        safer = (parts.scheme, self._start.scheme) == ("https", "http")
        same = parts.scheme == self._start.scheme and parts.port == self._start.port
        if parts.hostname == self._start.hostname and (same or safer):
            return self._headers
        return ()

    def _pool(self, url: str) -> httpcore.ConnectionPool:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UnreadableError("it is not an http:// or https:// address")
        if self._allow_private is None:
            try:
                self._allow_private = any(_private(_resolved(self._start.hostname or "", None)))
            except OSError:
                self._allow_private = False
        try:
            proxy = proxy_for(url)
        except ConfigurationError as error:
            raise UnreadableError(str(error)) from error
        if proxy is not None and not self._allow_private:
            _refuse_private(parts.hostname)
        allowed = self._allow_private or proxy is not None  # a proxy often has a private address
        if (proxy, allowed) not in self._pools:
            self._pools[proxy, allowed] = httpcore.ConnectionPool(
                ssl_context=ssl_context(verify=True),
                max_connections=1,
                keepalive_expiry=15.0,
                network_backend=_Network(self._check_time, allow_private=allowed),
                proxy=httpcore.Proxy(proxy.url, auth=proxy.login) if proxy else None,
            )
        return self._pools[proxy, allowed]


class _Network(httpcore.SyncBackend):
    """Connects to public addresses only, unless others are allowed.

    A name is resolved once, so that the address that is checked is the one that is used.
    """

    def __init__(self, check_time: Callable[[], None], *, allow_private: bool) -> None:
        self._check_time, self._allow_private = check_time, allow_private

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        try:
            addresses = _resolved(host, port)
        except OSError as error:
            raise httpcore.ConnectError(f"its host is not known: {error.strerror}") from error
        if not self._allow_private:
            _refuse(host, addresses)
        failed: Exception = httpcore.ConnectError("its host has no address")
        for address in addresses:
            try:
                stream = super().connect_tcp(address, port, timeout, local_address, socket_options)
                return _Connection(stream, self._check_time)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed


class _Connection(WrappedStream):
    """A connection that limits the time of a whole answer, headers included."""

    def __init__(self, stream: httpcore.NetworkStream, check_time: Callable[[], None]) -> None:
        super().__init__(stream)
        self._check_time = check_time

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._check_time()
        return super().read(max_bytes, timeout)

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        secured = super().start_tls(ssl_context, server_hostname, timeout)
        return _Connection(secured, self._check_time)


def _refuse_private(host: str) -> None:
    """Refuse a host that resolves to a private address here; behind a proxy it may not resolve."""
    try:
        addresses = _resolved(host, None)
    except OSError:
        return
    _refuse(host, addresses)


def _refuse(host: str, addresses: Sequence[str]) -> None:
    for address in _private(addresses):
        shown = "" if address == host else f", {address}"
        raise UnreadableError(f"its host has a private address{shown}; allow_private allows it")


def _resolved(host: str, port: int | None) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that is empty or too long
        raise OSError(0, "it is not a valid host name") from error
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def _private(addresses: Iterable[str]) -> Iterator[str]:
    """Yield the addresses that are not public."""
    for text in addresses:
        address = ipaddress.ip_address(text.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address):
            # Some networks translate these to the IPv4 address inside.
            inner = address.ipv4_mapped or address.sixtofour
            if address in _NAT64:
                inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
            if inner is not None and (not inner.is_global or inner.is_multicast):
                yield text
                continue
            if inner is not None:
                continue
        if not address.is_global or address.is_multicast:
            yield text


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def _unpacked(pieces: Iterator[bytes], encoding: str | None) -> Iterator[bytes]:
    """Unpack compressed data in small pieces, so that a bomb ends when the reader stops."""
    kind = (encoding or "identity").strip().lower()
    if kind == "identity":
        yield from pieces
        return
    if kind not in ("gzip", "x-gzip", "deflate"):
        raise UnreadableError(f"it is compressed as {kind[:40]}, which was not asked for")
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        for piece in pieces:
            left = piece
            while left and not unpacking.eof:
                yield unpacking.decompress(left, 65536)
                left = unpacking.unconsumed_tail
    except zlib.error as error:
        raise UnreadableError(f"it cannot be unpacked: {error}") from error


def _is_short(answer: Answer) -> bool:
    length = answer.first("content-length") or ""
    return answer.status == 304 or (length.isdecimal() and int(length) <= _SHORT)


def _is_certificate(error: BaseException) -> bool:
    return any(isinstance(each, ssl.SSLCertVerificationError) for each in chain(error))


def _reason(error: Exception) -> str:
    if _is_certificate(error):
        return f"its certificate is not trusted here: {error}"
    if isinstance(error, httpcore.TimeoutException):
        return f"it did not answer within {_TIMEOUT:g} seconds"
    return f"it cannot be fetched: {str(error) or type(error).__name__}"


def _as_sent(location: str) -> str:
    """Return a header's address, decoded as UTF-8 if possible: many servers send that."""
    try:
        return location.encode("latin-1").decode()
    except UnicodeError:
        return location


def _encoded(url: str) -> httpcore.URL:
    """Return an address in parts, since httpcore itself loses what follows a `;`."""
    try:
        parts = urlsplit(url)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        return httpcore.URL(
            scheme=parts.scheme,
            host=parts.hostname or "",
            port=parts.port,
            target=quote(target, "/:@!$&'()*+,;=~%?"),
        )
    except (UnicodeEncodeError, ValueError) as error:
        raise UnreadableError(f"it is not an address: {error}") from error
