"""The interface, each endpoint once, as data: a request to send and the way to read its answer.

There is no I/O here. A builder checks its arguments, states what to send, and names the model that
the answer is read into; `endpoint` gives the same builder to both clients, typed for each.
"""

import functools
import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from urllib.parse import quote, urlsplit

from knowledge_bot._uploads import OnProgress, Upload, UploadFile
from knowledge_bot.errors import ConfigurationError

if TYPE_CHECKING:  # pydantic is slow to load, so it waits for the first answer
    from knowledge_bot.models import Bot, Collection, Conversation, Header, Message, Source

T = TypeVar("T")
P = ParamSpec("P")

Collections: TypeAlias = Union[str, "Collection", Iterable[Union[str, "Collection"]]]
"""One collection or several, as ids or as `Collection` objects."""

Headers: TypeAlias = Mapping[str, str] | Iterable["Header"]
"""Request headers as a mapping or as `Header` objects."""


@dataclass(slots=True)
class Request(Generic[T]):
    """One call as a value.

    Attributes:
        method: `GET` reads; `POST` creates something, each time it is sent.
        path: below the base URL, quoted.
        read: parses the answer's body into the result; raises ValueError where it cannot.
        body: the JSON body, or None.
        upload: the multipart body instead, for the one endpoint that takes a file.
    """

    method: Literal["GET", "POST"]
    path: str
    read: Callable[[bytes], T]
    body: bytes | None = None
    upload: Upload | None = None

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


