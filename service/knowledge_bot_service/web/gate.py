"""What every request passes before its body is read: its key and its limits."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Final, Self, TypeAlias

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

# The role that a request needs, by how its method and path begin: the first that fits. Asking is a
# POST too.
_NEEDED: Final[Sequence[tuple[re.Pattern[str], Role]]] = (
    (re.compile(rf"\w+ {PREFIX}/sync(/|$)"), "manage"),
    (re.compile("(GET|HEAD|OPTIONS) "), "read"),
    (re.compile(rf"POST {PREFIX}/(messages|search)$"), "read"),
    (re.compile(f"DELETE {PREFIX}/sources"), "manage"),
    (re.compile(""), "write"),
)

# How long whoever sent a wrong key waits for the answer, in seconds.
_WRONG_KEY: Final = 0.2

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

Mount: TypeAlias = Callable[[str, Path], AbstractAsyncContextManager[ASGIApp]]
"""Called with the service's address and its data folder, it runs an application."""

Loader: TypeAlias = Callable[[], Mount]
"""Imports a mount; a `ModuleNotFoundError` says that its extra is not installed."""


class RequestGate:
    """ASGI middleware around the application: 401 and 403 by a request's key, 413 for its body.

    The key is asked for on everything under the interface's prefix except `/ping` (section 5 asks
    for it on POST and leaves GET open) and on the data of the page at `/`, before anything of the
    body is read. That is counted while it arrives, so that a chunked one is bounded as well. The
    answers have headers that keep a browser from running, framing, storing or passing on what is in
    them.

    What is mounted answers its paths, with a gate of its own. That asks for a bearer token and
    leaves it to the service to judge it. Here the service does so before anything is read: one that
    is no key of its own is taken away, so that nobody without a key has sessions or memory.

    `on_answer` is called with the request, its status, the bytes of the answer and the seconds that
    it took.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: KeyList,
        limits: LimitSettings,
        mounts: "Mounts | None",
        on_answer: Callable[[Scope, int, int, float], None],
    ) -> None:
        self._app, self._keys, self._limits = app, keys, limits
        self._mounts, self._on_answer = mounts, on_answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # If the application raises, the server around this answers 500.
        status, received, sent = 500, 0, 0
        is_upload = _UPLOAD.fullmatch(scope["path"]) is not None
        limit = self._limits.upload_bytes if is_upload else self._limits.request_bytes
        mounted: ASGIApp | None = None

        async def receiving() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if mounted is None and received > limit:
                raise too_large(limit)
            return message

        async def sending(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                if mounted is None:
                    message["headers"] = (*message["headers"], *_PROTECTIVE)
            else:
                sent += len(message.get("body", b""))
            await send(message)

        start = time.perf_counter()
        try:
            if self._mounts is not None:
                mounted = await self._mounts.at(scope["path"])
            if mounted is not None:
                await mounted(await self._judged(scope), receiving, sending)
            else:
                refusal = await self._refusal(scope)
                await (self._app if refusal is None else refusal)(scope, receiving, sending)
        finally:
            self._on_answer(scope, status, sent, time.perf_counter() - start)

    async def _refusal(self, scope: Scope) -> ASGIApp | None:
        """Admit a request, or return the error that answers it."""
        key, path = Headers(scope=scope).get(KEY_HEADER), scope["path"]
        try:
            if path == _OPEN:
                with suppress(RefusedRequestError):
                    await self._admit(key, scope)
            elif path.startswith(_KEPT):
                _check_role(await self._admit(key, scope), f"{scope['method']} {path}")
        except RefusedRequestError as problem:
            return response_to(problem)
        return None

    async def _judged(self, scope: Scope) -> Scope:
        """A request to what is mounted, without a bearer token that is no key here."""
        scheme, _, key = Headers(scope=scope).get("authorization", "").partition(" ")
        try:
            await self._admit(key.strip() if scheme.lower() == "bearer" else None, scope)
        except RefusedRequestError:
            rest = [header for header in scope["headers"] if header[0] != b"authorization"]
            return {**scope, "headers": rest}
        return scope

    async def _admit(self, given: str | None, scope: Scope) -> Key:
        """Leave the key that a request brings in its scope, for `key_of`; returns it.

        Raises:
            RefusedRequestError: 401, it brings none, or one that is unknown or has expired.
        """
        key = None if given is None else self._keys.find(given)
        if key is not None and not key.has_expired:
            scope[_KEY] = key
            return key
        if given is not None:
            _log.warning(
                "%s sent a key that %s: %s %s",
                client_of(scope),
                "is not known here" if key is None else f"has expired ({key.name})",
                scope["method"],
                path_of(scope),
            )
            await asyncio.sleep(_WRONG_KEY)
        message = f"The request needs a valid key in its {KEY_HEADER} header."
        if given is None and Headers(scope=scope).get("authorization"):
            message += " OpenAI's API is under /v1, and MCP under /mcp, with Authorization: Bearer."
        if key is not None:
            message = f"The key {key.name} is no longer valid since {key.expires}. Use another one."
        raise RefusedRequestError(HTTPStatus.UNAUTHORIZED, "unauthorized", message)


def _check_role(key: Key, asked: str) -> None:
    """Check that a key may do what is asked."""
    needed = next(role for form, role in _NEEDED if form.match(asked))
    if not key.may(needed):
        raise RefusedRequestError(
            HTTPStatus.FORBIDDEN,
            "forbidden",
            f"The key {key.name} may {ROLES[key.role]}, and nothing else. Nothing was done. "
            f"Use a key with the role {needed}.",
        )


def key_of(scope: Scope) -> Key | None:
    """The key that a request was admitted with; None where it brought none, or a wrong one."""
    key: Key | None = scope.get(_KEY)
    return key


def may_manage(scope: Scope) -> bool:
    """Whether a request's key may replace and delete sources."""
    key = key_of(scope)
    return key is not None and key.may("manage")


class Mounts:
    """Applications by the first segment of their paths; each starts with the first request to it.

    They may keep files of their own in the service's data folder.
    """

    def __init__(self, loaders: Mapping[str, Loader], base_url: str, data: Path) -> None:
        self._loaders, self._base_url, self._data = loaders, base_url, data
        self._apps: dict[str, asyncio.Future[ASGIApp | None]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def at(self, path: str) -> ASGIApp | None:
        """Return the application that answers at a path; None where there is none."""
        name = path.removeprefix("/").partition("/")[0]
        if name not in self._loaders:
            return None
        if name not in self._apps:
            self._apps[name] = asyncio.get_running_loop().create_future()
            self._tasks[name] = asyncio.create_task(self._run(name))
        return await asyncio.shield(self._apps[name])

    async def __aenter__(self) -> Self:
        self._ended = asyncio.Event()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _run(self, name: str) -> None:
        # All of an application's life in one task, as task groups want it.
        started = self._apps[name]
        try:
            mount = await asyncio.to_thread(self._loaders[name])
            async with mount(self._base_url, self._data) as app:
                started.set_result(app)
                await self._ended.wait()
        except ModuleNotFoundError:  # its extra is not installed
            started.set_result(None)
        except Exception as error:
            if started.done():
                raise
            # What was in its way, such as a full disk, may be gone with the next request.
            del self._apps[name]
            started.set_exception(error)
