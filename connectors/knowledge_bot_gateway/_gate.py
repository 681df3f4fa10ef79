"""Admission of requests: the key, the host name, and the size of the body."""

import asyncio
import hmac
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Final
from urllib.parse import urlsplit

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge_bot import ConfigurationError
from knowledge_bot.adapters import is_loopback
from knowledge_bot_gateway._problems import Problem

# A question is at most a page of text, and a chat window's list some hundred of these.
MOST_BYTES: Final = 4 * 1024 * 1024

# How much more of a body is read before it is refused: many clients send all of it before they read
# the answer, and see a broken connection where it is closed before.
_MOST_DISCARDED: Final = 64 * 1024 * 1024


class Admission:
    """Who may use the gateway.

    Args:
        keys: the gateway's own keys; a request sends one of them as `Authorization: Bearer`. If
            there are none, any key is admitted, and the service checks it.
        open: whether requests without a key are admitted as well.
        hosts: the host names, without a port, under which the gateway may be called. None: any. A
            web page can point its own host name at this machine (DNS rebinding), but it cannot
            send another name in the request.
        origins: the origins of other web pages that may call it from a browser (CORS), such as
            `https://chat.example`.
        most_bytes: the largest body of a request; it is counted while it arrives.
        body_seconds: how long a body may take to arrive.

    Raises:
        ConfigurationError: a key is empty or cannot be sent in a header.
    """

    def __init__(
        self,
        keys: Sequence[SecretStr | str] = (),
        *,
        open: bool = False,  # noqa: A002 - the word for it
        hosts: Sequence[str] | None = None,
        origins: Sequence[str] = (),
        most_bytes: int = MOST_BYTES,
        body_seconds: float = 30.0,
    ) -> None:
        given = [key.get_secret_value() if isinstance(key, SecretStr) else key for key in keys]
        if not all(key and key.isascii() and key.isprintable() and " " not in key for key in given):
            raise ConfigurationError.of(
                "keys", "a key of the gateway is empty, or has characters that a header cannot hold"
            )
        # In a closure, so that neither `vars` nor a traceback shows them.
        self._is_known: Callable[[str], bool] = _known([key.encode() for key in given])
        self._has_keys, self._open = bool(given), open
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        for origin in origins:
            if f"{(parts := urlsplit(origin)).scheme}://{parts.netloc}" != origin.lower():
                raise ConfigurationError.of(
                    "origins", f"{origin!r} is not an origin, such as https://chat.example"
                )
        self.origins: tuple[str, ...] = tuple(origin.lower() for origin in origins)
        self.most_bytes, self.body_seconds = most_bytes, body_seconds

    def check(self, headers: Headers) -> None:
        """Check a request before its body is read.

        Raises:
            Problem: 401, 403, 415 or 421.
        """
        if self._hosts is not None:
            if _name_of(f"//{headers.get('host', '')}") not in self._hosts:
                raise Problem(
                    421,
                    "The gateway does not accept this host name. Use the name or address that it "
                    "was started with, or start it with --allow-host.",
                    code="wrong_host",
                )
            origin = headers.get("origin")
            is_named = origin in self.origins
            if origin is not None and not is_named and _name_of(origin) not in self._hosts:
                raise Problem(
                    403,
                    "Pages of this origin may not send requests here without --allow-origin.",
                    code="wrong_origin",
                )
        key = bearer(headers)
        if not self._open and not (self._is_known(key) if self._has_keys else key):
            mistaken = " An X-API-KEY is for the service itself, whose base URL ends in /public/v1."
            raise Problem(
                401,
                "The request needs a valid key: Authorization: Bearer KEY."
                + mistaken * (not key and "x-api-key" in headers),
                type="authentication_error",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if headers.get("content-encoding", "identity") != "identity":
            raise Problem(
                415,
                "The request body is compressed (Content-Encoding), which is not read here. "
                "Nothing was sent.",
                code="unsupported_content_encoding",
            )


def bearer(headers: Headers) -> str:
    """Return a request's key, or an empty text."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def loopback_names(host: str) -> tuple[str, ...] | None:
    """Return the host names of a loopback listener; None if it is not on loopback."""
    return ("localhost", "127.0.0.1", "::1", host) if is_loopback(host) else None


def caller_of(scope: Scope) -> str:
    """Return whose a request is, as a digest of its key; empty without a gate before it."""
    return getattr(scope.get("user"), "username", "")


class Gate:
    """ASGI middleware that passes on only admitted requests, as their callers'."""

    def __init__(self, app: ASGIApp, *, admission: Admission) -> None:
        self._app, self._admission = app, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            body = await self._admitted(headers, receive)
        except Problem as problem:
            await problem.response(scope, receive, send)
            return
        except ClientDisconnect:
            return
        whose = blake2b(bearer(headers).encode("utf-8", "surrogatepass"), digest_size=16)
        # A session of MCP belongs to whom its server finds here.
        user = AuthenticatedUser(AccessToken(token="", client_id=whose.hexdigest(), scopes=[]))
        path = scope["path"].rstrip("/")  # a redirect would have a POST sent again, or as a GET
        scope = {**scope, "path": path, "user": user}
        if scope["method"] == "HEAD" and path != "/mcp":
            scope["method"] = "GET"  # the server leaves the body out
        if "accept" not in headers:  # that is any type, and MCP's server takes it for none
            scope["headers"] = [*scope["headers"], (b"accept", b"*/*")]
        await self._app(scope, replaying(body, receive), send)

    async def _admitted(self, headers: Headers, receive: Receive) -> bytes:
        """Return the body of a request that may pass."""
        try:
            self._admission.check(headers)
        except Problem:
            with suppress(Problem):
                await _body(receive, self._admission)
            raise
        return await _body(receive, self._admission)


def replaying(body: bytes, receive: Receive | None = None) -> Receive:
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


async def _body(receive: Receive, admission: Admission) -> bytes:
    """Read a body, which is limited in size and time while it arrives."""
    parts: list[bytes] = []
    received, more = 0, True
    try:
        async with asyncio.timeout(admission.body_seconds):
            while more and received < _MOST_DISCARDED:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                received += len(part := message.get("body", b""))
                more = message.get("more_body", False)
                if received <= admission.most_bytes:
                    parts.append(part)
    except TimeoutError:
        raise Problem(
            408,
            f"The request's body did not arrive within {admission.body_seconds:g} s. "
            "Nothing was sent.",
            code="body_too_slow",
            headers={"Connection": "close"},
        ) from None
    if received > admission.most_bytes:
        raise Problem(
            413,
            f"The request body is larger than {admission.most_bytes:,} bytes, the limit here. "
            "Nothing was sent.",
            code="request_too_large",
        )
    return b"".join(parts)


def _known(keys: Sequence[bytes]) -> Callable[[str], bool]:
    def is_known(key: str) -> bool:
        # Always compares every key, and as bytes, since compare_digest refuses non-ASCII text.
        given = key.encode("utf-8", "surrogatepass")
        return sum(hmac.compare_digest(given, one) for one in keys) > 0

    return is_known


def _name_of(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
