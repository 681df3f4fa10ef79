"""One question, one message: what a client asks again is not sent again.

Clients repeat a request after a timeout of their own or a lost connection, most of them unasked,
and nothing marks a repetition but that it is the same, byte for byte. So a request that equals one
in flight gets its answer, and an answer that nobody fetched is kept for the next equal request.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_bot_gateway._gate import bearer
from knowledge_bot_gateway._problems import UNKNOWN_OUTCOME, Problem

# Seconds for which an answer is kept that nobody fetched. Clients that ask again do so at once.
_KEPT: Final = 300.0
_MOST_KEPT: Final = 1000

_PATHS: Final = ("/v1/chat/completions", "/v1/responses")


@dataclass(slots=True)
class _Exchange:
    """A request, and its answer once it is there.

    Attributes:
        task: handles the request, whether or not somebody waits.
        messages: the answer, as ASGI messages.
    """

    task: "asyncio.Task[None]" = field(init=False)
    messages: list[Message] = field(default_factory=list)

    @property
    def status(self) -> int:
        return next((int(one["status"]) for one in self.messages if "status" in one), 0)


class Once:
    """ASGI middleware that handles equal requests of one caller once.

    Args:
        app: the application behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._exchanges: dict[bytes, _Exchange] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in _PATHS:
            await self._app(scope, receive, send)
            return
        try:
            body = await _body(receive)
        except Problem as problem:
            await problem.response(scope, receive, send)
            return
        if body is None:
            return
        key = _digest(scope, body)
        exchange = self._exchanges.get(key)
        if exchange is None:
            exchange = self._exchanges[key] = _Exchange()
            exchange.task = asyncio.create_task(self._handle(key, exchange, scope, body))
        gone = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({exchange.task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return  # the answer is kept
            for message in exchange.messages:
                await send(message)
            if exchange.status != UNKNOWN_OUTCOME and not gone.done():
                self._forget(key, exchange)
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    async def _handle(self, key: bytes, exchange: _Exchange, scope: Scope, body: bytes) -> None:
        parts: list[Message] = [{"type": "http.request", "body": body}]

        async def receive() -> Message:
            if not parts:  # whether the client is still there does not matter here
                await asyncio.get_running_loop().create_future()
            return parts.pop()

        async def send(message: Message) -> None:
            exchange.messages.append(message)

        with suppress(Exception):  # it has been answered and logged
            await self._app(scope, receive, send)
        if exchange.status in (200, UNKNOWN_OUTCOME):
            loop = asyncio.get_running_loop()
            loop.call_later(_KEPT, self._forget, key, exchange)
        else:  # nothing was asked
            self._forget(key, exchange)
        if len(self._exchanges) > _MOST_KEPT:
            done = (known for known, one in self._exchanges.items() if one.task.done())
            self._exchanges.pop(next(done, b""), None)

    def _forget(self, key: bytes, exchange: _Exchange) -> None:
        if self._exchanges.get(key) is exchange:
            del self._exchanges[key]


def _digest(scope: Scope, body: bytes) -> bytes:
    headers = Headers(scope=scope)
    parts = bearer(headers), scope["path"], headers.get("content-type", "")
    return blake2b("\n".join(parts).encode() + b"\n" + body, digest_size=32).digest()


async def _body(receive: Receive) -> bytes | None:
    """Return a request's body; None if the client has gone."""
    parts = list[bytes]()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
