"""The interface, each endpoint once, as data: a request to send and the way to read its answer.

The last ones are of the extension `sources` (docs/extensions.md), which a service may announce.

There is no I/O here. A builder checks its arguments, states what to send, and names the model that
the answer is read into; `endpoint` gives the same builder to both clients, typed for each.
"""

import functools
import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    overload,
)
from urllib.parse import quote, urlencode, urlsplit

from knowledge_bot._extensions import Extensions, given_key
from knowledge_bot._json import json_in
from knowledge_bot._texts import holds_login
from knowledge_bot._uploads import OnProgress, Upload, UploadFile
from knowledge_bot.errors import ConfigurationError

if TYPE_CHECKING:  # pydantic is slow to load, so it waits for the first answer
    from knowledge_bot import models

T = TypeVar("T")
P = ParamSpec("P")

Collections: TypeAlias = Union[str, "models.Collection", Iterable[Union[str, "models.Collection"]]]
"""One collection or several, as ids or as `Collection` objects."""

Headers: TypeAlias = Mapping[str, str] | Iterable["models.Header"]
"""Request headers as a mapping or as `Header` objects."""


Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_SEARCH = "/search"

# POSTs that change nothing, and those that have no second effect.
_ONLY_READ = frozenset({_SEARCH, "/sync/overlap"})
_REPEATABLE = _ONLY_READ | {"/sync/touch", "/sync/complete"}

# The requests that carry a key of idempotency, where the service announces that.
_WITH_KEYS = ("/sources/webpage", "/sources/write", "/sources/upload", "/messages")


