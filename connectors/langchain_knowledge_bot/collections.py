"""Documents into collections: each is sent once, however often it is given."""

import warnings
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Self

from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from pydantic import BeforeValidator, model_validator
from typing_extensions import Unpack

from knowledge_bot import Collection, ConfigurationError
from knowledge_bot._endpoints import collection_ids
from knowledge_bot._model_settings import level_outside
from knowledge_bot.ingest import (
    Entry,
    IncompleteIngestionError,
    Ingestion,
    Ledger,
    LedgerError,
    Report,
    Skipped,
    SupersededSource,
    Text,
)
from knowledge_bot.ingest._plan import OnUnknown
from knowledge_bot.ingest._run import SharedOptions, shared_options
from knowledge_bot.ingest.sources._loader import Texts
from langchain_knowledge_bot.connection import FRAMEWORKS, Connection, ConnectionFields

if TYPE_CHECKING:
    from pathlib import Path


def _ids(collections: Any) -> tuple[str, ...]:
    return tuple(collection_ids(collections))


def _ledger(ledger: Any) -> Any:
    made = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    try:
        _ = made.database
    except LedgerError as error:
        raise ConfigurationError(f"ledger: {error}") from error
    return made


def _check_loader(loader: Any) -> None:
    kind = type(loader).__name__
    if isinstance(loader, type):
        raise ConfigurationError(f"loader: {loader.__name__} is a class; pass an instance of it")
    if not all(callable(getattr(loader, each, None)) for each in ("lazy_load", "alazy_load")):
        raise ConfigurationError(
            f"loader: expected one document loader of LangChain, not {kind}. Pass several "
            "loaders in separate calls, each with its own origin=, and documents to add_documents()"
        )


class CollectionFields(ConnectionFields, SharedOptions, total=False):
    """The fields of a `KnowledgeBotCollection` that may be left out, for type checkers."""

    key: Callable[[Document], str] | None


