"""Send a folder of documents to a collection through an ingestion pipeline, twice, and ask a bot.

The second run finds that the service has all documents, and sends nothing. A service that does not
announce the extension `sync` needs a ledger for that: `CollectionSink(…, ledger="kbot.db")`.
"""

from pathlib import Path

from llama_index.core import SimpleDirectoryReader
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import TokenTextSplitter

from knowledge_bot import Client
from knowledge_bot_service import LocalService
from llama_index_knowledge_bot import CollectionSink, KnowledgeBotQueryEngine

HANDBOOK = Path(__file__).resolve().parent / "handbook"


def ingest(client: Client) -> None:
    """Run the pipeline once."""
    documents = SimpleDirectoryReader(
        str(HANDBOOK),
        required_exts=[".md", ".txt"],
        filename_as_id=True,  # a lasting id: a changed file is the same document
    ).load_data()
    pipeline = IngestionPipeline(
        transformations=[
            # The sink comes first: it takes whole documents and passes them on unchanged.
            CollectionSink("col_handbook", origin="handbook", client=client),
            TokenTextSplitter(chunk_size=200, chunk_overlap=20),
        ],
        disable_cache=True,  # it would store the nodes of every run, and the sink runs anyway
    )
    nodes = pipeline.run(documents=documents)
    print(f"{len(documents)} documents went through as {len(nodes)} nodes.")


if __name__ == "__main__":
    with (
        LocalService(
            collections={"col_handbook": "Handbook"}, bots={"bot_handbook": ["col_handbook"]}
        ) as service,
        Client(service.api_key, service.base_url) as client,
    ):
        for _ in range(2):
            ingest(client)
            print(f"The service has {len(service.sources())} sources.")
        service.wait_until_ready()
        engine = KnowledgeBotQueryEngine("bot_handbook", client=client)
        print(f"\n{engine.query('How long is the loan period for hand tools?')}")
