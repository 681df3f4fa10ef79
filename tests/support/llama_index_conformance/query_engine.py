"""What a query engine owes: `llama_index.core.base.base_query_engine.BaseQueryEngine`."""

from typing import Any, ClassVar

import pytest
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.llms.mock import MockLLM
from llama_index.core.query_engine import RouterQueryEngine
from llama_index.core.schema import IndexNode, QueryBundle
from llama_index.core.tools import QueryEngineTool

from llama_index_conformance.component import ComponentConformance, Start, Way


class First(BaseSelector):
    """Chooses the first, and needs no model for it."""

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        pass

    def _select(self, choices: Any, query: QueryBundle) -> SelectorResult:
        return SelectorResult(selections=[SingleSelection(index=0, reason="it is the first")])

    async def _aselect(self, choices: Any, query: QueryBundle) -> SelectorResult:
        return self._select(choices, query)


class QueryEngineConformance(ComponentConformance):
    """The checks of a query engine that asks through an LLM of its own."""

    base = BaseQueryEngine
    ways = (Way("query"), Way("aquery", awaited=True))
    events: ClassVar = dict.fromkeys(
        ("query", "aquery"),
        ("QueryStartEvent", "LLMCompletionStartEvent", "LLMCompletionEndEvent", "QueryEndEvent"),
    )
    callbacks = ("QUERY start", "LLM start", "LLM end", "QUERY end")

    @pytest.mark.parametrize("query", ["When?", QueryBundle("When?")], ids=["text", "bundle"])
    def test_a_query_is_a_text_or_a_bundle(self, start: Start, query: Any) -> None:
        assert str(self.make(start()).query(query)) == self.answer

    def test_metadata_belongs_to_one_response_alone(self, start: Start) -> None:
        # Routers write their choice into it.
        engine = self.make(start())
        first, second = engine.query("When?"), engine.query("When?")
        first.metadata["selector_result"] = "first"
        assert "selector_result" not in second.metadata
        assert "selector_result" not in engine.query("When?").metadata

    def test_it_has_no_prompts_or_tells_them(self, start: Start) -> None:
        assert isinstance(self.make(start()).get_prompts(), dict)

    @pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
    async def test_it_is_a_tool(self, start: Start, awaited: bool) -> None:
        tool = QueryEngineTool.from_defaults(self.make(start()), name="x", description="y")
        output = await tool.acall(input="When?") if awaited else tool.call(input="When?")
        assert output.content == self.answer
        assert not output.is_error

    @pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
    async def test_a_router_chooses_it(self, start: Start, awaited: bool) -> None:
        service = start()
        tool = QueryEngineTool.from_defaults(self.make(service), name="x", description="y")
        router = RouterQueryEngine(First(), [tool], llm=MockLLM())
        response = await router.aquery("When?") if awaited else router.query("When?")
        assert str(response) == self.answer
        assert service.calls == 1

    def test_an_index_node_leads_to_it(self, start: Start) -> None:
        node = IndexNode(index_id="x", text="Opening hours", obj=self.make(start()))
        assert str(node.obj.query("When?")) == self.answer
