"""The two clients: the only places that send anything.

Each runs `_retries.retry_policy` with its own kind of I/O. `_endpoints` describes the requests;
`_responses` and `_retries` decide what a response or a failure means.
"""

import asyncio
import logging
import ssl
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from knowledge_bot import __version__
from knowledge_bot._configuration import (
    Configuration,
    check_limits,
    warn_if_readable,
)
from knowledge_bot._endpoints import (
    AsyncDriver,
    Endpoints,
    Headers,
    Request,
    SyncDriver,
    adrive,
    drive,
    header_list,
    identifier,
)
from knowledge_bot._extensions import Announced, Extensions, announced_by
from knowledge_bot._responses import ACCEPT_ENCODING, LARGEST_ANSWER, outcome_of
from knowledge_bot._retries import Attempt, Failure, Steps, retry_policy
from knowledge_bot._sync import SyncEndpoints
from knowledge_bot._threads import Turns, begun, in_thread
from knowledge_bot._tracing import IS_WANTED, CallSpan, Tracing, active_tracing
from knowledge_bot._transports import (
    STANDING_IN,
    AiohttpTransport,
    AsyncHTTPClient,
    AsyncTransport,
    Destination,
    HTTPClient,
    HTTPRequest,
    HTTPResponse,
    InjectedAsyncTransport,
    InjectedTransport,
    ThisProcess,
    Transport,
    answer_in,
    chain,
    proxy_for,
    tls_on_demand,
)
from knowledge_bot._uploads import Body, UploadEncoding
from knowledge_bot._words import Words
from knowledge_bot.errors import ConfigurationError, Delivery

if TYPE_CHECKING:
    from pydantic import SecretStr

    from knowledge_bot.models import Message

T = TypeVar("T")
AnyTransport = TypeVar("AnyTransport")
AnyHTTPClient = TypeVar("AnyHTTPClient")

logger: logging.Logger = logging.getLogger("knowledge_bot")
logger.addHandler(logging.NullHandler())  # the program decides what is shown

_HEADERS = (
    ("Accept", "application/json, text/plain;q=0.9"),
    ("Accept-Encoding", ACCEPT_ENCODING),
    ("User-Agent", f"knowledge-bot/{__version__}"),
)


class _Connections:
    """A transport, its headers and what is announced: of a client and those derived from it."""

    def __init__(
        self, transport: Any, destination: Destination, settings: Configuration, *, given: bool
    ) -> None:
        self.transport, self.destination = transport, destination
        self.given = given
        self.closed: bool = False
        more = [(name, value.get_secret_value()) for name, value in settings.headers]
        replaced = {name.lower() for name, _ in more}  # such as User-Agent
        fixed = [(name, value) for name, value in _HEADERS if name.lower() not in replaced] + more
        key, plain = settings.api_key, ""
        if key is not None:
            plain = key.get_secret_value()
            fixed.append(("X-API-KEY", plain))
        # What is at an address through a transport of the user's, only that transport knows.
        alone = given or bool(STANDING_IN)
        self.announced = Announced() if alone else announced_by(destination.base_url, hash(plain))
        # A bound method, so that neither `vars` nor a traceback shows the key.
        self.headers: Callable[[], list[tuple[str, str]]] = fixed.copy