@dataclass(slots=True)
class Request(Generic[T]):
    """One call as a value.

    Attributes:
        method: `GET` reads; `POST` creates something, each time it is sent, but on some paths; the
            others may be sent twice.
        path: below the base URL, quoted.
        read: parses the answer's body into the result; raises ValueError where it cannot.
        body: the JSON body, or None.
        upload: the multipart body instead, for the endpoints that take a file.
        needs: an extension that the service has to announce, and the parameters of it.
        done_if: codes of a 404 that say that nothing is left to do.
        idempotency_key: the key that goes along: the caller's, or one that is made for the call.
        in_doubt: an earlier attempt may have been acted on.
        takes_key: whether a key of idempotency has a meaning for it.
        secrets: values in the body that no message repeats: those of headers for a scrape.
    """

    method: Method
    path: str
    read: Callable[[bytes], T]
    body: bytes | None = field(default=None, repr=False)
    upload: Upload | None = None
    needs: tuple[str, ...] = ()
    done_if: tuple[str, ...] = ()
    idempotency_key: str | None = None
    in_doubt: bool = False
    takes_key: bool = field(init=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def only_reads(self) -> bool:
        """Whether nothing changes by it, however often it is sent."""
        return self.method == "GET" or self.path in _ONLY_READ

    @property
    def repeatable(self) -> bool:
        """Whether it has no second effect, however often it is sent."""
        return self.method != "POST" or self.path in _REPEATABLE

    def __post_init__(self) -> None:
        self.takes_key = self.method == "POST" and self.path in _WITH_KEYS

    def __str__(self) -> str:
        # Without the query (`kbot api`), which may hold secrets.
        return f"{self.method} {self.path.partition('?')[0]}"


class SyncDriver(ABC):
    """What an endpoint needs of a blocking client."""

    @abstractmethod
    def _call(self, request: Request[T]) -> T: ...


class AsyncDriver(ABC):
    """What an endpoint needs of an asynchronous client."""

    @abstractmethod
    def _call(self, request: Request[T]) -> Coroutine[Any, Any, T]: ...


class _Method:
    """What builds requests, as a method of both clients."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self._build = build
        self.__doc__ = build.__doc__
        inspect.unwrap(build).__qualname__ = build.__name__  # as errors about arguments name it


class endpoint(_Method, Generic[P, T]):  # noqa: N801 - used as a decorator
    """Makes a builder of requests a method of both clients, which each send it in their own way."""

    def __init__(self, build: Callable[P, Request[T]]) -> None:
        super().__init__(build)

        @functools.wraps(build)
        def call(client: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            return client._call(build(*args, **kwargs))  # noqa: SLF001 - the drivers' one method

        # Bound to a client, it has the arguments of the builder.
        del call.__wrapped__
        signature = inspect.signature(build)
        client = inspect.Parameter("client", inspect.Parameter.POSITIONAL_ONLY)
        call.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[client, *signature.parameters.values()]
        )
        self._call = call

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Request[T]]: ...
    @overload
    def __get__(self, client: SyncDriver, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncDriver, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self._build if client is None else MethodType(self._call, client)


Steps: TypeAlias = Generator[Request[Any], Any, T]
"""Yields requests, is sent the result of each, and returns that of the whole."""


class sequence(_Method, Generic[P, T]):  # noqa: N801 - used as a decorator
    """Makes a generator of requests a method of both clients: one call, of one result."""

    def __init__(self, build: Callable[P, Steps[T]]) -> None:
        super().__init__(build)

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Steps[T]]: ...
    @overload
    def __get__(self, client: SyncDriver, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncDriver, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:
            return self._build
        run = drive if isinstance(client, SyncDriver) else adrive

        @functools.wraps(self._build)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return run(self._build(*args, **kwargs), client._call)  # noqa: SLF001 - as above

        return call


def drive(steps: Generator[Any, Any, T], send: Callable[[Any], Any]) -> T:
    """Send what a generator yields, send it what comes of each, and return its result."""
    result: Any = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # the generator returns T
        result = send(step)


async def adrive(steps: Generator[Any, Any, T], send: Callable[[Any], Awaitable[Any]]) -> T:
    """Drive as `drive` does, where sending is awaited."""
    result: Any = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return] # as above
        result = await send(step)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list, and what names the part after it; None: this is the last one."""

    data: Sequence[T]
    following: str | None


class Endpoints:
    """The operations of both clients (interface section 4).

    On `Client` each returns its result, on `AsyncClient` an awaitable of it. Each raises

    - `ConfigurationError` for an argument that cannot be sent, before anything is,
    - `ConnectionFailedError`, `RequestTimeoutError` or `ConnectionLostError` without an answer,
    - an `APIError` where the service refused or failed,
    - `UnexpectedResponseError` where its answer cannot be understood;

    `error.delivery` says whether the service may have acted.
    """

    @endpoint
    @staticmethod
    def ping() -> Request[Literal[True]]:
        """Check that the service is alive: True, or an error."""
        return Request("GET", PING, read_pong)

    @endpoint
    @staticmethod
    def extensions() -> Request[Extensions]:
        """Return what the service can beyond the interface, as it announces it to this API key.

        A process asks once an hour, for all clients with this address and API key; a `ping`
        asks it as well.

        Returns:
            The parameters of each extension by its name, for example `{"idempotency": {"lifetime":
            604800}, "sources": {"manage": True}}`; read-only, empty where nothing is announced.
        """
        return Request("GET", PING, read_nothing, needs=ANNOUNCEMENT)

    @endpoint
    @staticmethod
    def list_collections() -> "Request[list[models.Collection]]":
        """List the collections: `id` and `name` of each."""
        return Request("GET", "/collections", _read_collections)

    @endpoint
    @staticmethod
    def list_bots() -> "Request[list[models.Bot]]":
        """List the bots: `id` and `name` of each."""
        return Request("GET", "/bots", _read_bots)

    @endpoint
    @staticmethod
    def list_conversations(bot_id: str) -> "Request[list[models.Conversation]]":
        """List the conversations of a bot: `id` and `name` of each.

        Args:
            bot_id: the bot's id, `bot_…`.
        """
        bot = quote(identifier("bot_id", bot_id, "bot_"), safe="")
        return Request("GET", f"/bots/{bot}/conversations", _read_conversations)

    @endpoint
    @staticmethod
    def create_webpage_source(
        *,
        name: str,
        collections: Collections,
        url: str,
        headers: Headers | None = None,
        idempotency_key: str | None = None,
    ) -> "Request[models.Source]":
        """Create a source from a web page, which the service scrapes.

        Args:
            name: the source's name.
            collections: the collections it belongs to, at least one.
            url: the page's address.
            headers: headers that the service sends while it scrapes.
            idempotency_key: the key of an earlier call with the same arguments, as `error` has it,
                so that the service acts once; by default a new one, where the service takes keys.

        Returns:
            The source, usually `pending`: the service reads the page later.
        """
        fields = page_fields(name, collections, url, headers)
        return _post("/sources/webpage", fields, _read_source, idempotency_key)

    @endpoint
    @staticmethod
    def create_text_source(
        *, name: str, collections: Collections, content: str, idempotency_key: str | None = None
    ) -> "Request[models.Source]":
        """Create a source from text.

        Args:
            name: the source's name.
            collections: the collections it belongs to, at least one.
            content: the text.
            idempotency_key: as for `create_webpage_source`.

        Returns:
            The source, usually `pending`.
        """
        fields = text_fields(name, collections, content)
        return _post("/sources/write", fields, _read_source, idempotency_key)

    @endpoint
    @staticmethod
    def upload_source(
        *,
        name: str,
        collections: Collections,
        file: UploadFile,
        filename: str | None = None,
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
        idempotency_key: str | None = None,
    ) -> "Request[models.Source]":
        """Create a source from a file, in constant memory.

        Args:
            name: the source's name.
            collections: the collections it belongs to, at least one.
            file: a path, the content as bytes, or a binary file object, read from where it stands.
                A stream that cannot seek is sent once and never again.
            filename: the name that the service sees; by default the path's, the file object's, or
                `name`.
            content_type: the file's media type; by default guessed from `filename`.
            on_progress: called with the bytes of the file sent so far and the file's size, None
                where it is unknown; from 0 again when the upload is sent again. A file of up to
                512 KiB is sent in one piece, so it is called once, as that is handed over.
            idempotency_key: as for `create_webpage_source`.

        Returns:
            The source, usually `pending`.
        """
        upload = Upload.prepare(
            source_fields(name, collections),
            file,
            filename=filename,
            content_type=content_type,
            on_progress=on_progress,
        )
        return _keyed(
            Request("POST", "/sources/upload", _read_source, upload=upload), idempotency_key
        )

    @endpoint
    @staticmethod
    def send_message(
        *,
        bot_id: str,
        content: str,
        conversation_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> "Request[models.Message]":
        """Send a message to a bot and return its answer, with the id of its conversation.

        Args:
            bot_id: the bot that is asked, `bot_…`.
            content: the message.
            conversation_id: the conversation it continues, `conv_…`; by default the service starts
                a new one and names it in the answer.
            idempotency_key: as for `create_webpage_source`.
        """
        fields = {
            "bot_id": identifier("bot_id", bot_id, "bot_"),
            "content": non_empty_text("content", content),
        }
        if conversation_id is not None:
            fields["conversation_id"] = identifier("conversation_id", conversation_id, "conv_")
        return _post("/messages", fields, _read_message, idempotency_key)

    # Of the extension `sources`; without it each of these raises `UnsupportedError`

    @sequence
    @staticmethod
    def list_sources(
        name: str | None = None,
        status: str | Iterable[str] | None = None,
        collection: Collections | None = None,
    ) -> "Steps[list[models.SourceDetails]]":
        """List the sources, the newest first; all pages of them, where `sources` is announced.

        Args:
            name: only those of exactly this name.
            status: only those with this status, or one of several: `pending`, `processing`,
                `ready`, `failed`.
            collection: only those in this collection, or in one of several.

        Raises:
            UnsupportedError: the service does not announce `sources`.
        """
        query = [("limit", str(_PAGE))]
        if name is not None:
            query.append(("name", non_empty_text("name", name)))
        if status is not None:
            several = [status] if isinstance(status, str) else status
            if not isinstance(several, Iterable):
                raise ConfigurationError.of("status", f"expected a status, not {status!r}")
            query += [("status", non_empty_text("status", one)) for one in several]
        if collection is not None:
            query += [("collection", one) for one in collection_ids(collection, "collection")]
        first = path = f"/sources?{urlencode(query)}"
        found: list[models.SourceDetails] = []
        while True:
            page = yield Request("GET", path, _read_page_of_sources, needs=("sources",))
            found += page.data
            if page.following is None:
                return found
            path = f"{first}&before={quote(page.following, safe='')}"

    @endpoint
    @staticmethod
    def get_source(source_id: str) -> "Request[models.SourceDetails]":
        """Return a source with its state, where the service announces `sources`.

        Args:
            source_id: the source's id, `src_…`.

        Raises:
            UnsupportedError: the service does not announce `sources`.
            NotFoundError: there is no such source.
        """
        return Request("GET", _source_path(source_id), _read_details, needs=("sources",))

    @endpoint
    @staticmethod
    def delete_source(source_id: str) -> Request[None]:
        """Delete a source, where the service announces `sources`; one that is not there is fine.

        Args:
            source_id: the source's id, `src_…`.

        Raises:
            UnsupportedError: the service does not announce `sources`, or not that this key may
                manage them.
        """
        return Request(
            "DELETE",
            _source_path(source_id),
            read_nothing,
            needs=("sources", "manage"),
            done_if=(UNKNOWN_SOURCE,),
        )

    # Of the extension `passages`; without it both raise `UnsupportedError`

    @endpoint
    @staticmethod
    def search(
        query: str,
        *,
        bot_id: str | None = None,
        collections: Collections | None = None,
        limit: int = 5,
    ) -> "Request[list[models.Passage]]":
        """Return the passages that fit a question best, where `passages` is announced.

        No bot is asked: there is no message, no conversation and no answer in prose.

        Args:
            query: the question.
            bot_id: look in the collections of this bot, `bot_…`.
            collections: look in these; with both, in those of the bot that are named, and with
                neither in all that the API key sees.
            limit: how many passages at most, 1 to 40.

        Returns:
            The passages, best first; the list is empty if none has anything of the question.

        Raises:
            UnsupportedError: the service does not announce `passages`.
        """
        fields: dict[str, Any] = {"query": non_empty_text("query", query), "limit": limit}
        check_number("limit", limit, 1, MOST_PASSAGES, whole=True)
        if bot_id is not None:
            fields["bot_id"] = identifier("bot_id", bot_id, "bot_")
        if collections is not None:
            fields["collections"] = collection_ids(collections)
        return json_request("POST", _SEARCH, fields, _read_passages, needs=("passages",))

    @endpoint
    @staticmethod
    def get_passage(passage_id: str) -> "Request[models.Passage]":
        """Return a passage, where the service announces `passages`.

        Args:
            passage_id: the passage's id, as `search` returned it.

        Raises:
            UnsupportedError: the service does not announce `passages`.
            NotFoundError: there is no such passage, or its source was replaced or deleted since.
        """
        path = f"/passages/{quote(non_empty_text('passage_id', passage_id), safe='')}"
        return Request("GET", path, _read_passage, needs=("passages",))


PING = "/ping"

ANNOUNCEMENT = ("*",)
"""`Request.needs` of the call that returns what is announced."""

UNKNOWN_SOURCE = "unknown_source"
"""The code of a 404 that comes from the service itself, and not from what stands before it."""

UNKNOWN_PASSAGE = "unknown_passage"
"""The same for a passage."""

UNKNOWN_ORIGIN = "unknown_origin"
"""The same for an origin."""

MOST_PASSAGES = 40
"""Of one search, as many as the extension allows."""

# Sources on a page, as many as the extension allows.
_PAGE = 500


def _post(
    path: str, fields: Mapping[str, Any], read: Callable[[bytes], T], key: str | None
) -> Request[T]:
    return _keyed(json_request("POST", path, fields, read), key)


def _keyed(request: Request[T], key: str | None) -> Request[T]:
    if key is not None:
        request.idempotency_key, request.needs = given_key(key), ("idempotency",)
    return request


def json_request(
    method: Method,
    path: str,
    fields: Mapping[str, Any],
    read: Callable[[bytes], T],
    *,
    needs: tuple[str, ...] = (),
) -> Request[T]:
    """Return a request with these fields as JSON; values of headers among them are secret."""
    body = json_body(method, path, fields)
    secrets = tuple(header["value"] for header in fields.get("headers", ()))
    return Request(method, path, read, body, needs=needs, secrets=secrets)


def json_body(method: str, path: str, fields: Mapping[str, Any]) -> bytes:
    from pydantic_core import PydanticSerializationError, to_json  # slow to load

    try:
        return to_json({"value": fields})
    except PydanticSerializationError:
        raise ConfigurationError(
            f"{method} {path}: an argument holds half of a surrogate pair, which is not Unicode "
            "text"
        ) from None


def text_fields(name: str, collections: Collections, content: object) -> dict[str, Any]:
    return {**source_fields(name, collections), "content": non_empty_text("content", content)}


def page_fields(
    name: str, collections: Collections, url: str, headers: Headers | None
) -> dict[str, Any]:
    fields = {**source_fields(name, collections), "url": absolute_address(url)}
    if headers and (listed := header_list(headers)):
        fields["headers"] = listed
    return fields


def _source_path(source_id: str) -> str:
    return f"/sources/{quote(identifier('source_id', source_id, 'src_'), safe='')}"


def reader(
    model: str, needed: str = "", *, listed: bool = False, paged: bool = False
) -> Callable[[bytes], Any]:
    """Return a parser of answers into a model, wrapped in `value` or bare (section 4).

    `needed` is the field without which there is no result, and any other one that is odd is left
    out. Without it the answer has to be whole.
    """

    @functools.cache
    def validator() -> Callable[[Any], Any]:
        from pydantic import TypeAdapter

        from knowledge_bot import models

        return TypeAdapter(getattr(models, model)).validate_python

    def read(body: bytes) -> Any:
        validate = validator()
        answer = unwrapped(json_in(body), "data" if listed else needed)
        if not listed:
            return _validated(validate, answer, needed)
        if not isinstance(answer, dict) or "data" not in answer:
            raise ValueError("there is no list `data` in it")
        listing = answer["data"]
        if listing is None and needed and not paged:
            listing = []  # as Go writes an empty list
        if not isinstance(listing, list):
            raise ValueError("`data` is no list")  # noqa: TRY004 - of the answer, not of a caller
        data = [_validated(validate, one, needed) for one in listing]
        if not paged:
            return data
        following = answer.get("next")
        return Page(data, None if following is None else str(following))

    return read


def _validated(validate: Callable[[Any], Any], answer: Any, needed: str) -> Any:
    try:
        return validate(answer)
    except ValueError as error:  # pydantic's ValidationError, which knows where
        odd = {one["loc"][0] for one in error.errors() if one["loc"]}  # type: ignore[attr-defined]
        if not needed or not odd or needed in odd:
            raise
        return validate({name: value for name, value in answer.items() if name not in odd})


def unwrapped(answer: Any, field: str = "") -> Any:
    """Return what an answer holds, be it wrapped in `value` or bare.

    An object that has `field` is the resource itself, and `value` one more of its fields.
    """
    wraps = isinstance(answer, dict) and "value" in answer and (not field or field not in answer)
    return answer["value"] if wraps else answer


_read_collections = reader("Collection", "id", listed=True)
_read_bots = reader("Bot", "id", listed=True)
_read_conversations = reader("Conversation", "id", listed=True)
_read_source = reader("Source", "id")
_read_message = reader("Message", "answer")
_read_details = reader("SourceDetails", "id")
_read_passage = reader("Passage")
_read_passages = reader("Passage", listed=True)
_read_page_of_sources = reader("SourceDetails", "id", listed=True, paged=True)


def read_nothing(_body: bytes) -> Any:
    return None


def read_pong(body: bytes) -> Literal[True]:
    # Shown as a JSON string and as plain text (section 4, GET /ping).
    text = body.decode("utf-8-sig", "replace").strip()
    if text != "pong" and unwrapped(json_in(body.strip())) != "pong":
        raise ValueError("it does not say pong")
    return True


# Checks of arguments: bad input is an error by name before anything is sent. Each raises
# `ConfigurationError`. What the interface does not show, such as lengths and formats of names
# (section 2), is left to the service to judge. ------------------------------------------------

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_LISTED = {
    "bot_": "{list_bots}",
    "col_": "{list_collections}",
    "conv_": "{list_conversations}",
    "src_": "{list_sources}",
}
_NOT_IN_IDS = re.compile(r"[\s/\\?#%]")


def source_fields(name: str, collections: Collections) -> dict[str, Any]:
    """Return what every source is created with: `name`, and `collections` as a list of ids."""
    ids = collection_ids(collections)
    return {"name": non_empty_text("name", name), "collections": ids}


def collection_ids(collections: Collections, argument: str = "collections") -> list[str]:
    """Return the ids of collections, each once."""
    # A `Collection` is known by its id, so that its class need not be loaded.
    several: Any = (
        [collections] if isinstance(collections, str) or hasattr(collections, "id") else collections
    )
    if not isinstance(several, Iterable):
        raise ConfigurationError.expected(argument, "ids", several)
    ids = [identifier(argument, getattr(item, "id", item), "col_") for item in several]
    if not ids:
        raise ConfigurationError.of(argument, "name at least one collection")
    return list(dict.fromkeys(ids))


def check_number(
    name: str, value: object, least: float, most: float = math.inf, *, whole: bool = False
) -> None:
    """Check an option that is a number.

    Args:
        name: the option's name, for the error.
        value: what was given.
        least: the smallest number that can be used.
        most: the largest one.
        whole: whether it has no fraction.

    Raises:
        ConfigurationError: it is not a number, or out of bounds.
    """
    kind = int if whole else int | float
    fits = isinstance(value, kind) and not isinstance(value, bool)
    if not fits or not least <= value <= most:  # type: ignore[operator] # a number by now
        bounds = f"{least} or more" if most == math.inf else f"{least} to {most}"
        raise ConfigurationError.of(name, f"expected {bounds}, not {value!r}")


def identifier(argument: str, value: object, prefix: str) -> str:
    """Return an id, checked for its documented prefix."""
    # The prefixes are documented (section 2). What follows is not, so only what can never be part
    # of an address is refused, quoted or not: proxies decode `%2F` and `..` on their way.
    if not isinstance(value, str):
        raise ConfigurationError.expected(argument, "a string", value)
    rest = value.removeprefix(prefix)
    if rest == value or not rest.strip(".") or not value.isprintable() or _NOT_IN_IDS.search(value):
        problem = f"{value[:80]!r} is not an id of the form {prefix}…"
        raise ConfigurationError.of(argument, problem, advice=_LISTED.get(prefix))
    return value


def non_empty_text(argument: str, value: object) -> str:
    """Return a text that holds more than white space."""
    if not isinstance(value, str):
        raise ConfigurationError.expected(argument, "a string", value)
    if not value.strip():
        raise ConfigurationError.of(argument, "is empty")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ConfigurationError.of(
                argument, "holds half of an emoji, which is no text"
            ) from None
    return value


def absolute_address(url: object) -> str:
    """Return a page's address, checked for what no address can hold."""
    address = non_empty_text("url", url)
    if any(character <= " " or character == "\x7f" for character in address):
        raise ConfigurationError.of(
            "url", "holds a space or a control character; percent-encode it"
        )
    # Which schemes the service takes is not shown (section 2), only that it is an address.
    try:
        scheme = urlsplit(address).scheme
    except ValueError as error:
        raise ConfigurationError.of(
            "url", f"{address[:200]!r} is not an address: {error}"
        ) from None
    if holds_login(address):
        raise ConfigurationError.of("url", "it holds a login, which is never stored; use a header")
    if not scheme:
        raise ConfigurationError.of(
            "url", f"{address[:200]!r} is not an absolute address (https://…)"
        )
    return address


def header_list(headers: Headers) -> list[dict[str, str]]:
    """Return headers as the interface lists them. An error names a header, never its value."""
    try:
        pairs: Sequence[tuple[Any, Any]] = (
            list(headers.items())
            if isinstance(headers, Mapping)
            else [(header.name, header.value) for header in headers]
        )
    except (AttributeError, TypeError):
        raise ConfigurationError.of("headers", "expected a mapping or Header objects") from None
    for name, value in pairs:
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError.of("headers", f"{name!r} is not a header name")
        if not isinstance(value, str):
            kind = type(value).__name__
            raise ConfigurationError.of(
                "headers", f"the value of {name!r} is not a string but {kind}"
            )
        if re.search(r"[\r\n\0]", value):
            raise ConfigurationError.of(
                "headers", f"the value of {name!r} holds a line end or a NUL"
            )
    return [{"name": name, "value": value} for name, value in pairs]
