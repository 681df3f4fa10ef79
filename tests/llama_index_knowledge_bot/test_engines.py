"""The query engine and the chat engine: what they send, and when."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.evaluation import (
    ContextRelevancyEvaluator,
    FaithfulnessEvaluator,
    RelevancyEvaluator,
)
from llama_index.core.llms import ChatMessage, CompletionResponse, MessageRole, MockLLM
from llama_index.core.schema import MetadataMode, QueryBundle
from llama_index.core.settings import Settings

from calls import MESSAGE
from knowledge_bot import ConfigurationError
from llama_index_knowledge_bot import (
    KnowledgeBotChatEngine,
    KnowledgeBotQueryEngine,
    KnowledgeBotRetriever,
)
from llama_index_recording import Recording
from numbering_bots import received
from waiting import until, until_awaited

pytestmark = pytest.mark.timeout(60)

QUESTION = "When do you open?"
TURNS = ["chat", "achat", "stream_chat", "astream_chat"]


def query_engine(client):
    return KnowledgeBotQueryEngine("bot_1", client=client)


def chat_engine(client):
    return KnowledgeBotChatEngine("bot_1", client=client)


def take(engine, method, *arguments):
    """Take a turn, and read nothing of a stream."""
    result = getattr(engine, method)(*arguments)
    return asyncio.run(result) if method.startswith("a") else result


def conversations(service):
    return [value.get("conversation_id") for value in received(service)]


@pytest.fixture
def asked(client, service):
    """`asked(method, text, **more)`: the response of an engine to this answer."""

    def ask(method, text, **more):
        message = {**MESSAGE, "answer": text, **more}
        service.answer_next(200, json.dumps(message).encode())
        engine = query_engine(client) if "query" in method else chat_engine(client)
        return take(engine, method, QUESTION)

    return ask


@pytest.mark.parametrize("method", ["query", "aquery", *TURNS])
def test_each_named_source_is_a_node_with_the_words_of_the_answer(asked, method):
    said = "At nine. Not on Sundays.\n\nSources: hours.md, holidays.md"
    found = asked(method, said).source_nodes
    assert [node.metadata["source"] for node in found] == ["hours.md", "holidays.md"]
    assert {node.metadata["bot_id"] for node in found} == {"bot_1"}
    assert len({node.node_id for node in found}) == 2
    for node in found:
        assert node.score == 1.0
        assert node.get_content() == "At nine. Not on Sundays."
        shown = f"source: {node.metadata['source']}\n\nAt nine. Not on Sundays."
        assert node.node.get_content(metadata_mode=MetadataMode.LLM) == shown
        assert node.node.get_content(metadata_mode=MetadataMode.EMBED) == shown


@pytest.mark.parametrize("method", ["query", "aquery", *TURNS])
def test_an_answer_without_named_sources_is_one_node_and_a_refusal_is_none(asked, method):
    (node,) = asked(method, "At nine.").source_nodes
    assert (node.text, "source" in node.metadata) == ("At nine.", False)
    refusal = "I could not find that in my sources."
    assert asked(method, refusal).source_nodes == []
    assert asked(method, "Nichts.", found=False).source_nodes == []
    doubted = asked(method, "I am not sure.\n\nSources: hours.md", found=False)
    assert [node.metadata["source"] for node in doubted.source_nodes] == ["hours.md"]


class Judge(MockLLM):
    """Says yes where the answer's words are in what it is shown."""

    def complete(self, prompt, formatted=False, **_):
        return CompletionResponse(text="YES" if prompt.count("At nine.") > 1 else "NO")

    async def acomplete(self, prompt, formatted=False, **_):
        return self.complete(prompt)


@pytest.mark.parametrize(
    "evaluator", [FaithfulnessEvaluator, RelevancyEvaluator, ContextRelevancyEvaluator]
)
def test_evaluators_are_given_what_they_judge_by(asked, evaluator):
    response = asked("query", "At nine.\n\nSources: hours.md")
    judge = evaluator(llm=Judge())
    assert "Empty Response" not in response.get_formatted_sources()
    if evaluator is ContextRelevancyEvaluator:
        assert judge.evaluate_response(QUESTION, response).contexts == ["At nine."]
    else:
        assert judge.evaluate_response(QUESTION, response).passing


@pytest.mark.parametrize("method", ["query", "aquery"])
def test_a_query_with_an_image_is_an_error_that_says_what_to_do_instead(client, service, method):
    with pytest.raises(ConfigurationError, match="describe it"):
        take(query_engine(client), method, QueryBundle("What is it?", image_path="x.png"))
    assert len(service.requests) == 0


def test_an_engine_becomes_a_tool_by_its_own_name(client):
    tool = query_engine(client).as_tool(name="hours", description="Opening hours.")
    result = tool.metadata.to_openai_tool()["function"]
    assert (result["name"], result["description"]) == ("hours", "Opening hours.")
    assert tool.call(QUESTION).content == "At nine."


@pytest.mark.parametrize("engine_of", [query_engine, chat_engine])
def test_callbacks_of_the_framework_s_settings_hear_of_calls(client, monkeypatch, engine_of):
    heard = Recording()
    monkeypatch.setattr(Settings, "_callback_manager", heard.callback_manager())
    engine = engine_of(client)
    (engine.query if engine_of is query_engine else engine.chat)(QUESTION)
    assert heard.callbacks.count("LLM start") == heard.callbacks.count("LLM end") == 1