class KnowledgeBotCollection(Connection):
    """A collection of the service, or several, as the place where documents go.

    Each document becomes a source with its text alone, as the service stores no metadata. Pass
    whole documents rather than chunks, since the service splits them itself. The ledger records
    what was sent, so a document is not sent again; a changed one becomes a new source, and
    `superseded` lists the old one; `gone` lists what a loader no longer finds. The service cannot
    delete or return sources, so this is neither a vector store nor a `DocumentIndex` for `index()`.

    A document is identified by its `id`, and without one as `knowledge_bot.ingest.from_loader`
    says: by its `source` and its position there, or by its text. To identify documents by something
    else, pass `key`. A document without text is skipped, and named in the report.

    Setup:
        Install the package with its LangChain extra, and name the service.

        ```bash
        pip install "knowledge-bot[langchain]"
        export KNOWLEDGE_BOT_BASE_URL="https://service.example.com/public/v1"
        export KNOWLEDGE_BOT_API_KEY="your-api-key"
        ```

    Key init args:
        collections: str | Collection | Iterable[str | Collection]
            Where the documents go, `col_…`.
        ledger: Ledger | str | Path
            Records what was sent: a `knowledge_bot.ingest.Ledger`, its address, or a SQLite file's
            path.
        key: Callable[[Document], str] | None
            Returns what identifies a document.
        concurrency, on_unknown, rate, wait, ledger_wait
            How documents are sent, see `knowledge_bot.ingest.IngestionOptions`.
        api_key, base_url, timeout, max_retries, client, async_client
            How the service is reached, see `Connection`.

    Instantiate:
        ```python
        from langchain_knowledge_bot import KnowledgeBotCollection

        handbook = KnowledgeBotCollection(collections="col_handbook", ledger="sqlite:///kbot.db")
        ```

    Add documents:
        ```python
        from langchain_core.documents import Document

        handbook.add_documents([Document(id="hours", page_content="The desk opens at nine.")])
        await handbook.aadd_documents(loader.alazy_load())
        report = handbook.sync(loader)
        if report.gone:
            print([(each.name, each.source_id) for each in handbook.gone()])
        ```

    Raises:
        pydantic.ValidationError: from the constructor: no key or no base URL, or a field that is
            unknown, missing or cannot be used.
    """

    collections: Annotated[tuple[str, ...], BeforeValidator(_ids)]
    ledger: Annotated[Ledger, BeforeValidator(_ledger)]
    key: Callable[[Document], str] | None = None
    concurrency: int = Ingestion.concurrency
    on_unknown: OnUnknown = Ingestion.on_unknown
    rate: float | None = Ingestion.rate
    wait: float = Ingestion.wait
    ledger_wait: float = Ingestion.ledger_wait

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            collections: str | Collection | Iterable[str | Collection],
            ledger: "Ledger | str | Path",
            **fields: Unpack[CollectionFields],
        ) -> None: ...

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._ingestion()
        return self

    def add_documents(self, documents: Iterable[Document]) -> Report:
        """Create a source of each document that is new or changed.

        Args:
            documents: read one at a time; a generator such as a loader's `lazy_load` will do.

        Returns:
            How many were created, unchanged and superseded, and which were skipped.

        Raises:
            IncompleteIngestionError: some were not created; raised once all others are.
            ConfigurationError: an argument cannot be used.
            LedgerError: the ledger cannot be read or written.
        """
        items = _Items(documents, self.key)
        return self._checked(self._ingestion().run(self._sync, iter(items)), items)

    async def aadd_documents(
        self, documents: Iterable[Document] | AsyncIterable[Document]
    ) -> Report:
        """Do as `add_documents` does, without blocking; takes a loader's `alazy_load` as well."""
        return await self._aadd(documents, self._ingestion())

    def sync(
        self,
        loader: BaseLoader,
        *,
        origin: str | None = None,
        gone_limit: float = Ingestion.gone_limit,
    ) -> Report:
        """Add what is new or changed in a loader, as `add_documents` does; mark what is gone.

        Args:
            loader: yields all documents of its origin.
            origin: a name for what the loader reads, by default the loader's class. Loaders of one
                class that write to the same collections each need their own name; otherwise each
                marks the other's documents as gone.
            gone_limit: as in `knowledge_bot.ingest.IngestionOptions`.

        Returns:
            As for `add_documents`, and how many are gone: `gone`, which the method of this name
            lists, `gone_withheld` if they are more than the limit, and `gone_unknown` if it cannot
            be known.

        Raises:
            IncompleteIngestionError: some were not created; raised once all others are.
            ConfigurationError: an argument cannot be used.
            LedgerError: the ledger cannot be read or written.
        """
        ingestion = self._synchronising(loader, origin, gone_limit)
        items = _Items(loader.lazy_load(), self.key)
        return self._checked(ingestion.run(self._sync, iter(items)), items)

    async def async_sync(
        self,
        loader: BaseLoader,
        *,
        origin: str | None = None,
        gone_limit: float = Ingestion.gone_limit,
    ) -> Report:
        """Do as `sync` does, without blocking: the loader is read by its `alazy_load`."""
        ingestion = self._synchronising(loader, origin, gone_limit)
        return await self._aadd(loader.alazy_load(), ingestion)

    def superseded(self) -> Iterator[SupersededSource]:
        """List the sources of older versions of documents, which a person may remove.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        found = self.ledger.superseded(service=self._service)
        return (each for each in found if self._is_here(each))

    def gone(self) -> Iterator[Entry]:
        """List the documents that `sync` added and that their loader no longer finds.

        A person may remove their sources (`source_id`) from the service, and then their entries
        with `Ledger.forget`. A document that is found again is no longer gone.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        found = self.ledger.gone(service=self._service)
        return (each for each in found if self._is_here(each))

    def _ingestion(self, **options: Any) -> Ingestion:
        return Ingestion(
            collections=self.collections,
            ledger=self.ledger,
            **shared_options(self),
            **options,
        )

    def _synchronising(
        self, loader: BaseLoader, origin: str | None, gone_limit: float
    ) -> Ingestion:
        _check_loader(loader)
        origin = origin or type(loader).__name__
        return self._ingestion(origin=origin, gone_limit=gone_limit)

    def _is_here(self, one: Entry | SupersededSource) -> bool:
        return one.collections == tuple(sorted(self.collections))

    async def _aadd(
        self, documents: Iterable[Document] | AsyncIterable[Document], ingestion: Ingestion
    ) -> Report:
        items = _Items(documents, self.key)
        given = aiter(items) if isinstance(documents, AsyncIterable) else iter(items)
        return self._checked(await ingestion.arun(self._awaiting_client(), given), items)

    def _checked(self, report: Report, items: "_Items") -> Report:
        if not report.ok:
            raise IncompleteIngestionError(
                report, self.collections, "Pass the same documents again"
            )
        if items.placed and report.superseded > max(report.unchanged, 2):
            known = report.superseded + report.unchanged
            warnings.warn(
                f"{report.superseded} of {known} known documents have changed. Some are identified "
                "by their position in their source, so an insertion before them changes them all. "
                "Pass key= to identify them by something else, such as a heading",
                stacklevel=level_outside(FRAMEWORKS),
            )
        return report


class _Items:
    """The documents of one call as items, one at a time, made as `from_loader` makes them."""

    def __init__(self, documents: Any, key: Callable[[Document], str] | None) -> None:
        if isinstance(documents, Document):
            raise ConfigurationError(
                "documents: expected several, not one Document; put it into a list, as in "
                "add_documents([document])"
            )
        self._documents, self._texts = documents, Texts(key=key)

    @property
    def placed(self) -> int:
        return self._texts.placed

    def __iter__(self) -> Iterator[Text | Skipped]:
        return map(self._item, self._documents)

    async def __aiter__(self) -> AsyncIterator[Text | Skipped]:
        async for document in self._documents:
            yield self._item(document)

    def _item(self, document: Document) -> Text | Skipped:
        if not isinstance(document, Document):
            raise ConfigurationError(
                f"documents: expected Document objects, not {type(document).__name__}"
            )
        return self._texts(document)
