"""The fetcher: from a URL to a page, or to the reason why not.

A host name is looked up once; every address must be allowed; the connection goes to a checked
address, so that a name which changes its answer in between gains nothing. Redirects are followed by
hand and checked alike. Host and SNI stay those of the URL, and proxies of the environment are never
used: httpcore does not look at them.
"""

import ssl
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final

import httpcore

from knowledge_bot.models import Header
from knowledge_bot_service.fetch.addresses import Network, Resolver, resolve
from knowledge_bot_service.fetch.bodies import BodyError, read_body
from knowledge_bot_service.fetch.connections import CheckedNetwork, RefusedError
from knowledge_bot_service.fetch.targets import Target, TargetError


class FetchError(Exception):
    """A page could not be fetched. `str()` is the reason, for the person who added the source."""


class PassingError(FetchError):
    """A page could not be fetched now, and perhaps it can later."""


class NotModifiedError(Exception):
    """The page is the one that is known (304)."""


@dataclass(frozen=True, slots=True)
class Validators:
    """A page's validators, `ETag` and `Last-Modified`, as its server sent them."""

    etag: str | None = None
    last_modified: str | None = None

    def headers(self) -> dict[bytes, bytes]:
        """What asks for the page only if it is another one."""
        given = {b"if-none-match": self.etag, b"if-modified-since": self.last_modified}
        return {name: value.encode("latin-1") for name, value in given.items() if value}


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """What may be fetched.

    Attributes:
        allow: networks that may be reached although they are not part of the internet.
        max_redirects: how many redirects are followed.
        timeout: seconds for the whole fetch, lookups and redirects included.
        max_bytes: size of the page after decompression, and of what is transferred.
    """

    allow: tuple[Network, ...] = ()
    max_redirects: int = 5
    timeout: float = 30.0
    max_bytes: int = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Page:
    """A fetched page: where it was in the end, its Content-Type as sent, and its content.

    `validators` are what to ask with whether it has changed.
    """

    url: str
    content_type: str
    body: bytes
    validators: Validators = Validators()


def fetch(
    url: str,
    headers: Sequence[Header] = (),
    policy: FetchPolicy = FetchPolicy(),
    *,
    known: Validators = Validators(),
    resolver: Resolver = resolve,
    ssl_context: ssl.SSLContext | None = None,
) -> Page:
    """Fetch a web page.

    Args:
        url: an http or https address.
        headers: sent to the URL's own origin, and not to another that it redirects to.
        policy: what may be fetched, and the bounds.
        known: what the server sent with the page that is known; none: there is no such page.
        resolver: looks host names up.
        ssl_context: the trusted certificates; the system's and certifi's when left out.

    Returns:
        The page, with its body decompressed.

    Raises:
        FetchError: the URL or a header is not usable, an address is not allowed, the server cannot
            be reached or does not answer with a page, or a bound of `policy` is hit.
        NotModifiedError: the page is the `known` one.
    """
    own = _encoded(headers) | known.headers()
    deadline = time.monotonic() + policy.timeout
    with (
        _reasons(policy),
        httpcore.ConnectionPool(
            ssl_context=ssl_context or _trusting(),
            network_backend=CheckedNetwork(resolver, policy.allow, deadline),
        ) as pool,
    ):
        start = target = Target.parse(url)
        for _ in range(policy.max_redirects + 1):
            request = httpcore.Request(
                "GET",
                target.url,
                headers=_request_headers(target, own if target.origin == start.origin else {}),
            )
            with _response(pool, request) as response:
                location = _header(response, b"location")
                if response.status in _REDIRECTS and location:
                    target = target.join(location)
                    continue
                if response.status == 304 and known.headers():
                    raise NotModifiedError
                _check_status(response.status, target)
                content_type = _header(response, b"content-type")
                _check_content_type(content_type, target)
                sent = Validators(
                    _validator(response, b"etag"), _validator(response, b"last-modified")
                )
                return Page(str(target), content_type, read_body(response, policy.max_bytes), sent)
    raise FetchError(f"{start} redirects more than {policy.max_redirects} times")


_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

