"""The two clients: the only places that send anything.

Each carries out `delivery.exchange` with its own kind of I/O; what is sent, and what an answer or a
failure means, stands in `endpoints` and `delivery`.
"""

import asyncio
import ssl
import time
from abc import ABC, abstractmethod
from typing import Any, Self, TypeVar

import httpx
from pydantic import SecretStr

from knowledge_bot.chats import AsyncChat, Chat
from knowledge_bot.configuration import Configuration
from knowledge_bot.connections import (
    AsyncHTTPClient,
    HTTPClient,
    LoopClients,
    library_of,
    open_async_client,
    open_client,
)
from knowledge_bot.decoding import AnswerReader
from knowledge_bot.delivery import Answer, Failure, Sleep, exchange
from knowledge_bot.endpoints import AsyncDriver, Endpoints, Request, SyncDriver
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.uploads import Body, UploadEncoding
from knowledge_bot.wire import Wire, failure, log_attempt, logger, note_interruption

T = TypeVar("T")

_DEFAULT_TIMEOUT = 60.0
_DEFAULT_RETRIES = 2


class _Base(Endpoints, ABC):
    """What both clients are made of: the configuration, and requests in httpx's terms."""

    def __init__(
        self,
        api_key: str | SecretStr | None = None,
        base_url: str | None = None,
        *,
        timeout: float = _DEFAULT_TIMEOUT,
        max_retries: int = _DEFAULT_RETRIES,
        http_client: HTTPClient | AsyncHTTPClient | None = None,
        upload_encoding: UploadEncoding = "value",
        verify: bool | str | ssl.SSLContext = True,
    ) -> None:
        self._configuration = Configuration.resolve(
            api_key=api_key,
            base_url=base_url,
            timeout=timeout,
            max_retries=max_retries,
            upload_encoding=upload_encoding,
            verify=verify,
        )
        self._injected: Any = http_client
        self._closed = False
        self._connect()

    @abstractmethod
    def _connect(self) -> None: ...

    def _wire_for(self, kind: str) -> Wire:
        if self._injected is None:
            return Wire(self._configuration, httpx)
        library = library_of(self._injected, kind)
        return Wire(self._configuration, library, self._injected.headers.raw)

    @property
    def _is_closed(self) -> bool:
        return self._closed or (self._injected is not None and bool(self._injected.is_closed))

    @classmethod
    def configured(cls, configuration: Configuration) -> Self:
        """Return a client of a configuration that was checked already."""
        client = cls.__new__(cls)
        client.__setstate__({"_configuration": configuration, "_closed": False})
        return client

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self._configuration.base_url!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Frameworks copy the objects that hold a client; a copy with connections of its own would
        # be closed by nobody.
        return self

    def __getstate__(self) -> dict[str, Any]:
        if self._injected is not None:
            raise TypeError(
                f"a {type(self).__name__} with an http_client of yours cannot be pickled"
            )
        return {"_configuration": self._configuration, "_closed": self._closed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _injected=None)
        self._connect()


class Client(_Base, SyncDriver):
    """A client of the Knowledge-Bot Service that blocks.

    It may be shared between threads, and a deep copy is the client itself. Pickling it, for example
    for a process pool, takes the API key along.

    Args:
        api_key: the key, sent as `X-API-KEY`; by default `KNOWLEDGE_BOT_API_KEY`. Without one, only
            reading calls are sent.
        base_url: the service's address; by default `KNOWLEDGE_BOT_BASE_URL`. Without a path,
            `/public/v1` is added.
        timeout: seconds to wait for a connection, and again for the answer after sending.
        max_retries: how many times a request is sent again where that cannot duplicate anything.
        http_client: an `httpx.Client` or `httpx2.Client` to send with, for example through a
            proxy of yours; it is not closed here.
        upload_encoding: how an upload's fields are sent, see `knowledge_bot.uploads`.
        verify: False, the path of a file of certificate authorities, or an `ssl.SSLContext`.

    Raises:
        ConfigurationError: no base URL, or an argument that cannot be used.
    """

    def _connect(self) -> None:
        self._wire = self._wire_for("Client")
        self._http: HTTPClient = self._injected or open_client(self._configuration)

    def chat(self, bot_id: str, conversation_id: str | None = None) -> Chat:
        """Return a conversation with a bot; without an id, its first answer starts one."""
        return Chat(self.send_message, bot_id, conversation_id)

    def to_async(self) -> "AsyncClient":
        """Return an asynchronous client with the same configuration; it is closed by itself.

        Raises:
            ConfigurationError: this client sends with an `http_client` of yours.
        """
        if self._injected is not None:
            raise ConfigurationError(
                "http_client: an asynchronous client cannot send with the blocking one of this "
                "client; make an AsyncClient and pass that (async_client=, where it is taken)"
            )
        return AsyncClient.configured(self._configuration)

    def close(self) -> None:
        """Close the connections. Calls after this raise `ConfigurationError`."""
        self._closed = True
        if self._injected is None:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, request: Request[T]) -> T:
        self._wire.check(request, closed=self._is_closed)
        settings = self._configuration
        steps = exchange(request, max_retries=settings.max_retries, base_url=settings.base_url)
        reply: Answer | Failure | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return] # the generator returns T
            if isinstance(step, Sleep):
                logger.info("%s: trying again in %.1f s", request, step.seconds)
                time.sleep(step.seconds)
                reply = None
            else:
                started = time.monotonic()
                reply = self._attempt(request, started)
                log_attempt(request, step.attempt, reply, started)

    def _attempt(self, request: Request[T], started: float) -> Answer | Failure:
        body: Body | None = None
        if request.upload is not None:
            body = request.upload.open(self._configuration.upload_encoding)
        content = request.body if body is None else body.stream()
        try:
            response = self._http.send(
                self._wire.request(request, content, body), stream=True, follow_redirects=False
            )
            return self._wire.redacted(self._answer(response))
        except Exception as error:  # noqa: BLE001 - whatever a transport raises has a delivery
            return failure(error, started, body)
        except BaseException as error:
            note_interruption(error, request, body)
            raise
        finally:
            if body is not None:
                body.close()

    def _answer(self, response: Any) -> Answer:
        reader = AnswerReader(response.status_code, response.headers)
        deadline = time.monotonic() + self._configuration.timeout
        try:
            for piece in response.iter_raw():
                if time.monotonic() > deadline:
                    raise TimeoutError
                if not reader.feed(piece):
                    break
        except Exception:
            # What a refusal says of itself may be cut short; that it is one, is known.
            if response.status_code < 400:
                raise
        finally:
            response.close()
        return reader.answer()


