"""The retriever against a real socket."""

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore

from calls import KEY, MESSAGE, passage
from knowledge_bot import (
    ConfigurationError,
    PaymentRequiredError,
)
from langchain_knowledge_bot import KnowledgeBotRetriever
from scripted_server import answer

QUESTION = "When do you open?"
BOTS = ["bot_1", "bot_2", "bot_3"]


def retriever_of(server, **fields):
    return KnowledgeBotRetriever(
        **{"bot_id": "bot_1", "api_key": KEY, "base_url": server.url, **fields}
    )


def several_of(server, **fields):
    return retriever_of(server, **{"bot_id": None, "bot_ids": BOTS, **fields})


def asked(server):
    return [request.json()["value"]["bot_id"] for request in server.requests]


def test_k_limits_the_bots_that_are_asked(invoke, scripted):
    server = scripted(answer(body=MESSAGE))
    assert len(invoke(several_of(server, k=2), QUESTION)) == 2
    assert sorted(asked(server)) == ["bot_1", "bot_2"]
    assert len(invoke(several_of(server, k=2), QUESTION, k=1)) == 1
    assert len(invoke(several_of(server), QUESTION, k=9)) == 3


@pytest.mark.parametrize("arguments", [{"k": 0}, {"top_k": 1}])
def test_a_wrong_argument_of_a_call_is_an_error_and_nothing_is_sent(invoke, scripted, arguments):
    server = scripted(answer(body=MESSAGE))
    with pytest.raises((ConfigurationError, TypeError), match="k"):
        invoke(several_of(server), QUESTION, **arguments)
    assert server.requests == []


def test_the_callbacks_hear_of_an_answer_and_of_an_error(invoke, scripted):
    heard = []

    class Handler(BaseCallbackHandler):
        def on_retriever_end(self, documents, **kwargs):
            heard.append([document.id for document in documents])

        def on_retriever_error(self, error, **kwargs):
            heard.append(error.status_code)

    retriever = retriever_of(scripted(answer(body=MESSAGE), answer(402)))
    invoke(retriever, QUESTION, config={"callbacks": [Handler()]})
    with pytest.raises(PaymentRequiredError):
        invoke(retriever, QUESTION, config={"callbacks": [Handler()]})
    assert heard == [["msg_1"], 402]


def test_passages_are_recognised_by_an_index_and_are_the_artifact_of_a_tool(searched):
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
    records = InMemoryRecordManager("passages")
    records.create_schema()
    counts = []
    for score in (1.0, 2.0):  # another one for each question
        retriever = retriever_of(searched(bot_1=[passage(1, score=score)]))
        found = index(
            retriever.invoke(QUESTION),
            records,
            store,
            cleanup="incremental",
            source_id_key="source_id",
            key_encoder=lambda document: document.id,
        )
        counts.append((found["num_added"], found["num_skipped"], len(store.store)))
    assert counts == [(1, 0, 1), (0, 1, 1)]

    tool = create_retriever_tool(retriever, "x", "y", response_format="content_and_artifact")
    message = tool.invoke(
        {"name": "x", "args": {"query": QUESTION}, "id": "1", "type": "tool_call"}
    )
    assert (message.content, [one.id for one in message.artifact]) == ("Passage 1.", ["pas_1"])
