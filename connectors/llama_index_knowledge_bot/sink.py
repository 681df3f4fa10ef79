"""A collection as a step of an ingestion pipeline."""

import asyncio
import logging
import os
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from llama_index.core.bridge.pydantic import Field
from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import BaseNode, TransformComponent

from knowledge_bot import AsyncClient, Client, Collection, ConfigurationError
from knowledge_bot.adapters import (
    OnUnknown,
    SharedOptions,
    check_names,
    remove,
    shared_options,
)
from knowledge_bot.adapters.settings import SyncOptions, ingestion_of, ledger_of, sync_of
from knowledge_bot.ingest import IncompleteIngestionError, Ingestion, Ledger, Report
from llama_index_knowledge_bot.clients import Clients, with_clients
from llama_index_knowledge_bot.documents import texts_of

logger = logging.getLogger(__name__)

_AGAIN = (
    "A docstore of the pipeline would hold the documents back: leave it out, since no document "
    "is sent twice without it. Then run the pipeline again with the same documents"
)

_SKIPPED_NAMED = 10


class CollectionSink(TransformComponent):
    """The first step of an ingestion pipeline: each document becomes a source of collections.

    It returns its nodes unchanged, so that splitters and an index may follow it. Put it before
    them: a splitter drops text between two parts and repeats text that overlaps, so a document that
    comes split is refused as `invalid`. If several documents have the same id, none of them is
    sent.

    No document is lost by a failed run, and none is added twice by the next one: where the service
    announces the extension `sync`, it knows itself what it has; elsewhere a `ledger` records it.
    The pipeline's cache never skips this step. Do not use a docstore: it records documents before
    the steps run, so those of a failed run never reach the sink again (upstream issue 22638). With
    `num_workers` each worker process sends its share of the documents with its own client and
    `concurrency` requests at once; it does not see documents with the same id in another share, and
    the later one counts as a change.

    A document is identified by its id. If the framework generated one (a random one, new each time
    the document is read), it is identified by its name and text, and a changed one counts as
    another; readers can give stable ids (`SimpleDirectoryReader(…, filename_as_id=True)`). A
    document without text is skipped, and named in a warning; it is `invalid` where the service
    still has its text of before.

    With `sync` a changed document takes the place of its old text, `sync` lets the service remove
    what a reader no longer finds, and `delete_ref_doc` deletes. The interface alone can neither
    replace nor delete a source: a changed document is a new one there, and `Ledger.superseded`
    lists the old one.

    Pickles contain the clients and the ledger's address, and so the API key; `to_dict`, `repr` and
    what a pipeline persists do not.

    Example:
        ```python
        sink = CollectionSink("col_handbook", origin="handbook")
        pipeline = IngestionPipeline(transformations=[sink, SentenceSplitter()])
        reader = SimpleDirectoryReader("handbook", filename_as_id=True)
        nodes = pipeline.run(documents=reader.load_data())
        sink.sync(reader)  # or without a pipeline: also removes what is gone
        ```

    Args:
        collections: where the documents go, as one or several ids or `Collection` objects.
        ledger: records what was sent, for services that do not announce `sync`: a `Ledger`, its
            address, or the path of a SQLite file.
        origin: a name for where the documents come from, which are recognised within it: what
            `sync` sent, a pipeline knows if both have the same. By default `sync` has the reader's
            class, and a pipeline one of the collections' own.
        client: the client to send with; by default one made from `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY`.
        async_client: the client of asynchronous runs; by default one with the settings of `client`.
        options: `concurrency`, `on_unknown`, `anyway`, `rate`, `prune` and `wait_ready`, for each
            worker; see `knowledge_bot.ingest.IngestionOptions`. A pipeline has a part of the
            documents, so nothing is ever gone there.

    Raises:
        TypeError: there is no such option.
        ConfigurationError: there is no base URL, or an argument cannot be used.
        LedgerError: the ledger cannot be read or written.
        IncompleteIngestionError: some documents were refused, or cannot become texts (images, split
            documents, several with the same id), or their outcome is unknown; raised once all
            others are created. `delivery` says whether the service may have acted.
    """

    collections: list[str]
    concurrency: int
    on_unknown: OnUnknown
    anyway: bool
    rate: float | None
    prune: Any = Field(exclude=True)
    wait_ready: float
    origin: str | None
    ledger: Ledger | None = Field(exclude=True, repr=False)
    clients: Clients = Field(exclude=True, repr=False)

    def __init__(
        self,
        collections: str | Collection | Iterable[str | Collection],
        *,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        origin: str | None = None,
        client: Client | None = None,
        async_client: AsyncClient | None = None,
        clients: Clients | None = None,
        **options: Unpack[SharedOptions],
    ) -> None:
        kept = ledger_of(ledger)
        check_names(options, SharedOptions)
        checked = Ingestion(collections=collections, ledger=kept, origin=origin, **options)
        # The framework unpickles by passing all fields to this method, `clients` among them.
        super().__init__(
            collections=list(checked.collections),
            ledger=kept,
            origin=origin,
            clients=clients or Clients(client, async_client),
            **shared_options(checked),
        )

    def __getstate__(self) -> dict[str, Any]:
        return with_clients(super().__getstate__())

    @classmethod
    def class_name(cls) -> str:
        """Return the class's name in serialised form."""
        return "knowledge_bot_collection_sink"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the settings, with a value that is new each time.

        A pipeline's cache skips a step that it has seen with the same nodes and settings; but this
        step's effect is in the service, not in the cache.
        """
        return {**super().to_dict(**kwargs), "asked": uuid.uuid4().hex}

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> "CollectionSink":
        """Make a sink from settings, and from a `ledger=`, whose address may be secret."""
        settings = {
            name: value for name, value in data.items() if name not in ("asked", "class_name")
        }
        return cls(**settings, **kwargs)

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        """Send the documents that are new or changed; returns the nodes unchanged."""
        self._checked(ingestion_of(self).run(self.clients.blocking, texts_of(nodes)), _AGAIN)
        return nodes

    async def acall(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        """Send the documents that are new or changed; returns the nodes unchanged."""
        report = await ingestion_of(self).arun(self.clients.awaiting, texts_of(nodes))
        self._checked(report, _AGAIN)
        return nodes

    def sync(
        self,
        reader: BaseReader,
        **options: Unpack[SyncOptions],
    ) -> Report:
        """Send what is new or changed in a reader, without a pipeline; mark what is gone.

        Args:
            reader: returns all documents of its origin, with stable ids.
            options: `origin`, `anyway`, `prune` and `wait_ready`, by default the sink's, and
                `gone_limit`; see `knowledge_bot.ingest.IngestionOptions`. Without an origin there
                either, it is the reader's class. Readers of one class need names of their own;
                otherwise each finds that the other's documents are gone.

        Returns:
            How many documents were created, replaced, unchanged, superseded and skipped, how many
            are gone (`Ledger.gone` lists these), and how many `prune` removed.

        Raises:
            IncompleteIngestionError: some were not created; raised once all others are.
            ConfigurationError: an argument cannot be used.
            LedgerError: the ledger cannot be read or written.
        """
        if isinstance(reader, type) or not callable(getattr(reader, "load_data", None)):
            raise ConfigurationError.expected(
                "reader",
                "one reader of LlamaIndex, with load_data()",
                reader,
                ". Pass several readers in separate calls, each with its own origin=",
            )
        documents = texts_of(reader.load_data())
        report = sync_of(self, reader, options).run(self.clients.blocking, documents)
        return self._checked(report, "Read the same documents again")

    def delete_ref_doc(self, ref_doc_id: str, **_: Any) -> None:
        """Delete a document's source, where the service announces that this key may.

        An id that is not known is fine; what is given again later is created again.

        Raises:
            UnsupportedError: the service does not announce `sync`, or `sources` with `manage` to
                this key.
            KnowledgeBotError: the service did not delete it; the call may be repeated.
        """
        remove(self.clients.blocking, self.collections, [ref_doc_id])

    async def adelete_ref_doc(self, ref_doc_id: str, **_: Any) -> None:
        """Delete as `delete_ref_doc` does, without blocking."""
        await asyncio.to_thread(self.delete_ref_doc, ref_doc_id)

    def _checked(self, report: Report, again: str) -> Report:
        skipped = [one for one in report.failures if one.kind == "skipped"]
        if skipped:
            names = "; ".join(f"{one.name}: {one.error}" for one in skipped[:_SKIPPED_NAMED])
            logger.warning("Documents that were skipped: %d (%s)", report.skipped, names)
        if not report.ok:
            raise IncompleteIngestionError(report, self.collections, again)
        return report
