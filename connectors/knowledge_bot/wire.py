"""Requests in the HTTP library's terms, and what came of them in ours."""

import functools
import json
import logging
import time
from collections.abc import Iterable
from typing import Any, TypeVar

from knowledge_bot import __version__
from knowledge_bot.configuration import API_KEY_VARIABLE, Configuration
from knowledge_bot.decoding import ACCEPT_ENCODING
from knowledge_bot.delivery import Answer, Failure, outcome_of
from knowledge_bot.endpoints import Request
from knowledge_bot.errors import ConfigurationError, Delivery
from knowledge_bot.uploads import Body

T = TypeVar("T")

logger: logging.Logger = logging.getLogger("knowledge_bot")
logger.addHandler(logging.NullHandler())  # a library leaves it to the program what is shown

_OWN_HEADERS = {
    b"accept": b"application/json, text/plain;q=0.9",
    b"accept-encoding": ACCEPT_ENCODING.encode(),
    b"user-agent": f"knowledge-bot/{__version__}".encode(),
}

_PHASES = ("connect", "read", "write", "pool")


class Wire:
    """Builds the requests of one client.

    Args:
        configuration: where they go, and with which key.
        library: httpx or httpx2, whichever sends them.
        inherited: headers of an injected client, such as a gateway's, that go along.
    """

    def __init__(
        self,
        configuration: Configuration,
        library: Any,
        inherited: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        self._configuration, self._library = configuration, library
        self._headers = [
            (name, value) for name, value in inherited if name.lower() not in _OWN_HEADERS
        ]
        self._headers += _OWN_HEADERS.items()
        # Parsing an address costs as much as a quarter of a call; all but one path are constant.
        self._url = functools.lru_cache(maxsize=256)(
            lambda path: library.URL(configuration.base_url + path)
        )

    def check(self, request: Request[T], *, closed: bool) -> None:
        """Refuse what cannot be sent.

        Raises:
            ConfigurationError: the client is closed, or a POST has no key to go with.
        """
        if closed:
            raise ConfigurationError(f"{request}: this client is closed; make a new one")
        if request.method == "POST" and self._configuration.api_key is None:
            raise ConfigurationError(
                f"{request}: no API key; pass api_key= or set {API_KEY_VARIABLE}. Nothing was sent"
            )

    def request(self, request: Request[T], content: Any, body: Body | None, timeout: float) -> Any:
        """Return the library's request. It holds the key: no frame of ours keeps it in a local."""
        headers = list(self._headers)
        if body is not None:
            headers.append((b"content-type", body.content_type.encode()))
            if body.length is not None:
                headers.append((b"content-length", str(body.length).encode()))
        elif request.body is not None:
            headers.append((b"content-type", b"application/json"))
        key = self._configuration.api_key
        if key is not None:
            headers.append((b"x-api-key", key.get_secret_value().encode("ascii")))
        return self._library.Request(
            request.method,
            self._url(request.path),
            headers=headers,
            content=content,
            extensions={"timeout": dict.fromkeys(_PHASES, timeout)},
        )

    def redacted(self, answer: Answer) -> Answer:
        """Return the answer without the key, which an error or an echoing proxy may repeat."""
        key = self._configuration.api_key
        if key is None:
            return answer
        body = answer.body
        for spelling in _spellings(key.get_secret_value()):
            body = body.replace(spelling, b"***")
        return Answer(answer.status, answer.headers, body, answer.excess)


def _spellings(key: str) -> set[bytes]:
    """Return a key as it is, and as JSON may write it."""
    escaped = json.dumps(key)[1:-1]
    # PHP, for one, escapes slashes too.
    return {text.encode("ascii") for text in (key, escaped, escaped.replace("/", "\\/"))}


def failure(error: Exception, started: float, body: Body | None) -> Failure:
    """Return what a transport's exception stands for; re-raise what the body itself raised."""
    if body is not None and body.error is not None:
        raise body.error
    # The libraries' frames hold the request and with it the key, and tell a person nothing.
    error.with_traceback(None)
    return Failure(error, time.monotonic() - started, _incomplete(body))


def log_attempt(request: Request[T], attempt: int, reply: Answer | Failure, started: float) -> None:
    """Log method, path, status, duration and attempt; never a body, a header or a query."""
    outcome = reply.status if isinstance(reply, Answer) else type(reply.error).__name__
    milliseconds = (time.monotonic() - started) * 1000
    logger.debug("%s: %s in %.0f ms (attempt %d)", request, outcome, milliseconds, attempt + 1)


def note_interruption(error: BaseException, request: Request[T], body: Body | None) -> None:
    """Add the delivery to a cancellation or a Ctrl-C, which stay what they are.

    It becomes a note for people, and for programs the attribute that our errors have as well.
    """
    error.with_traceback(None)  # as for a failure
    delivery = Delivery.NOT_DELIVERED if _incomplete(body) else Delivery.UNKNOWN
    vars(error)["delivery"] = delivery
    error.add_note(f"{request} was under way. {outcome_of(request, delivery)}.")


def _incomplete(body: Body | None) -> bool:
    return body is not None and not body.handed_over
