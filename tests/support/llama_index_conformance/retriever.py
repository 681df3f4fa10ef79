"""What a retriever owes: `llama_index.core.base.base_retriever.BaseRetriever`."""

from typing import Any, ClassVar

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.query.schema import QueryBundle
from llama_index.core.llms.mock import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index_conformance.component import ComponentConformance, Start, Way


class RetrieverConformance(ComponentConformance):
    """The checks of a retriever whose one answer is one node."""

    base = BaseRetriever
    ways = (Way("retrieve"), Way("aretrieve", awaited=True))
    events: ClassVar = dict.fromkeys(
        ("retrieve", "aretrieve"), ("RetrievalStartEvent", "RetrievalEndEvent")
    )
    callbacks = ("RETRIEVE start", "RETRIEVE end")

    def text(self, result: Any) -> str:
        (found,) = result
        assert isinstance(found, NodeWithScore)
        return found.node.get_content()

    @pytest.mark.parametrize("query", ["When?", QueryBundle("When?")], ids=["text", "bundle"])
    def test_a_query_is_a_text_or_a_bundle(self, start: Start, query: Any) -> None:
        assert self.text(self.make(start()).retrieve(query)) == self.answer

    def test_nodes_of_two_queries_have_two_ids(self, start: Start) -> None:
        retriever = self.make(start())
        assert len({retriever.retrieve("When?")[0].node.node_id for _ in range(2)}) == 2

    def test_a_postprocessor_of_scores_keeps_the_nodes(self, start: Start) -> None:
        nodes = self.make(start()).retrieve("When?")
        kept = SimilarityPostprocessor(similarity_cutoff=0.5).postprocess_nodes(nodes)
        assert len(kept) == len(nodes)

    def test_nodes_are_written_down_and_read_back_without_the_secret(self, start: Start) -> None:
        (found,) = self.make(start()).retrieve("When?")
        assert TextNode.from_json(found.node.to_json()) == found.node
        assert self.secret not in found.to_json()

    def test_a_query_engine_is_built_on_it(self, start: Start) -> None:
        engine = RetrieverQueryEngine.from_args(self.make(start()), llm=MockLLM())
        assert self.answer in str(engine.query("When?"))  # MockLLM repeats its prompt
