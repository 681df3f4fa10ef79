"""A service for tests: no sockets, no waiting, and faults on request.

    service = MemoryService(bots={"bot_1": {"When?": "At nine."}})
    client = Client("key", "https://service.test", transport=service.transport)
    assert client.send_message(bot_id="bot_1", content="When?").answer == "At nine."

`pytest_plugins = ["knowledge_bot.testing.pytest"]` gives tests the fixture `memory_service`.
"""

import asyncio
import inspect
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import unquote, urlsplit

from knowledge_bot._retries import no_waiting
from knowledge_bot._transports import AsyncTransport, HTTPRequest, HTTPResponse, Transport
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.transcripts import read

__all__ = ["Answers", "MemoryService", "ReceivedRequest", "no_waiting"]

Answers = Mapping[str, str] | Callable[[str], str]
"""What a bot says: answers by question, or a function that takes a question and returns an answer.

Of a message that is a transcript (`knowledge_bot.transcripts`), its question is looked up or given;
the whole message stands in `MemoryService.requests`.
"""

NOT_FOUND = "I could not find that in my sources."


@dataclass(frozen=True, slots=True, repr=False)
class ReceivedRequest:
    """A request that arrived, whatever became of it.

    Attributes:
        method: `GET` or `POST`.
        path: below the version, for example `/messages`.
        headers: the headers, with names in lower case.
        body: the body's bytes.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def value(self) -> dict[str, Any]:
        """The fields that were sent, of an upload those beside the file; `{}` without a body."""
        if not self.body:
            return {}
        fields = _read_form(self)[0] if self._is_form else json.loads(self.body)
        unwrapped = fields.get("value", fields)
        return dict(unwrapped)

    @property
    def file(self) -> tuple[str, bytes] | None:
        """The name and the content of an uploaded file; None of any other request."""
        return _read_form(self)[1] if self._is_form else None

    @property
    def _is_form(self) -> bool:
        return self.headers.get("content-type", "").startswith("multipart/form-data")

    def __repr__(self) -> str:
        return f"ReceivedRequest({self.method!r}, {self.path!r})"  # no header: the key is in one


@dataclass(slots=True)
class _Fault:
    """What happens to a request instead of its answer; `acts`: whether the service acts on it."""

    happen: Callable[[], HTTPResponse]
    acts: bool
    arrives: bool = True


@dataclass
class MemoryService:
    """The interface, answered from memory in the process of the test.

    It keeps what arrives, and creates what a service would: sources, conversations, messages. It
    judges requests by the interface alone (sections 2 and 4). One service may answer any number of
    clients, blocking and asynchronous ones, and keeps everything as long as it lives. A fault meets
    the next requests that are no pings; a ping is always answered.

    Args:
        bots: what each bot answers, by id: see `Answers`. A question without an answer is answered
            with "I could not find that in my sources."
        collections: ids of the collections, or names by id.
        wrapped: whether answers are wrapped in `value`; the interface shows both forms (section 4).

    Attributes:
        requests: what arrived, in order, also where it was answered with a fault.
        sources: the sources that were created, in order, as the service returned them.
    """

    bots: Mapping[str, Answers] = field(default_factory=lambda: {"bot_default": {}})
    collections: Mapping[str, str] | Iterable[str] = ("col_default",)
    wrapped: bool = True
    requests: list[ReceivedRequest] = field(default_factory=list, init=False)
    sources: list[dict[str, Any]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        _check(self.bots, self.collections)
        named = self.collections
        self.collections = (
            dict(named) if isinstance(named, Mapping) else {name: name for name in named}
        )
        for prefix, ids in (("bot_", self.bots), ("col_", self.collections)):
            for given in ids:
                if not given.startswith(prefix):
                    raise ConfigurationError(f"{given!r} is not an id of the form {prefix}…")
        self._conversations: dict[str, str] = {}
        self._faults: list[_Fault] = []
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    @property
    def transport(self) -> Transport:
        """What a `Client` sends with: `Client(key, url, transport=service.transport)`."""
        return _MemoryTransport(self)

    @property
    def async_transport(self) -> AsyncTransport:
        """What an `AsyncClient` sends with."""
        return _AsyncMemoryTransport(self)

    # Faults, each for the next request that has none yet and is no ping: an ingestion sends one
    # before its first item

    def fail_next(
        self,
        status: int = 500,
        *,
        code: str = "test",
        message: str = "A fault of the test",
        retry_after: float | None = None,
        times: int = 1,
    ) -> None:
        """Answer the next requests with an error, without acting on them.

        Args:
            status: the HTTP status, 400 or above.
            code: the error body's `code` (interface section 7).
            message: the error body's `message`.
            retry_after: seconds that `Retry-After` names; None: there is no such header.
            times: how many requests.
        """
        if not 400 <= status <= 599:
            raise ConfigurationError(
                f"status: expected 400 to 599, not {status!r}; see answer_next"
            )
        headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
        body = json.dumps({"code": code, "message": message}).encode()
        self.answer_next(status, body, headers, times=times)

    def answer_next(
        self,
        status: int = 200,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        times: int = 1,
    ) -> None:
        """Answer the next requests with exactly this, without acting on them.

        Args:
            status: the HTTP status.
            body: the body, as it is.
            headers: the headers.
            times: how many requests.
        """
        sent = {name.lower(): text for name, text in (headers or {}).items()}
        self._expect(_Fault(lambda: HTTPResponse(status, sent, body), acts=False), times)

    def lose_next_answer(self, *, times: int = 1) -> None:
        """Act on the next requests, and lose their answers: the connection breaks.

        The client's error says `Delivery.UNKNOWN`.
        """
        self._expect(_Fault(_raising(ConnectionResetError("reset by the test")), acts=True), times)

    def time_out_next(self, *, acts: bool = False, times: int = 1) -> None:
        """Let the next requests arrive and be answered too late, without any waiting.

        Args:
            acts: whether the service acts on them.
            times: how many requests.
        """
        self._expect(_Fault(_raising(TimeoutError("too late, says the test")), acts), times)

    def refuse_next_connection(self, *, times: int = 1) -> None:
        """Let no connection be made for the next requests: they do not arrive.

        The client's error says `Delivery.NOT_DELIVERED`.
        """
        refused = _raising(ConnectionRefusedError("refused by the test"))
        self._expect(_Fault(refused, acts=False, arrives=False), times)

    def _expect(self, fault: _Fault, times: int) -> None:
        if times < 1:
            raise ConfigurationError(f"times: expected 1 or more, not {times!r}")
        with self._lock:
            self._faults += [fault] * times

    # Answers

    def _begin(self, request: HTTPRequest) -> _Fault | None:
        is_ping = request.method == "GET" and urlsplit(request.url).path.endswith("/ping")
        with self._lock:
            fault = self._faults.pop(0) if self._faults and not is_ping else None
        if fault is not None and not fault.arrives:
            fault.happen()
        return fault

    def _end(self, request: HTTPRequest, body: bytes, fault: _Fault | None) -> HTTPResponse:
        path = urlsplit(request.url).path.partition("/public/v1")
        headers = {name.lower(): text for name, text in request.headers}
        received = ReceivedRequest(request.method, path[2] or path[0], headers, body)
        with self._lock:
            self.requests.append(received)
            if fault is not None and not fault.acts:
                return fault.happen()
            answer = self._answer(received)
        return answer if fault is None else fault.happen()

    def _answer(self, received: ReceivedRequest) -> HTTPResponse:
        status = 200
        try:
            answer = self._act(received)
            if self.wrapped and not isinstance(answer, str):
                answer = {"value": answer}
        except _RefusedError as error:
            status, answer = error.status, {"code": error.code, "message": str(error)}
        content_type = {"content-type": "application/json"}
        return HTTPResponse(status, content_type, json.dumps(answer).encode())

    def _act(self, received: ReceivedRequest) -> object:
        route = received.method, received.path
        if received.method == "POST" and not received.headers.get("x-api-key"):
            raise _RefusedError(401, "unauthorized", "there is no API key")
        if route == ("GET", "/ping"):
            return "pong"
        if route == ("GET", "/collections"):
            return {"data": [self._collection(known) for known in self._known]}
        if route == ("GET", "/bots"):
            return {"data": [{"id": bot, "name": bot} for bot in self.bots]}
        if received.method == "GET" and received.path.endswith("/conversations"):
            return self._listed(unquote(received.path.split("/")[2]))
        if route == ("POST", "/messages"):
            return self._message(_value_of(received))
        if received.method == "POST" and received.path in _SOURCES:
            return self._source(received)
        raise _RefusedError(404, "not_found", "there is nothing at this address")

    @property
    def _known(self) -> Mapping[str, str]:
        assert isinstance(self.collections, Mapping)  # noqa: S101 - made one above
        return self.collections

    def _collection(self, known: str) -> dict[str, str]:
        return {"id": known, "name": self._known[known]}

    def _listed(self, bot: str) -> object:
        if bot not in self.bots:
            raise _RefusedError(404, "unknown_bot", f"there is no bot {bot}")
        held = [conversation for conversation, of in self._conversations.items() if of == bot]
        return {"data": [{"id": each, "name": each} for each in held]}

    def _message(self, value: Mapping[str, Any]) -> object:
        bot, content = _text(value, "bot_id"), _text(value, "content")
        if bot not in self.bots:
            raise _RefusedError(400, "unknown_bot", f"there is no bot {bot}")
        conversation = value.get("conversation_id") or f"conv_{next(self._numbers)}"
        known = self._conversations.get(conversation) == bot
        if value.get("conversation_id") and not known:
            raise _RefusedError(400, "unknown_conversation", f"{bot} has no {conversation}")
        answer = self._answer_of(bot, content)
        self._conversations[conversation] = bot
        return {
            "id": f"msg_{next(self._numbers)}",
            "answer": answer,
            "conversation_id": conversation,
            "created_at": int(time.time() * 1000),
        }

    def _answer_of(self, bot: str, content: str) -> str:
        answers, question = self.bots[bot], read(content).question
        if not callable(answers):
            return answers.get(question, NOT_FOUND)
        try:
            answer = answers(question)
        except Exception as error:
            # An assertion reaches the test; anything else would look like a lost connection.
            raise AssertionError(f"what answers for {bot} raised {error!r}") from error
        assert isinstance(answer, str), f"what answers for {bot} returned {answer!r}"  # noqa: S101
        return answer

    def _source(self, received: ReceivedRequest) -> object:
        value = _value_of(received)
        name, ids = _text(value, "name"), value.get("collections")
        for needed in _SOURCES[received.path]:
            _text(value, needed)
        if received.path == "/sources/upload" and received.file is None:
            raise _RefusedError(400, "invalid_request", "file is missing")
        if not isinstance(ids, list) or not ids:
            raise _RefusedError(400, "invalid_request", "collections is not a list of ids")
        if unknown := [str(each) for each in ids if each not in self._known]:
            raise _RefusedError(400, "unknown_collection", f"there is no {', '.join(unknown)}")
        source = {
            "id": f"src_{next(self._numbers)}",
            "name": name,
            "collections": [self._collection(each) for each in ids],
            "status": "pending",
            "created_at": int(time.time() * 1000),
        }
        self.sources.append(source)
        return source


def _check(bots: Any, collections: Any) -> None:
    """Check the arguments of a test, which may be untyped."""
    if isinstance(collections, str) or not isinstance(collections, Iterable):
        raise ConfigurationError("collections: expected several ids, or names by id")
    if not isinstance(bots, Mapping):
        raise ConfigurationError(
            f"bots: expected what each bot answers, by id, not {type(bots).__name__}"
        )
    for bot, answers in bots.items():
        if not isinstance(answers, Mapping) and (
            not callable(answers) or inspect.iscoroutinefunction(answers)
        ):
            raise ConfigurationError(
                f"bots: what {bot} answers is neither a mapping nor a function that returns a "
                f"string, but {type(answers).__name__}"
            )


# The paths that create a source, and the fields that each needs beside `name` and `collections`.
_SOURCES = {"/sources/webpage": ("url",), "/sources/write": ("content",), "/sources/upload": ()}


class _RefusedError(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def _value_of(received: ReceivedRequest) -> dict[str, Any]:
    try:
        return received.value
    except (ValueError, TypeError, AttributeError):
        raise _RefusedError(400, "invalid_request", "the body is not a JSON object") from None


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str) or not text.strip():
        raise _RefusedError(400, "invalid_request", f"{name} is missing")
    return text


def _raising(error: Exception) -> Callable[[], HTTPResponse]:
    def happen() -> HTTPResponse:
        raise type(error)(*error.args)

    return happen


def _read_form(received: ReceivedRequest) -> tuple[dict[str, Any], tuple[str, bytes] | None]:
    """Read a multipart form (RFC 7578): its fields, a repeated one as a list, and its file."""
    head = f"Content-Type: {received.headers['content-type']}\r\n\r\n".encode()
    fields: dict[str, Any] = {}
    file = None
    for part in BytesParser(policy=HTTP).parsebytes(head + received.body).iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        content = part.get_payload(decode=True)
        content = content if isinstance(content, bytes) else b""
        if name == "file":
            file = str(part.get_filename()), content
        elif name == "value":
            fields[name] = json.loads(content)
        elif name == "collections":  # plain form fields, one for each
            fields.setdefault(name, []).append(content.decode())
        else:
            fields[name] = content.decode()
    return fields, file


class _MemoryTransport:
    def __init__(self, service: MemoryService) -> None:
        self._service = service

    def send(self, request: HTTPRequest) -> HTTPResponse:
        fault = self._service._begin(request)  # noqa: SLF001 - its other half
        body: Any = request.body
        if not isinstance(body, bytes):
            body = b"".join(body or ())
        return self._service._end(request, body, fault)  # noqa: SLF001 - as above

    def close(self) -> None:
        """Nothing is open."""


class _AsyncMemoryTransport:
    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def send(self, request: HTTPRequest) -> HTTPResponse:
        await asyncio.sleep(0)  # as with any other I/O, other tasks go on meanwhile
        fault = self._service._begin(request)  # noqa: SLF001 - its other half
        body: Any = request.body
        if not isinstance(body, bytes):
            body = b"" if body is None else b"".join([piece async for piece in body])
        return self._service._end(request, body, fault)  # noqa: SLF001 - as above

    async def aclose(self) -> None:
        """Nothing is open."""
