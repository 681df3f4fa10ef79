"""Documents into collections: each is sent once, however often it is given."""

import asyncio
import warnings
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from langchain_core.indexing.base import DeleteResponse
from pydantic import BeforeValidator, model_validator
from typing_extensions import Unpack

from knowledge_bot import Collection, ConfigurationError
from knowledge_bot.adapters import OnUnknown, SharedOptions, Texts, collection_ids, remove
from knowledge_bot.adapters.settings import (
    SyncOptions,
    ingestion_of,
    ledger_of,
    level_outside,
    sync_of,
)
from knowledge_bot.ingest import (
    IncompleteIngestionError,
    Ingestion,
    Ledger,
    Report,
    Skipped,
    Text,
)
from langchain_knowledge_bot.clients import ClientFields, ClientMixin

if TYPE_CHECKING:
    from pathlib import Path


def _ids(collections: Any) -> tuple[str, ...]:
    return tuple(collection_ids(collections))


def _check_loader(loader: Any) -> None:
    if not isinstance(loader, BaseLoader):
        raise ConfigurationError.expected(
            "loader",
            "one document loader of LangChain",
            loader,
            ". Pass several loaders in separate calls, each with its own origin=, and documents to "
            "add_documents()",
        )


# What vector stores of the framework have, and what there is here.
_MADE_OF = ". A text becomes one by Document(page_content=text)"
_ADDING = f"add_documents() takes Documents{_MADE_OF}"
_FINDING = "KnowledgeBotRetriever finds passages, and ChatKnowledgeBot answers from them"
_OF_VECTOR_STORES = {
    **dict.fromkeys(("add_texts", "aadd_texts", "upsert", "aupsert"), _ADDING),
    **dict.fromkeys(("as_retriever", "similarity_search", "asimilarity_search"), _FINDING),
}


class CollectionFields(ClientFields, SharedOptions, total=False):
    """The fields of a `KnowledgeBotCollection` that may be left out, for type checkers."""

    key: Callable[[Document], str] | None
    origin: str | None


