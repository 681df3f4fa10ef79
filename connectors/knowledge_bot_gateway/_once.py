"""One question, one message: what a client asks again is not sent again.

Clients repeat a request after a timeout of their own or a lost connection, most of them unasked,
and nothing marks a repetition but that it is the same, byte for byte. So a request that equals one
of the same caller's in flight gets its answer, and an answer that nobody fetched is kept for the
next equal request. One that was sent may be lost on its way all the same: OpenAI's clients say when
they ask again, and get it once more.

A tool of MCP that is called is such a request too. In a session its id is used once, so an equal
call says that it is a repetition; without one all clients count alike, and only a call in flight is
joined.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_bot_gateway._gate import caller_of, replaying
from knowledge_bot_gateway._memory import CallerMemory
from knowledge_bot_gateway._problems import UNKNOWN_OUTCOME, fault

# How often OpenAI's clients have asked the same before.
_REPEATED: Final = "x-stainless-retry-count"
_SESSION: Final = "mcp-session-id"

# How many answers are kept, and for how many seconds. Clients that ask again do so at once.
_MOST_KEPT: Final = 1000
_KEPT: Final = 300.0

_PATHS: Final = ("/v1/chat/completions", "/v1/responses", "/mcp")


class _Exchange:
    """A request, and its answer as far as it is there.

    Attributes:
        messages: the answer, as ASGI messages.
        more: done, and made anew, when there is another message, or the end.
        ended: whether there are no more.
        fetched: whether all of it was sent to somebody.
        state: what the application says of it (`request.state`).
    """

    def __init__(self, on_end: Callable[["_Exchange"], None]) -> None:
        self.messages: list[Message] = []
        self.more = asyncio.get_running_loop().create_future()
        self.ended = self.fetched = False
        self.state: dict[str, Any] = {}
        self._on_end = on_end

    async def add(self, message: Message) -> None:
        """Add a message to the answer; the last one of the body ends it."""
        self.messages.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.end()
        self._tell()

    def end(self) -> None:
        """End the answer, unless it has ended."""
        if not self.ended:
            self.ended = True
            self._on_end(self)
            self._tell()

    def _tell(self) -> None:
        self.more.set_result(None)
        self.more = asyncio.get_running_loop().create_future()

    @property
    def status(self) -> int:
        """The status; in a stream that has begun already, the one that an error would have had."""
        begun = (int(one["status"]) for one in self.messages if "status" in one)
        return int(self.state.get("status") or next(begun, 0))


class Once:
    """ASGI middleware that handles equal requests of one caller once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._in_flight: dict[tuple[str, bytes], _Exchange] = {}
        self._answered: CallerMemory[_Exchange] = CallerMemory(_MOST_KEPT, _KEPT)
        self._tasks = set[asyncio.Task[None]]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in _PATHS:
            await self._app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        if scope["path"] == "/mcp" and not _is_call(body):
            await self._app(scope, replaying(body, receive), send)
            return
        exchange = self._exchange(scope, body)
        gone = asyncio.create_task(_gone(receive))
        try:
            await _relay(exchange, send, gone)
            exchange.fetched |= not gone.done()
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    def _exchange(self, scope: Scope, body: bytes) -> _Exchange:
        """Return the exchange of an equal request, or a new one."""
        headers, whose = Headers(scope=scope), caller_of(scope)
        session = headers.get(_SESSION, "")
        what = "\n".join((scope["path"], headers.get("content-type", ""), session, ""))
        key = blake2b(what.encode() + body, digest_size=32).digest()
        is_repeated = bool(session) or headers.get(_REPEATED, "0") != "0"
        found = self._in_flight.get((whose, key)) or self._answered.find(whose, key)
        if found and (is_repeated or not found.fetched or found.status == UNKNOWN_OUTCOME):
            return found

        def end(exchange: _Exchange) -> None:
            del self._in_flight[whose, key]
            was_asked = exchange.status in (200, UNKNOWN_OUTCOME)
            if was_asked and (session or scope["path"] != "/mcp"):
                self._answered.keep(whose, key, exchange)

        exchange = self._in_flight[whose, key] = _Exchange(end)
        # It handles the request whether or not somebody waits.
        self._tasks.add(task := asyncio.create_task(self._handle(exchange, scope, body)))
        task.add_done_callback(self._tasks.discard)
        return exchange

    async def _handle(self, exchange: _Exchange, scope: Scope, body: bytes) -> None:
        scope, receive = {**scope, "state": exchange.state}, replaying(body)
        try:
            await self._app(scope, receive, exchange.add)
        except Exception as error:  # noqa: BLE001 - the client must not ask again, whatever it is
            if not exchange.messages:
                await fault(scope, error).response(scope, receive, exchange.add)
        finally:
            exchange.end()


async def _relay(exchange: _Exchange, send: Send, gone: "asyncio.Task[None]") -> None:
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


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
