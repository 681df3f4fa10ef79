"""Documents of loaders that people have already: LangChain's loaders, LlamaIndex's readers.

Neither framework is imported. A loader is known by its methods, a document by its attributes.
"""

import asyncio
import hashlib
import inspect
import io
import json
import re
import uuid
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO

from pydantic import ValidationError

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._items import File, Skipped, Text
from knowledge_bot.ingest.sources._documents import Found, once

# The methods of a loader that give documents, the lazy ones first: LangChain's, then LlamaIndex's.
LOADING = (
    "lazy_load",
    "alazy_load",
    "load",
    "lazy_load_data",
    "load_data",
    "aload_data",
)

# What loaders call the place of a document, and what they call its name, the best first.
_SOURCES = ("source", "file_path", "url")
_NAMES = ("title", "file_name", "filename", *_SOURCES)

# What loaders call the place of a row in a table, or of a record in a file of them. Rows come and
# go anywhere, unlike pages, so that a place says nothing of what stands there.
_ROWS = ("row", "seq_num")

_NAME_LENGTH = 80

# What tells in a resource's information that it changed; a day alone does not.
_TELLING = re.compile(r"modif|updat|chang|tag|version|revision|hash|md5|sha|mtime", re.IGNORECASE)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def from_loader(
    loader: object,
    *,
    origin: str | None = None,
    name: Callable[[Any], str] | None = None,
    key: Callable[[Any], str] | None = None,
) -> Found:
    """Find the documents of a loader of LangChain or a reader of LlamaIndex, or of alike ones.

    Documents are taken one at a time where the loader gives them so (`lazy_load`, `alazy_load`,
    `lazy_load_data`), and all at once where not (`load`, `load_data`). Each becomes a `Text`, known
    by its id; without one by its `source`, `file_path` or `url` in the metadata and its place among
    the documents of that source, as the pages of a file; without both by its text. A row, which has
    `row` or `seq_num` in its metadata, is known by its source and its text.

    A reader with `list_resources` and `load_resource` is asked first what it has: each resource
    becomes a `File` of its documents' texts, whose version is what `get_resource_info` says, so
    that only what is new or changed is loaded, once to compare it and once to send it.

    Args:
        loader: has one of these methods, or is an iterable of documents, which may be
            asynchronous.
        origin: a name that stands for what the loader reads, such as `wiki`. With it, documents are
            known by it and their own key, so that another loader may have the same keys, and what
            the loader finds no longer is told as gone.
        name: returns what a document's source is named; by default its title, its file's name, its
            source or its first line. Of a resource it is given the identifier, as `key` is.
        key: returns what a document is known by.

    Returns:
        An iterable of a `Text` for each document or a `File` for each resource. Where the loader
        raises, a `Skipped` tells it, and ends it.

    Raises:
        ConfigurationError: it is no loader; raised at once.
    """
    if callable(getattr(loader, "list_resources", None)) and callable(
        getattr(loader, "load_resource", None)
    ):
        return Found(partial(_resources, loader, name, key), origin, keys_of_its_own=True)
    if not is_loader(loader):
        raise ConfigurationError(
            f"loader: expected an object with one of the methods {', '.join(LOADING)}, or "
            f"documents, not {type(loader).__name__}"
        )
    take = partial(_documents, loader, name, key)
    several = once(take(), "documents") if isinstance(loader, Iterator) else take
    return Found(several, origin, keys_of_its_own=True)


def is_loader(loader: object) -> bool:
    """Tell whether something, or what a class makes, gives documents."""
    if any(callable(getattr(loader, method, None)) for method in LOADING):
        return True
    is_several = isinstance(loader, Iterable | AsyncIterable)
    return is_several and not isinstance(loader, str | bytes | dict)


class Texts:
    """Makes an item of each document of one loader; the order of its documents counts.

    Args:
        name: returns what a document's source is named.
        key: returns what a document is known by.

    Attributes:
        placed: how many are known by their place among others of the same source.
    """

    def __init__(
        self,
        name: Callable[[Any], str] | None = None,
        key: Callable[[Any], str] | None = None,
    ) -> None:
        self._name, self._key = name, key
        # By hashes, since a source's name may be long and there may be a million.
        self._seen: Counter[int] = Counter()
        self.placed: int = 0

    def __call__(self, document: Any) -> Text | Skipped:
        """Return a document as an item; as `Skipped` where its name or key cannot be sent.

        Raises:
            TypeError: it is no document.
        """
        content, metadata = _content(document), _metadata(document)
        source = next((str(metadata[each]) for each in _SOURCES if metadata.get(each)), "")
        is_row = any(each in metadata for each in _ROWS)
        place = ""
        if source:
            among = hash((source, content) if is_row else source)
            self._seen[among] += 1
            place = f" ({self._seen[among]})" if self._seen[among] > 1 else ""
        if self._name is not None:
            name = self._name(document)
        else:
            titles = (str(metadata.get(each) or "").strip() for each in _NAMES)
            title = next(filter(None, titles), content.replace("\0", " ").strip())
            if source and is_row:
                title = f"{title}: {content.replace(chr(0), ' ').strip()}"
            name = f"{title.splitlines()[0][:_NAME_LENGTH]}{place}" if title else "(no name)"
        if self._key is not None:
            key = self._key(document)
        elif known := _id(document):
            key = known
        elif source and is_row:
            key = f"{source} {_digest(content)[:16]}{place}"
        elif source:
            self.placed += bool(place)
            key = f"{source}{place}"
        else:
            key = _digest(content)
        return text_or_skipped(name, content, key)


