"""What is reported as gone and superseded, beside what LangChain and LlamaIndex delete.

They own their stores and delete; this service cannot delete, so the ledger lists what a person may
remove. Over the same random histories of what an origin yields these have to be the same sources.
"""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calls import KEY
from knowledge_bot import AsyncClient
from knowledge_bot.ingest import Ledger, Report, Text, aingest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

Snapshot = dict[str, str]
Held = set[tuple[str, str]]
"""Keys with a content that a store holds, or held."""

# Few keys and contents, so that items often change, vanish and come back. No two keys share a
# content: what these two delete and store anew is moved here.
HISTORIES = st.lists(
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["one", "two", "three"])).map(
        lambda snapshot: {key: f"{content} of {key}" for key, content in snapshot.items()}
    ),
    min_size=2,
    max_size=4,
)


class Ours:
    """Ingests each snapshot of one history into a collection of its own."""

    _histories = count()

    def __init__(self, send: Callable[..., Report], ledger: Ledger) -> None:
        self._send, self._ledger = send, ledger
        self._collection = f"col_{next(self._histories)}"
        self._content: dict[str, tuple[str, str]] = {}
        self._gone: set[str] = set()
        self._removable: set[str] = set()

    def ingest(self, snapshot: Snapshot) -> tuple[Held, Held]:
        """Return what is newly gone, and what of all sources may be removed now and not before."""
        report = self._send(
            [Text(name=key, content=content) for key, content in snapshot.items()],
            ledger=self._ledger,
            collections=self._collection,
            origin="history",
            gone_limit=1,
            on_outcome=lambda one: self._content.update(
                {one.source_id: (one.key, snapshot[one.key])} if one.kind == "created" else {}
            ),
        )
        assert report.failed == 0
        gone = {entry.source_id for entry in self._ledger.gone() if self._mine(entry)}
        old = {source.source_id for source in self._ledger.superseded() if self._mine(source)}
        assert report.gone == len(gone)
        newly_gone, newly_removable = gone - self._gone, (gone | old) - self._removable
        self._gone, self._removable = gone, gone | old
        return self._named(newly_gone), self._named(newly_removable)

    def _mine(self, one) -> bool:
        return one.collections == (self._collection,)

    def _named(self, sources: set[str]) -> Held:
        return {self._content[source] for source in sources}


class OfLlamaIndex:
    """A pipeline whose document store deletes what no longer comes."""

    def __init__(self) -> None:
        from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
        from llama_index.core.storage.docstore import SimpleDocumentStore
        from llama_index.core.vector_stores import SimpleVectorStore

        self._store = SimpleDocumentStore()
        self._pipeline = IngestionPipeline(
            transformations=[],
            docstore=self._store,
            vector_store=SimpleVectorStore(),
            docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
            disable_cache=True,
        )

    def ingest(self, snapshot: Snapshot) -> set[str]:
        """Return the keys that it deleted."""
        from llama_index.core import Document

        before = set(self._store.docs)
        # Its hash is of the metadata as well, so equal contents stay apart.
        self._pipeline.run(
            documents=[
                Document(id_=key, text=content, metadata={"key": key}, embedding=[1.0])
                for key, content in snapshot.items()
            ]
        )
        return before - set(self._store.docs)


class OfLangChain:
    """An index with full cleanup."""

    def __init__(self) -> None:
        from langchain_core.embeddings import DeterministicFakeEmbedding
        from langchain_core.indexing import InMemoryRecordManager
        from langchain_core.vectorstores import InMemoryVectorStore

        self._store = InMemoryVectorStore(DeterministicFakeEmbedding(size=2))
        self._records = InMemoryRecordManager("history")
        self._records.create_schema()

    def ingest(self, snapshot: Snapshot) -> Held:
        """Return what it deleted."""
        from langchain_core.documents import Document
        from langchain_core.indexing import index

        before = self._held()
        index(
            [
                Document(page_content=content, metadata={"key": key})
                for key, content in snapshot.items()
            ],
            self._records,
            self._store,
            cleanup="full",
            source_id_key="key",
            key_encoder="blake2b",
        )
        assert self._held() == set(snapshot.items())
        return before - self._held()

    def _held(self) -> Held:
        return {(one["metadata"]["key"], one["text"]) for one in self._store.store.values()}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """In memory if possible: no power cut is tried here, but hundreds of commits."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def send_quickly(service) -> Iterator[Callable[..., Report]]:
    """`send(items, **options)`, with one client and one loop for some hundred runs."""
    with asyncio.Runner() as runner:
        client = AsyncClient(KEY, service.url)
        yield lambda items, **options: runner.run(aingest(client, items, **options))
        runner.run(client.aclose())


@pytest.mark.parametrize("histories", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_what_is_reported_as_gone_and_superseded_is_what_others_delete(
    send_quickly, folder, histories
):
    @given(history=HISTORIES)
    @settings(max_examples=histories, database=None)
    def check(history: list[Snapshot]) -> None:
        compare(history, send_quickly, folder)

    check()


def compare(history: list[Snapshot], send: Callable[..., Report], folder: Path) -> None:
    ours, llama_index, langchain = (
        Ours(send, Ledger(folder / "l.db")),
        OfLlamaIndex(),
        OfLangChain(),
    )
    for snapshot in history:
        newly_gone, may_be_removed = ours.ingest(snapshot)
        assert {key for key, _ in newly_gone} == llama_index.ingest(snapshot)
        assert may_be_removed == langchain.ingest(snapshot)
