"""Documents into collections of a service in memory."""

import asyncio
import pickle
from copy import copy
from uuid import uuid4

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from pydantic import ValidationError

import calls
from calls import KEY, both_ways
from knowledge_bot import (
    AsyncClient,
    Client,
    ConfigurationError,
    PermissionDeniedError,
    UnsupportedError,
)
from knowledge_bot.testing import MemoryService
from langchain_knowledge_bot import KnowledgeBotCollection
from numbering_bots import received
from refusals import refused

PAGES = [Document(f"Page {n}.", metadata={"source": "guide.pdf", "page": n}) for n in (1, 2, 3)]


@pytest.fixture
def collection(fields, tmp_path):
    return KnowledgeBotCollection(collections="col_1", ledger=tmp_path / "ledger.db", **fields)


def created(service):
    return [(value["name"], value["content"]) for value in received(service)]


add = both_ways("add_documents", "aadd_documents")
delete = both_ways("delete", "adelete")


def test_a_key_of_the_callers_own_is_used(add, collection, service):
    keyed = collection.model_copy(update={"key": lambda each: each.metadata["number"]})
    add(keyed, [Document("a", metadata={"number": "1", "title": "First\nline"})])
    assert add(keyed, [Document("b", metadata={"number": "1"})]).superseded == 1
    assert created(service) == [("First", "a"), ("b", "b")]


def test_what_a_vector_store_has_says_what_there_is_here(collection):
    for name in ("add_texts", "aadd_texts", "as_retriever", "similarity_search"):
        with pytest.raises(AttributeError, match=r"add_documents\(\)|KnowledgeBotRetriever"):
            getattr(collection, name)
        assert not hasattr(collection, name)
    with pytest.raises(AttributeError, match="'add_text'"):
        _ = collection.add_text
    assert copy(collection).collections == ("col_1",)


@pytest.mark.parametrize("metadata", [{"source": "hours.md"}, {}])
def test_random_ids_are_no_keys_unless_they_are_passed_as_ids(metadata, add):
    service = MemoryService(extensions={"sources", "sync"})

    def read(text="Opens at 9.", **more):
        return [Document(text, id=str(uuid4()), metadata=metadata, **more)]

    assert add(in_memory(service), read()).created == 1
    assert add(in_memory(service), read()).unchanged == 1
    if metadata:
        assert add(in_memory(service), read("Opens at 8.")).replaced == 1
    kept, collection = [str(uuid4())], in_memory(MemoryService(extensions={"sources", "sync"}))
    assert collection.add_documents(read(), ids=kept).created == 1
    assert asyncio.run(collection.aadd_documents(read("Opens at 7."), ids=kept)).replaced == 1
    assert collection.delete(kept)["succeeded"] == kept
    for wrong in (["a", "b"], []):
        with refused("ids"):
            collection.add_documents(read(), ids=wrong)


class Loader(BaseLoader):
    def __init__(self, *documents):
        self.documents = documents

    def lazy_load(self):
        yield from self.documents


def test_a_loader_is_synchronised_and_within_one_origin_the_same_is_not_added(collection):
    collection = collection.model_copy(update={"origin": "guide"})
    assert collection.sync(Loader(*PAGES)).created == 3
    assert collection.sync(Loader(*PAGES)).unchanged == 3
    assert asyncio.run(collection.aadd_documents(Loader(*PAGES).alazy_load())).unchanged == 3


async def test_what_is_gone_is_reported_without_blocking_too(collection):
    assert (await collection.async_sync(Loader(*PAGES))).created == 3
    report = await collection.async_sync(Loader(*PAGES[:2]))
    assert (report.unchanged, report.gone) == (2, 1)
    assert collection.sync(Loader(*PAGES)).unchanged == 3


def rows(*texts):
    """As `CSVLoader` gives them."""
    return [Document(text, metadata={"source": "a.csv", "row": i}) for i, text in enumerate(texts)]


def test_a_row_that_is_put_in_at_the_top_creates_that_row_alone(add, collection, service):
    add(collection, rows("id: 1", "id: 2", "id: 2"))
    assert sorted(name for name, _ in created(service)) == [
        "a.csv: id: 1",
        "a.csv: id: 2",
        "a.csv: id: 2 (2)",
    ]
    report = add(collection, rows("id: 0", "id: 1", "id: 2", "id: 2"))
    assert (report.created, report.unchanged, report.superseded) == (1, 3, 0)
    assert created(service)[-1][0] == "a.csv: id: 0"


