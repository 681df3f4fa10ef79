"""What a `kill -9` leaves behind, over a service that cannot deduplicate: ours and usual loaders.

Each trial loads the same documents with four requests in flight, is killed at random moments, and
started again until it ends. The service counts what arrived: a document that is there twice is a
duplicate, one that is missing was lost; `unknown` are those that our ledger names as uncertain.
The frameworks are used as an adapter to such a service would use them.
"""

import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))

from measuring import Figure, report

from served import Surviving, surviving

DOCUMENTS = 120
IN_FLIGHT = 4
KILLS = 3
TRIALS = 8
# Seconds until the service answers, about.
DELAY = 0.005


def main() -> None:
    """Run every loader's trials and report duplicates, losses and unknowns per kill."""
    rows = [{"loader": name, **trials(name)} for name in LOADERS]
    mine = rows[0]
    figures = [
        Figure("duplicates, ours", mine["duplicates"], 0),
        Figure("lost and not named, ours", mine["lost"], 0),
        Figure("named as unknown per kill, ours", mine["unknown"] / mine["kills"], IN_FLIGHT),
    ]
    figures += [
        Figure(f"duplicates per kill, {row['loader']}", row["duplicates"] / row["kills"])
        for row in rows[1:]
    ]
    report("What a kill -9 leaves behind", figures, rows)


def trials(loader: str) -> dict[str, int]:
    total = Counter(kills=0, documents=0, duplicates=0, lost=0, unknown=0)
    for _ in range(TRIALS):
        with (
            tempfile.TemporaryDirectory() as folder,
            surviving(Path(folder), DELAY) as server,
        ):
            total.update(trial(loader, server, folder))
    return dict(total)


def trial(loader: str, server: Surviving, folder: str) -> dict[str, int]:
    command = [sys.executable, __file__, "load", loader, server.url, folder]
    kills = 0
    while True:
        enough = server.created().total() + random.randint(1, DOCUMENTS // KILLS)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            while kills < KILLS and process.poll() is None:
                if server.created().total() >= enough:
                    process.kill()
                    kills += 1
                    break
                time.sleep(0.002)
            told = process.communicate()[0]
        if process.returncode == 0:
            break
        if process.returncode != -signal.SIGKILL:
            raise RuntimeError(f"{loader} failed by itself")
    arrived = server.created()
    unknown = set(json.loads(told))
    missing = {name for name in map(name_of, range(DOCUMENTS)) if name not in arrived}
    return {
        "kills": kills,
        "documents": DOCUMENTS,
        "duplicates": arrived.total() - len(arrived),
        "lost": len(missing - unknown),
        "unknown": len(unknown),
    }


def name_of(number: int) -> str:
    return f"document {number}"


# The loaders; each returns the names of the documents that it says are uncertain.


def ours(url: str, folder: Path) -> list[str]:
    """Our ingestion with its ledger."""
    from knowledge_bot import Client
    from knowledge_bot.ingest import Ledger, Text, ingest

    items = (Text(name=name_of(number), content="text") for number in range(DOCUMENTS))
    ledger = Ledger(folder / "ledger.db")
    with Client("key", url) as client:
        ingest(client, items, collections=["col_1"], ledger=ledger, concurrency=IN_FLIGHT)
    return [entry.name for entry in ledger.unknown()]


def langchain_index(url: str, folder: Path) -> list[str]:
    """LangChain's `index()` with its SQL record manager."""
    from langchain_classic.indexes import SQLRecordManager
    from langchain_core.documents import Document
    from langchain_core.indexing import index
    from langchain_core.vectorstores import VectorStore

    post = poster(url)

    class Store(VectorStore):
        def add_documents(self, documents: list[Document], **_: Any) -> list[str]:
            with ThreadPoolExecutor(IN_FLIGHT) as pool:
                return list(pool.map(post, [document.metadata["name"] for document in documents]))

        def delete(self, ids: list[str] | None = None, **_: Any) -> bool:
            return True

        def similarity_search(self, query: str, k: int = 4, **_: Any) -> list[Document]:
            return []

        @classmethod
        def from_texts(cls, *_: Any, **__: Any) -> "Store":
            return cls()

    manager = SQLRecordManager("kills", db_url=f"sqlite:///{folder / 'records.db'}")
    manager.create_schema()
    documents = [
        Document(page_content=name_of(number), metadata={"name": name_of(number)})
        for number in range(DOCUMENTS)
    ]
    index(documents, manager, Store(), cleanup=None, key_encoder="sha256")
    return []


def llama_index_pipeline(url: str, folder: Path) -> list[str]:
    """LlamaIndex's `IngestionPipeline` with a docstore, persisted when it has run."""
    from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
    from llama_index.core.schema import BaseNode, Document, TransformComponent
    from llama_index.core.storage.docstore import SimpleDocumentStore

    post = poster(url)

    class Send(TransformComponent):
        def __call__(self, nodes: list[BaseNode], **_: Any) -> list[BaseNode]:
            with ThreadPoolExecutor(IN_FLIGHT) as pool:
                list(pool.map(post, [node.metadata["name"] for node in nodes]))
            return nodes

    pipeline = IngestionPipeline(
        transformations=[Send()],
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.DUPLICATES_ONLY,
    )
    stored = folder / "pipeline"
    if stored.exists():
        pipeline.load(str(stored))
    documents = [
        Document(text=name_of(number), id_=name_of(number), metadata={"name": name_of(number)})
        for number in range(DOCUMENTS)
    ]
    for start in range(0, DOCUMENTS, 100):  # LangChain's batch size
        pipeline.run(documents=documents[start : start + 100])
        pipeline.persist(str(stored))
    return []


def list_of_done(url: str, folder: Path) -> list[str]:
    """A script that notes each document as done once it was sent."""
    done = folder / "done.txt"
    names = set(done.read_text().splitlines()) if done.exists() else set()
    post = poster(url)
    lock = threading.Lock()

    def load(name: str) -> None:
        post(name)
        with lock, done.open("a") as lines:
            lines.write(name + "\n")

    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        list(pool.map(load, [n for n in map(name_of, range(DOCUMENTS)) if n not in names]))
    return []


def poster(url: str) -> Callable[[str], str]:
    """Return a function that creates one source, with our client."""
    from knowledge_bot import Client

    client = Client("key", url)
    return lambda name: client.create_text_source(name=name, collections="col_1", content="text").id


LOADERS: dict[str, Callable[[str, Path], list[str]]] = {
    "ours": ours,
    "LangChain index()": langchain_index,
    "LlamaIndex IngestionPipeline": llama_index_pipeline,
    "script with a list of what is done": list_of_done,
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        print(json.dumps(LOADERS[sys.argv[2]](sys.argv[3], Path(sys.argv[4]))))
    else:
        main()
