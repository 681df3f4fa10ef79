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
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, cast
from urllib.parse import parse_qs, unquote, urlsplit

from knowledge_bot._extensions import HEADER
from knowledge_bot._retries import no_waiting
from knowledge_bot._transports import (
    STANDING_IN,
    AsyncTransport,
    HTTPRequest,
    HTTPResponse,
    Transport,
)
from knowledge_bot.errors import ConfigurationError
from knowledge_bot.testing._extensions import (
    ANNOUNCED,
    Content,
    KeptAnswers,
    RejectedError,
    Sources,
)
from knowledge_bot.testing._requests import (
    check_headers,
    check_query_strictly,
    check_strictly,
    fields_in,
    form_in,
    invalid,
    nothing_there,
)
from knowledge_bot.testing._sync import HeldOrigins
from knowledge_bot.transcripts import read

__all__ = ["Answers", "MemoryService", "ReceivedQuestion", "ReceivedRequest", "no_waiting"]


class ReceivedQuestion(str):
    """A question, and what else a bot knows when it answers.

    Of a message that is a transcript (`knowledge_bot.transcripts`), it is the question alone.

    Attributes:
        bot_id: who is asked.
        conversation_id: where, also in a conversation that begins with it.
        message: the whole message.
        earlier: the messages that the bot heard in this conversation before, in order.
    """

    __slots__ = ("bot_id", "conversation_id", "earlier", "message")
    bot_id: str
    conversation_id: str
    message: str
    earlier: tuple[str, ...]


Answers = Mapping[str, str | Sequence[str]] | Callable[[ReceivedQuestion], str]
"""What a bot says: answers by question, or a function of a `ReceivedQuestion`, which is a `str`.

Where there are several answers to a question, they are given one after another, and the last one
from then on.
"""

NOT_FOUND = "I could not find that in my sources."