def test_pages_that_all_changed_are_warned_of_at_the_callers_line(add, collection, service):
    pages = [Document(f"{each}.", metadata={"source": "a.pdf"}) for each in range(9)]
    add(collection, pages)
    with pytest.warns(UserWarning, match="8 of 9 known documents .*key=") as caught:
        add(collection, [pages[0], Document("new", metadata={"source": "a.pdf"}), *pages[1:]])
    assert [each.filename for each in caught] == [calls.__file__]


def test_one_document_should_be_put_into_a_list(add, collection, service):
    with pytest.raises(ConfigurationError, match=r"as in add_documents\(\[document\]\)"):
        add(collection, Document("text"))


def test_a_pickled_collection_goes_on_with_the_same_ledger(collection):
    collection.add_documents(PAGES)
    assert pickle.loads(pickle.dumps(collection)).add_documents(PAGES).unchanged == 3


def test_wrong_fields_and_wrong_documents_are_errors_without_the_key(add, collection, fields):
    fields = {**fields, "ledger": "x.db"}
    for wrong in (
        {},
        {"collections": "bot_1"},
        {"collections": []},
        {"collections": 1},
        {"collections": "col_1", "concurrency": 0},
        {"collections": "col_1", "on_unknown": "guess"},
        {"collections": "col_1", "rate": 0},
        {"collections": "col_1", "dry_run": True},
    ):
        with pytest.raises(ValidationError) as caught:
            KnowledgeBotCollection(**fields, **wrong)
        assert KEY not in str(caught.value) + str(caught.value.errors())
    with pytest.raises(ValueError, match="expected Document objects, not str"):
        add(collection, ["a text"])
    assert KEY not in repr(collection)


def in_memory(service):
    """A collection of a service, without a ledger."""
    return KnowledgeBotCollection(
        collections="col_default",
        client=Client(KEY, "https://service.test", transport=service.transport),
        async_client=AsyncClient(KEY, "https://service.test", transport=service.async_transport),
    )


def test_where_sources_cannot_be_deleted_nothing_is_sent(delete):
    for extensions, manages in (((), True), ({"sources"}, True), ({"sources", "sync"}, False)):
        service = MemoryService(extensions=extensions)
        if not manages:
            service.announcement = service.announcement.replace(";manage", "")
        with pytest.raises(UnsupportedError):
            delete(in_memory(service), ["hours"])
        assert service.requests == []


def test_ids_must_be_named(delete):
    service = MemoryService(extensions={"sources", "sync"})
    collection = in_memory(service)
    collection.add_documents([Document("Opens at 9.", id="a"), Document("Blue.", id="b")])
    for none in (None, "ab", [1]):
        with pytest.raises(ValueError, match="ids"):
            delete(collection, none)
    assert len(service.sources) == 2


def test_a_deletion_that_failed_may_be_repeated(delete):
    service = MemoryService(extensions={"sources", "sync"})
    collection = in_memory(service)
    collection.add_documents([Document(name, id=name) for name in ("a", "b", "c")])
    service.fail_next(403, where=lambda request: request.method == "DELETE")
    with pytest.raises(PermissionDeniedError):
        delete(collection, ["a", "b", "c"])
    assert delete(collection, ["a", "b", "c"])["succeeded"] == ["a", "b", "c"]
    assert service.sources == []


def test_without_a_ledger_the_service_knows_what_it_has(add, delete):
    service = MemoryService(extensions={"sources", "sync"})
    first, second = Document("Opens at 9.", id="hours"), Document("Blue.", id="walls")
    assert add(in_memory(service), [first, second]).created == 2
    first = Document("Opens at 8.", id="hours")
    report = add(in_memory(service), [first, second])  # as in another process
    assert (report.replaced, report.unchanged, len(service.sources)) == (1, 1, 2)
    collection = in_memory(service).model_copy(update={"origin": "loader"})
    collection.sync(Loader(*PAGES))
    assert collection.sync(Loader(*PAGES[1:])).removed == 1
    assert delete(collection, ["hours", "never heard of"])["succeeded"] == ["hours"]
    assert len(service.sources) == 3


def test_a_service_that_keeps_no_book_needs_a_ledger(add):
    service = MemoryService(extensions={"sources"})
    with refused("ledger"):
        add(in_memory(service), PAGES)
    assert service.requests == []
