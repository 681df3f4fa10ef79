"""The query engine and the chat engine: what they send, and when."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from llama_index.core.evaluation import (
    ContextRelevancyEvaluator,
    FaithfulnessEvaluator,
    RelevancyEvaluator,
)
from llama_index.core.llms import ChatMessage, CompletionResponse, MessageRole, MockLLM
from llama_index.core.schema import MetadataMode, QueryBundle
from llama_index.core.settings import Settings

from calls import KEY, MESSAGE
from knowledge_bot import Client, ConfigurationError
from llama_index_knowledge_bot import KnowledgeBotChatEngine, KnowledgeBotQueryEngine
from llama_index_recording import Recording
from scripted_server import answer, then

pytestmark = pytest.mark.timeout(60)

QUESTION = "When do you open?"
TURNS = ["chat", "achat", "stream_chat", "astream_chat"]


def query_engine(service, **options):
    return KnowledgeBotQueryEngine("bot_1", client=Client(KEY, service.url), **options)


def chat_engine(service, **options):
    return KnowledgeBotChatEngine("bot_1", client=Client(KEY, service.url), **options)


def take(engine, method, *arguments):
    """Take a turn, and read nothing of a stream."""
    result = getattr(engine, method)(*arguments)
    return asyncio.run(result) if method.startswith("a") else result


def conversations(service):
    return [request.json()["value"].get("conversation_id") for request in service.requests]


def answering(text, **more):
    return answer(body={**MESSAGE, "answer": text, **more})


def asked(server, method):
    engine = query_engine(server) if "query" in method else chat_engine(server)
    return take(engine, method, QUESTION)


@pytest.mark.parametrize("method", ["query", "aquery", *TURNS])
def test_each_named_source_is_a_node_with_the_words_of_the_answer(scripted, method):
    server = scripted(answering("At nine. Not on Sundays.\n\nSources: hours.md, holidays.md"))
    found = asked(server, method).source_nodes
    assert [node.metadata["source"] for node in found] == ["hours.md", "holidays.md"]
    assert {node.metadata["message_id"] for node in found} == {"msg_1"}
    assert len({node.node_id for node in found}) == 2
    for node in found:
        assert node.score == 1.0
        assert node.get_content() == "At nine. Not on Sundays."
        shown = f"source: {node.metadata['source']}\n\nAt nine. Not on Sundays."
        assert node.node.get_content(metadata_mode=MetadataMode.LLM) == shown
        assert node.node.get_content(metadata_mode=MetadataMode.EMBED) == shown


@pytest.mark.parametrize("method", ["query", "aquery", *TURNS])
def test_an_answer_without_named_sources_is_one_node_and_a_refusal_is_none(scripted, method):
    (node,) = asked(scripted(answering("At nine.")), method).source_nodes
    assert (node.text, "source" in node.metadata) == ("At nine.", False)
    refusal = "I could not find that in my sources."
    assert asked(scripted(answering(refusal)), method).source_nodes == []
    assert asked(scripted(answering("Nichts.", found=False)), method).source_nodes == []


class Judge(MockLLM):
    """Says yes where the answer's words are in what it is shown."""

    def complete(self, prompt, formatted=False, **_):
        return CompletionResponse(text="YES" if prompt.count("At nine.") > 1 else "NO")

    async def acomplete(self, prompt, formatted=False, **_):
        return self.complete(prompt)


@pytest.mark.parametrize(
    "evaluator", [FaithfulnessEvaluator, RelevancyEvaluator, ContextRelevancyEvaluator]
)
def test_evaluators_are_given_what_they_judge_by(scripted, evaluator):
    server = scripted(answering("At nine.\n\nSources: hours.md"))
    response = query_engine(server).query(QUESTION)
    judge = evaluator(llm=Judge())
    assert "Empty Response" not in response.get_formatted_sources()
    if evaluator is ContextRelevancyEvaluator:
        assert judge.evaluate_response(QUESTION, response).contexts == ["At nine."]
    else:
        assert judge.evaluate_response(QUESTION, response).passing


@pytest.mark.parametrize("method", ["query", "aquery"])
def test_a_query_with_an_image_is_an_error_that_says_what_to_do_instead(start, method):
    service = start()
    with pytest.raises(ConfigurationError, match="describe it"):
        take(query_engine(service), method, QueryBundle("What is it?", image_path="x.png"))
    assert service.calls == 0


