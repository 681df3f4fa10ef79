"""The two clients: the only places that send anything.

Each carries out `delivery.exchange` with its own kind of I/O; what is sent, and what an answer or a
failure means, stands in `endpoints` and `delivery`.
"""

import asyncio
import time
from typing import Self, TypeVar

from knowledge_bot.chats import AsyncChat, Chat
from knowledge_bot.configured import Configured
from knowledge_bot.connections import AsyncHTTPClient, Connections, HTTPClient, transport_opener
from knowledge_bot.decoding import AnswerReader
from knowledge_bot.delivery import Answer, Failure, Sleep, exchange
from knowledge_bot.endpoints import AsyncDriver, Request, SyncDriver
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.loops import LoopTransports
from knowledge_bot.wire import failure, log_attempt, logger, note_interruption

T = TypeVar("T")


class Client(Configured[HTTPClient], SyncDriver):
    """A client of the Knowledge-Bot Service that blocks.

    It may be shared between threads, and a deep copy is the client itself. Pickling it, for example
    for a process pool, takes the API key along.

    Args:
        api_key: the key, sent as `X-API-KEY`; by default `KNOWLEDGE_BOT_API_KEY`. Without one, only
            reading calls are sent.
        base_url: the service's address; by default `KNOWLEDGE_BOT_BASE_URL`. Without a path,
            `/public/v1` is added.
        timeout: seconds to wait for a connection, and again for the answer after sending. Of an
            answer's headers, httpx bounds each read and not the whole; `AsyncClient` bounds both.
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
        self._http = self._injected or Connections(self._configuration)

    def chat(self, bot_id: str, conversation_id: str | None = None) -> Chat:
        """Return a conversation with a bot.

        Args:
            bot_id: the bot that is asked, `bot_…`.
            conversation_id: the conversation to go on in, `conv_…`; by default the first answer
                starts a new one.
        """
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
        if self._owns_connections:
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
        settings = self._configuration
        body = request.upload.open(settings.upload_encoding) if request.upload else None
        content = request.body if body is None else body.stream()
        reader: AnswerReader | None = None
        try:
            response = self._http.send(
                self._wire.request(request, content, body, settings.timeout),
                stream=True,
                follow_redirects=False,
            )
            reader = AnswerReader(response.status_code, response.headers)
            try:
                deadline = time.monotonic() + settings.timeout
                for piece in response.iter_raw():
                    if time.monotonic() > deadline:
                        raise TimeoutError
                    if not reader.feed(piece):
                        break
            finally:
                response.close()
        except Exception as error:  # noqa: BLE001 - whatever a transport raises has a delivery
            if reader is None or not reader.refusal:
                return failure(error, started, body)
        except BaseException as error:
            note_interruption(error, request, body)
            raise
        finally:
            if body is not None:
                body.close()
        return self._wire.redacted(reader.answer())


class AsyncClient(Configured[AsyncHTTPClient], AsyncDriver):
    """A client of the Knowledge-Bot Service that awaits.

    It takes the same arguments as `Client`, with an `httpx.AsyncClient` or `httpx2.AsyncClient` as
    `http_client`. It may be used from one event loop after another and from several at once; each
    loop has connections of its own, closed when the loop ends. Pickling it takes the API key along.

    Raises:
        ConfigurationError: no base URL, or an argument that cannot be used.
    """

    def _connect(self) -> None:
        self._wire = self._wire_for("AsyncClient")
        self._http = self._injected or LoopTransports(transport_opener(self._configuration))

    def chat(self, bot_id: str, conversation_id: str | None = None) -> AsyncChat:
        """Return a conversation with a bot.

        Args:
            bot_id: the bot that is asked, `bot_…`.
            conversation_id: the conversation to go on in, `conv_…`; by default the first answer
                starts a new one.
        """
        return AsyncChat(self.send_message, bot_id, conversation_id)

    async def _open(self) -> None:
        """Make ready to send in the running loop: what is heavy is loaded and made by then."""
        if isinstance(self._http, LoopTransports):
            await self._http.open()

    async def aclose(self) -> None:
        """Close the connections. Calls after this raise `ConfigurationError`."""
        self._closed = True
        if self._owns_connections:
            await self._http.aclose()

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
        settings = self._configuration
        body = None
        if request.upload is not None:
            body = await asyncio.to_thread(request.upload.open, settings.upload_encoding)
        # Over aiohttp nothing else bounds a send that stalls or an answer that drips: the time to
        # connect and the time to answer, begun anew by each piece of an upload.
        patience = 2 * settings.timeout
        reader: AnswerReader | None = None
        try:
            async with asyncio.timeout(patience) as limit:
                content = request.body if body is None else body.astream(limit, patience)
                response = await self._http.send(
                    self._wire.request(request, content, body, settings.timeout),
                    stream=True,
                    follow_redirects=False,
                )
                reader = AnswerReader(response.status_code, response.headers)
                try:
                    async for piece in response.aiter_raw():
                        if not reader.feed(piece):
                            break
                finally:
                    await response.aclose()
        except Exception as error:  # noqa: BLE001 - whatever a transport raises has a delivery
            if reader is None or not reader.refusal:
                return failure(error, started, body)
        except BaseException as error:
            note_interruption(error, request, body)
            raise
        finally:
            if body is not None:
                await asyncio.to_thread(body.close)
        return self._wire.redacted(reader.answer())
