"""How requests are sent: the protocol of a transport, and all but the default blocking one.

A transport sends one request and reads one answer, of bounded size; it knows nothing of keys,
retries or what an answer means. Beside the default for blocking calls (`_httpcore`) there are two
adapters here: aiohttp, the default for asynchronous calls, and the HTTP client of a user.
"""

import asyncio
import atexit
import base64
import contextlib
import functools
import ipaddress
import os
import ssl
import sys
import time
import weakref
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from knowledge_bot.errors import ConfigurationError

if TYPE_CHECKING:
    import aiohttp

TLS: TypeAlias = Callable[[], ssl.SSLContext | None]
"""Returns a TLS context, slow to load, when it is needed."""

CONNECTIONS = 100

# Bytes of a line of an answer's head. Gateways send long policies and cookies; httpcore takes heads
# of up to 100 KiB.
_LONGEST_LINE = 64 * 1024

# Below the idle timeout of every usual server and proxy, so that a request rarely meets a
# connection that is just being closed, where nothing says whether it arrived.
KEEPALIVE_SECONDS = 5.0


@dataclass(slots=True, repr=False)
class HTTPRequest:
    """A request as a transport sends it. Its `repr` shows neither headers nor body.

    Attributes:
        method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
        url: the whole address.
        headers: names and values, the API key among them, `Content-Length` wherever it is known.
        body: the bytes; or pieces, each requested once the one before was sent: an iterable for a
            `Transport`, an asynchronous one for an `AsyncTransport`; or None.
        timeout: seconds to wait for a connection, and again for each step after it.
        max_bytes: how many bytes of the answer's body to read at most; the rest is left, and the
            connection closed.
    """

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: bytes | Iterable[bytes] | AsyncIterable[bytes] | None
    timeout: float
    max_bytes: int

    def __repr__(self) -> str:
        return f"HTTPRequest({self.method!r}, {self.url.partition('?')[0]!r})"