def test_an_engine_becomes_a_tool_by_its_own_name(start):
    tool = query_engine(start()).as_tool(name="hours", description="Opening hours.")
    result = tool.metadata.to_openai_tool()["function"]
    assert (result["name"], result["description"]) == ("hours", "Opening hours.")
    assert tool.call(QUESTION).content == "At nine."


@pytest.mark.parametrize("engine_of", [query_engine, chat_engine])
def test_callbacks_of_the_framework_s_settings_hear_of_calls(start, monkeypatch, engine_of):
    heard = Recording()
    monkeypatch.setattr(Settings, "_callback_manager", heard.callback_manager())
    engine = engine_of(start())
    (engine.query if engine_of is query_engine else engine.chat)(QUESTION)
    assert heard.callbacks.count("LLM start") == heard.callbacks.count("LLM end") == 1


@pytest.mark.parametrize("method", TURNS)
def test_turns_make_one_conversation_and_its_history_until_a_reset(start, method):
    service = start()
    engine = chat_engine(service)
    turn = [(MessageRole.USER, QUESTION), (MessageRole.ASSISTANT, "At nine.")]
    for number in (1, 2, 3):
        take(engine, method, QUESTION)  # over when it returns, though nobody reads the stream
        assert service.calls == number
        assert [(one.role, one.content) for one in engine.chat_history] == turn * number
    assert engine.conversation_id == "conv_1"
    engine.reset()
    assert engine.chat_history == []
    take(engine, method, QUESTION)
    assert conversations(service) == [None, "conv_1", "conv_1", None]


@pytest.mark.parametrize("method", TURNS)
def test_a_history_passed_in_is_an_error_that_says_what_to_do_instead(start, method):
    service = start()
    engine = chat_engine(service)
    with pytest.raises(ConfigurationError, match="conversation_id="):
        take(engine, method, QUESTION, [ChatMessage("Hello.")])
    assert service.calls == 0
    take(engine, method, QUESTION, [])
    assert service.calls == 1


@pytest.mark.parametrize("read", [False, True])
def test_a_streamed_turn_has_its_response_whether_or_not_it_is_read(start, read):
    response = chat_engine(start()).stream_chat(QUESTION)
    if read:
        assert list(response.response_gen) == ["At nine."]
    assert (str(response), response.response, response.is_done) == ("At nine.", "At nine.", True)


@pytest.mark.parametrize("read", [False, True])
async def test_an_awaited_stream_has_its_response_whether_or_not_it_is_read(start, read):
    response = await chat_engine(start()).astream_chat(QUESTION)
    assert response.awrite_response_to_history_task.done()
    await response.awrite_response_to_history_task
    if read:
        assert [piece async for piece in response.async_response_gen()] == ["At nine."]
    assert (str(response), response.response, response.is_done) == ("At nine.", "At nine.", True)


def test_a_turn_that_ends_after_a_reset_belongs_to_the_old_conversation(scripted):
    arrived, may_answer = threading.Event(), threading.Event()
    slow = then(lambda _: arrived.set(), lambda _: may_answer.wait(10))
    body = {"id": "msg_1", "answer": "a", "conversation_id": "conv_old", "created_at": 1}
    engine = chat_engine(scripted(then(slow, answer(body=body))))
    with ThreadPoolExecutor(1) as pool:
        turn = pool.submit(engine.chat, QUESTION)
        arrived.wait(10)
        engine.reset()
        may_answer.set()
        assert turn.result().metadata["conversation_id"] == "conv_old"
    assert engine.conversation_id is None
    assert engine.chat_history == []


def test_turns_at_once_from_threads_and_loops_make_one_conversation(start):
    service = start()
    engine = chat_engine(service)

    async def several():
        await asyncio.gather(*(engine.achat(QUESTION) for _ in range(5)))

    with ThreadPoolExecutor(6) as pool:
        turns = [pool.submit(asyncio.run, several()) for _ in range(2)]
        turns += [pool.submit(engine.chat, QUESTION) for _ in range(5)]
        for turn in turns:
            turn.result()
    assert service.most_at_once == 1
    assert sorted(conversations(service), key=bool) == [None] + ["conv_1"] * 14
    assert len(engine.chat_history) == 30
