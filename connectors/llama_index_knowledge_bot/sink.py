"""A collection as a step of an ingestion pipeline."""

import logging
import os
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from llama_index.core.bridge.pydantic import Field
from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import BaseNode, TransformComponent

from knowledge_bot import AsyncClient, Client, Collection, ConfigurationError
from knowledge_bot.ingest import IncompleteIngestionError, Ingestion, Ledger, Report
from llama_index_knowledge_bot.clients import Clients, with_clients
from llama_index_knowledge_bot.documents import texts_of

logger = logging.getLogger(__name__)

_AGAIN = (
    "A docstore of the pipeline would hold the documents back: leave it out, the ledger does its "
    "work. Then run the pipeline again with the same documents"
)

_SKIPPED_TOLD = 10


class CollectionSink(TransformComponent):
    """The first step of an ingestion pipeline: each document becomes a source of collections.

    It returns its nodes unchanged, so that splitters and an index may follow it. Put it before
    them: a splitter drops what stands between two parts and repeats what overlaps. Where a document
    comes split, its parts are put together only if that provably gives its text back, by the hash
    that they hold of it; otherwise the document is refused as `invalid`. Of several documents with
    one id none is sent.

    What was sent is in the ledger, so that a run that failed loses no document and a rerun adds
    none twice. The pipeline's cache never leaves this step out. Give the pipeline no docstore: it
    notes documents before the steps run, so that those of a failed run never come to the sink again
    (upstream issue 22638). With `num_workers` each worker process sends its share of the documents
    with a client of its own and `concurrency` requests at once; what it cannot see are documents of
    one id in the share of another, of which the later one counts as a change.

    A document is known by its id. Where the framework made one up (a random one, new each time a
    document is read), it is known by its name and text, and a changed one counts as another;
    readers can give lasting ids (`SimpleDirectoryReader(…, filename_as_id=True)`). A changed
    document is a new source, and the old one is listed by `Ledger.superseded`, since the service
    deletes nothing. A document without text is skipped, and named in a warning.

    Pickles hold the clients and the ledger's address, and so the API key; `to_dict`, `repr` and
    what a pipeline persists do not.

    Example:
        ```python
        sink = CollectionSink("col_handbook", ledger="sqlite:///kbot.db")
        pipeline = IngestionPipeline(transformations=[sink, SentenceSplitter()])
        reader = SimpleDirectoryReader("handbook", filename_as_id=True)
        nodes = pipeline.run(documents=reader.load_data())
        sink.sync(reader)  # or without a pipeline: also notes which files are gone
        ```

    Args:
        collections: where the documents go, as one or several ids or `Collection` objects.
        ledger: what was sent, as a `Ledger`, its address, or the path of a SQLite file.
        client: the client to send with; by default one made from `KNOWLEDGE_BOT_BASE_URL` and
            `KNOWLEDGE_BOT_API_KEY`.
        async_client: what asynchronous runs use; by default a client with the settings of `client`.
        concurrency: how many documents are under way at the same time, for each worker.
        on_unknown: what becomes of a document whose sending had no clear outcome, in the next run:
            "hold" reports it and never sends it twice; "resend" sends it again and never loses it.

    Raises:
        ConfigurationError: no base URL, or an argument that cannot be used.
        LedgerError: the ledger cannot be read or written.
        IncompleteIngestionError: some documents were refused, or cannot be texts of a collection
            (images, documents that came split, several with one id), or their outcome is unknown;
            raised when all others are there. `delivery` tells whether the service may have acted.
    """

    collections: list[str]
    concurrency: int
    on_unknown: Literal["hold", "resend"]
    ledger: Ledger = Field(exclude=True, repr=False)
    clients: Clients = Field(exclude=True, repr=False)

    def __init__(
        self,
        collections: str | Collection | Iterable[str | Collection],
        *,
        ledger: Ledger | str | os.PathLike[str],
        client: Client | None = None,
        async_client: AsyncClient | None = None,
        concurrency: int = Ingestion.concurrency,
        on_unknown: Literal["hold", "resend"] = Ingestion.on_unknown,
        clients: Clients | None = None,
    ) -> None:
        kept = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        _ = kept.database  # so that an address that cannot be used is told of here
        options = Ingestion(
            collections=collections,
            ledger=kept,
            concurrency=concurrency,
            on_unknown=on_unknown,
        )
        # The framework unpickles by passing all fields to this method, and so `clients`.
        super().__init__(
            collections=list(options.collections),
            ledger=kept,
            clients=clients or Clients(client, async_client),
            concurrency=options.concurrency,
            on_unknown=options.on_unknown,
        )

    def __getstate__(self) -> dict[str, Any]:
        return with_clients(super().__getstate__())

    @classmethod
    def class_name(cls) -> str:
        """Return the name that stands for this class in what is written down."""
        return "knowledge_bot_collection_sink"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return the settings, with a value that is new each time.

        A pipeline's cache leaves a step out that it has seen with the same nodes and the same
        settings; what this step does is in the service and not in the cache.
        """
        return {**super().to_dict(**kwargs), "asked": uuid.uuid4().hex}

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> "CollectionSink":
        """Make a sink of settings; `ledger=` has to be given, since an address may be secret."""
        told = {name: value for name, value in data.items() if name not in ("asked", "class_name")}
        return cls(**told, **kwargs)

    def __call__(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        """Send the documents that are not there yet; returns the nodes as they are."""
        self._checked(self._ingestion().run(self.clients.blocking, texts_of(nodes)), _AGAIN)
        return nodes

    async def acall(self, nodes: Sequence[BaseNode], **_: Any) -> Sequence[BaseNode]:
        """Send the documents that are not there yet; returns the nodes as they are."""
        report = await self._ingestion().arun(self.clients.awaiting, texts_of(nodes))
        self._checked(report, _AGAIN)
        return nodes

    def sync(
        self,
        reader: BaseReader,
        *,
        origin: str | None = None,
        gone_limit: float = Ingestion.gone_limit,
    ) -> Report:
        """Send what a reader finds new or changed, without a pipeline; note what is gone.

        Args:
            reader: gives all documents of its origin, under lasting ids.
            origin: a name that stands for what the reader reads, by default the reader's class.
                Readers of one class that feed the same collections each need a name of their own:
                what one of them finds is gone for the other.
            gone_limit: the share of the origin's documents that may vanish at once, 0 to 1; where
                more do, none is noted as gone.

        Returns:
            How many documents were created, unchanged, superseded and skipped, and how many are
            gone; `Ledger.gone` lists these, for a person to delete.

        Raises:
            IncompleteIngestionError: some are not there; raised when all others are.
            ConfigurationError: an argument cannot be used.
            LedgerError: the ledger cannot be read or written.
        """
        if isinstance(reader, type) or not callable(getattr(reader, "load_data", None)):
            kind = (
                f"the class {reader.__name__}"
                if isinstance(reader, type)
                else type(reader).__name__
            )
            raise ConfigurationError(
                f"reader: expected one reader of LlamaIndex, with load_data(), not {kind}. Of "
                "several, give each in a call of its own, with an origin= of its own"
            )
        ingestion = self._ingestion(origin=origin or type(reader).__name__, gone_limit=gone_limit)
        report = ingestion.run(self.clients.blocking, texts_of(reader.load_data()))
        return self._checked(report, "Read the same documents again")

    def _ingestion(self, **options: Any) -> Ingestion:
        return Ingestion(
            collections=self.collections,
            ledger=self.ledger,
            concurrency=self.concurrency,
            on_unknown=self.on_unknown,
            **options,
        )

    def _checked(self, report: Report, again: str) -> Report:
        skipped = [one for one in report.failures if one.kind == "skipped"]
        if skipped:
            told = "; ".join(f"{one.name}: {one.error}" for one in skipped[:_SKIPPED_TOLD])
            logger.warning("Documents that were skipped: %d (%s)", report.skipped, told)
        if not report.ok:
            raise IncompleteIngestionError(report, self.collections, again)
        return report
