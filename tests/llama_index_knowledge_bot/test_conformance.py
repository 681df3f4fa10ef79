"""What LlamaIndex expects of each class of ours, by each method that asks a question."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from llama_index.core.async_utils import asyncio_run
from llama_index.core.base.base_selector import BaseSelector, SelectorResult, SingleSelection
from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.llm import LLM
from llama_index.core.llms.mock import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RouterQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import QueryEngineTool

from calls import KEY
from knowledge_bot import PaymentRequiredError
from llama_index_knowledge_bot import (
    KnowledgeBotChatEngine,
    KnowledgeBotLLM,
    KnowledgeBotQueryEngine,
    KnowledgeBotRetriever,
)
from llama_index_recording import Recording, recorded
from waiting import until, until_awaited

# A sync call that hangs would otherwise hold the suite for the default time.
pytestmark = pytest.mark.timeout(60)

QUESTION, ANSWER = "When do you open?", "At nine."
AT_ONCE = 20

CALLBACKS = {
    KnowledgeBotLLM: ["LLM start", "LLM end"],
    KnowledgeBotRetriever: ["RETRIEVE start", "RETRIEVE end"],
    KnowledgeBotQueryEngine: ["QUERY start", "LLM start", "LLM end", "QUERY end"],
    KnowledgeBotChatEngine: ["LLM start", "LLM end"],
}


@dataclass(frozen=True)
class Way:
    """A method that asks one question, and the dispatcher's events of one call."""

    cls: type
    method: str
    events: str
    awaited: bool = False
    streamed: bool = False

    @property
    def arguments(self) -> list[Any]:
        is_list = self.cls is KnowledgeBotLLM and "chat" in self.method
        return [[ChatMessage(QUESTION)] if is_list else QUESTION]


COMPLETION = "LLMCompletionStart LLMCompletionEnd"
COMPLETIONS = "LLMCompletionStart LLMCompletionInProgress LLMCompletionEnd"
CHAT, CHATS = "LLMChatStart LLMChatEnd", "LLMChatStart LLMChatInProgress LLMChatEnd"
QUERY = f"QueryStart {COMPLETION} QueryEnd"
WAYS = [
    Way(KnowledgeBotLLM, "complete", COMPLETION),
    Way(KnowledgeBotLLM, "acomplete", COMPLETION, awaited=True),
    Way(KnowledgeBotLLM, "stream_complete", COMPLETIONS, streamed=True),
    Way(KnowledgeBotLLM, "astream_complete", COMPLETIONS, awaited=True, streamed=True),
    Way(KnowledgeBotLLM, "chat", CHAT),
    Way(KnowledgeBotLLM, "achat", CHAT, awaited=True),
    Way(KnowledgeBotLLM, "stream_chat", CHATS, streamed=True),
    Way(KnowledgeBotLLM, "astream_chat", CHATS, awaited=True, streamed=True),
    Way(KnowledgeBotRetriever, "retrieve", "RetrievalStart RetrievalEnd"),
    Way(KnowledgeBotRetriever, "aretrieve", "RetrievalStart RetrievalEnd", awaited=True),
    Way(KnowledgeBotQueryEngine, "query", QUERY),
    Way(KnowledgeBotQueryEngine, "aquery", QUERY, awaited=True),
    Way(KnowledgeBotChatEngine, "chat", CHAT),
    Way(KnowledgeBotChatEngine, "achat", CHAT, awaited=True),
    Way(KnowledgeBotChatEngine, "stream_chat", CHAT, streamed=True),
    Way(KnowledgeBotChatEngine, "astream_chat", CHAT, awaited=True, streamed=True),
]


def name_of(way: Way) -> str:
    return f"{way.cls.__name__.removeprefix('KnowledgeBot')}.{way.method}"


each_way = pytest.mark.parametrize("way", WAYS, ids=name_of)
each_llm_way = pytest.mark.parametrize("way", WAYS[:8], ids=name_of)
awaited_or_not = pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])


def make(cls, client, **options):
    return cls("bot_1", client=client, **options)


def text(result):
    """Return the answer in whatever a method returned."""
    if isinstance(result, list):
        (found,) = result
        assert isinstance(found, NodeWithScore)
        return found.node.get_content()
    if isinstance(result, ChatResponse):
        return result.message.content
    return str(getattr(result, "text", result))


def pieces(way, result):
    if way.cls is KnowledgeBotChatEngine:
        yield from result.response_gen
        last = result
    else:
        for last in result:
            yield last.delta
    assert text(last) == ANSWER  # once it is read, a stream holds all of its text


async def apieces(way, result):
    if way.cls is KnowledgeBotChatEngine:
        async for piece in result.async_response_gen():
            yield piece
        last = result
    else:
        async for last in result:
            yield last.delta
    assert text(last) == ANSWER


def ask(component, way):
    """Ask once, outside of any event loop."""
    return asyncio.run(acall(component, way)) if way.awaited else call(component, way)


def call(component, way):
    result = getattr(component, way.method)(*way.arguments)
    return "".join(pieces(way, result)) if way.streamed else text(result)


async def acall(component, way):
    result = await getattr(component, way.method)(*way.arguments)
    if way.streamed:
        return "".join([piece async for piece in apieces(way, result)])
    return text(result)


# All classes --------------------------------------------------------------------------------------


@each_way
def test_one_question_is_one_call_with_its_events_callbacks_and_spans(client, service, way):
    heard = Recording()
    component = make(way.cls, client, callback_manager=heard.callback_manager())
    with recorded(heard):
        assert ask(component, way) == ANSWER
    assert len(service.requests) == 1
    assert list(heard.event_names) == [f"{name}Event" for name in way.events.split()]
    assert heard.callbacks == CALLBACKS[way.cls]
    assert any(f".{way.method}-" in span for span in heard.spans)
    assert set(heard.spans.values()) == {"exited"}