@dataclass(slots=True, repr=False)
class HTTPResponse:
    """An answer as a transport read it.

    Attributes:
        status: the HTTP status.
        headers: the headers, with names in lower case or looked up case-insensitively.
        body: the body as it came, still compressed where `content-encoding` says so. With status
            400 or above, where the status alone says what became of the request, it may be what
            arrived before the connection broke.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def __repr__(self) -> str:
        return f"HTTPResponse({self.status!r}, {len(self.body)} bytes)"


class Transport(Protocol):
    """Sends for a `Client`, from several threads at once."""

    def send(self, request: HTTPRequest) -> HTTPResponse:
        """Send a request once and read its answer. Redirects are answers and not followed.

        Raises:
            ConnectionFailedError: no byte of the request was sent. The exceptions of httpx and
                aiohttp that mean this, and `ConnectionRefusedError`, are understood too.
            TimeoutError: there was no complete answer in time.
            Exception: the connection broke in another way. The request may have arrived, unless
                its body came in pieces and the last one was never requested.
        """

    def close(self) -> None:
        """Close the connections; called when the client is closed."""


class AsyncTransport(Protocol):
    """Sends for an `AsyncClient`, from any running event loop."""

    async def send(self, request: HTTPRequest) -> HTTPResponse:
        """Send a request once and read its answer, as `Transport.send` does."""

    async def aclose(self) -> None:
        """Close the connections; called when the client is closed."""


STANDING_IN: dict[str, Any] = {}
"""What a test has clients send with instead, by protocol: `MemoryService.standing_in`."""


# What the environment says ------------------------------------------------------------------------

_SYSTEM_NAMES_PROXIES = sys.platform in ("darwin", "win32")  # in its settings


@dataclass(frozen=True, slots=True)
class Proxy:
    """The HTTP proxy that the environment names for an address.

    Attributes:
        url: its address, without user name and password.
        login: user name and password, or None.
    """

    url: str
    login: tuple[str, str] | None

    def __repr__(self) -> str:
        return f"Proxy({self.url!r})"


def proxy_for(url: str) -> Proxy | None:
    """Return the proxy that the environment names for an address (`HTTPS_PROXY`, `NO_PROXY`, …).

    Raises:
        ConfigurationError: it is of a kind that cannot be used, such as SOCKS: speaking HTTP to it
            would show the API key to whoever listens there.
    """
    parts = urlsplit(url)
    if not _SYSTEM_NAMES_PROXIES and not any(
        name.lower() in (f"{parts.scheme}_proxy", "all_proxy") for name in os.environ
    ):
        return None
    from urllib.request import getproxies, proxy_bypass  # loads much that nothing else needs

    proxies = {kind: named.strip() for kind, named in getproxies().items()}
    named = proxies.get(parts.scheme) or proxies.get("all")
    # What the system's own settings except, urllib knows.
    exempt = _is_exempt(parts, proxies["no"]) if "no" in proxies else proxy_bypass(parts.netloc)
    if not named or exempt:
        return None
    try:
        proxy = urlsplit(named if "://" in named else f"http://{named}")
        host, port = proxy.hostname, proxy.port
    except ValueError:
        proxy, host, port = urlsplit(""), None, None
    if not host or not host.isprintable() or " " in host or proxy.scheme not in ("http", "https"):
        # Its address is not quoted: it often holds a password.
        kind = named.partition("://")[0][:20] if "://" in named else "http"
        raise ConfigurationError(
            f"the environment names a proxy for {parts.scheme}:// that cannot be used, of the kind "
            f"{kind!r}; only http:// and https:// proxies can. Correct "
            "it, or add the service's host to NO_PROXY"
        )
    netloc = f"[{host}]" if ":" in host else host
    login = None
    if proxy.username is not None:
        login = unquote(proxy.username), unquote(proxy.password or "")
    return Proxy(f"{proxy.scheme}://{netloc}" + (f":{port}" if port else ""), login)


def _is_exempt(service: SplitResult, no_proxy: str) -> bool:
    """Return whether `NO_PROXY` lists an address, in any form that curl, requests or Go reads.

    These are names with all names below them (`example.com`, `.example.com`, `*.example.com`),
    other patterns (`10.*`), addresses, networks (`10.0.0.0/8`, `::1/128`), each perhaps with a
    port, and `*` for all.
    """
    host = _plain(service.hostname or "")
    port = service.port or {"http": 80, "https": 443}[service.scheme]
    for entry in no_proxy.lower().replace(",", " ").split():
        scheme, _, rest = entry.rpartition("://")
        name, colon, ending = rest.rpartition(":")
        # Of an address with several colons, the last one begins a port only behind a bracket.
        if colon and ending.isdecimal() and (":" not in name or name.endswith("]")):
            if int(ending) != port:
                continue
            rest = name
        if scheme in ("", service.scheme) and _is_listed(host, _plain(rest)):
            return True
    return False


def _plain(host: str) -> str:
    return host.strip("[]").partition("%")[0].rstrip(".")


def _is_listed(host: str, entry: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = entry.removeprefix("*").removeprefix(".")
        return host == name or host.endswith(f".{name}") or fnmatchcase(host, entry)
    address = getattr(address, "ipv4_mapped", None) or address
    with contextlib.suppress(ValueError):  # it is a name
        return address in ipaddress.ip_network(entry, strict=False)
    return fnmatchcase(host, entry)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where requests go, as errors name it.

    Attributes:
        base_url: the service's address.
        proxy: the proxy on the way, or None.
    """

    base_url: str
    proxy: Proxy | None = None

    def __str__(self) -> str:
        through = f" through the proxy {self.proxy.url}" if self.proxy else ""
        return self.base_url + through


