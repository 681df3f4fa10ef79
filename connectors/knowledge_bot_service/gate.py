"""Checks every request before its body is read: its key, and its client's limits."""

import logging
import math
import re
import time
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_bot_service.keys import Key, Keys
from knowledge_bot_service.logs import client_of, path_of
from knowledge_bot_service.problems import ProblemError, problem_response
from knowledge_bot_service.settings import Limits

PREFIX: Final = "/public/v1"
UPLOAD_PATH: Final = f"{PREFIX}/sources/upload"
KEY_HEADER: Final = "X-API-KEY"

_UPLOAD: Final = re.compile(rf"{UPLOAD_PATH}|/page/sources/[^/]+/upload")
KEY_NAME: Final = "knowledge_bot_service.key"
"""Where a request's scope has the name of its key, once it has been admitted."""
KEY_ROLE: Final = "knowledge_bot_service.role"
"""Where it has the key's role."""

_OPEN_PATHS: Final = frozenset({f"{PREFIX}/ping"})

# The interface, and the data that the page at `/` shows.
_KEPT: Final = (f"{PREFIX}/", "/page/")


# A key with the role read may ask too, although that is a POST.
_ASKED: Final = f"{PREFIX}/messages"
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_log = logging.getLogger(__name__)


class Gate:
    """ASGI middleware: 401, 403 and 429 by the request's key, 413 for a body that is too large.

    The key is asked for on everything under the interface's prefix except `/ping` (section 5 asks
    for it on POST and leaves GET open) and on the data of the page at `/`, before anything of the
    body is read. The size is counted while the body arrives, so that a chunked one is bounded as
    well.

    Args:
        app: what the request goes on to.
        keys: the keys that are right, and what each may do.
        limits: how large bodies may be, and how many requests a key may make.
    """

    def __init__(self, app: ASGIApp, *, keys: Keys, limits: Limits) -> None:
        self._app = app
        self._keys = keys
        self._limits = limits
        self._rate = _Rate()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with an error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path: str = scope["path"]
        is_upload = _UPLOAD.fullmatch(path) is not None
        limit = self._limits.upload_bytes if is_upload else self._limits.request_bytes
        try:
            if path.startswith(_KEPT) and path not in _OPEN_PATHS:
                self._admit(scope, headers)
            if _declared_length(headers) > limit:
                raise _too_large(limit)
        except ProblemError as problem:
            await problem_response(
                problem.status_code, problem.code, problem.detail, dict(problem.headers or {})
            )(scope, receive, send)
            return
        await self._app(scope, _bounded(receive, limit), send)

    def _admit(self, scope: Scope, headers: Headers) -> None:
        given = headers.get(KEY_HEADER)
        key = None if given is None else admitted(self._keys, given, scope)
        if key is None:
            raise _unauthorized(None if given is None else self._keys.find(given))
        reads = scope["method"] in _READS or scope["path"] == _ASKED
        if key.role == "read" and not reads:
            raise ProblemError(
                HTTPStatus.FORBIDDEN,
                "read_only_key",
                f"The key {key.name} may list and ask, and not add, change or delete anything. "
                "Nothing was done. Use a key with the role write.",
            )
        allowed = key.requests_per_minute or self._limits.requests_per_minute
        if allowed is not None and (seconds := self._rate.seconds_to_wait(key, allowed)):
            raise ProblemError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too_many_requests",
                f"The key {key.name} may make {allowed:,} requests a minute and has made more. "
                f"Nothing was done; send the request again in {seconds} s.",
                {"Retry-After": str(seconds)},
            )


def admitted(keys: Keys, given: str, scope: Scope) -> Key | None:
    """Return the key that a request brings, and leave its name and role in the scope.

    None if it is unknown or has expired; that is logged.
    """
    key = keys.find(given)
    if key is None or key.has_expired:
        _log.warning(
            "%s sent a key that %s: %s %s",
            client_of(scope),
            "is not known here" if key is None else f"has expired ({key.name})",
            scope["method"],
            path_of(scope),
        )
        return None
    scope[KEY_NAME] = key.name
    scope[KEY_ROLE] = key.role
    return key


class _Rate:
    """How many requests each key has left: a token bucket that holds a minute's worth."""

    def __init__(self) -> None:
        self._buckets: dict[bytes, tuple[float, float]] = {}

    def seconds_to_wait(self, key: Key, per_minute: int) -> int:
        """Count a request; returns 0, or in how many whole seconds the next one is allowed."""
        now = time.monotonic()
        tokens, then = self._buckets.get(key.digest, (float(per_minute), now))
        tokens = min(float(per_minute), tokens + (now - then) * per_minute / 60)
        admitted = tokens >= 1
        self._buckets[key.digest] = (tokens - admitted, now)
        return 0 if admitted else math.ceil((1 - tokens) * 60 / per_minute)


def _unauthorized(key: Key | None) -> ProblemError:
    if key is None:
        message = f"The request needs a valid key in its {KEY_HEADER} header."
    else:
        message = f"The key {key.name} is no longer valid since {key.expires}. Use another one."
    return ProblemError(HTTPStatus.UNAUTHORIZED, "unauthorized", message)


def _declared_length(headers: Headers) -> int:
    declared = headers.get("content-length", "")
    return int(declared) if declared.isascii() and declared.isdigit() else 0


def _bounded(receive: Receive, limit: int) -> Receive:
    received = 0

    async def bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise _too_large(limit)
        return message

    return bounded


def _too_large(limit: int) -> ProblemError:
    return ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too_large",
        f"The request body is larger than {limit:,} bytes, the limit here. Nothing was stored.",
    )
