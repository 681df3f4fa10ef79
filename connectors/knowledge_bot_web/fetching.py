"""The guarded fetcher: from an address to an answer or a page, or to the reason why not.

A host name is looked up once; every address must be allowed; the connection goes to a checked
address, so that a name which changes its answer in between gains nothing. Redirects are followed by
hand and checked alike. Host and SNI stay those of the URL. Time, bytes and decompression have
bounds, however an answer arrives. What differs between who fetches is in `FetchPolicy`.
"""

import re
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from time import monotonic
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

import httpcore

from knowledge_bot_web.errors import FetchError, NoAnswerError
from knowledge_bot_web.inflating import inflated
from knowledge_bot_web.kinds import BY_TYPE
from knowledge_bot_web.networks import (
    ANYWHERE,
    Network,
    Resolver,
    is_allowed,
    resolve,
    resolve_within,
)
from knowledge_bot_web.targets import Target

REDIRECTS: Final = 5
"""Most redirects in a row, the least that RFC 9309, section 2.3.1.2 allows."""

Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """Where a fetch may go, and how much it may take.

    Attributes:
        allow: networks that may be reached although they are not part of the internet.
        advice: how a network is opened, for whoever reads that an address is refused.
        max_redirects: how many redirects `fetch` follows.
        timeout: seconds for an answer, its lookup included; for all of a page, with redirects.
        silence: seconds without a byte after which an answer is given up; None: as `timeout`.
        max_bytes: size of a body after decompression, and about that of what is transferred.
    """

    allow: tuple[Network, ...] = ()
    advice: str = ""
    max_redirects: int = REDIRECTS
    timeout: float = 30.0
    silence: float | None = None
    max_bytes: int = 5 * 1024 * 1024


