"""Inside query pipelines, which the framework had up to 0.12."""

import asyncio

import pytest
from llama_index.core import PromptTemplate

from calls import KEY
from knowledge_bot import Client
from llama_index_knowledge_bot import (
    KnowledgeBotLLM,
    KnowledgeBotQueryEngine,
)

# The versions that `test_versions.py` installs hold one that has them.
query_pipeline = pytest.importorskip("llama_index.core.query_pipeline")

QUESTION = "When do you open?"


@pytest.fixture(params=["sync", "async"])
def run(request):
    """`run(chain, **inputs)`: what a pipeline of this chain gives."""

    def start(chain, *values, **inputs):
        pipeline = query_pipeline.QueryPipeline(chain=chain)
        if request.param == "sync":
            return pipeline.run(*values, **inputs)
        return asyncio.run(pipeline.arun(*values, **inputs))

    return start


@pytest.mark.parametrize("is_chat_model", [False, True], ids=["completes", "chats"])
def test_a_prompt_goes_to_a_bot(run, start, is_chat_model):
    service = start()
    llm = KnowledgeBotLLM("bot_1", client=Client(KEY, service.url), is_chat_model=is_chat_model)
    answer = run([PromptTemplate("When does {what} open?"), llm], what="it")
    assert "At nine." in str(answer)
    assert service.requests[0].json()["value"]["content"] == "When does it open?"


def test_bots_are_asked_one_after_another(run, start):
    service = start()
    client = Client(KEY, service.url)
    first, second = (
        KnowledgeBotLLM("bot_1", client=client),
        KnowledgeBotQueryEngine("bot_2", client=client),
    )
    assert str(run([PromptTemplate("{what}"), first, second], what="x")) == "At nine."
    assert [request.json()["value"]["bot_id"] for request in service.requests] == ["bot_1", "bot_2"]
