"""The same questions asked of query engines of LlamaIndex."""

import asyncio

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode

from knowledge_bot.checks import Question
from llama_index_knowledge_bot import (
    acheck_query_engine,
    check_query_engine,
)

OPEN = Question(ask="When do you open?", contains="9:30", sources="hours.md")


@pytest.fixture(params=["sync", "async"])
def check(request):
    """`check(engine, questions, …)`: either function."""

    def run(*arguments, **options):
        if request.param == "sync":
            return check_query_engine(*arguments, **options)
        return asyncio.run(acheck_query_engine(*arguments, **options))

    return run


class Nodes(BaseRetriever):
    def _retrieve(self, query_bundle):
        node = TextNode(text="We open at 9:30.", metadata={"file_name": "hours.md"})
        return [NodeWithScore(node=node, score=1.0)]


@pytest.mark.parametrize("streaming", [False, True])
def test_an_engine_over_nodes_names_their_files(check, streaming):
    engine = RetrieverQueryEngine.from_args(
        Nodes(), llm=MockLLM(), streaming=streaming, response_mode="compact"
    )
    report = check(engine, [OPEN, Question(ask="Whose?", contains="9:30", sources="other.md")])
    assert [one.passed for one in report.results] == [True, False]
    assert "it names hours.md" in report.results[1].reason