@each_way
def test_a_refusal_arrives_unchanged_and_ends_callbacks_and_spans(client, service, way):
    heard = Recording()
    service.fail_next(402)
    component = make(way.cls, client, callback_manager=heard.callback_manager())
    with recorded(heard), pytest.raises(PaymentRequiredError) as caught:
        ask(component, way)
    assert type(caught.value) is PaymentRequiredError
    assert len(service.requests) == 1
    assert heard.callbacks == CALLBACKS[way.cls]
    assert None not in heard.spans.values()


@pytest.mark.usefixtures("loops_of_the_framework")
@each_way
def test_a_refusal_passes_through_the_framework_s_own_loops(client, service, way):
    # `asyncio_run` takes any RuntimeError for a nested event loop.
    service.fail_next(402)
    component = make(way.cls, client)

    async def main():
        if way.awaited:
            return asyncio_run(acall(component, way))
        return call(component, way)

    with pytest.raises(PaymentRequiredError) as caught:
        asyncio.run(main())
    assert type(caught.value) is PaymentRequiredError


@pytest.mark.usefixtures("loops_of_the_framework")
@each_way
def test_it_is_called_inside_a_running_loop_and_from_one_loop_after_another(client, way):
    component = make(way.cls, client)

    async def main():
        if way.awaited:
            assert asyncio_run(acall(component, way)) == ANSWER
            return await acall(component, way)
        return call(component, way)

    for _ in range(3):
        assert asyncio.run(main()) == ANSWER


@each_way
def test_calls_run_in_parallel_but_the_turns_of_a_conversation(client, service, way):
    at_once = 1 if way.cls is KnowledgeBotChatEngine else AT_ONCE
    component = make(way.cls, client)

    async def together():
        with service.holding_answers():
            asking = [asyncio.create_task(acall(component, way)) for _ in range(AT_ONCE)]
            assert await until_awaited(lambda: len(service.requests) == at_once)
        return await asyncio.gather(*asking)

    if way.awaited:
        answers = asyncio.run(together())
    else:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            with service.holding_answers():
                asking = [pool.submit(call, component, way) for _ in range(AT_ONCE)]
                assert until(lambda: len(service.requests) == at_once)
            answers = [one.result() for one in asking]
    assert answers == [ANSWER] * AT_ONCE
    assert len(service.requests) == AT_ONCE
    assert len(service.conversations) == at_once


# The LLM ------------------------------------------------------------------------------------------


@each_llm_way
def test_an_llm_names_its_parameters_as_the_framework_does(client, service, way):
    # Spans and callbacks look for these names, and so do callers.
    (value,) = way.arguments
    named = {"messages" if "chat" in way.method else "prompt": value}
    result = getattr(make(way.cls, client), way.method)(**named)
    if way.awaited:
        asyncio.run(_finish(result))
    elif way.streamed:
        list(result)
    assert len(service.requests) == 1


async def _finish(result):
    outcome = await result
    if isinstance(outcome, AsyncIterator):
        async for _ in outcome:
            pass


def test_an_llm_describes_itself_without_the_key(client):
    llm = make(KnowledgeBotLLM, client)
    assert isinstance(llm.metadata, LLMMetadata)
    assert llm.metadata.model_name == llm.to_payload()["model"] == "bot_1"
    assert llm.metadata.context_window > 0
    assert KEY not in str(llm.to_payload())


def test_an_llm_is_serialised_and_read_back_without_the_key(client):
    llm = make(KnowledgeBotLLM, client)
    names = {base.class_name() for base in LLM.__mro__ if hasattr(base, "class_name")}
    assert KnowledgeBotLLM.class_name() not in names
    written = llm.to_json()
    assert KEY not in f"{written} {llm.to_dict()}"
    again = KnowledgeBotLLM.from_json(written, client=client)
    assert again.to_json() == written
    assert again.complete(QUESTION).text == ANSWER


# The retriever ------------------------------------------------------------------------------------


def test_a_postprocessor_of_scores_keeps_the_nodes(client):
    nodes = make(KnowledgeBotRetriever, client).retrieve("When?")
    assert SimilarityPostprocessor(similarity_cutoff=0.5).postprocess_nodes(nodes) == nodes


def test_nodes_are_serialised_and_read_back_without_the_key(client):
    (found,) = make(KnowledgeBotRetriever, client).retrieve("When?")
    assert TextNode.from_json(found.node.to_json()) == found.node
    assert KEY not in found.to_json()


# The query engine ---------------------------------------------------------------------------------


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


def test_metadata_belongs_to_one_response(client):
    # Routers write their choice into it.
    engine = make(KnowledgeBotQueryEngine, client)
    first, second = engine.query("When?"), engine.query("When?")
    first.metadata["selector_result"] = "first"
    assert "selector_result" not in second.metadata
    assert "selector_result" not in engine.query("When?").metadata


def test_a_query_engine_lists_its_prompts(client):
    assert make(KnowledgeBotQueryEngine, client).get_prompts() == {}


@awaited_or_not
async def test_a_router_chooses_a_query_engine(client, service, awaited):
    engine = make(KnowledgeBotQueryEngine, client)
    tool = QueryEngineTool.from_defaults(engine, name="x", description="y")
    router = RouterQueryEngine(First(), [tool], llm=MockLLM())
    response = await router.aquery("When?") if awaited else router.query("When?")
    assert str(response) == ANSWER
    assert len(service.requests) == 1


# The chat engine ----------------------------------------------------------------------------------


def test_the_history_is_returned_as_a_copy(client):
    engine = make(KnowledgeBotChatEngine, client)
    engine.chat("When?")
    engine.chat_history.clear()
    assert len(engine.chat_history) == 2