@pytest.mark.parametrize("method", TURNS)
def test_turns_make_one_conversation_and_its_history_until_a_reset(client, service, method):
    engine = chat_engine(client)
    turn = [(MessageRole.USER, QUESTION), (MessageRole.ASSISTANT, "At nine.")]
    for number in (1, 2, 3):
        take(engine, method, QUESTION)  # over when it returns, though nobody reads the stream
        assert len(service.requests) == number
        assert [(one.role, one.content) for one in engine.chat_history] == turn * number
    (conversation,) = service.conversations
    assert engine.conversation_id == conversation
    engine.reset()
    assert engine.chat_history == []
    take(engine, method, QUESTION)
    assert conversations(service) == [None, conversation, conversation, None]


@pytest.mark.parametrize("method", TURNS)
def test_a_turn_takes_a_history_as_the_framework_passes_it(client, service, method):
    engine = chat_engine(client)
    take(engine, method, QUESTION, None)
    take(engine, method, QUESTION, engine.chat_history)  # its own: the conversation goes on
    other = [ChatMessage("Is there tea?"), ChatMessage("Yes.", role=MessageRole.ASSISTANT)]
    take(engine, method, QUESTION, other)
    first, second = service.conversations
    assert conversations(service) == [None, first, None]
    assert "Is there tea?" in received(service)[-1]["content"]
    assert (engine.conversation_id, len(engine.chat_history)) == (second, 4)
    take(engine, method, QUESTION, [])
    assert received(service)[-1] == {"bot_id": "bot_1", "content": QUESTION}


@pytest.mark.parametrize("method", TURNS)
def test_a_history_of_what_was_shown_goes_on(client, service, method):
    service.bots["bot_1"] = lambda _: " At nine.\n"
    engine, said = chat_engine(client), []
    for _ in range(3):
        shown = take(engine, method, QUESTION, said).response
        answer = ChatMessage(shown.strip(), role=MessageRole.ASSISTANT)
        said = [*said, ChatMessage(QUESTION), answer]
    (conversation,) = service.conversations
    assert conversations(service) == [None, conversation, conversation]


def test_a_query_is_streamed_where_its_caller_wants_that(client):
    engine = KnowledgeBotQueryEngine("bot_1", client=client, streaming=True)
    chat = CondenseQuestionChatEngine.from_defaults(query_engine=engine, llm=MockLLM())
    assert "".join(chat.stream_chat(QUESTION).response_gen) == "At nine."
    response = engine.query(QUESTION)
    assert (str(response), len(response.source_nodes)) == ("At nine.", 1)

    async def awaited():
        streamed = await engine.aquery(QUESTION)
        return [piece async for piece in streamed.response_gen]

    assert asyncio.run(awaited()) == ["At nine."]


def test_an_engine_retrieves_what_a_retriever_does(client):
    engine, retriever = query_engine(client), KnowledgeBotRetriever("bot_1", client=client)
    query = QueryBundle(QUESTION)
    assert (
        engine.retrieve(query) == asyncio.run(engine.aretrieve(query)) == retriever.retrieve(query)
    )


def test_a_retriever_s_limit_can_be_set(client, service):
    service.bots["bot_2"] = service.bots["bot_1"]
    retriever = KnowledgeBotRetriever(bot_ids=["bot_1", "bot_2"], client=client)
    assert (retriever.similarity_top_k, len(retriever.retrieve(QUESTION))) == (5, 2)
    retriever.similarity_top_k = 1
    assert len(retriever.retrieve(QUESTION)) == 1
    one = KnowledgeBotRetriever(bot_ids=["bot_1", "bot_2"], similarity_top_k=1, client=client)
    assert len(one.retrieve(QUESTION)) == 1


@pytest.mark.parametrize("read", [False, True])
def test_a_streamed_turn_has_its_response_whether_or_not_it_is_read(client, read):
    response = chat_engine(client).stream_chat(QUESTION)
    if read:
        assert list(response.response_gen) == ["At nine."]
    assert (str(response), response.response, response.is_done) == ("At nine.", "At nine.", True)


@pytest.mark.parametrize("read", [False, True])
async def test_an_awaited_stream_has_its_response_whether_or_not_it_is_read(client, read):
    response = await chat_engine(client).astream_chat(QUESTION)
    assert response.awrite_response_to_history_task.done()
    await response.awrite_response_to_history_task
    if read:
        assert [piece async for piece in response.async_response_gen()] == ["At nine."]
    assert (str(response), response.response, response.is_done) == ("At nine.", "At nine.", True)


def test_a_turn_that_ends_after_a_reset_belongs_to_the_old_conversation(client, service):
    engine = chat_engine(client)
    with ThreadPoolExecutor(1) as pool:
        with service.holding_answers():
            turn = pool.submit(engine.chat, QUESTION)
            assert until(lambda: service.requests)
            engine.reset()
        (old,) = service.conversations
        assert turn.result().metadata["conversation_id"] == old
    assert engine.conversation_id is None
    assert engine.chat_history == []


async def test_a_turn_that_gives_up_waiting_lets_nobody_in_early(client, service):
    engine = chat_engine(client)
    with service.holding_answers():
        first, second, third = (asyncio.create_task(engine.achat(QUESTION)) for _ in range(3))
        assert await until_awaited(lambda: service.requests)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert len(service.requests) == 1
    await asyncio.gather(first, third)
    assert (len(service.requests), len(service.conversations)) == (2, 1)
