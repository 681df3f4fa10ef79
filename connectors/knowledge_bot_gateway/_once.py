"""One question, one message: what a client asks again is not sent again.

Clients repeat a request after a timeout of their own or a lost connection, most of them unasked,
and nothing marks a repetition but that it is the same, byte for byte. So a request that equals one
in flight gets its answer, and an answer that nobody fetched is kept for the next equal request. One
that was sent may be lost on its way all the same: OpenAI's clients say when they ask again, and get
it once more. A tool of MCP that is called is such a request too, and its body has the call's id.
"""

import asyncio
import json
from contextlib import suppress
from hashlib import blake2b
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_bot_gateway._gate import bearer
from knowledge_bot_gateway._problems import UNKNOWN_OUTCOME, Problem

# How often OpenAI's clients have asked the same before.
_REPEATED: Final = "x-stainless-retry-count"

# Seconds for which an answer is kept. Clients that ask again do so at once.
_KEPT: Final = 300.0
_MOST_KEPT: Final = 1000

_PATHS: Final = ("/v1/chat/completions", "/v1/responses", "/mcp")


class _InFlight:
    """A request, and its answer as far as it is there.

    Attributes:
        messages: the answer, as ASGI messages.
        more: done, and made anew, when there is another message, or the end.
        ended: whether there are no more.
        fetched: whether all of it was sent to somebody.
        expiry: forgets it later.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.more = asyncio.get_running_loop().create_future()
        self.ended = self.fetched = False
        self.expiry: asyncio.TimerHandle | None = None

    async def add(self, message: Message) -> None:
        """Add a message to the answer."""
        self.messages.append(message)
        self.tell()

    def tell(self) -> None:
        """Wake those who wait for more."""
        self.more.set_result(None)
        self.more = asyncio.get_running_loop().create_future()

    @property
    def status(self) -> int:
        return next((int(one["status"]) for one in self.messages if "status" in one), 0)


class Once:
    """ASGI middleware that handles equal requests of one caller once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._exchanges: dict[bytes, _InFlight] = {}
        self._tasks = set[asyncio.Task[None]]()

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
        if scope["path"] == "/mcp" and not _is_call(body):
            await self._app(scope, _replaying(body, receive), send)
            return
        key = _digest(scope, body)
        exchange = self._exchanges.get(key)
        is_repeated = Headers(scope=scope).get(_REPEATED, "0") != "0"
        if exchange is None or (exchange.fetched and not is_repeated):
            self._forget(key)
            exchange = self._exchanges[key] = _InFlight()
            # It handles the request whether or not somebody waits.
            self._tasks.add(task := asyncio.create_task(self._handle(key, exchange, scope, body)))
            task.add_done_callback(self._tasks.discard)
        gone = asyncio.create_task(_gone(receive))
        try:
            await _relay(exchange, send, gone)
            if exchange.status != UNKNOWN_OUTCOME and not gone.done():
                exchange.fetched = True
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    async def _handle(self, key: bytes, exchange: _InFlight, scope: Scope, body: bytes) -> None:
        with suppress(Exception):  # it has been answered and logged
            await self._app(scope, _replaying(body), exchange.add)
        exchange.ended = True
        exchange.tell()
        if exchange.status in (200, UNKNOWN_OUTCOME):
            loop = asyncio.get_running_loop()
            exchange.expiry = loop.call_later(_KEPT, self._forget, key)
        else:  # nothing was asked
            self._forget(key)
        if len(self._exchanges) > _MOST_KEPT:
            ended = (known for known, one in self._exchanges.items() if one.ended)
            self._forget(next(ended, b""))

    def _forget(self, key: bytes) -> None:
        exchange = self._exchanges.pop(key, None)
        if exchange is not None and exchange.expiry is not None:
            exchange.expiry.cancel()  # or it would keep the answer


async def _relay(exchange: _InFlight, send: Send, gone: "asyncio.Task[None]") -> None:
    """Send an answer as it comes, until its end or until the client has gone."""
    sent = 0
    while not gone.done():
        if sent < len(exchange.messages):
            await send(exchange.messages[sent])
            sent += 1
        elif exchange.ended:
            return
        else:
            await asyncio.wait({exchange.more, gone}, return_when=asyncio.FIRST_COMPLETED)


def _is_call(body: bytes) -> bool:
    """Return whether a message of MCP calls a tool; others are no questions."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and message.get("method") == "tools/call"


def _digest(scope: Scope, body: bytes) -> bytes:
    headers = Headers(scope=scope)
    named = (headers.get(name, "") for name in ("content-type", "mcp-session-id"))
    parts = "\n".join((bearer(headers), scope["path"], *named))
    return blake2b(parts.encode() + b"\n" + body, digest_size=32).digest()


def _replaying(body: bytes, receive: Receive | None = None) -> Receive:
    """Return what gives a body again, and then what comes; without `receive`, nothing comes."""
    parts: list[Message] = [{"type": "http.request", "body": body}]

    async def replayed() -> Message:
        if parts:
            return parts.pop()
        if receive is not None:
            return await receive()
        never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        return await never

    return replayed


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
