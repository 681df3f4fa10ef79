"""What every request passes before it is read: the key, and the limit of its size."""

import hmac
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_bot_service.problems import ProblemError, problem_response
from knowledge_bot_service.settings import Limits

PREFIX: Final = "/public/v1"
UPLOAD_PATH: Final = f"{PREFIX}/sources/upload"
KEY_HEADER: Final = "X-API-KEY"

_UPLOAD: Final = re.compile(rf"{UPLOAD_PATH}|/page/sources/[^/]+/upload")

_OPEN_PATHS: Final = frozenset({f"{PREFIX}/ping"})

# The interface, and the data that the page at `/` shows.
_KEPT: Final = (f"{PREFIX}/", "/page/")


class Gate:
    """ASGI middleware: 401 without a right key, 413 for a body that is too large.

    The key is asked for on everything under the interface's prefix except `/ping` (section 5 asks
    for it on POST and leaves GET open) and on the data of the page at `/`, before anything of the
    body is read. The size is counted while the body arrives, so that a chunked one is bounded as
    well.

    Args:
        app: what the request goes on to.
        keys: the keys that are right.
        limits: how large bodies may be.
    """

    def __init__(self, app: ASGIApp, *, keys: Sequence[str], limits: Limits) -> None:
        self._app = app
        self._keys = keys
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with 401 or 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path: str = scope["path"]
        if (
            path.startswith(_KEPT)
            and path not in _OPEN_PATHS
            and not is_admitted(headers, self._keys)
        ):
            await problem_response(
                HTTPStatus.UNAUTHORIZED,
                "unauthorized",
                f"The request needs a valid key in its {KEY_HEADER} header.",
            )(scope, receive, send)
            return
        is_upload = _UPLOAD.fullmatch(path) is not None
        limit = self._limits.upload_bytes if is_upload else self._limits.request_bytes
        if _declared_length(headers) > limit:
            too_large = _too_large(limit)
            await problem_response(too_large.status_code, too_large.code, too_large.detail)(
                scope, receive, send
            )
            return
        await self._app(scope, _bounded(receive, limit), send)


def is_admitted(headers: Headers, keys: Sequence[str]) -> bool:
    """Whether a request's headers hold one of the keys."""
    # Bytes, since compare_digest refuses text outside ASCII; every key is compared, always.
    given = headers.get(KEY_HEADER, "").encode("latin-1")
    return sum(hmac.compare_digest(given, key.encode()) for key in keys) > 0


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
