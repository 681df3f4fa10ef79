"""Two nights over documents that change: what each face feeds and deletes."""

import asyncio

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document as LangChainDocument
from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import Document as LlamaIndexDocument

from in_process import OnAPort
from knowledge_bot import Client
from knowledge_bot.ingest import ingest
from knowledge_bot.origins import Rows
from langchain_knowledge_bot import KnowledgeBotCollection
from llama_index_knowledge_bot import CollectionSink

FIRST = {"hours": "The library opens at nine.", "fees": "A late fee is two euros a week."}
SECOND = {"hours": "The library opens at ten."}

OPENS, FEE = "When does the library open?", "What is a late fee?"


class Loader(BaseLoader):
    def __init__(self, texts):
        self.texts = texts

    def lazy_load(self):
        for name, text in self.texts.items():
            yield LangChainDocument(text, id=name, metadata={"source": name})


class Reader(BaseReader):
    def __init__(self, texts):
        self.texts = texts

    def load_data(self):
        texts = self.texts.items()
        return [
            LlamaIndexDocument(text=text, id_=name, metadata={"file_name": name})
            for name, text in texts
        ]


def of_langchain(client, texts, **how):
    collection = KnowledgeBotCollection(collections="col_1", client=client)
    return collection.sync(Loader(texts), **how)


def of_langchain_awaited(client, texts, **how):
    collection = KnowledgeBotCollection(collections="col_1", client=client, **how)
    return asyncio.run(collection.async_sync(Loader(texts)))


def of_llama_index(client, texts, **how):
    return CollectionSink("col_1", client=client).sync(Reader(texts), **how)


def of_rows(client, texts, **how):
    rows = [{"id": name, "body": text} for name, text in texts.items()]
    items = Rows(rows, key="id", text="body", name="handbook")
    return ingest(client, items, collections="col_1", **how)


@pytest.fixture(params=[of_langchain, of_langchain_awaited, of_llama_index, of_rows])
def night(request, client):
    """`night(texts, prune=True)`: what one night's run of a face reports."""
    return lambda texts, **how: request.param(client, texts, wait_ready=60, **how)


@pytest.fixture
def service():
    with OnAPort(collections={"col_1": "House"}, bots={"bot_1": ["col_1"]}) as service:
        yield service


@pytest.fixture
def client(service):
    with Client(service.api_key, service.base_url) as client:
        yield client


def ask(client, question):
    return client.send_message(bot_id="bot_1", content=question)


def test_after_the_second_night_a_bot_answers_from_what_there_is(night, client):
    night(FIRST)
    (before,) = client.list_sources(name="hours")
    report = night(SECOND)
    assert (report.replaced, report.removed, report.created) == (1, 1, 0)
    assert [one.id for one in client.list_sources()] == [before.id]
    answer = ask(client, OPENS).answer
    assert "ten" in answer
    assert "nine" not in answer
    assert not ask(client, FEE).model_extra["found"]


def langchain_delete(client, key):
    collection = KnowledgeBotCollection(collections="col_1", client=client)
    return collection.delete([key])


def langchain_adelete(client, key):
    collection = KnowledgeBotCollection(collections="col_1", client=client)
    return asyncio.run(collection.adelete([key]))


def llama_index_delete(client, key):
    return CollectionSink("col_1", client=client).delete_ref_doc(key)


def llama_index_adelete(client, key):
    sink = CollectionSink("col_1", client=client)
    return asyncio.run(sink.adelete_ref_doc(key))


DELETING = [
    (of_langchain, langchain_delete),
    (of_langchain, langchain_adelete),
    (of_llama_index, llama_index_delete),
    (of_llama_index, llama_index_adelete),
]


@pytest.mark.parametrize(("feed", "delete"), DELETING)
def test_what_is_deleted_by_its_id_is_known_no_more(feed, delete, client):
    feed(client, FIRST, wait_ready=60)
    delete(client, "fees")
    assert [one.name for one in client.list_sources()] == ["hours"]
    assert not ask(client, FEE).model_extra["found"]
    delete(client, "fees")  # fine
    report = feed(client, FIRST, wait_ready=60)
    assert (report.created, report.unchanged) == (1, 1)
    assert ask(client, FEE).model_extra["found"]
