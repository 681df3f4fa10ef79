"""Documents of existing loaders: LangChain's loaders and LlamaIndex's readers.

Neither framework is imported. A loader is recognised by its methods, a document by its attributes.
"""

import asyncio
import hashlib
import inspect
import uuid
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._listings import Skipped
from knowledge_bot.origins._origin import Memory, Origin, detail_of, to_the_end

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import Text

# The methods of a loader that return documents, lazy ones first: LangChain's, then LlamaIndex's.
LOADING = (
    "lazy_load",
    "alazy_load",
    "load",
    "lazy_load_data",
    "load_data",
    "aload_data",
)

# The metadata fields for the place of a document, and for its name, the best first.
_SOURCES = ("source", "file_path", "url")
_NAMES = ("title", "file_name", "filename", *_SOURCES)

# The metadata fields for the number of a row or record. Rows are inserted and removed anywhere,
# unlike pages, so a number does not identify one.
_ROWS = ("row", "seq_num")

_NAME_LENGTH = 80


@dataclass(frozen=True, repr=False)
class Loader(Origin):
    """The documents of a LangChain loader, a LlamaIndex reader, or something similar.

    Documents are taken one at a time if the loader can do that (`lazy_load`, `alazy_load`,
    `lazy_load_data`), otherwise all at once (`load`, `load_data`). Each becomes a `Text`. Its key
    is its id, unless that is a random UUID; without one its `source`, `file_path` or `url` in the
    metadata and its number among the documents of that source, such as a page of a file; without
    these a hash of its text. The
    key of a row, which has `row` or `seq_num` in its metadata, is its source and a hash of its
    text. If the loader raises, the last item is a `Skipped` with the error.

    Attributes:
        loader: has one of these methods, or is an iterable of documents, which may be asynchronous.
        name: a name for what the loader reads, such as `wiki`; for documents it must be given. By
            default it is the loader's class, which does not say what is read: then nothing is gone.
        title: returns the source's name for a document; by default its title, its file's name, its
            source or its first line.
        key: returns the key for a document.

    Raises:
        ConfigurationError: it is not a loader; from `items`, that its documents can be read only
            once and have been.
    """

    loader: object = field(repr=False)
    _: KW_ONLY
    title: Callable[[Any], str] | None = None
    key: Callable[[Any], str] | None = None

    def _check(self) -> None:
        if not is_loader(self.loader):
            raise ConfigurationError.of(
                "loader",
                f"expected an object with one of the methods {', '.join(LOADING)}, or "
                f"documents, not {type(self.loader).__name__}",
            )

    def _default_name(self) -> str:
        if isinstance(self.loader, Iterable | AsyncIterable) and not hasattr(self.loader, "load"):
            return super()._default_name()
        return type(self.loader).__name__

    @property
    def whole(self) -> bool:
        """Whether these are all items of the origin, so that what does not come is gone."""
        return self.name != self._named_by_place()

    def items(self, memory: Memory | None = None) -> "Iterator[Text | Skipped]":  # noqa: ARG002 - as others
        """Yield a `Text` for each document."""
        if isinstance(self.loader, Iterator):
            self._take_once("documents")
        return to_the_end(_documents(self.loader, self.title, self.key), _label(self.loader))


def is_loader(loader: object) -> bool:
    """Return whether an object, or an instance of a class, yields documents."""
    if any(callable(getattr(loader, method, None)) for method in LOADING):
        return True
    is_several = isinstance(loader, Iterable | AsyncIterable)
    return is_several and not isinstance(loader, str | bytes | dict)


class Texts:
    """Makes an item from each document of one loader, in order.

    Attributes:
        placed: how many keys depend on the document's number within its source.
    """

    def __init__(
        self,
        name: Callable[[Any], str] | None = None,
        key: Callable[[Any], str] | None = None,
    ) -> None:
        self._name, self._key = name, key
        # By hash, since a source's name may be long and there may be a million.
        self._seen: Counter[int] = Counter()
        self.placed: int = 0

    def __call__(self, document: Any) -> "Text | Skipped":
        """Return a document as an item, or a `Skipped` if its name or key cannot be sent.

        Raises:
            TypeError: it is not a document.
        """
        if isinstance(document, Mapping):  # as a task hands it on
            document = SimpleNamespace(**{str(name): document[name] for name in document})
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


def text_or_skipped(name: str, content: str, key: str) -> "Text | Skipped":
    """Return a text, or a `Skipped` if one of these cannot be encoded, such as a lone surrogate."""
    from pydantic import ValidationError

    from knowledge_bot.ingest._items import Text

    try:
        return Text(name=name, content=content, key=key)
    except ValidationError as error:
        shown = str(name).encode("utf-8", "backslashreplace").decode()
        reason = f"it cannot be sent: {detail_of(error)}"
        return Skipped(shown, reason, invalid=True, partial=True)


def _documents(
    loader: object, name: Callable[[Any], str] | None, key: Callable[[Any], str] | None
) -> "Iterator[Text | Skipped]":
    label, as_text = _label(loader), Texts(name, key)
    for count, document in enumerate(_loaded(loader), 1):
        if isinstance(document, Skipped):  # an iterable may itself leave some out
            yield document
            continue
        try:
            yield as_text(document)
        except TypeError as error:
            reason = f"it is not a document: {detail_of(error)}"
            yield Skipped(f"{label}, document {count}", reason, invalid=True, partial=True)


def _loaded(loader: Any) -> Iterator[Any]:
    """Yield the documents from the first method that is implemented."""
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
    if inspect.iscoroutine(given):  # not asyncio's check, which before 3.12 accepts generators
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


def _content(document: Any) -> str:
    for each in ("page_content", "text"):
        content = getattr(document, each, None)
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
    """Return a document's id, unless it is a random one."""
    given = getattr(document, "id" if hasattr(document, "page_content") else "id_", None)
    return "" if is_random(str(given or "")) else str(given or "")


def is_random(document_id: str) -> bool:
    """Return whether an id was made up when the document was read, and is another one next time."""
    try:
        return uuid.UUID(document_id).version == 4
    except ValueError:
        return False


def _label(loader: object) -> str:
    if isinstance(loader, Iterable | AsyncIterable) and not hasattr(loader, "load"):
        return "the documents"
    return type(loader).__name__