_SAVED_AS: Final = re.compile(r"filename\*?\s*=\s*(?:[\w-]+'[\w-]*')?\"?([^\";]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WebResponse:
    """What a server answered.

    Attributes:
        url: where it was asked.
        status: the status code.
        headers: the headers in order, their names in lower case.
        body: the content, decompressed; empty if it was not wanted.
        cut: whether there was more of it.
    """

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""
    cut: bool = False

    def all(self, name: str) -> list[str]:
        """The values of a header."""
        return [value for each, value in self.headers if each == name]

    def first(self, name: str) -> str | None:
        """A header's first value."""
        return next(iter(self.all(name)), None)

    @property
    def kind(self) -> str:
        """The media type, without its parameters; empty if none was sent."""
        return (self.first("content-type") or "").partition(";")[0].strip().lower()

    @property
    def filename(self) -> str:
        """The name under which it is saved."""
        saved_as = _SAVED_AS.search(self.first("content-disposition") or "")
        return unquote(saved_as[1] if saved_as else urlsplit(self.url).path).strip()

    @property
    def location(self) -> str | None:
        """Where it redirects to; None if it does not."""
        location = self.first("location") if self.status in _REDIRECTING else None
        if not location:
            return None
        # A header's bytes came as Latin-1; an address with other letters in it is UTF-8.
        with suppress(UnicodeError):
            location = location.encode("latin-1").decode()
        try:
            return urljoin(self.url, location.strip().replace(" ", "%20"))
        except ValueError:  # it is not an address
            return location


@dataclass(frozen=True, slots=True)
class Validators:
    """A page's validators, `ETag` and `Last-Modified`, as its server sent them."""

    etag: str | None = None
    last_modified: str | None = None

    @classmethod
    def of(cls, answer: WebResponse) -> "Validators":
        """Those of an answer."""
        # An empty one says nothing, and a long one does not help.
        sent = (answer.first(name) or "" for name in ("etag", "last-modified"))
        return cls(*(value if 0 < len(value) <= _LONGEST else None for value in sent))

    def headers(self) -> list[tuple[str, str]]:
        """What asks for the page only if it is another one."""
        given = ("If-None-Match", self.etag), ("If-Modified-Since", self.last_modified)
        return [(name, value) for name, value in given if value]


class Fetcher:
    """Sends one request after another. It is for one thread.

    A connection is kept for `keep` seconds for the next request. The certificates are the system's
    and certifi's when left out. A proxy may be anywhere; a name that is known here must be allowed
    all the same.

    Attributes:
        received: how many bytes of bodies were received.
    """

    def __init__(
        self,
        policy: FetchPolicy,
        *,
        resolver: Resolver = resolve,
        keep: float = 15.0,
        ssl_context: ssl.SSLContext | None = None,
        proxy: httpcore.Proxy | None = None,
    ) -> None:
        self.received = 0
        self._policy, self._resolver, self._has_proxy = policy, resolver, proxy is not None
        self._until = 0.0
        self._pool = httpcore.ConnectionPool(
            ssl_context=ssl_context or _trusting(),
            proxy=proxy,
            max_connections=1,
            max_keepalive_connections=1 if keep else 0,
            keepalive_expiry=keep,
            network_backend=_CheckedNetwork(
                lambda host, port: self._addresses(host, port, ANYWHERE if proxy else policy.allow),
                self._seconds_left,
            ),
        )

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def get(
        self,
        target: Target,
        headers: Headers = (),
        *,
        wanted: Callable[[WebResponse], bool] = lambda answer: answer.status == 200,
        largest: int | None = None,
        until: float | None = None,
    ) -> WebResponse:
        """Fetch an address; redirects are not followed.

        Args:
            target: the address.
            headers: sent instead of the usual ones of the same names.
            wanted: says for an answer without its body whether to read the body.
            largest: most bytes of the body, instead of the policy's; the rest is cut off.
            until: when waiting ends, on the clock of `time.monotonic`; after the policy's `timeout`
                when left out.

        Raises:
            NoAnswerError: the server cannot be reached, or breaks off, or is too slow.
            FetchError: its host or a header is not allowed, or its answer cannot be read.
        """
        policy = self._policy
        self._until = monotonic() + policy.timeout if until is None else until
        waits = dict.fromkeys(("connect", "read", "write", "pool"), policy.silence)
        asked = {b"host": target.host_header, **_DEFAULT_HEADERS, **_encoded(headers)}
        request = httpcore.Request(
            "GET", target.url, headers=list(asked.items()), extensions={"timeout": waits}
        )
        most, size, is_cut = largest or policy.max_bytes, 0, False
        enough = self.received + most + _SHORT  # compressed data may go on and make nothing
        body = BytesIO()
        with _reasons(policy):
            if self._has_proxy:
                self._check_behind_proxy(target)
            with closing(self._pool.handle_request(request)) as response:
                named = ((name.decode("latin-1").lower(), text) for name, text in response.headers)
                sent = tuple((name, text.decode("latin-1")) for name, text in named)
                answer = WebResponse(target.full, response.status, sent)
                pieces = self._counted(response.iter_stream())
                if not wanted(answer):
                    if _is_short(answer):
                        for _ in pieces:
                            pass  # so that the connection can be used again
                    return answer
                for piece in inflated(pieces, ",".join(answer.all("content-encoding"))):
                    body.write(piece[: most - size])
                    size += len(piece)
                    if is_cut := size > most or self.received > enough:
                        break
        return replace(answer, body=body.getvalue(), cut=is_cut)

    def _counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.received += len(piece)
            yield piece

    def _seconds_left(self, wait: float | None = None) -> float:
        left = self._until - monotonic()
        if left <= 0:
            raise TimeoutError
        return left if wait is None else min(left, wait)

    def _addresses(self, host: str, port: int, allow: Sequence[Network]) -> list[str]:
        try:
            addresses = resolve_within(self._resolver, host, port, self._seconds_left())
        except TimeoutError:
            raise
        except (OSError, ValueError):
            raise NoAnswerError(f"the name {host} has no address; check its spelling") from None
        for address in addresses:
            if not is_allowed(address, allow):
                shown = host if host == str(address) else f"{host} is at {address}, which"
                raise FetchError(f"{shown} is not a public address{self._policy.advice}")
        return [str(address) for address in addresses]

    def _check_behind_proxy(self, target: Target) -> None:
        try:
            self._addresses(target.host, target.port, self._policy.allow)
        except NoAnswerError:
            return  # the proxy knows names that are not known here


def fetch(
    url: str,
    headers: Headers = (),
    policy: FetchPolicy = FetchPolicy(),
    *,
    known: Validators = Validators(),
    resolver: Resolver = resolve,
    ssl_context: ssl.SSLContext | None = None,
) -> WebResponse:
    """Fetch a web page. Proxies of the environment are not used.

    The headers are sent to the URL's own origin, and not to another that it redirects to. What a
    server sent with a page that is `known` asks whether it is still the same.

    Returns:
        The page as its server sent it; with status 304 if it is the `known` one.

    Raises:
        FetchError: the URL or a header is not usable, an address is not allowed, the server cannot
            be reached or does not answer with a page, or a bound of `policy` is hit.
    """
    conditions = known.headers()
    own = [*headers, *conditions]
    until = monotonic() + policy.timeout
    start = target = Target.parse(url)
    with closing(Fetcher(policy, keep=0, resolver=resolver, ssl_context=ssl_context)) as fetcher:
        for _ in range(policy.max_redirects + 1):
            answer = fetcher.get(
                target,
                own if target.takes_headers_of(start) else (),
                wanted=lambda answer: answer.status in _PAGES and _is_readable(answer.kind),
                until=until,
            )
            if answer.location is None:
                break
            try:
                target = Target.parse(answer.location)
            except FetchError as error:
                told = f"{target} redirects to an address that is not usable: {error}"
                raise FetchError(told) from None
        else:
            raise FetchError(f"{start} redirects more than {policy.max_redirects} times")
    if not (answer.status == 304 and conditions):
        _check(answer, target)
    if answer.cut:
        raise FetchError(f"the page is larger than {policy.max_bytes:,} bytes")
    return answer


_REDIRECTING: Final = frozenset({301, 302, 303, 307, 308})
_PAGES: Final = frozenset({200, 203})
_LONGEST: Final = 1000  # characters of a validator
_SHORT: Final = 65_536  # bytes of an unwanted answer: reading them costs less than a new connection

_DEFAULT_HEADERS: Final = {
    b"user-agent": b"knowledge-bot",
    b"accept": b"text/html,application/xhtml+xml,application/xml;q=0.9,text/*;q=0.8,*/*;q=0.5",
    b"accept-encoding": b"gzip, deflate",
}

# What frames a message or belongs to the connection is not the user's to set; a content coding that
# is not asked for cannot be read.
_RESERVED_HEADERS: Final = frozenset(
    b"accept-encoding connection content-length expect host keep-alive proxy-connection te trailer"
    b" transfer-encoding upgrade".split()
)

# RFC 9110, section 5.6.2.
_TOKEN: Final = frozenset(
    b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)


class _CheckedNetwork(httpcore.SyncBackend):
    """Connects to addresses that were checked."""

    def __init__(
        self,
        addresses: Callable[[str, int], list[str]],
        seconds_left: Callable[[float | None], float],
    ) -> None:
        self._addresses, self._seconds_left = addresses, seconds_left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = NoAnswerError(f"the name {host} has no address")
        addresses = self._addresses(host, port)
        for others, address in zip(reversed(range(len(addresses))), addresses, strict=True):
            # One that says nothing leaves as much time to each of the others.
            seconds = self._seconds_left(timeout) / (others + 1)
            try:
                stream = super().connect_tcp(address, port, seconds, local_address, socket_options)
                return _TimedStream(stream, self._seconds_left)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure


class _TimedStream(httpcore.NetworkStream):
    """A stream whose every wait ends in time, even if bytes keep arriving."""

    def __init__(
        self, stream: httpcore.NetworkStream, seconds_left: Callable[[float | None], float]
    ) -> None:
        self._stream, self._seconds_left = stream, seconds_left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._seconds_left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._seconds_left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        seconds = self._seconds_left(timeout)
        stream = self._stream.start_tls(ssl_context, server_hostname, seconds)
        return _TimedStream(stream, self._seconds_left)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


@cache  # loading the certificates takes 40 ms
def _trusting() -> ssl.SSLContext:
    context = httpcore.default_ssl_context()
    context.load_default_certs()
    return context


def _encoded(headers: Headers) -> dict[bytes, bytes]:
    """The headers as bytes. Errors name a header and never show its value, nor chain what does."""
    encoded: dict[bytes, bytes] = {}
    for given, text in headers:
        name = given.strip().lower().encode("ascii", "replace")
        if not name or not _TOKEN.issuperset(name):
            raise FetchError(f"{given!r} is not the name of a header")
        if name in _RESERVED_HEADERS:
            raise FetchError(f"the header {given} cannot be set")
        try:
            value = text.strip(" \t").encode("latin-1")
        except UnicodeEncodeError:
            value = b"\n"
        if any((byte < 0x20 and byte != 0x09) or byte == 0x7F for byte in value):
            raise FetchError(f"the value of the header {given} has characters it cannot have")
        encoded[name] = value
    return encoded


def _is_short(answer: WebResponse) -> bool:
    length = answer.first("content-length") or ""
    return answer.status == 304 or (length.isdecimal() and int(length) <= _SHORT)


@contextmanager
def _reasons(policy: FetchPolicy) -> Iterator[None]:
    """Turn what goes wrong into reasons; nothing of the request is chained to them."""
    slow = f"the page took longer than {policy.timeout:g} s"
    try:
        yield
    except TimeoutError:
        raise NoAnswerError(slow, may_pass=False) from None
    except httpcore.TimeoutException:
        if policy.silence is not None:
            slow = f"the server said nothing for {policy.silence:g} s"
        raise NoAnswerError(slow) from None
    except httpcore.ConnectError as error:
        if isinstance(error.__context__, ssl.SSLCertVerificationError):
            reason = f"its certificate is not trusted here: {error}"
            raise NoAnswerError(reason, may_pass=False) from None
        raise NoAnswerError(f"the server could not be reached: {error}") from None
    except httpcore.NetworkError:
        raise NoAnswerError("the connection broke while the page was read") from None
    except httpcore.ProxyError as error:
        raise NoAnswerError(f"the proxy did not connect: {error}") from None
    except httpcore.ProtocolError:
        raise NoAnswerError("the server's answer is not HTTP, or it ended early") from None


def _check(answer: WebResponse, target: Target) -> None:
    status = answer.status
    match status:
        case 200 | 203:
            if not _is_readable(answer.kind):
                raise FetchError(f"{target} is not a page or document but {answer.kind[:100]!r}")
        case 404 | 410:
            raise FetchError(f"there is no page at {target} (status {status})")
        case 401 | 403 | 407:
            raise FetchError(
                f"{target} may not be read without permission (status {status});"
                " a request header may be needed"
            )
        case 429:
            raise FetchError(f"{target} gets too many requests (status 429)", may_pass=True)
        case _ if status >= 500:
            raise FetchError(f"the server of {target} failed (status {status})", may_pass=True)
        case _:
            raise FetchError(f"{target} answered with status {status} and not with a page")


def _is_readable(kind: str) -> bool:
    is_structured = kind.startswith("application/") and kind.endswith(("+xml", "+json"))
    return not kind or kind in BY_TYPE or kind.startswith("text/") or is_structured