class _HttpcoreOnDemand:
    """The default transport of blocking calls, loaded and made with a process's first of them."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments
        self._made: dict[int, Transport] = {}  # by how often the process was forked

    def send(self, request: HTTPRequest) -> HTTPResponse:
        return (self._made.get(ThisProcess.forks) or self.open()).send(request)

    def open(self) -> Transport:
        from knowledge_bot._httpcore import HttpcoreTransport

        ThisProcess.inherited += self._made.values()
        # Threads that come at once all use the one that is kept first.
        return self._made.setdefault(ThisProcess.forks, HttpcoreTransport(*self._arguments))

    def close(self) -> None:
        if made := self._made.get(ThisProcess.forks):
            made.close()


class _BaseClient(Endpoints, SyncEndpoints, Generic[AnyTransport, AnyHTTPClient]):
    """What both clients share: settings, derived clients, copies and pickles."""

    # What it sends with: by default, and with an `http_client`; of a `transport`, the protocol and
    # how it is closed.
    _default: ClassVar[type[Any]]
    _injected: ClassVar[type[Any]]
    _protocol: ClassVar[tuple[str, str]]

    def __init__(
        self,
        api_key: "str | SecretStr | None" = None,
        base_url: str | None = None,
        *,
        timeout: float = 60.0,
        max_retries: int = 2,
        transport: AnyTransport | None = None,
        http_client: AnyHTTPClient | None = None,
        upload_encoding: UploadEncoding = "value",
        verify: bool | str | ssl.SSLContext = True,
        headers: Headers | None = None,
        ping: bool = True,
    ) -> None:
        settings = Configuration.resolve(
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            max_retries=max_retries,
            upload_encoding=upload_encoding,
            verify=verify,
            headers=[(one["name"], one["value"]) for one in header_list(headers or {})],
            ping=ping,
        )
        self._set_up(settings, transport, http_client)
        proxy = self._connections.destination.proxy
        warn_if_readable(self.base_url, proxy.url if proxy else None)

    def _set_up(
        self,
        settings: Configuration,
        transport: Any = None,
        http_client: Any = None,
        *,
        closed: bool = False,
    ) -> None:
        self._configuration, self._derived, self._closed = settings, False, closed
        if transport is not None and http_client is not None:
            raise ConfigurationError.of("transport", "give either a transport or an http_client")
        destination = Destination(self.base_url)
        given = transport is not None or http_client is not None
        if http_client is not None:
            transport = self._injected(http_client)
        elif given:
            name, close = self._protocol
            awaited = hasattr(transport, "aclose")
            if not callable(getattr(transport, "send", None)) or awaited != (close == "aclose"):
                raise ConfigurationError.of(
                    "transport",
                    f"expected a knowledge_bot.{name}, with send() and {close}(), not "
                    f"{type(transport).__name__}",
                )
        else:
            # Checked now: later, an unusable proxy would look like a failed call. What is slow to
            # load waits for the first call.
            proxy = proxy_for(self.base_url)
            destination = Destination(self.base_url, proxy)
            transport = STANDING_IN.get(self._protocol[0]) or self._default(
                proxy, tls_on_demand(destination, settings.verify)
            )
        self._connections = _Connections(transport, destination, settings, given=given)

    @property
    def _is_closed(self) -> bool:
        return self._closed or self._connections.closed

    @property
    def _announced(self) -> Extensions:
        """What the service announced, as far as it was asked; it is not asked for this."""
        return self._connections.announced.extensions or {}

    @property
    def base_url(self) -> str:
        """The service's address, with its path, in its normal spelling."""
        return self._configuration.base_url

    @classmethod
    def from_profile(cls, name: str | None = None, **options: Any) -> Self:
        """Return a client of the service that `kbot login` saved.

        Args:
            name: the profile; by default that of KBOT_PROFILE, or the default one.
            options: as for the client, `timeout` and the others.

        Raises:
            ConfigurationError: there is no such profile, its file cannot be used, or an option
                cannot be.
        """
        from knowledge_bot._profiles import selected

        profile = selected(name)
        if not profile.api_key:
            raise ConfigurationError.of("api_key", f"the profile {profile.name} has none")
        make: Callable[..., Self] = cls
        made = make(profile.api_key, profile.base_url, **options)
        where = f"the profile {profile.name} of `kbot login`"
        return made._speaking(Words(key=where, base_url=where))  # noqa: SLF001 - its own

    def _speaking(self, words: Words) -> Self:
        """Let the errors of a client that was just made advise in other words; return it."""
        self._configuration = replace(self._configuration, words=words)
        return self

    def with_options(self, *, timeout: float | None = None, max_retries: int | None = None) -> Self:
        """Return a client with other limits that sends over this one's connections.

        Closing it leaves the connections open for this client and any other; closing this client
        closes them for all. It is cheap enough to be made for a single call.

        Args:
            timeout: seconds, as for the client; by default this client's.
            max_retries: as for the client; by default this client's.

        Raises:
            ConfigurationError: a limit that cannot be used.
        """
        own = self._configuration
        timeout = own.timeout if timeout is None else timeout
        max_retries = own.max_retries if max_retries is None else max_retries
        check_limits(timeout, max_retries)
        return self._derive(timeout=timeout, max_retries=max_retries)

    def _derive(self, **settings: Any) -> Self:
        configuration = replace(self._configuration, **settings)
        client = type(self).__new__(type(self))
        client.__dict__.update(self.__dict__, _configuration=configuration, _derived=True)
        return client

    def _tracing(self) -> Tracing | None:
        # Nearly no program collects spans, and then this is all that a call pays for it.
        wanted = IS_WANTED or "opentelemetry.trace" in sys.modules
        return active_tracing(self.base_url) if wanted else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.base_url!r})"

    def __copy__(self) -> Self:
        # Frameworks copy the objects that hold a client; nobody would close a copy's connections.
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        if self._connections.given:
            raise TypeError(
                f"a {type(self).__name__} with a transport or an http_client of yours cannot be "
                "pickled"
            )
        if isinstance(self._configuration.verify, ssl.SSLContext):
            raise TypeError(
                f"a {type(self).__name__} with an ssl.SSLContext cannot be pickled; name a file of "
                "certificate authorities with verify="
            )
        return {"settings": self._configuration, "closed": self._is_closed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set_up(**state)

    def _run_span(self, name: str) -> AbstractContextManager[Callable[[Mapping[str, int]], None]]:
        """Record an ingestion or a check through this client, where spans are recorded."""
        tracing = self._tracing()
        return nullcontext(lambda _counts: None) if tracing is None else tracing.run(name)

    # What both clients do around an attempt

    def _check(self, what: object, *, changes: bool = True) -> None:
        """Refuse what cannot be sent.

        Raises:
            ConfigurationError: the client is closed, or there is no key to change anything with.
        """
        if self._is_closed:
            raise ConfigurationError(f"{what}: this client is closed; make a new one")
        if changes and self._configuration.api_key is None:
            problem = f"no API key for {what}, so nothing was sent"
            raise ConfigurationError.of("api_key", problem, advice="To have one, {no_key}").said_in(
                self._configuration.words
            )

    def _steps(self, request: Request[T]) -> Steps[T]:
        ours = self._connections
        return retry_policy(request, self._configuration, ours.destination, ours.announced)

    def _http_request(self, attempt: Attempt, content: Any, body: Body | None) -> HTTPRequest:
        """Build the HTTP request. It holds the key, so no frame of ours keeps it."""
        request = attempt.request
        headers = self._connections.headers()
        if request.idempotency_key is not None:
            headers.append(("Idempotency-Key", request.idempotency_key))
        if body is not None:
            headers.append(("Content-Type", body.content_type))
            if body.length is not None:
                headers.append(("Content-Length", str(body.length)))
        elif request.body is not None:
            headers.append(("Content-Type", "application/json"))
            headers.append(("Content-Length", str(len(request.body))))
        return HTTPRequest(
            request.method,
            self.base_url + request.path,
            headers,
            content,
            attempt.timeout,
            LARGEST_ANSWER,
        )


class _AnyChat:
    def __init__(
        self, send_message: Callable[..., Any], bot_id: str, conversation_id: str | None
    ) -> None:
        self._send_message, self._bot_id = send_message, identifier("bot_id", bot_id, "bot_")
        self.conversation_id = conversation_id
        self._turns = Turns()

    def __repr__(self) -> str:
        named = f"{self._bot_id!r}, conversation_id={self.conversation_id!r}"
        return f"{type(self).__name__}({named})"


class Chat(_AnyChat):
    """A conversation with a bot, one turn after another; made by `Client.chat`.

    Attributes:
        conversation_id: the conversation's id; None until the first answer.
    """

    def ask(self, content: str) -> "Message":
        """Send a message in this conversation; returns and raises what `send_message` does."""
        with self._turns.of_threads:
            message: Message = self._send_message(
                bot_id=self._bot_id, content=content, conversation_id=self.conversation_id
            )
            self.conversation_id = message.conversation_id or self.conversation_id
        return message


class AsyncChat(_AnyChat):
    """A conversation with a bot, one turn after another; made by `AsyncClient.chat`.

    Turns of several event loops at once do not wait for each other.

    Attributes:
        conversation_id: the conversation's id; None until the first answer.
    """

    async def ask(self, content: str) -> "Message":
        """Send a message in this conversation; returns and raises what `send_message` does."""
        async with self._turns.of_tasks:
            message: Message = await self._send_message(
                bot_id=self._bot_id, content=content, conversation_id=self.conversation_id
            )
            self.conversation_id = message.conversation_id or self.conversation_id
        return message


class Client(_BaseClient[Transport, HTTPClient], SyncDriver):
    """A blocking client of the Knowledge-Bot Service.

    It may be shared between threads, and a deep copy is the client itself; used before a fork, it
    opens its own connections in the child. Pickling it, for example for a process pool, takes the
    API key along.

    Args:
        api_key: the key, sent as `X-API-KEY`; by default `KNOWLEDGE_BOT_API_KEY`. Without one, only
            reading calls are sent.
        base_url: the service's address; by default `KNOWLEDGE_BOT_BASE_URL`. Without a path,
            `/public/v1` is added.
        timeout: seconds to wait for a connection, for each piece of an upload's file, and for each
            part of the answer after sending; the whole answer may take twice as long.
        max_retries: how many times a request is sent again where that cannot duplicate anything;
            where the service announces `idempotency`, each POST has a key, so that it cannot.
            Before that it waits as long as the answer's `Retry-After` asks for, or else a random
            time of up to 0.5, 1, 2, … 8 seconds (exponential backoff with full jitter). It raises
            the error at once where more than 120 seconds are asked for: `error.retry_after`.
        transport: a `Transport` to send with, for example the one of
            `knowledge_bot.testing.MemoryService`; it is closed with the client.
        http_client: an `httpx.Client` or `httpx2.Client` to send with, for example through a
            proxy of yours; it is not closed here.
        upload_encoding: how an upload's fields are sent, since the interface shows both forms
            (section 4, POST /sources/upload): `"value"`, one form field of JSON, or `"fields"`,
            plain form fields.
        verify: False, the path of a file of certificate authorities, or an `ssl.SSLContext`.
        headers: more headers of each request, as a gateway before the service may want them; a
            mapping, or `Header` objects. None replaces `X-API-KEY` or what describes the body.
        ping: False where a gateway before the service lets no `GET /ping` through. The service is
            then used as one without extensions, and not asked first whether it is one.

    Raises:
        ConfigurationError: no base URL, or an argument or a proxy that cannot be used.
    """

    _default = _HttpcoreOnDemand
    _injected = InjectedTransport
    _protocol = "Transport", "close"

    def chat(self, bot_id: str, conversation_id: str | None = None) -> Chat:
        """Return a conversation with a bot.

        Args:
            bot_id: the bot that is asked, `bot_…`.
            conversation_id: the conversation to go on in, `conv_…`; by default the first answer
                starts a new one.
        """
        return Chat(self.send_message, bot_id, conversation_id)

    def to_async(self) -> "AsyncClient":
        """Return an asynchronous client with the same settings, to be closed separately.

        Raises:
            ConfigurationError: this client sends with a `transport` or an `http_client` of yours.
        """
        if self._connections.given:
            raise ConfigurationError.of(
                "http_client",
                "an asynchronous client cannot send with the blocking transport or "
                "http_client of this client; make an AsyncClient and pass that (async_client=, "
                "where it is taken)",
            )
        client = AsyncClient.__new__(AsyncClient)
        client._set_up(self._configuration)  # noqa: SLF001 - the other kind of client
        client._connections.announced = self._connections.announced  # noqa: SLF001 - as above
        return client

    def _open(self) -> None:
        """Prepare to send: load and make what is slow to load and make."""
        transport = self._connections.transport
        if isinstance(transport, _HttpcoreOnDemand):
            transport.open()

    def close(self) -> None:
        """Close the connections, when no call is under way.

        Calls after this raise `ConfigurationError`.
        """
        self._closed = True
        if not self._derived:
            self._connections.closed = True
            self._connections.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, request: Request[T]) -> T:
        self._check(request, changes=request.method != "GET")
        if (tracing := self._tracing()) is None:
            return self._send_with_retries(request)
        with tracing.call(request) as span:
            result = self._send_with_retries(request, span)
            span.record_result(result)
            return result

    def _send_with_retries(self, request: Request[T], span: CallSpan | None = None) -> T:
        return drive(self._steps(request), partial(self._send, span))

    def _send(self, span: CallSpan | None, attempt: Attempt) -> HTTPResponse | Failure:
        if attempt.pause is not None:
            _log_retry(attempt.request, attempt.pause, span)
            time.sleep(attempt.pause)
        started = time.monotonic()
        reply = self._attempt(attempt, started)
        _log(attempt, reply, started)
        return reply

    def _attempt(self, attempt: Attempt, started: float) -> HTTPResponse | Failure:
        request, body = attempt.request, None
        if (upload := request.upload) is not None:
            encoding = self._configuration.upload_encoding
            try:
                if upload.may_wait:
                    opening = begun("upload", upload.open, encoding)
                    body = opening.result(attempt.timeout)
                else:
                    body = upload.open(encoding)
            except TimeoutError as error:
                return Failure(error, time.monotonic() - started, incomplete=True)
        content = request.body if body is None else body.content(attempt.timeout)
        try:
            response = self._connections.transport.send(self._http_request(attempt, content, body))
        except BaseException as error:  # noqa: BLE001 - whatever ends an attempt has a delivery
            return _failure(error, attempt, started, body)
        finally:
            if body is not None:
                body.close()
        return _checked(response, started)