def text_or_skipped(name: str, content: str, key: str) -> Text | Skipped:
    """Return a text; as `Skipped` where one of these is none, such as half a surrogate."""
    try:
        return Text(name=name, content=content, key=key)
    except ValidationError as error:
        reason = f"it cannot be sent: {_said(error)}"
        return Skipped(_printable(name), reason, invalid=True, partial=True)


def _printable(name: object) -> str:
    return str(name).encode("utf-8", "backslashreplace").decode()


def _documents(
    loader: object, name: Callable[[Any], str] | None, key: Callable[[Any], str] | None
) -> Iterator[Text | Skipped]:
    told, count, as_text = _told(loader), 0, Texts(name, key)
    try:
        for count, document in enumerate(_loaded(loader), 1):
            item: Text | Skipped
            try:
                # What gives documents may tell itself what one of them lacks.
                item = document if isinstance(document, Skipped) else as_text(document)
            except TypeError as error:
                reason = f"it is no document: {_said(error)}"
                item = Skipped(f"{told}, document {count}", reason, invalid=True, partial=True)
            yield item
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a loader may raise anything
        reason = f"the loader ends after {count} documents: {_said(error)}"
        yield Skipped(told, reason, invalid=True, partial=True)


def _loaded(loader: Any) -> Iterator[Any]:
    """Yield the documents, by the first method that is not only there to be overridden."""
    ways = [way for name in LOADING if callable(way := getattr(loader, name, None))]
    if not ways:
        yield from _taken(loader)
    for number, way in enumerate(ways, 1):
        try:
            documents = _taken(way())
            first = next(documents, None)
        except NotImplementedError:
            if number == len(ways):
                raise
            continue
        if first is not None:
            yield first
            yield from documents
        return


def _taken(given: Any) -> Iterator[Any]:
    if inspect.iscoroutine(given):  # asyncio's own takes a generator for one, before 3.12
        with asyncio.Runner() as runner:
            given = runner.run(given)
    if not isinstance(given, AsyncIterable):
        yield from given
        return
    documents, end = aiter(given), object()

    async def following() -> Any:
        return await anext(documents, end)

    with asyncio.Runner() as runner:
        while (document := runner.run(following())) is not end:
            yield document


def _resources(
    reader: Any, name: Callable[[Any], str] | None, key: Callable[[Any], str] | None
) -> Iterator[File | Skipped]:
    told, count = _told(reader), 0
    try:
        for count, resource in enumerate(reader.list_resources(), 1):
            known = key(resource) if key else str(resource)
            try:
                yield File(
                    path=f"{known}.txt",
                    name=name(resource) if name else str(resource).rpartition("/")[2] or known,
                    key=known,
                    version=_version(reader, resource),
                    open=partial(_opened, reader, resource),
                )
            except ValidationError as error:
                yield Skipped(f"{told}, resource {count}", _said(error), invalid=True, partial=True)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a reader may raise anything
        reason = f"the reader ends after {count} resources: {_said(error)}"
        yield Skipped(told, reason, invalid=True, partial=True)


def _version(reader: Any, resource: Any) -> str | None:
    """Return what changes when a resource does; None where the reader does not tell."""
    try:
        info = reader.get_resource_info(resource)
    except (AttributeError, NotImplementedError):
        return None
    except Exception:  # noqa: BLE001 - the resource is loaded then, and told if that fails too
        return None
    tells = any(
        value and _TELLING.search(str(field)) and not _DAY.fullmatch(str(value))
        for field, value in dict(info).items()
    )
    text = json.dumps(info, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if tells else None


def _opened(reader: Any, resource: Any) -> BinaryIO:
    texts = [_content(document) for document in reader.load_resource(resource)]
    joined = "\n\n".join(text for text in texts if text.strip())
    return io.BytesIO(joined.encode("utf-8", "replace"))


def _content(document: Any) -> str:
    for field in ("page_content", "text"):
        content = getattr(document, field, None)
        if isinstance(content, str):
            return content
    raise TypeError(
        f"expected one with page_content or text, and metadata, not {type(document).__name__}"
    )


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def _metadata(document: Any) -> dict[str, Any]:
    metadata = getattr(document, "metadata", None)
    return metadata if isinstance(metadata, dict) else {}


def _id(document: Any) -> str:
    """Return a document's id; LlamaIndex makes up a new one at each reading where there is none."""
    if given := getattr(document, "id", None) if hasattr(document, "page_content") else None:
        return str(given)
    given = str(getattr(document, "id_", None) or "")
    try:
        return "" if uuid.UUID(given).version == 4 else given
    except ValueError:
        return given


def _told(loader: object) -> str:
    if isinstance(loader, Iterable | AsyncIterable) and not hasattr(loader, "load"):
        return "the documents"
    return type(loader).__name__


def _said(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}".removesuffix(": ")