@dataclass(frozen=True, slots=True, repr=False)
class ReceivedRequest:
    """A request that arrived, whatever became of it.

    Attributes:
        method: for example `POST`.
        path: below the version, for example `/messages`.
        headers: the headers, with names in lower case; one that came twice with a comma between.
        body: the body's bytes.
        query: what came behind the path, for example `status=failed`.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    query: str = ""

    @property
    def value(self) -> dict[str, Any]:
        """The fields that were sent, of an upload those beside the file; `{}` without a body."""
        if not self.body:
            return {}
        fields = self._form[0] if self._is_form else json.loads(self.body)
        unwrapped = fields.get("value", fields)
        return dict(unwrapped)

    @property
    def file(self) -> tuple[str, bytes] | None:
        """The name and the content of an uploaded file; None of any other request."""
        return self._form[1] if self._is_form else None

    @property
    def is_ping(self) -> bool:
        """Whether it asks for a sign of life, and changes nothing."""
        return (self.method, self.path) == ("GET", "/ping")

    @property
    def _is_form(self) -> bool:
        return self.headers.get("content-type", "").startswith("multipart/form-data")

    @property
    def _form(self) -> tuple[dict[str, Any], tuple[str, bytes] | None]:
        return form_in(self.headers["content-type"], self.body)

    def __repr__(self) -> str:
        return f"ReceivedRequest({self.method!r}, {self.path!r})"  # no header: the key is in one


Chosen = Callable[[ReceivedRequest], bool]


@dataclass(slots=True)
class _Fault:
    """What happens to requests instead of their answer; `acts`: whether the service acts on them.

    `left` says to how many more; None: to all that come.
    """

    happen: Callable[[], HTTPResponse]
    acts: bool
    left: int | None
    where: Chosen | None = None
    arrives: bool = True

    def meets(self, request: ReceivedRequest) -> bool:
        return not request.is_ping if self.where is None else self.where(request)


@dataclass
class MemoryService:
    """The interface, answered from memory in the process of the test.

    It keeps what arrives, and creates what a service would: sources, conversations, messages. It
    judges requests by the interface alone (sections 2 and 4). One service may answer any number of
    clients, blocking and asynchronous ones, and keeps everything as long as it lives. A fault meets
    the next requests that are no pings, or those that it is meant for.

    Args:
        bots: what each bot answers, by id: see `Answers`. A question without an answer is answered
            with "I could not find that in my sources."
        collections: ids of the collections, or names by id.
        wrapped: whether answers are wrapped in `value`; the interface shows both forms (section 4).
        extensions: what it announces and does beyond the interface, `idempotency`, `sources`,
            `sync` and `passages`, where a text is one passage; by default nothing.
        strict: whether it also has the limits of the embedded service, which the interface leaves
            open: the forms and lengths of names, addresses and messages.
        limited: the API keys that see some collections alone, with the ids of these; all others
            see everything.

    Attributes:
        requests: what arrived but for pings, in order, also where it was answered with a fault.
        pings: the pings that arrived: clients send one to learn what is announced.
        reachable: whether connections are made; where tests set it to false, not even a ping is
            answered.
        conversations: the messages that were sent in each conversation, by its id. A test may add
            one, which then belongs to whoever is first asked there.
        sources: the sources that are there, in the order in which they were created. They are
            `pending`, as the service returned them; with extensions they have the fields of
            `sources`, and are ready at once, unless `hold_sources` or `fail_source` was called.
        announcement: the header of its pings that names the extensions; tests may change it.
    """

    bots: Mapping[str, Answers] = field(default_factory=lambda: {"bot_default": {}})
    collections: Mapping[str, str] | Iterable[str] = ("col_default",)
    wrapped: bool = True
    extensions: Iterable[str] = ()
    limited: Mapping[str, Iterable[str]] = field(default_factory=dict, repr=False)
    strict: bool = False
    requests: list[ReceivedRequest] = field(default_factory=list, init=False)
    pings: list[ReceivedRequest] = field(default_factory=list, init=False)
    sources: list[dict[str, Any]] = field(default_factory=list, init=False)
    conversations: dict[str, list[str]] = field(default_factory=dict, init=False)
    reachable: bool = field(default=True, init=False)

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
        self.extensions = frozenset(self.extensions)
        if unknown := self.extensions - ANNOUNCED.keys():
            raise ConfigurationError.of("extensions", f"{', '.join(map(repr, unknown))} is not one")
        self.announcement: str = ", ".join(ANNOUNCED[name] for name in sorted(self.extensions))
        self._sources, self._keys = Sources(self.sources), KeptAnswers()
        self._origins = HeldOrigins(self._sources)
        self._owners: dict[str, str] = {}  # bots by conversation
        self._given = Counter[tuple[str, str]]()  # how often each question was answered
        self._faults: list[_Fault] = []
        self._numbers = itertools.count(1)
        # What a client knows of a conversation, it knows by address and id; services of several
        # tests have one address.
        self._mark = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._released.set()

    @property
    def transport(self) -> Transport:
        """What a `Client` sends with: `Client(key, url, transport=service.transport)`."""
        return _MemoryTransport(self)

    @property
    def async_transport(self) -> AsyncTransport:
        """What an `AsyncClient` sends with."""
        return _AsyncMemoryTransport(self)

    @contextmanager
    def standing_in(self) -> Iterator["MemoryService"]:
        """Let it answer all clients that are made within the block without a transport.

        So code can be tested that makes its clients itself, from settings or a connection of
        Airflow's, whatever address these name.
        """
        before = dict(STANDING_IN)
        STANDING_IN.update(Transport=self.transport, AsyncTransport=self.async_transport)
        try:
            yield self
        finally:
            STANDING_IN.clear()
            STANDING_IN.update(before)

    @contextmanager
    def holding_answers(self) -> Iterator[None]:
        """Act on the requests that arrive within the block, and answer them when it ends.

        Whoever is not as patient has a timeout. A ping is answered at once.
        """
        self._released.clear()
        try:
            yield
        finally:
            self._released.set()

    # Faults, each for the next `times` requests that have none yet (None: all, until `recover`) and
    # are no pings, of which an ingestion sends one before its first item; or `where` it says so

    def fail_next(
        self,
        status: int = 500,
        *,
        code: str = "test",
        message: str = "A fault of the test",
        retry_after: float | None = None,
        times: int | None = 1,
        where: Chosen | None = None,
    ) -> None:
        """Answer the next requests with an error, without acting on them.

        Args:
            status: the HTTP status, 400 or above.
            code: the error body's `code` (interface section 7).
            message: the error body's `message`.
            retry_after: seconds that `Retry-After` names; None: there is no such header.
            times: how many requests, here and for the other faults; None: all, until `recover`.
            where: which requests are meant, such as `lambda request: request.is_ping`; by default
                all but pings.
        """
        if status not in range(400, 600):
            raise ConfigurationError.of(
                "status", f"expected 400 to 599, not {status!r}; see answer_next"
            )
        asked = "" if retry_after is None else f"{retry_after:f}".rstrip("0").rstrip(".")
        headers = {"retry-after": asked} if asked else {}
        body = json.dumps({"code": code, "message": message}).encode()
        self.answer_next(status, body, headers, times=times, where=where)

    def answer_next(
        self,
        status: int = 200,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        times: int | None = 1,
        where: Chosen | None = None,
    ) -> None:
        """Answer the next requests with exactly this, without acting on them.

        Args:
            status: the HTTP status.
            body: the body, as it is.
            headers: the headers.
            times: as in `fail_next`.
            where: as in `fail_next`.
        """
        sent = {name.lower(): text for name, text in (headers or {}).items()}
        self._expect(_Fault(lambda: HTTPResponse(status, sent, body), False, times, where))

    def lose_next_answer(self, *, times: int | None = 1, where: Chosen | None = None) -> None:
        """Act on the next requests, and lose their answers: the connection breaks.

        The client's error says `Delivery.UNKNOWN`. `times` and `where` are as in `fail_next`.
        """
        lost = _raising(ConnectionResetError("reset by the test"))
        self._expect(_Fault(lost, True, times, where))

    def time_out_next(
        self, *, acts: bool = False, times: int | None = 1, where: Chosen | None = None
    ) -> None:
        """Let the next requests arrive and be answered too late, without any waiting.

        Args:
            acts: whether the service acts on them.
            times: as in `fail_next`.
            where: as in `fail_next`.
        """
        self._expect(_Fault(_raising(TimeoutError("too late, says the test")), acts, times, where))

    def refuse_next_connection(self, *, times: int | None = 1) -> None:
        """Let no connection be made for the next requests: they do not arrive.

        The client's error says `Delivery.NOT_DELIVERED`.
        """
        self._expect(_Fault(_refused, False, times, arrives=False))

    def recover(self) -> None:
        """Forget the faults that are still to come, and be reachable."""
        self.reachable = True
        with self._lock:
            self._faults.clear()

    def _expect(self, fault: _Fault) -> None:
        if fault.left is not None and fault.left < 1:
            raise ConfigurationError.of("times", f"expected 1 or more, not {fault.left!r}")
        with self._lock:
            self._faults.append(fault)

    # What becomes of sources, with the extension `sources`

    def hold_sources(self) -> None:
        """Let sources that are created or replaced from now on be pending."""
        self._sources.held = True

    def finish_sources(self) -> None:
        """Let what is pending be ready, or fail as `fail_source` says; hold nothing any more."""
        with self._lock:
            self._sources.held = False
            self._sources.finish()

    def fail_source(self, name: str, reason: str = "it cannot be read") -> None:
        """Let the next text of a source with this name fail, or the one that is pending.

        Args:
            name: the source's name.
            reason: what its `reason` says.
        """
        self._sources.fail(name, reason)

    def ready_content(self, source_id: str) -> Content | None:
        """Return what a bot would answer from: the text, page's address or file of a source.

        It is that of `ready_revision`; None where there is no such source, or no text is ready.
        """
        return self._sources.content(source_id)

    # Answers

    def _connect(self, request: HTTPRequest) -> None:
        """Let a connection be refused, where the next fault says so."""
        if not self.reachable:
            _refused()
        received = _received(request, b"")
        with self._lock:
            plain = next((one for one in self._faults if one.where is None), None)
            if plain is None or plain.arrives or not plain.meets(received):
                return
            self._spend(plain)
        plain.happen()

    def _receive(self, request: HTTPRequest, body: bytes) -> HTTPResponse:
        received = _received(request, body)
        with self._lock:
            (self.pings if received.is_ping else self.requests).append(received)
            fault = next((one for one in self._faults if one.meets(received)), None)
            if fault is not None:
                self._spend(fault)
                if not fault.acts:
                    return fault.happen()
            answer = self._answer(received)
        return answer if fault is None else fault.happen()

    def _spend(self, fault: _Fault) -> None:
        if fault.left is not None:
            fault.left -= 1
            if not fault.left:
                self._faults.remove(fault)

    def _answer(self, received: ReceivedRequest) -> HTTPResponse:
        key = received.headers.get("idempotency-key")
        seen = self.limited.get(received.headers.get("x-api-key", ""))
        self._sources.seen = None if seen is None else frozenset(seen)
        try:
            if received.method != "GET" and not received.headers.get("x-api-key"):
                raise RejectedError(401, "unauthorized", "there is no API key")
            keyed = received.method == "POST" and "idempotency" in self.extensions
            if not keyed or key is None:
                return self._acted(received)[0]
            return self._keys.answer(key, _parts(received), lambda: self._acted(received))
        except RejectedError as error:
            headers = {"content-type": "application/json"}
            if key is not None and "idempotency" in self.extensions and error.status != 401:
                headers["idempotency-key"] = key
            return HTTPResponse(error.status, headers, json.dumps(error.body).encode())

    def _acted(self, received: ReceivedRequest) -> tuple[HTTPResponse, str]:
        """Act on a request; return the answer, and the id of what it made."""
        answer = self._act(received)
        if answer is None:
            return HTTPResponse(204, {}), ""
        headers = {"content-type": "application/json"}
        if received.path == "/ping" and self.announcement:
            headers |= {HEADER: self.announcement, "cache-control": "no-store", "vary": "X-API-KEY"}
        fields = answer if isinstance(answer, dict) else {}
        if self.wrapped and isinstance(answer, dict):
            answer = {"value": answer}
        return HTTPResponse(200, headers, json.dumps(answer).encode()), fields.get("id", "")

    def _act(  # noqa: C901, PLR0911, PLR0912 - a table of routes
        self, received: ReceivedRequest
    ) -> object:
        sources = self._sources
        manages, searches = ("sources" in self.extensions, "passages" in self.extensions)
        match received.method, *unquote(received.path).split("/")[1:]:
            case "GET", "ping":
                return "pong"
            case "GET", "collections":
                return {"data": [self._collection(one) for one in self._known]}
            case "GET", "bots":
                return {"data": [{"id": bot, "name": bot} for bot in self.bots]}
            case "GET", "bots", bot, "conversations":
                return self._listed(bot)
            case "POST", "messages":
                return self._message(_value_of(received))
            case "POST", "sources", kind if kind in _KINDS:
                return self._created(received, kind)
            case "POST", "search" if searches:
                return self._search(_value_of(received))
            case "GET", "passages", *names if searches:
                return sources.passage("/".join(names))
            case "GET", "sources" if manages:
                query = parse_qs(received.query, keep_blank_values=True)
                if self.strict:
                    check_query_strictly(query)
                return sources.listed(query)
            case "GET", "sources", source_id if manages:
                return sources.shown(sources.get(source_id))
            case "DELETE", "sources", source_id if manages:
                sources.delete(source_id)
                return None
            case method, "sync", *rest if "sync" in self.extensions:
                return self._synced(method, "/".join(rest), received)
            case _:
                raise nothing_there(unquote(received.path))

    def _synced(self, method: str, rest: str, received: ReceivedRequest) -> object:  # noqa: C901, PLR0911 - as above
        origins = self._origins
        try:
            query = parse_qs(received.query, keep_blank_values=True, errors="strict")
        except UnicodeDecodeError:
            raise invalid("the query is not UTF-8") from None
        match method, rest:
            case "GET", "":
                return origins.sums(query)
            case "GET", "entries":
                return origins.entries(query)
            case "GET", "origins":
                return origins.listed()
            case "DELETE", "origins":
                origins.delete(query)
                return None
            case "PATCH", "origins":
                return origins.rename(query, _value_of(received))
            case "POST", "overlap":
                value = _value_of(received)
                return origins.overlap({**value, "collections": self._collections(value)})
            case "POST", "touch":
                return origins.touch(_value_of(received), self._changes)
            case "POST", "complete":
                return origins.complete(_value_of(received))
            case "PUT", kind if kind in _KINDS:
                fields, kind, content = self._read_source(received, kind)
                value = _value_of(received)
                return origins.put(
                    value, kind, fields, content, lambda: self._new_source(fields, kind, content)
                )
        raise nothing_there(unquote(received.path))

    def _changes(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Read what a touch changes of a source."""
        changes: dict[str, Any] = {}
        if value.get("name") is not None:
            changes["name"] = _text(value, "name")
        if value.get("collections") is not None:
            changes["collections"] = [*map(self._collection, self._collections(value))]
        return changes

    def _search(self, value: Mapping[str, Any]) -> object:
        self._check_limits(value)
        bot, ids = value.get("bot_id"), value.get("collections") or []
        limit = value.get("limit", 10)
        if bot is not None:
            self._check_bot(bot)
        self._check_collections(ids)
        if not isinstance(limit, int) or not 1 <= limit <= 40:
            raise invalid("limit is not 1 to 40")
        return {"data": self._sources.found(_text(value, "query"), ids or self._known, limit)}

    def _check_limits(self, value: Mapping[str, Any]) -> None:
        if self.strict:
            check_strictly(value)

    def _check_bot(self, bot: str, status: int = 400) -> None:
        if bot not in self.bots:
            raise RejectedError(status, "unknown_bot", f"there is no bot {bot}")

    def _check_collections(self, ids: Sequence[object]) -> None:
        known = self._known
        if unknown := [str(each) for each in ids if not isinstance(each, str) or each not in known]:
            raise RejectedError(400, "unknown_collection", f"there is no {', '.join(unknown)}")

    @property
    def _known(self) -> Mapping[str, str]:
        assert isinstance(self.collections, Mapping)  # noqa: S101 - made one above
        seen = self._sources.seen
        return {
            each: name for each, name in self.collections.items() if seen is None or each in seen
        }

    def _collection(self, known: str) -> dict[str, str]:
        return {"id": known, "name": self._known[known]}

    def _listed(self, bot: str) -> object:
        self._check_bot(bot, 404)
        held = [conversation for conversation, of in self._owners.items() if of == bot]
        return {"data": [{"id": each, "name": each} for each in held]}

    def _message(self, value: Mapping[str, Any]) -> object:
        self._check_limits(value)
        bot, content = _text(value, "bot_id"), _text(value, "content")
        self._check_bot(bot)
        if not isinstance(value.get("conversation_id"), str | None):
            raise invalid("conversation_id is no id")
        conversation = value.get("conversation_id") or f"conv_{self._mark}{next(self._numbers)}"
        told = self.conversations.get(conversation)
        if value.get("conversation_id") and (
            told is None or self._owners.get(conversation, bot) != bot
        ):
            raise RejectedError(400, "unknown_conversation", f"{bot} has no {conversation}")
        question = ReceivedQuestion(read(content).question)
        question.bot_id, question.conversation_id = bot, conversation
        question.message, question.earlier = content, tuple(told or ())
        answer = self._answer_of(question)
        self._owners[conversation] = bot
        self.conversations.setdefault(conversation, []).append(content)
        return {
            "id": f"msg_{self._mark}{next(self._numbers)}",
            "answer": answer,
            "conversation_id": conversation,
            "created_at": int(time.time() * 1000),
        }

    def _answer_of(self, question: ReceivedQuestion) -> str:
        answers = self.bots[question.bot_id]
        if not callable(answers):
            answer = answers.get(question, NOT_FOUND)
            if isinstance(answer, str):
                return answer
            given = self._given[question.bot_id, str(question)]
            self._given[question.bot_id, str(question)] += 1
            return answer[min(given, len(answer) - 1)]
        try:
            answer = answers(question)
        except Exception as error:
            # An assertion reaches the test; anything else would look like a lost connection.
            raise AssertionError(f"what answers for {question.bot_id} raised {error!r}") from error
        assert isinstance(answer, str), (  # noqa: S101
            f"what answers for {question.bot_id} returned {answer!r}"
        )
        return answer

    def _created(self, received: ReceivedRequest, kind: str) -> object:
        return self._new_source(*self._read_source(received, kind))

    def _new_source(self, fields: dict[str, Any], kind: str, content: Content) -> dict[str, Any]:
        source = {
            "id": f"src_{next(self._numbers)}",
            **fields,
            "status": "pending",
            "created_at": int(time.time() * 1000),
        }
        if not {"sources", "sync", "passages"}.isdisjoint(self.extensions):
            return self._sources.create(source, kind, content)
        self.sources.append(source)
        return source

    def _read_source(
        self, received: ReceivedRequest, kind: str
    ) -> tuple[dict[str, Any], str, Content]:
        """Read what a source is made from: its fields, its kind, and its content."""
        value = _value_of(received)
        check_headers(value)
        self._check_limits(value)
        name, needed = _text(value, "name"), _KINDS[kind]
        content: Content = _text(value, needed) if needed else b""
        if not needed:
            if received.file is None:
                raise invalid("file is missing")
            filename, content = received.file
            kind += PurePosixPath(filename).suffix.lower()
        collections = [*map(self._collection, self._collections(value))]
        return {"name": name, "collections": collections}, kind, content

    def _collections(self, value: Mapping[str, Any]) -> list[str]:
        ids = value.get("collections")
        if not isinstance(ids, list) or not ids:
            raise invalid("collections is not a list of ids")
        self._check_collections(ids)
        return ids


