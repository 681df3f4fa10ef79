"""The HTTP libraries underneath: httpx, httpx2, and httpx over aiohttp for asynchronous calls."""

import functools
import ssl
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from knowledge_bot.configuration import Configuration
from knowledge_bot.errors import ConfigurationError

_CONNECTIONS = 100

# Below the idle timeout of every usual server and proxy, so that a request rarely meets a
# connection that is just being closed: whether such a request arrived, nobody can tell.
_KEEPALIVE_SECONDS = 5.0


class _HTTPClient(Protocol):
    @property
    def headers(self) -> Any:
        """Headers for every request."""

    @property
    def is_closed(self) -> bool:
        """Whether it can no longer send."""


class HTTPClient(_HTTPClient, Protocol):
    """What is used of an `httpx.Client`, which an `httpx2.Client` offers as well."""

    def send(self, request: Any, *, stream: bool, follow_redirects: bool) -> Any:
        """Send a request; the answer's body is still to be read."""

    def close(self) -> None:
        """Close the connections."""


class AsyncHTTPClient(_HTTPClient, Protocol):
    """What is used of an `httpx.AsyncClient`, which an `httpx2.AsyncClient` offers as well."""

    async def send(self, request: Any, *, stream: bool, follow_redirects: bool) -> Any:
        """Send a request; the answer's body is still to be read."""

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Close the connections."""


def library_of(client: object, kind: str) -> Any:
    """Return the module, httpx or httpx2, that an injected client comes from.

    Raises:
        ConfigurationError: the client is not of the given kind, `Client` or `AsyncClient`.
    """
    for cls in type(client).__mro__:
        name = cls.__module__.partition(".")[0]
        if name in ("httpx", "httpx2") and cls.__name__ == kind:
            return sys.modules[name]
    raise ConfigurationError(
        f"http_client: expected an httpx.{kind} or httpx2.{kind}, not {type(client).__name__}"
    )


@functools.lru_cache(maxsize=16)
def _ssl_context(verify: bool | str | ssl.SSLContext) -> ssl.SSLContext:
    # Loading the certificate authorities takes tens of milliseconds: once for a whole process.
    if isinstance(verify, ssl.SSLContext):
        return verify
    if isinstance(verify, str):
        try:
            return ssl.create_default_context(cafile=verify)
        except OSError as error:
            raise ConfigurationError(f"verify: cannot load {verify!r}: {error}") from error
    return httpx.create_ssl_context(verify=verify)


class Connections:
    """A pool of connections that blocks, as httpx keeps it.

    Both kinds of connections use httpx's transports without its clients, whose cookies, redirects
    and logins no call to this service has, and which take a fifth of a call's CPU.
    """

    def __init__(self, configuration: Configuration) -> None:
        limits = httpx.Limits(
            max_connections=_CONNECTIONS,
            max_keepalive_connections=_CONNECTIONS,
            keepalive_expiry=_KEEPALIVE_SECONDS,
        )
        verify, proxy = _ssl_context(configuration.verify), _proxy_for(configuration.base_url)
        try:
            self._transport = httpx.HTTPTransport(verify, limits=limits, proxy=proxy)
        except ImportError as error:  # a SOCKS proxy takes a package more
            raise ConfigurationError(f"the environment names a proxy: {error}") from error
        self.is_closed: bool = False

    def send(self, request: Any, **_options: bool) -> Any:
        """Send a request, as `httpx.Client.send` streams an answer."""
        return self._transport.handle_request(request)

    def close(self) -> None:
        """Close the connections."""
        self.is_closed = True
        self._transport.close()


def transport_opener(configuration: Configuration) -> Callable[[], httpx.AsyncBaseTransport]:
    """Return what opens httpx's transport over aiohttp, for the event loop that then runs.

    Raises:
        ConfigurationError: `verify` or the environment's proxy cannot be used. Found out later, it
            would look like a call that failed on its way.
    """
    verify, proxy = _ssl_context(configuration.verify), _proxy_for(configuration.base_url)

    def open_transport() -> httpx.AsyncBaseTransport:
        import aiohttp  # heavy, as is what builds on it
        from httpx_aiohttp import AiohttpTransport

        connector = aiohttp.TCPConnector(
            limit=_CONNECTIONS, keepalive_timeout=_KEEPALIVE_SECONDS, ssl=verify
        )
        session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return AiohttpTransport(verify, client=session, proxy=proxy)

    return open_transport


def _proxy_for(url: str) -> httpx.Proxy | None:
    """Return the proxy that the environment names for an address, as `httpx.Client` finds it.

    Raises:
        ConfigurationError: it is of a kind that httpx does not know.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc):
        return None
    try:
        return httpx.Proxy(proxy if "://" in proxy else f"http://{proxy}")
    except (ValueError, httpx.InvalidURL):
        # Its address is not quoted: it often holds a password.
        raise ConfigurationError(
            f"the environment names a proxy for {parts.scheme}:// that cannot be used, of the kind "
            f"{proxy.partition('://')[0][:20]!r}; correct it, or pass http_client="
        ) from None