class AsyncClient(_BaseClient[AsyncTransport, AsyncHTTPClient], AsyncDriver):
    """An asynchronous client of the Knowledge-Bot Service.

    It takes the same arguments as `Client`, with an `AsyncTransport` as `transport` and an
    `httpx.AsyncClient` or `httpx2.AsyncClient` as `http_client`. It runs on asyncio alone: under
    trio, use `Client` in a thread. It may be used from one event loop after another and from
    several at once; each loop has connections of its own, closed when the loop ends. Pickling it
    takes the API key along.

    Raises:
        ConfigurationError: no base URL, or an argument or a proxy that cannot be used.
    """

    _default = AiohttpTransport
    _injected = InjectedAsyncTransport
    _protocol = "AsyncTransport", "aclose"

    def chat(self, bot_id: str, conversation_id: str | None = None) -> AsyncChat:
        """Return a conversation with a bot, as `Client.chat` does."""
        return AsyncChat(self.send_message, bot_id, conversation_id)

    async def _open(self) -> None:
        """Prepare to send in the running loop. What is slow to load is loaded beside it."""
        transport = self._connections.transport
        if isinstance(transport, AiohttpTransport):
            await asyncio.to_thread(import_module, "aiohttp")
            await transport.open()

    async def aclose(self) -> None:
        """Close the connections. Calls after this raise `ConfigurationError`."""
        self._closed = True
        if not self._derived:
            self._connections.closed = True
            await self._connections.transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _call(self, request: Request[T]) -> Coroutine[Any, Any, T]:
        self._check(request, changes=request.method != "GET")
        if (tracing := self._tracing()) is None:
            return self._send_with_retries(request)
        return self._traced(request, tracing)

    async def _traced(self, request: Request[T], tracing: Tracing) -> T:
        with tracing.call(request) as span:
            result = await self._send_with_retries(request, span)
            span.record_result(result)
            return result

    async def _send_with_retries(self, request: Request[T], span: CallSpan | None = None) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigurationError(
                f"{request}: AsyncClient runs in an event loop of asyncio alone, and here is none. "
                "Under trio or another library, use Client in a thread. Nothing was sent"
            ) from None
        return await adrive(self._steps(request), partial(self._send, span))

    async def _send(self, span: CallSpan | None, attempt: Attempt) -> HTTPResponse | Failure:
        if attempt.pause is not None:
            _log_retry(attempt.request, attempt.pause, span)
            await asyncio.sleep(attempt.pause)
        started = time.monotonic()
        reply = await self._attempt(attempt, started)
        _log(attempt, reply, started)
        return reply

    async def _attempt(self, attempt: Attempt, started: float) -> HTTPResponse | Failure:
        request, body = attempt.request, None
        if (upload := request.upload) is not None:
            encoding = self._configuration.upload_encoding
            try:
                if upload.in_memory:
                    body = upload.open(encoding)
                else:
                    call: Any = in_thread if upload.may_wait else asyncio.to_thread
                    async with asyncio.timeout(attempt.timeout):
                        body = await call(upload.open, encoding)
            except TimeoutError as error:
                return Failure(error, time.monotonic() - started, incomplete=True)
        content = request.body if body is None else body.acontent(attempt.timeout)
        try:
            response = await self._connections.transport.send(
                self._http_request(attempt, content, body)
            )
        except BaseException as error:  # noqa: BLE001 - whatever ends an attempt has a delivery
            return _failure(error, attempt, started, body)
        finally:
            if body is not None:
                body.close()
        return _checked(response, started)


