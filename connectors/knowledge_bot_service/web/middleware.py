"""The one middleware: a request passes a list of steps, and is counted when it is answered."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_bot_service.web.problems import too_large

# Scripts and styles are the page's own files and nothing else is loaded from anywhere. Trusted
# types make the browser refuse markup that is put in as text (`innerHTML`). Forms are sent by the
# script; without it, none may put a key into an address.
_POLICY: Final = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "connect-src 'self'; "
    "img-src data:; "
    "base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)

_PROTECTIVE: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


@dataclass(slots=True)
class Passing:
    """A request on its way to the application.

    Attributes:
        scope: the request, as ASGI has it.
        limit: how large its body may be, in bytes; None for no limit. It is counted while it
            arrives, so that a chunked one is bounded as well.
        headers: what its answer has beside its own headers.
    """

    scope: Scope
    limit: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


Step: TypeAlias = Callable[[Passing], Awaitable[ASGIApp | None]]
"""Prepares a request, or returns what answers it in place of the application."""


async def protect(passing: Passing) -> None:
    """A step: headers that keep a browser from running, framing, storing or passing on answers."""
    passing.headers = _PROTECTIVE


class Middleware:
    """ASGI middleware around the application.

    Args:
        app: what answers a request that no step answers.
        steps: what requests pass, in this order.
        on_answer: called with the request, its status, the bytes of the answer and the seconds that
            it took.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        steps: Sequence[Step],
        on_answer: Callable[[Scope, int, int, float], None],
    ) -> None:
        self._app, self._steps, self._on_answer = app, steps, on_answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        passing = Passing(scope)
        # If the application raises, the server around this answers 500.
        status, received, sent = 500, 0, 0

        async def receiving() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if passing.limit is not None and received > passing.limit:
                raise too_large(passing.limit)
            return message

        async def sending(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = (*message["headers"], *passing.headers)
            else:
                sent += len(message.get("body", b""))
            await send(message)

        start = time.perf_counter()
        try:
            for step in self._steps:
                if answer := await step(passing):
                    break
            else:
                answer = self._app
            await answer(passing.scope, receiving, sending)
        finally:
            self._on_answer(scope, status, sent, time.perf_counter() - start)