def _check(bots: Any, collections: Any) -> None:
    """Check the arguments of a test, which may be untyped."""
    if isinstance(collections, str) or not isinstance(collections, Iterable):
        raise ConfigurationError.of("collections", "expected several ids, or names by id")
    if not isinstance(bots, Mapping):
        raise ConfigurationError.expected("bots", "what each bot answers, by id", bots)
    for bot, answers in bots.items():
        if not isinstance(answers, Mapping) and (
            not callable(answers) or inspect.iscoroutinefunction(answers)
        ):
            raise ConfigurationError.of(
                "bots",
                f"what {bot} answers is neither a mapping nor a function that returns a "
                f"string, but {type(answers).__name__}",
            )


# How sources are created, and the field that each way needs beside `name` and `collections`.
_KINDS = {"webpage": "url", "write": "content", "upload": ""}


def _value_of(received: ReceivedRequest) -> dict[str, Any]:
    return fields_in(received.headers.get("content-type", ""), received.body)


def _parts(received: ReceivedRequest) -> object:
    """Return the parts of a request by which it is compared with another (docs/extensions.md)."""
    value = _value_of(received)
    collections = value.pop("collections", None)
    if isinstance(collections, list):
        collections = sorted(map(str, collections))
    return received.path, value, collections, received.file


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str) or not text.strip():
        raise invalid(f"{name} is missing")
    return text