class AsyncClient(_Base, AsyncDriver):
    """A client of the Knowledge-Bot Service that awaits.

    It takes the same arguments as `Client`, with an `httpx.AsyncClient` or `httpx2.AsyncClient` as
    `http_client`. It may be used from one event loop after another and from several at once; each
    loop has connections of its own, closed when the loop ends. Pickling it takes the API key along.
    """

    def _connect(self) -> None:
        self._wire = self._wire_for("AsyncClient")
        self._loops = LoopClients(lambda: open_async_client(self._configuration))

    def chat(self, bot_id: str, conversation_id: str | None = None) -> AsyncChat:
        """Return a conversation with a bot; without an id, its first answer starts one."""
        return AsyncChat(self.send_message, bot_id, conversation_id)

    async def aclose(self) -> None:
        """Close the connections. Calls after this raise `ConfigurationError`."""
        self._closed = True
        await self._loops.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _call(self, request: Request[T]) -> T:
        self._wire.check(request, closed=self._is_closed)
        settings = self._configuration
        steps = exchange(request, max_retries=settings.max_retries, base_url=settings.base_url)
        reply: Answer | Failure | None = None
        while True:
            try:
                step = steps.send(reply)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return] # the generator returns T
            if isinstance(step, Sleep):
                logger.info("%s: trying again in %.1f s", request, step.seconds)
                await asyncio.sleep(step.seconds)
                reply = None
            else:
                started = time.monotonic()
                reply = await self._attempt(request, started)
                log_attempt(request, step.attempt, reply, started)

    async def _attempt(self, request: Request[T], started: float) -> Answer | Failure:
        body: Body | None = None
        if request.upload is not None:
            encoding = self._configuration.upload_encoding
            body = await asyncio.to_thread(request.upload.open, encoding)
        http: AsyncHTTPClient = self._injected or await self._loops.get()
        # Over aiohttp nothing else bounds a send that stalls or an answer that drips: the time to
        # connect and the time to answer, begun anew by each piece of an upload.
        patience = 2 * self._configuration.timeout
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(patience) as limit:
                content = (
                    request.body
                    if body is None
                    else body.astream(lambda: limit.reschedule(loop.time() + patience))
                )
                response = await http.send(
                    self._wire.request(request, content, body), stream=True, follow_redirects=False
                )
                return self._wire.redacted(await self._answer(response))
        except Exception as error:  # noqa: BLE001 - whatever a transport raises has a delivery
            return failure(error, started, body)
        except BaseException as error:
            note_interruption(error, request, body)
            raise
        finally:
            if body is not None:
                await asyncio.to_thread(body.close)

    async def _answer(self, response: Any) -> Answer:
        reader = AnswerReader(response.status_code, response.headers)
        try:
            async with asyncio.timeout(self._configuration.timeout):
                async for piece in response.aiter_raw():
                    if not reader.feed(piece):
                        break
        except Exception:
            # What a refusal says of itself may be cut short; that it is one, is known.
            if response.status_code < 400:
                raise
        finally:
            await response.aclose()
        return reader.answer()