def _checked(response: Any, started: float) -> HTTPResponse | Failure:
    if isinstance(response, HTTPResponse):
        return response
    returned = f"the transport returned {type(response).__name__} and no HTTPResponse"
    return Failure(TypeError(returned), time.monotonic() - started)


def _failure(
    error: BaseException, attempt: Attempt, started: float, body: Body | None
) -> HTTPResponse | Failure:
    """Return a transport's exception as a `Failure`, or as the answer that it carries.

    What is not for the retry policy is raised.

    A cancellation or Ctrl-C gets the delivery, as a note and as the attribute `delivery`.
    """
    ahead, request = attempt.ahead_of is not None, attempt.ahead_of or attempt.request
    incomplete = body is not None and not body.handed_over
    if isinstance(error, Exception):
        if body is not None and body.error is not None:
            raise body.error
        # The latter of a test's mock, which may know nothing of the question that goes ahead.
        if isinstance(error, ConfigurationError | AssertionError) and not ahead:
            raise error
        if (answer := answer_in(error)) is not None:
            return answer
        _forget_frames(error)
        return Failure(error, time.monotonic() - started, incomplete)
    _forget_frames(error)
    delivery = Delivery.NOT_DELIVERED if incomplete or ahead else Delivery.UNKNOWN
    vars(error).update(delivery=delivery, idempotency_key=request.idempotency_key)
    error.add_note(f"{request} was under way. {outcome_of(request, delivery)}.")
    raise error


def _forget_frames(error: BaseException) -> None:
    # The libraries' frames hold the request, and so the key, and help no reader; the exceptions of
    # httpx hold it too.
    for each in chain(error):
        each.with_traceback(None)
        vars(each).pop("_request", None)


def _log_retry(request: Request[Any], pause: float, span: CallSpan | None) -> None:
    logger.info("%s: trying again in %.1f s", request, pause)
    if span is not None:
        span.record_retry(pause)


def _log(attempt: Attempt, reply: HTTPResponse | Failure, started: float) -> None:
    """Log method, path, status, duration and attempt; never a body, a header or a query."""
    if logger.isEnabledFor(logging.DEBUG):
        outcome = type(reply.error).__name__ if isinstance(reply, Failure) else reply.status
        milliseconds = (time.monotonic() - started) * 1000
        logger.debug(
            "%s: %s in %.0f ms (attempt %d)", attempt.request, outcome, milliseconds, attempt.number
        )