def _received(request: HTTPRequest, body: bytes) -> ReceivedRequest:
    url = urlsplit(request.url)
    path = url.path.partition("/public/v1")
    headers: dict[str, str] = {}
    for name, text in request.headers:
        before = headers.get(name.lower())
        headers[name.lower()] = text if before is None else f"{before}, {text}"
    return ReceivedRequest(request.method, path[2] or path[0], headers, body, url.query)


def _refused() -> HTTPResponse:
    raise ConnectionRefusedError("refused by the test")


def _raising(error: Exception) -> Callable[[], HTTPResponse]:
    def happen() -> HTTPResponse:
        raise type(error)(*error.args)

    return happen


class _MemoryTransport:
    def __init__(self, service: MemoryService) -> None:
        self._service = service

    def send(self, request: HTTPRequest) -> HTTPResponse:
        service, body = self._service, cast("Any", request.body)
        service._connect(request)  # noqa: SLF001 - its other half
        if not isinstance(body, bytes):
            body = b"".join(body or ())
        answer = service._receive(request, body)  # noqa: SLF001 - as above
        held = not _received(request, b"").is_ping
        if held and not service._released.wait(request.timeout):  # noqa: SLF001 - as above
            raise TimeoutError
        return answer

    def close(self) -> None:
        """Nothing is open."""


class _AsyncMemoryTransport:
    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def send(self, request: HTTPRequest) -> HTTPResponse:
        await asyncio.sleep(0)  # as with any other I/O, other tasks go on meanwhile
        service, body = self._service, cast("Any", request.body)
        service._connect(request)  # noqa: SLF001 - its other half
        if not isinstance(body, bytes):
            body = b"" if body is None else b"".join([piece async for piece in body])
        answer = service._receive(request, body)  # noqa: SLF001 - as above
        held = not _received(request, b"").is_ping
        async with asyncio.timeout(request.timeout):
            # The event is the threads', of whatever loop.
            while held and not service._released.is_set():  # noqa: SLF001, ASYNC110 - as above
                await asyncio.sleep(0.005)
        return answer

    async def aclose(self) -> None:
        """Nothing is open."""