def tls_on_demand(destination: Destination, verify: bool | str | ssl.SSLContext) -> TLS:
    """Return a function that returns the TLS context for a destination, None where it needs none.

    Certificates that the user names are loaded now; the usual ones, when they are first needed.

    Raises:
        ConfigurationError: as `ssl_context` does.
    """
    if verify is True:
        urls = destination.base_url, destination.proxy.url if destination.proxy else ""
        if not any(url.startswith("https:") for url in urls):
            return lambda: None
        if not any(map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR"))):
            return lambda: ssl_context(verify=True)
    context = ssl_context(verify)
    return lambda: context


def ssl_context(verify: bool | str | ssl.SSLContext) -> ssl.SSLContext:
    """Return the TLS context for `verify=`, built once in a process.

    Raises:
        ConfigurationError: `verify`, `SSL_CERT_FILE` or `SSL_CERT_DIR` cannot be loaded.
    """
    if isinstance(verify, ssl.SSLContext):
        return verify
    if verify is True:
        file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
        return _loaded_context(file or None, folder or None, "SSL_CERT_FILE or SSL_CERT_DIR")
    if verify is False:
        return _unverified_context()
    named: Any = verify  # whatever a file of settings holds
    if not isinstance(named, str | os.PathLike) or not os.fspath(named):
        raise ConfigurationError.of(
            "verify", f"expected True, False, a file's path or an ssl.SSLContext, not {verify!r}"
        )
    return _loaded_context(os.fspath(named), None, "verify")


# Loading the certificate authorities takes tens of milliseconds: once for a whole process.
@functools.lru_cache(maxsize=16)
def _loaded_context(file: str | None, folder: str | None, named_by: str) -> ssl.SSLContext:
    if file is None and folder is None:
        import certifi

        file = certifi.where()
    try:
        return ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:
        raise ConfigurationError.of(named_by, f"cannot load {file or folder!r}: {error}") from error


@functools.lru_cache(maxsize=1)
def _unverified_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


# Forks --------------------------------------------------------------------------------------------


class ThisProcess:
    """What this process has of those that it was forked from.

    Attributes:
        forks: how many they are, of those that had loaded this module.
        inherited: what they had open. A child must not even garbage-collect it: closing an event
            loop's socket there takes it out of the parent's selector, which both share.
    """

    forks: ClassVar[int] = 0
    inherited: ClassVar[list[object]] = []

    @classmethod
    def forked(cls) -> None:
        """Count a fork, in the child."""
        cls.forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ThisProcess.forked)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        # aiohttp keeps what the system said as an attribute.
        error = error.__cause__ or error.__context__ or getattr(error, "os_error", None)


def answer_in(error: Exception) -> HTTPResponse | None:
    """Return the answer that an exception carries, as that of httpx's `raise_for_status` does.

    Its body is what was read of it. An answer that says that something was done is none without it.
    """
    response: Any = getattr(error, "response", None)
    status, headers = getattr(response, "status_code", None), getattr(response, "headers", None)
    if not isinstance(status, int) or not isinstance(headers, Mapping):
        return None
    try:
        body = bytes(response.content)
    except Exception:  # noqa: BLE001 - it was closed without being read, as each library says it
        if status < 300:
            return None
        body = b""
    named = {str(name).lower(): str(text) for name, text in headers.items()}
    return HTTPResponse(status, _decoded(named), body)


def _decoded(headers: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if name != "content-encoding"}


# aiohttp ------------------------------------------------------------------------------------------


