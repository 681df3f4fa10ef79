"""What every request passes before its body is read: a list of steps, its key and its limits."""

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, TypeAlias

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_bot_service.config.keys import Key, KeyList
from knowledge_bot_service.config.logs import client_of, path_of
from knowledge_bot_service.config.refusals import RefusedRequestError, too_large
from knowledge_bot_service.config.settings import ROLES, LimitSettings, Role
from knowledge_bot_service.web.problems import response_to

PREFIX: Final = "/public/v1"
KEY_HEADER: Final = "X-API-KEY"

_UPLOAD: Final = re.compile(rf"{PREFIX}/(sources|sync)/upload")

_KEY: Final = "knowledge_bot_service.key"

# Answered to everybody, and differently to whoever has a key.
_OPEN: Final = f"{PREFIX}/ping"

# The interface, and the data that the page at `/` shows.
_KEPT: Final = (f"{PREFIX}/", "/page/")

# The role that a request needs, by its method and path: the first that fits. Asking is a POST too.
_NEEDED: Final[Sequence[tuple[re.Pattern[str], Role]]] = (
    (re.compile(rf"\w+ {PREFIX}/sync(/.*)?", re.DOTALL), "manage"),
    (re.compile(r"(GET|HEAD|OPTIONS) .*"), "read"),
    (re.compile(rf"POST {PREFIX}/(messages|search)"), "read"),
    (re.compile(rf"DELETE {PREFIX}/sources.*"), "manage"),
    (re.compile(r".*", re.DOTALL), "write"),
)

# How many wrong keys a client may send in a minute. The next ones are in no log, and each waits for
# 60 / _WRONG_KEYS seconds: not so long that a client with an old key gives up before it is told.
_WRONG_KEYS: Final = 30

# How many keys or clients are remembered; a client may have any number of addresses.
_MOST_BUCKETS: Final = 10_000

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

_log = logging.getLogger(__name__)


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


class Middleware:
    """ASGI middleware around the application.

    What no step answers, the application does. `on_answer` is called with the request, its status,
    the bytes of the answer and the seconds that it took.
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


def key_of(scope: Scope) -> Key | None:
    """The key that a request was admitted with; None where it brought none, or a wrong one."""
    key: Key | None = scope.get(_KEY)
    return key


def may_manage(scope: Scope) -> bool:
    """Whether a request's key may replace and delete sources."""
    key = key_of(scope)
    return key is not None and key.may("manage")


class KeyAdmission:
    """Judges the keys that requests bring, wherever they bring them.

    A client that sends one wrong key after the other waits for each answer, and nobody else does.
    """

    def __init__(self, keys: KeyList) -> None:
        self._keys = keys
        self._wrong = _Rate()

    async def admit(self, given: str | None, scope: Scope) -> None:
        """Leave the key that a request brings in its scope, for `key_of`.

        Raises:
            RefusedRequestError: 401, it brings none, or one that is unknown or has expired.
        """
        if given is None:
            raise _unauthorized(None)
        key = self._keys.find(given)
        if key is not None and not key.has_expired:
            scope[_KEY] = key
            return
        client = client_of(scope)
        seconds = self._wrong.seconds_to_wait(client, _WRONG_KEYS)
        if not seconds:  # nobody can fill the log with many connections at once
            _log.warning(
                "%s sent a key that %s: %s %s",
                client,
                "is not known here" if key is None else f"has expired ({key.name})",
                scope["method"],
                path_of(scope),
            )
        await asyncio.sleep(seconds)
        raise _unauthorized(key)


class RequestGate:
    """A step of the middleware: 401, 403 and 429 by a request's key, 413 for a body too large.

    The answers to what passes have headers that keep a browser from running, framing, storing or
    passing on what is in them.

    The key is asked for on everything under the interface's prefix except `/ping` (section 5 asks
    for it on POST and leaves GET open) and on the data of the page at `/`, before anything of the
    body is read.
    """

    def __init__(self, admission: KeyAdmission, limits: LimitSettings) -> None:
        self._admission = admission
        self._limits = limits
        self._rate = _Rate()

    async def __call__(self, passing: Passing) -> ASGIApp | None:
        """Admit a request, or return the error that answers it."""
        scope = passing.scope
        headers, path = Headers(scope=scope), scope["path"]
        is_upload = _UPLOAD.fullmatch(path) is not None
        limit = self._limits.upload_bytes if is_upload else self._limits.request_bytes
        passing.limit, passing.headers = limit, _PROTECTIVE
        try:
            if path == _OPEN:
                with suppress(RefusedRequestError):
                    await self._admission.admit(headers.get(KEY_HEADER), scope)
            elif path.startswith(_KEPT):
                await self._admission.admit(headers.get(KEY_HEADER), scope)
                self._check(scope)
            declared = headers.get("content-length", "")
            if declared.isascii() and declared.isdigit() and int(declared) > limit:
                raise too_large(limit)
        except RefusedRequestError as problem:
            return response_to(problem)
        return None

    def _check(self, scope: Scope) -> None:
        """Check that an admitted key may do what is asked, and as often."""
        key: Key = scope[_KEY]
        asked = f"{scope['method']} {scope['path']}"
        needed = next(role for form, role in _NEEDED if form.fullmatch(asked))
        if not key.may(needed):
            raise RefusedRequestError(
                HTTPStatus.FORBIDDEN,
                "forbidden",
                f"The key {key.name} may {ROLES[key.role]}, and nothing else. Nothing was done. "
                f"Use a key with the role {needed}.",
            )
        allowed = key.requests_per_minute or self._limits.requests_per_minute
        if allowed is not None and (seconds := self._rate.seconds_to_wait(key.sha256, allowed)):
            raise RefusedRequestError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too_many_requests",
                f"The key {key.name} may make {allowed:,} requests a minute and has made more. "
                f"Nothing was done; send the request again in {seconds} s.",
                {"Retry-After": str(seconds)},
            )


class _Rate:
    """What each key or client has left: a token bucket that holds a minute's worth."""

    def __init__(self) -> None:
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def seconds_to_wait(self, who: Hashable, per_minute: int) -> int:
        """Count a request; returns 0, or in how many whole seconds the next one is allowed."""
        now = time.monotonic()
        tokens, then = self._buckets.pop(who, (float(per_minute), now))
        tokens = min(float(per_minute), tokens + (now - then) * per_minute / 60)
        admitted = tokens >= 1
        # The last of the dictionary; its first is the one that was idle the longest.
        self._buckets[who] = (tokens - admitted, now)
        if len(self._buckets) > _MOST_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        return 0 if admitted else math.ceil((1 - tokens) * 60 / per_minute)


def _unauthorized(key: Key | None) -> RefusedRequestError:
    if key is None:
        message = f"The request needs a valid key in its {KEY_HEADER} header."
    else:
        message = f"The key {key.name} is no longer valid since {key.expires}. Use another one."
    return RefusedRequestError(HTTPStatus.UNAUTHORIZED, "unauthorized", message)
