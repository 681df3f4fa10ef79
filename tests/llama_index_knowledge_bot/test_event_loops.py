"""Calls inside running loops and from one loop after another."""

import asyncio
import warnings

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever

from calls import KEY, MESSAGE
from knowledge_bot import Client
from llama_index_knowledge_bot import KnowledgeBotRetriever
from scripted_server import answer
from waiting import on_linux, open_files, until

QUESTION = "When do you open?"
LOOPS = 12
MORE_OPEN_FILES = 8

pytestmark = [pytest.mark.timeout(120), on_linux]


@pytest.mark.slow
@pytest.mark.usefixtures("loops_of_the_framework")
def test_the_framework_s_own_loops_inside_many_running_ones_leave_no_files_open(scripted):
    # A blocking call of the framework awaits the retrievers in a loop of another thread.
    server = scripted(answer(body=MESSAGE))
    retriever = KnowledgeBotRetriever("bot_1", client=Client(KEY, server.url))
    fusion = QueryFusionRetriever(
        [retriever, retriever], llm=MockLLM(), num_queries=1, use_async=True
    )

    async def once():
        return [found.text for found in fusion.retrieve(QUESTION)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        assert "At nine." in asyncio.run(once())
        before = open_files()
        for _ in range(LOOPS):
            assert "At nine." in asyncio.run(once())
        assert until(lambda: open_files() <= before + MORE_OPEN_FILES)
    assert len(server.requests) == (LOOPS + 1) * 2