class AiohttpTransport:
    """The default of asynchronous calls: aiohttp, with connections that outlive no event loop.

    Connections belong to the loop they were opened in. A caller of `asyncio.run` has a new loop
    each time and closes nothing. So an asynchronous generator waits in each loop to close them: a
    loop finishes its generators before it ends (`loop.shutdown_asyncgens`).

    Attributes:
        connections: how many there may be in each loop that sends its first request from now on.
    """

    def __init__(self, proxy: Proxy | None, tls: TLS) -> None:
        self._proxy, self._tls = proxy, tls
        self.connections: int = CONNECTIONS
        self._begin()
        _IN_USE.add(self)

    def _begin(self) -> None:
        self._forks = ThisProcess.forks
        self._sessions: dict[
            asyncio.AbstractEventLoop, tuple[Callable[..., Any], Any, AsyncGenerator[None, None]]
        ] = {}

    async def open(self) -> Callable[..., Any]:
        """Prepare to send in the running loop: load and make what is slow to load and make."""
        return self._held() or await self._opened()

    def _held(self) -> Callable[..., Any] | None:
        self._leave_inherited()
        held = self._sessions.get(asyncio.get_running_loop())
        return held[0] if held else None

    async def _opened(self) -> Callable[..., Any]:
        import aiohttp
        from yarl import URL

        self._forget_closed_loops()
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self.connections,
                keepalive_timeout=KEEPALIVE_SECONDS,
                ssl=self._tls() or True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )
        # It would send a GET, PUT or DELETE again unseen, after a connection that was lost, and so
        # nobody could say whether the answer is the first one's. It has no public name for that.
        session._retry_connection = False  # noqa: SLF001
        options: dict[str, Any] = {"allow_redirects": False}
        to_proxy: list[tuple[str, str]] = []
        if self._proxy is not None:
            options["proxy"] = self._proxy.url
            if self._proxy.login is not None:
                login = base64.b64encode(":".join(self._proxy.login).encode()).decode("ascii")
                to_proxy = [("Proxy-Authorization", f"Basic {login}")]
                options["proxy_headers"] = dict(to_proxy)  # of the request for a tunnel
        # Parsing an address costs as much as a tenth of a call; all but one path are constant.
        address = functools.lru_cache(maxsize=256)(lambda url: URL(url, encoded=True))
        limits = functools.lru_cache(maxsize=16)(
            lambda seconds, total: aiohttp.ClientTimeout(
                total=total, connect=seconds, sock_connect=seconds, sock_read=seconds
            )
        )

        def begin(request: HTTPRequest, body: Any, total: float | None) -> Any:
            # Without a tunnel the proxy reads the request itself.
            plain = request.url.startswith("http:")
            return session.request(
                request.method,
                address(request.url),
                headers=request.headers + to_proxy if plain else request.headers,
                data=body,
                timeout=limits(request.timeout, total),
                **options,
            )

        keeper = _closed_at_the_end(session)
        self._sessions[asyncio.get_running_loop()] = begin, session, keeper
        await anext(keeper)
        return begin

    async def send(self, request: HTTPRequest) -> HTTPResponse:
        """Send a request in the running loop."""
        begin = self._held() or await self._opened()
        # Nothing else bounds a send that stalls or an answer that trickles in.
        patience = 2 * request.timeout
        if request.body is None or isinstance(request.body, bytes):
            async with begin(request, request.body, patience) as response:
                length = response.content_length
                if response.status < 400 and length is not None and length <= request.max_bytes:
                    return HTTPResponse(response.status, response.headers, await response.read())
                return await _read(
                    request, response.status, response.headers, response.content.iter_any()
                )
        async with asyncio.timeout(patience) as limit:
            async with begin(request, _paced(request, limit), None) as response:
                return await _read(
                    request, response.status, response.headers, response.content.iter_any()
                )

    async def aclose(self) -> None:
        """Close the connections of the running loop and of every other loop that still runs."""
        self._leave_inherited()
        self._forget_closed_loops()
        while self._sessions:
            loop, (_, _, keeper) = self._sessions.popitem()
            if loop is asyncio.get_running_loop():
                await keeper.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_finish(keeper), loop)

    def __del__(self) -> None:
        self._leave_inherited()
        self._forget_closed_loops()

    def end(self) -> None:
        """Close the connections of loops that rest and that nobody has closed."""
        for loop, (_, _, keeper) in list(self._sessions.items()):
            if self._forks == ThisProcess.forks and not loop.is_closed() and not loop.is_running():
                loop.run_until_complete(_finish(keeper))

    def _leave_inherited(self) -> None:
        if self._forks != ThisProcess.forks:
            ThisProcess.inherited.append(self._sessions)
            self._begin()

    def _forget_closed_loops(self) -> None:
        # A loop that was closed without finishing its generators leaves its session open.
        # Nothing is left there to wait for, so that closing ends at its first step.
        for loop in list(self._sessions):  # other threads may be opening theirs
            if not loop.is_closed() or (held := self._sessions.pop(loop, None)) is None:
                continue
            closing = held[1].close()
            with contextlib.suppress(StopIteration, RuntimeError):
                closing.send(None)
            closing.close()


async def _closed_at_the_end(session: "aiohttp.ClientSession") -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await session.close()
        # The sockets themselves are closed in callbacks that are due now.
        await asyncio.sleep(0)


async def _finish(keeper: AsyncGenerator[None, None]) -> None:
    await keeper.aclose()


_IN_USE = weakref.WeakSet[AiohttpTransport]()


@atexit.register
def _end_all() -> None:
    # Frameworks run coroutines in a loop that they never close, and leave the sessions to us.
    for transport in list(_IN_USE):
        transport.end()


async def _paced(request: HTTPRequest, limit: asyncio.Timeout) -> AsyncIterator[bytes]:
    """Yield the pieces of the body; each restarts the time limit."""
    body: Any = request.body
    loop = asyncio.get_running_loop()
    async with contextlib.aclosing(body):
        async for piece in body:
            yield piece
            limit.reschedule(loop.time() + 2 * request.timeout)


async def _read(
    request: HTTPRequest, status: int, headers: Mapping[str, str], pieces: AsyncIterator[bytes]
) -> HTTPResponse:
    body = b""
    with _cut_short_if_failed(status):
        async for piece in pieces:
            body = body + piece if body else bytes(piece)
            if len(body) > request.max_bytes:
                break
    return HTTPResponse(status, headers, body)


def _cut_short_if_failed(status: int) -> contextlib.AbstractContextManager[None]:
    """An answer that says what failed may break off: its status and its beginning say enough."""
    return contextlib.suppress(Exception) if status >= 400 else contextlib.nullcontext()


