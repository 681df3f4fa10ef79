"""Loaders of LangChain and LlamaIndex give their documents to an ingestion as they stand."""

import pytest
from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document
from llama_index.core import SimpleDirectoryReader
from llama_index.core.readers import StringIterableReader

from knowledge_bot import Client
from knowledge_bot.ingest import (
    Ledger,
    ingest,
)
from knowledge_bot.origins import (
    Loader,
)
from knowledge_bot.testing import MemoryService


@pytest.fixture
def send(tmp_path):
    service = MemoryService(collections=["col_1"])
    client = Client("key", "https://service.test", transport=service.transport)
    ledger = Ledger(tmp_path / "ledger.db")
    return lambda items: ingest(client, items, collections="col_1", ledger=ledger)


def test_a_loader_of_langchain_is_taken(send):
    class Own(BaseLoader):
        def load(self):
            return [Document("Nine.", metadata={"source": "hours.md"})]

    assert [item.key for item in Loader(Own()).items()] == ["hours.md"]
    assert send(Loader(Own())).created == 1


def test_llama_index_s_reader_of_a_directory_loads_only_what_changed(send, tmp_path):
    folder = tmp_path / "folder"
    for name in ("a.md", "b.txt", "more/c.md"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(f"The text of {name}.")

    def run():
        reader = SimpleDirectoryReader(str(folder), recursive=True)
        return send(Loader(reader, name="folder"))

    assert run().created == 3
    assert run().unchanged == 3
    (folder / "a.md").write_text("Another text.")
    (folder / "b.txt").unlink()
    report = run()
    assert (report.superseded, report.unchanged, report.gone) == (1, 1, 1)


def test_llama_index_s_reader_of_texts_is_taken(send):
    documents = StringIterableReader().load_data(["Nine to five.", "Closed."])
    assert [item.name for item in Loader(documents, name="texts").items()] == [
        "Nine to five.",
        "Closed.",
    ]
    for created in (2, 0):
        documents = StringIterableReader().load_data(["Nine to five.", "Closed."])
        assert send(Loader(documents, name="texts")).created == created