_DEFAULT_HEADERS: Final = {
    b"user-agent": b"knowledge-bot",
    b"accept": b"text/html,application/xhtml+xml,application/xml;q=0.9,text/*;q=0.8,*/*;q=0.5",
}

# What frames a message or belongs to the connection is not the user's to set; a content coding that
# is not asked for cannot be read.
_RESERVED_HEADERS: Final = frozenset(
    {
        b"accept-encoding",
        b"connection",
        b"content-length",
        b"expect",
        b"host",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)

# RFC 9110, section 5.6.2.
_TOKEN: Final = frozenset(
    b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

_READABLE: Final = frozenset(
    {
        "",
        "application/json",
        "application/pdf",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/xml",
    }
)


def _encoded(headers: Iterable[Header]) -> dict[bytes, bytes]:
    """The headers as bytes. Errors name a header and never show its value, nor chain what does."""
    encoded: dict[bytes, bytes] = {}
    for header in headers:
        name = header.name.strip().lower().encode("ascii", "replace")
        if not name or not _TOKEN.issuperset(name):
            raise FetchError(f"{header.name!r} is not the name of a header")
        if name in _RESERVED_HEADERS:
            raise FetchError(f"the header {header.name} cannot be set")
        try:
            value = header.value.strip(" \t").encode("latin-1")
        except UnicodeEncodeError:
            value = b"\n"
        if any((byte < 0x20 and byte != 0x09) or byte == 0x7F for byte in value):
            raise FetchError(f"the value of the header {header.name} has characters it cannot have")
        encoded[name] = value
    return encoded


def _request_headers(target: Target, own: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    return [
        (b"host", target.host_header),
        (b"accept-encoding", b"gzip, deflate"),
        *({**_DEFAULT_HEADERS, **own}).items(),
    ]


@cache  # loading the certificates takes 40 ms
def _trusting() -> ssl.SSLContext:
    context = httpcore.default_ssl_context()
    context.load_default_certs()
    return context


@contextmanager
def _response(
    pool: httpcore.ConnectionPool, request: httpcore.Request
) -> Iterator[httpcore.Response]:
    response = pool.handle_request(request)
    try:
        yield response
    finally:
        response.close()


def _header(response: httpcore.Response, name: bytes) -> str:
    values = (value for key, value in response.headers if key.lower() == name)
    return next(values, b"").decode("latin-1")


def _validator(response: httpcore.Response, name: bytes) -> str | None:
    # An empty one says nothing, and a long one does not help.
    value = _header(response, name)
    return value if 0 < len(value) <= 1000 else None


def _check_status(status: int, target: Target) -> None:
    match status:
        case 200 | 203:
            return
        case 404 | 410:
            raise FetchError(f"there is no page at {target} (status {status})")
        case 401 | 403 | 407:
            raise FetchError(
                f"{target} may not be read without permission (status {status});"
                " a request header may be needed"
            )
        case 429:
            raise PassingError(f"{target} gets too many requests (status 429)")
        case _ if status >= 500:
            raise PassingError(f"the server of {target} failed (status {status})")
        case _:
            raise FetchError(f"{target} answered with status {status} and not with a page")


def _check_content_type(content_type: str, target: Target) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    is_structured = kind.startswith("application/") and kind.endswith(("+xml", "+json"))
    if not (kind in _READABLE or kind.startswith("text/") or is_structured):
        raise FetchError(f"{target} is not a page or document but {kind[:100]!r}")


@contextmanager
def _reasons(policy: FetchPolicy) -> Iterator[None]:
    """Turn what goes wrong into reasons; nothing of the request is chained to them."""
    try:
        yield
    except (TargetError, RefusedError, BodyError) as error:
        raise FetchError(str(error)) from None
    except (httpcore.TimeoutException, TimeoutError):
        raise FetchError(f"the page took longer than {policy.timeout:g} s") from None
    except httpcore.ConnectError as error:
        raise FetchError(f"the server could not be reached: {error}") from None
    except httpcore.NetworkError:
        raise FetchError("the connection broke while the page was read") from None
    except httpcore.ProtocolError:
        raise FetchError("the server's answer is not HTTP, or it ended early") from None