# The user's own HTTP client -----------------------------------------------------------------------


class _AnyHTTPClient(Protocol):
    @property
    def headers(self) -> Any:
        """Headers for every request."""

    @property
    def is_closed(self) -> bool:
        """Whether it can no longer send."""


class HTTPClient(_AnyHTTPClient, Protocol):
    """The part of an `httpx.Client` that is used; an `httpx2.Client` has it too."""

    def send(self, request: Any, *, stream: bool, follow_redirects: bool) -> Any:
        """Send a request; the answer's body is still to be read."""

    def close(self) -> None:
        """Close the connections."""


class AsyncHTTPClient(_AnyHTTPClient, Protocol):
    """The part of an `httpx.AsyncClient` that is used; an `httpx2.AsyncClient` has it too."""

    async def send(self, request: Any, *, stream: bool, follow_redirects: bool) -> Any:
        """Send a request; the answer's body is still to be read."""

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Close the connections."""


class _Injected:
    """What both injected transports share: making requests, and answers that were read already."""

    def __init__(self, http_client: Any, kind: str) -> None:
        self._client, self._library = http_client, _library_of(http_client, kind)

    def _request(self, request: HTTPRequest, body: Any) -> Any:
        if self._client.is_closed:
            raise ConfigurationError.of("http_client", "it is closed; nothing was sent")
        ours = {name.lower() for name, _ in request.headers}
        # Headers of the client, such as a gateway's, go along.
        inherited = [(k, v) for k, v in self._client.headers.multi_items() if k.lower() not in ours]
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), request.timeout)
        return self._library.Request(
            request.method,
            request.url,
            headers=inherited + request.headers,
            content=body,
            extensions={"timeout": timeout},
        )

    @staticmethod
    def _already_read(response: Any) -> HTTPResponse | None:
        """Return an answer that a mock, a cache or an event hook has read, and so decoded."""
        if not response.is_stream_consumed:
            return None
        headers = _decoded(dict(response.headers))
        return HTTPResponse(response.status_code, headers, response.content)


class InjectedTransport(_Injected):
    """Sends with an `httpx.Client` or `httpx2.Client` of the user, which stays theirs to close."""

    def __init__(self, http_client: Any) -> None:
        super().__init__(http_client, "Client")

    def send(self, request: HTTPRequest) -> HTTPResponse:
        """Send a request."""
        response = self._client.send(
            self._request(request, request.body), stream=True, follow_redirects=False
        )
        try:
            return self._already_read(response) or read_within(
                request, response.status_code, response.headers, response.iter_raw()
            )
        finally:
            response.close()

    def close(self) -> None:
        """Leave the user's client open."""


class InjectedAsyncTransport(_Injected):
    """Sends with an `httpx.AsyncClient` or `httpx2.AsyncClient` of the user."""

    def __init__(self, http_client: Any) -> None:
        super().__init__(http_client, "AsyncClient")

    async def send(self, request: HTTPRequest) -> HTTPResponse:
        """Send a request."""
        body = request.body
        async with asyncio.timeout(2 * request.timeout) as limit:
            if not (body is None or isinstance(body, bytes)):
                body = _paced(request, limit)
            response = await self._client.send(
                self._request(request, body), stream=True, follow_redirects=False
            )
            try:
                return self._already_read(response) or await _read(
                    request, response.status_code, response.headers, response.aiter_raw()
                )
            finally:
                await response.aclose()

    async def aclose(self) -> None:
        """Leave the user's client open."""


def _library_of(client: object, kind: str) -> Any:
    for cls in type(client).__mro__:
        name = cls.__module__.partition(".")[0]
        if name in ("httpx", "httpx2") and cls.__name__ == kind:
            return sys.modules[name]
    raise ConfigurationError.of(
        "http_client", f"expected an httpx.{kind} or httpx2.{kind}, not {type(client).__name__}"
    )


def read_within(
    request: HTTPRequest, status: int, headers: Mapping[str, str], pieces: Iterable[bytes]
) -> HTTPResponse:
    """Read an answer's body, as far as the request asks for and within its time."""
    body, deadline = b"", time.monotonic() + request.timeout
    with _cut_short_if_failed(status):
        for piece in pieces:
            if time.monotonic() > deadline:
                raise TimeoutError
            body = body + piece if body else bytes(piece)
            if len(body) > request.max_bytes:
                break
    return HTTPResponse(status, headers, body)
