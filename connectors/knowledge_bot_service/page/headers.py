"""The headers that keep a browser from running, framing, storing or passing on what it gets."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


class ProtectiveHeaders:
    """ASGI middleware: adds the same protective headers to the page and to every other answer.

    Args:
        app: what answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and the answer back with the headers."""

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = (*message["headers"], *_HEADERS)
            await send(message)

        await self._app(scope, receive, protected if scope["type"] == "http" else send)