class endpoint(Generic[P, T]):  # noqa: N801 - used as a decorator
    """Makes a builder of requests a method of both clients, which each send it in their own way."""

    def __init__(self, build: Callable[P, Request[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__
        inspect.unwrap(build).__qualname__ = build.__name__  # as errors about arguments name it

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
        return Request("GET", "/ping", _read_pong)

    @endpoint
    @staticmethod
    def list_collections() -> "Request[list[Collection]]":
        """List the collections: `id` and `name` of each."""
        return Request("GET", "/collections", _read_collections)

    @endpoint
    @staticmethod
    def list_bots() -> "Request[list[Bot]]":
        """List the bots: `id` and `name` of each."""
        return Request("GET", "/bots", _read_bots)

    @endpoint
    @staticmethod
    def list_conversations(bot_id: str) -> "Request[list[Conversation]]":
        """List the conversations of a bot: `id` and `name` of each.

        Args:
            bot_id: the bot's id, `bot_…`.
        """
        bot = quote(identifier("bot_id", bot_id, "bot_"), safe="")
        return Request("GET", f"/bots/{bot}/conversations", _read_conversations)

    @endpoint
    @staticmethod
    def create_webpage_source(
        *, name: str, collections: Collections, url: str, headers: Headers | None = None
    ) -> "Request[Source]":
        """Create a source from a web page, which the service scrapes.

        Args:
            name: the source's name.
            collections: the collections it belongs to, at least one.
            url: the page's address.
            headers: headers that the service sends while it scrapes.

        Returns:
            The source, usually `pending`: the service reads the page later.
        """
        fields: dict[str, Any] = source_fields(name, collections)
        fields["url"] = absolute_address(url)
        if headers and (listed := header_list(headers)):
            fields["headers"] = listed
        return _post("/sources/webpage", fields, _read_source)

    @endpoint
    @staticmethod
    def create_text_source(
        *, name: str, collections: Collections, content: str
    ) -> "Request[Source]":
        """Create a source from text.

        Args:
            name: the source's name.
            collections: the collections it belongs to, at least one.
            content: the text.

        Returns:
            The source, usually `pending`.
        """
        fields = source_fields(name, collections)
        fields["content"] = non_empty_text("content", content)
        return _post("/sources/write", fields, _read_source)

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
    ) -> "Request[Source]":
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
        return Request("POST", "/sources/upload", _read_source, upload=upload)

    @endpoint
    @staticmethod
    def send_message(
        *, bot_id: str, content: str, conversation_id: str | None = None
    ) -> "Request[Message]":
        """Send a message to a bot and return its answer, with the id of its conversation.

        Args:
            bot_id: the bot that is asked, `bot_…`.
            content: the message.
            conversation_id: the conversation it continues, `conv_…`; by default the service starts
                a new one and names it in the answer.
        """
        fields = {
            "bot_id": identifier("bot_id", bot_id, "bot_"),
            "content": non_empty_text("content", content),
        }
        if conversation_id is not None:
            fields["conversation_id"] = identifier("conversation_id", conversation_id, "conv_")
        return _post("/messages", fields, _read_message)


def _post(path: str, fields: Mapping[str, Any], read: Callable[[bytes], T]) -> Request[T]:
    from pydantic_core import PydanticSerializationError, to_json  # slow to load

    try:
        return Request("POST", path, read, to_json({"value": fields}))
    except PydanticSerializationError:
        raise ConfigurationError(
            f"POST {path}: an argument holds half of a surrogate pair, which is not Unicode text"
        ) from None


def _reader(model: str, *, listed: bool = False) -> Callable[[bytes], Any]:
    """Return a parser of answers into a model, wrapped in `value` or bare (section 4)."""

    @functools.cache
    def parsers() -> tuple[Callable[[bytes], Any], Callable[[Any], Any]]:
        from pydantic import TypeAdapter
        from pydantic_core import from_json

        from knowledge_bot import models

        wanted = getattr(models, model)
        kind: Any = list[wanted] if listed else wanted  # type: ignore[valid-type]
        return from_json, TypeAdapter(kind).validate_python

    def read(body: bytes) -> Any:
        parse, validate = parsers()
        answer = _unwrapped(parse(body))
        if not listed:
            return validate(answer)
        if not isinstance(answer, dict) or "data" not in answer:
            raise ValueError("there is no list `data` in it")
        return validate(answer["data"])

    return read


def _unwrapped(answer: Any) -> Any:
    # No documented object has a field `value`.
    return answer["value"] if isinstance(answer, dict) and "value" in answer else answer


_read_collections = _reader("Collection", listed=True)
_read_bots = _reader("Bot", listed=True)
_read_conversations = _reader("Conversation", listed=True)
_read_source = _reader("Source")
_read_message = _reader("Message")


def read_source_id(body: bytes) -> str:
    """Return the id of a source that was created, all that an ingestion needs of the answer.

    It loads no pydantic, and an answer that leaves out another field is understood.
    """
    import json

    answer = _unwrapped(json.loads(body))
    found = answer.get("id") if isinstance(answer, dict) else None
    if not isinstance(found, str) or not found:
        raise ValueError("there is no id of a source in it")
    return found


def _read_pong(body: bytes) -> Literal[True]:
    import json

    # Shown as a JSON string and as plain text (section 4, GET /ping).
    text = body.decode("utf-8").strip()
    answer = _unwrapped(json.loads(text)) if text[:1] in ('"', "{") else text
    if answer != "pong":
        raise ValueError("it does not say pong")
    return True


# Checks of arguments: bad input is an error by name before anything is sent. Each raises
# `ConfigurationError`. What the interface does not show, such as lengths and formats of names
# (section 2), is left to the service to judge. ------------------------------------------------

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_NOT_IN_IDS = re.compile(r"[\s/\\?#%]")


def source_fields(name: str, collections: Collections) -> dict[str, Any]:
    """Return what every source is created with: `name`, and `collections` as a list of ids."""
    ids = collection_ids(collections)
    return {"name": non_empty_text("name", name), "collections": ids}


def collection_ids(collections: Collections) -> list[str]:
    """Return the ids of collections, each once."""
    # A `Collection` is known by its id, so that its class need not be loaded.
    several: Any = (
        [collections] if isinstance(collections, str) or hasattr(collections, "id") else collections
    )
    if not isinstance(several, Iterable):
        raise ConfigurationError(f"collections: expected ids, not {type(several).__name__}")
    ids = [identifier("collections", getattr(item, "id", item), "col_") for item in several]
    if not ids:
        raise ConfigurationError("collections: name at least one collection")
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
        raise ConfigurationError(f"{name}: expected {bounds}, not {value!r}")


def identifier(argument: str, value: object, prefix: str) -> str:
    """Return an id, checked for its documented prefix."""
    # The prefixes are documented (section 2). What follows is not, so only what can never be part
    # of an address is refused, quoted or not: proxies decode `%2F` and `..` on their way.
    if not isinstance(value, str):
        raise ConfigurationError(f"{argument}: expected a string, not {type(value).__name__}")
    rest = value.removeprefix(prefix)
    if rest == value or not rest.strip(".") or not value.isprintable() or _NOT_IN_IDS.search(value):
        raise ConfigurationError(f"{argument}: {value[:80]!r} is not an id of the form {prefix}…")
    return value


def non_empty_text(argument: str, value: object) -> str:
    """Return a text that holds more than white space."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{argument}: expected a string, not {type(value).__name__}")
    if not value.strip():
        raise ConfigurationError(f"{argument}: is empty")
    return value


def absolute_address(url: object) -> str:
    """Return a page's address, checked for what no address can hold."""
    address = non_empty_text("url", url)
    if any(character <= " " or character == "\x7f" for character in address):
        raise ConfigurationError("url: holds a space or a control character; percent-encode it")
    # Which schemes the service takes is not shown (section 2), only that it is an address.
    try:
        scheme = urlsplit(address).scheme
    except ValueError as error:
        raise ConfigurationError(f"url: {address[:200]!r} is not an address: {error}") from None
    if not scheme:
        raise ConfigurationError(f"url: {address[:200]!r} is not an absolute address (https://…)")
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
        raise ConfigurationError("headers: expected a mapping or Header objects") from None
    for name, value in pairs:
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"headers: {name!r} is not a header name")
        if not isinstance(value, str):
            kind = type(value).__name__
            raise ConfigurationError(f"headers: the value of {name!r} is not a string but {kind}")
        if re.search(r"[\r\n\0]", value):
            raise ConfigurationError(f"headers: the value of {name!r} holds a line end or a NUL")
    return [{"name": name, "value": value} for name, value in pairs]