class KnowledgeBotCollection(ClientMixin):
    """A collection of the service, or several, as the place where documents go.

    Each document becomes a source with its text alone, as the service stores no metadata. Pass
    whole documents rather than chunks, since the service splits them itself. No document is sent
    twice, and a changed one takes the place of its old text.

    Where the service announces the extension `sync`, it knows itself what it has: nothing else is
    needed, and `sync` lets it remove what a loader no longer finds. The interface alone can neither
    list, replace nor delete sources. There a `ledger` records what was sent, a changed document
    becomes a new source, `Ledger.superseded` lists the old one, and `Ledger.gone` what a loader no
    longer finds, for a person to remove. No service returns sources, so this is neither a vector
    store nor a `DocumentIndex` for `index()`.

    A document is identified by its `id`, and without one as `knowledge_bot.origins.Loader`
    says: by its `source` and its position there, or by its text. A random id (`uuid4`) is none: it
    is another one each time the document is read. To identify documents by something else, pass
    `key`, or `ids` with them. A document without text is skipped, and named in the report; it is
    `invalid` where the service still has its text of before.

    Setup:
        `pip install "knowledge-bot[langchain]"`, and `KNOWLEDGE_BOT_BASE_URL` and
        `KNOWLEDGE_BOT_API_KEY` in the environment.

    Key init args:
        collections: str | Collection | Iterable[str | Collection]
            Where the documents go, `col_…`.
        ledger: Ledger | str | Path | None
            Records what was sent, for services that do not announce `sync`: a
            `knowledge_bot.ingest.Ledger`, its address, or a SQLite file's path.
        key: Callable[[Document], str] | None
            Returns what identifies a document.
        origin: str | None
            A name for where the documents come from, which are recognised within it: what `sync`
            sent, `add_documents` knows if both have the same. By default `sync` has the loader's
            class, and `add_documents` one of the collections' own.
        concurrency, on_unknown, anyway, rate, prune, wait_ready
            How documents are sent, and what happens to sources that are gone or superseded; see
            `knowledge_bot.ingest.IngestionOptions`. Only `sync` finds out what is gone.
        api_key, base_url, timeout, max_retries, client, async_client
            How the service is reached, see `ClientMixin`.

    Instantiate:
        ```python
        from langchain_knowledge_bot import KnowledgeBotCollection

        handbook = KnowledgeBotCollection(collections="col_handbook", origin="handbook")
        ```

    Add documents:
        ```python
        from langchain_core.documents import Document

        handbook.add_documents([Document(id="hours", page_content="The desk opens at nine.")])
        await handbook.aadd_documents(loader.alazy_load())
        report = handbook.sync(loader, wait_ready=60)
        handbook.delete(["hours"])
        ```

    Raises:
        pydantic.ValidationError: from the constructor: no key or no base URL, or a field that is
            unknown, missing or cannot be used.
    """

    collections: Annotated[tuple[str, ...], BeforeValidator(_ids)]
    ledger: Annotated[Ledger | None, BeforeValidator(ledger_of)] = None
    key: Callable[[Document], str] | None = None
    origin: str | None = None
    concurrency: int = Ingestion.concurrency
    on_unknown: OnUnknown = Ingestion.on_unknown
    anyway: bool = Ingestion.anyway
    rate: float | None = Ingestion.rate
    prune: Any = Ingestion.prune
    wait_ready: float = Ingestion.wait_ready

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            collections: str | Collection | Iterable[str | Collection],
            ledger: "Ledger | str | Path | None" = None,
            **fields: Unpack[CollectionFields],
        ) -> None: ...

    else:  # a type checker shall know no names but ours

        def __getattr__(self, name: str) -> Any:
            if name in _OF_VECTOR_STORES:
                raise AttributeError(f"There is no {name}() here: {_OF_VECTOR_STORES[name]}")
            return super().__getattr__(name)

    @model_validator(mode="after")
    def _check(self) -> Self:
        ingestion_of(self)
        return self

    def add_documents(
        self, documents: Iterable[Document], ids: Sequence[str] | None = None
    ) -> Report:
        """Create a source of each document that is new or changed.

        Args:
            documents: read one at a time; a generator such as a loader's `lazy_load` will do.
            ids: what identifies each document of a list, whatever its own id is.

        Returns:
            How many were created, replaced, unchanged and superseded, and which were skipped.

        Raises:
            IncompleteIngestionError: some were not created; raised once all others are.
            ConfigurationError: an argument cannot be used.
            LedgerError: the ledger cannot be read or written.
        """
        texts = self._texts(documents, ids)
        return self._checked(ingestion_of(self).run(self._sync, _items(documents, texts)), texts)

    async def aadd_documents(
        self,
        documents: Iterable[Document] | AsyncIterable[Document],
        ids: Sequence[str] | None = None,
    ) -> Report:
        """Do as `add_documents` does, without blocking; takes a loader's `alazy_load` as well."""
        return await self._aadd(documents, self._texts(documents, ids), ingestion_of(self))

    def sync(
        self,
        loader: BaseLoader,
        **options: Unpack[SyncOptions],
    ) -> Report:
        """Add what is new or changed in a loader, as `add_documents` does; mark what is gone.

        Args:
            loader: yields all documents of its origin.
            options: `origin`, `anyway`, `prune` and `wait_ready`, by default the collection's, and
                `gone_limit`; see `knowledge_bot.ingest.IngestionOptions`. Without an origin there
                either, it is the loader's class. Loaders of one class need names of their own;
                otherwise each finds that the other's documents are gone.

        Returns:
            As for `add_documents`, and how many are gone: `gone`, which the ledger's method of this
            name lists, `withheld` if they are more than the limit, and `incomplete` if it cannot be
            known; `removed` counts those that `prune` removed.

        Raises:
            IncompleteIngestionError: some were not created; raised once all others are.
            ConfigurationError: an argument cannot be used.
            LedgerError: the ledger cannot be read or written.
        """
        _check_loader(loader)
        texts = Texts(key=self.key)
        found = _items(loader.lazy_load(), texts)
        return self._checked(sync_of(self, loader, options).run(self._sync, found), texts)

    async def async_sync(self, loader: BaseLoader, **options: Unpack[SyncOptions]) -> Report:
        """Do as `sync` does, without blocking: the loader is read by its `alazy_load`."""
        _check_loader(loader)
        texts = Texts(key=self.key)
        return await self._aadd(loader.alazy_load(), texts, sync_of(self, loader, options))

    def delete(self, ids: list[str] | None = None) -> DeleteResponse:
        """Delete the sources of documents, where the service announces that this key may.

        Args:
            ids: what identifies the documents: their `id`, or what `key` returned for them. One
                that is given again later is created again.

        Returns:
            `num_deleted` and `succeeded`: the ids that were deleted, not those that are unknown.

        Raises:
            ConfigurationError: `ids` is no list of strings; nothing was deleted.
            UnsupportedError: the service does not announce `sync`, or `sources` with `manage` to
                this key.
            KnowledgeBotError: the service did not delete one; the call may be repeated.
        """
        if ids is None:
            raise ConfigurationError.of("ids", "name the documents to delete. Nothing was deleted")
        # The letters of a string are strings, too.
        given: Any = ids
        if isinstance(given, str) or not all(isinstance(one, str) for one in given):
            raise ConfigurationError.expected("ids", "a list of ids", ids, ". Nothing was deleted")
        removed = remove(self._sync, self.collections, ids)
        return DeleteResponse(num_deleted=len(removed), succeeded=removed)

    async def adelete(self, ids: list[str] | None = None) -> DeleteResponse:
        """Delete as `delete` does, without blocking."""
        return await asyncio.to_thread(self.delete, ids)

    def _texts(self, documents: object, ids: Sequence[str] | None) -> Texts:
        if ids is None:
            return Texts(key=self.key)
        if not isinstance(documents, Sequence) or len(documents) != len(ids):
            raise ConfigurationError.of(
                "ids", "pass a list of documents and as many ids. Nothing was sent"
            )
        following = iter(ids)
        return Texts(key=lambda _: next(following))

    async def _aadd(self, documents: Any, texts: Texts, ingestion: Ingestion) -> Report:
        found = _items(documents, texts)
        return self._checked(await ingestion.arun(self._awaiting_client(), found), texts)

    def _checked(self, report: Report, texts: Texts) -> Report:
        if not report.ok:
            raise IncompleteIngestionError(
                report, self.collections, "Pass the same documents again"
            )
        changed = report.superseded + report.replaced
        if texts.placed and changed > max(report.unchanged, 2):
            known = changed + report.unchanged
            warnings.warn(
                f"{changed} of {known} known documents have changed. Some are identified "
                "by their position in their source, so an insertion before them changes them all. "
                "Pass key= to identify them by something else, such as a heading",
                stacklevel=level_outside(),
            )
        return report


def _items(documents: Any, texts: Texts) -> Any:
    """Return documents as items, one at a time, made as a `Loader` makes them."""
    if isinstance(documents, Document):
        raise ConfigurationError.of(
            "documents",
            "expected several, not one Document; put it into a list, as in "
            "add_documents([document])",
        )

    def item(document: Document) -> Text | Skipped:
        if not isinstance(document, Document):
            raise ConfigurationError.expected("documents", "Document objects", document, _MADE_OF)
        return texts(document)

    async def awaited() -> AsyncIterator[Text | Skipped]:
        async for document in documents:
            yield item(document)

    return awaited() if isinstance(documents, AsyncIterable) else map(item, documents)
