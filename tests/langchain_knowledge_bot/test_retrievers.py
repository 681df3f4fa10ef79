"""The retriever within the framework: its arguments, callbacks, indexes and tools."""

import json

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore

from calls import passage
from knowledge_bot import (
    ConfigurationError,
    PaymentRequiredError,
)
from langchain_knowledge_bot import KnowledgeBotRetriever
from numbering_bots import BOTS, received

QUESTION = "When do you open?"


def several(fields, **more):
    return KnowledgeBotRetriever(bot_ids=list(BOTS), **fields, **more)


def test_k_limits_the_documents_and_not_the_bots_that_are_asked(invoke, fields, service):
    assert len(invoke(several(fields, k=2), QUESTION)) == 2
    assert sorted(value["bot_id"] for value in received(service)) == sorted(BOTS)
    assert len(invoke(several(fields, k=2), QUESTION, k=1)) == 1
    assert len(invoke(several(fields, k=1), QUESTION)) == 1
    assert len(invoke(several(fields), QUESTION, k=9)) == 3


@pytest.mark.parametrize("arguments", [{"k": 0}, {"top_k": 1}])
def test_a_wrong_argument_of_a_call_is_an_error_and_nothing_is_sent(
    invoke, fields, service, arguments
):
    with pytest.raises((ConfigurationError, TypeError), match="k"):
        invoke(several(fields), QUESTION, **arguments)
    assert service.requests == []


def test_the_callbacks_hear_of_an_answer_and_of_an_error(invoke, fields, service):
    heard = []

    class Handler(BaseCallbackHandler):
        def on_retriever_end(self, documents, **kwargs):
            heard.append([document.id for document in documents])

        def on_retriever_error(self, error, **kwargs):
            heard.append(error.status_code)

    retriever = KnowledgeBotRetriever(bot_id="bot_1", **fields)
    (found,) = invoke(retriever, QUESTION, config={"callbacks": [Handler()]})
    service.fail_next(402)
    with pytest.raises(PaymentRequiredError):
        invoke(retriever, QUESTION, config={"callbacks": [Handler()]})
    assert heard == [[found.id], 402]


def test_passages_are_recognised_by_an_index_and_are_the_artifact_of_a_tool(fields, service):
    service.announcement = "passages=1"
    retriever = KnowledgeBotRetriever(bot_id="bot_1", **fields)
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=4))
    records = InMemoryRecordManager("passages")
    records.create_schema()
    counts = []
    for score in (1.0, 2.0):  # another one for each question
        service.answer_next(200, json.dumps({"data": [passage(1, score=score)]}).encode())
        found = index(
            retriever.invoke(QUESTION),
            records,
            store,
            cleanup="incremental",
            source_id_key="source_id",
            key_encoder="sha256",
        )
        counts.append((found["num_added"], found["num_skipped"], len(store.store)))
    assert counts == [(1, 0, 1), (0, 1, 1)]

    service.answer_next(200, json.dumps({"data": [passage(1)]}).encode())
    tool = create_retriever_tool(retriever, "x", "y", response_format="content_and_artifact")
    message = tool.invoke(
        {"name": "x", "args": {"query": QUESTION}, "id": "1", "type": "tool_call"}
    )
    assert (message.content, [one.id for one in message.artifact]) == ("Passage 1.", ["pas_1"])
