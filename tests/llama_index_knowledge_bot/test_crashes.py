"""An ingesting process that is killed, and the run after it."""

import contextlib
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import Document

from calls import KEY, SOURCE
from knowledge_bot import Client
from knowledge_bot.ingest import IncompleteIngestionError, Ledger
from llama_index_knowledge_bot import CollectionSink
from scripted_server import answer

pytestmark = pytest.mark.integration

CONCURRENCY = 4
NAMES = [f"page {number}" for number in range(60)]

# What the killed process runs: the same as `pipeline_of` does here.
CHILD = f"""
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import Document
from llama_index_knowledge_bot import CollectionSink

sink = CollectionSink("col_1", ledger="ledger.db", concurrency={CONCURRENCY})
documents = [Document(text=f"Text of {{name}}.", id_=name) for name in {NAMES}]
IngestionPipeline(transformations=[sink]).run(documents=documents)
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("arrived", [1, 30])
def test_a_killed_run_loses_nothing_doubles_nothing_and_tells_what_is_unknown(
    scripted, tmp_path, arrived
):
    killed = threading.Event()

    def reply(connection):
        if len(server.requests) > arrived:  # nor does a quick process come to its end
            killed.wait(60)
        answer(body=SOURCE)(connection)

    server = scripted(reply)
    environment = {"KNOWLEDGE_BOT_BASE_URL": server.url, "KNOWLEDGE_BOT_API_KEY": KEY}
    with subprocess.Popen([sys.executable, "-c", CHILD], cwd=tmp_path, env=environment) as child:
        while len(server.requests) < arrived:
            assert child.poll() is None
            time.sleep(0.001)
        child.kill()
    killed.set()
    before = len(server.requests)
    assert before < len(NAMES)

    ledger = Ledger(tmp_path / "ledger.db")
    with Client(KEY, server.url) as client:
        sink = CollectionSink("col_1", ledger=ledger, client=client, concurrency=CONCURRENCY)
        documents = [Document(text=f"Text of {name}.", id_=name) for name in NAMES]
        with contextlib.suppress(IncompleteIngestionError):  # raised where some are unknown
            IngestionPipeline(transformations=[sink]).run(documents=documents)
    sent = Counter(request.json()["value"]["name"] for request in server.requests)
    unknown = {entry.key for entry in ledger.unknown()}
    assert len(unknown) <= CONCURRENCY
    assert set(sent.values()) == {1}
    assert sent.keys() | unknown == set(NAMES)
