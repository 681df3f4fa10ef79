"""What a bot in the place of a language model sends, and what it refuses to send."""

import asyncio
import copy
import inspect
import pickle
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage, ChatResponse, ImageBlock, MessageRole, TextBlock
from llama_index.core.prompts import PromptTemplate

from calls import KEY, MESSAGE
from knowledge_bot import AuthenticationError, Client, ConfigurationError
from llama_index_knowledge_bot import KnowledgeBotLLM
from scripted_server import answer

QUESTION = "When do you open?"
TALK = [
    ChatMessage(role=MessageRole.SYSTEM, content="Be brief."),
    ChatMessage(role=MessageRole.USER, content="Hello."),
    ChatMessage(role=MessageRole.ASSISTANT, content="Good day."),
    ChatMessage(role=MessageRole.USER, content=QUESTION),
]
COMPLETING = ["complete", "acomplete", "stream_complete", "astream_complete"]
CHATTING = ["chat", "achat", "stream_chat", "astream_chat"]
ELSEWHERE = "https://service.example"


def llm_of(service, **options):
    return KnowledgeBotLLM("bot_1", client=Client(KEY, service.url, max_retries=0), **options)


def call(llm, method, value, **options) -> Any:
    """Call any of the eight; of a stream, its last piece."""
    result = getattr(llm, method)(value, **options)
    if inspect.isawaitable(result):
        return asyncio.run(awaited(result))
    return list(result)[-1] if inspect.isgenerator(result) else result


async def awaited(result):
    outcome = await result
    return [piece async for piece in outcome][-1] if inspect.isasyncgen(outcome) else outcome


def sent(service):
    return [request.json()["value"] for request in service.requests]


@pytest.mark.parametrize("method", CHATTING)
def test_several_messages_are_sent_as_one_text_with_their_roles(start, method):
    service = start()
    call(llm_of(service), method, TALK)
    assert sent(service) == [
        {
            "bot_id": "bot_1",
            "content": "system: Be brief.\nuser: Hello.\nassistant: Good day.\n"
            f"user: {QUESTION}\nassistant: ",
        }
    ]


@pytest.mark.parametrize("method", CHATTING)
def test_a_question_alone_is_sent_as_it_is(start, method):
    service = start()
    call(llm_of(service), method, TALK[-1:])
    assert sent(service) == [{"bot_id": "bot_1", "content": QUESTION}]


def test_a_rendering_of_ones_own_is_used(start):
    service = start()
    own = {"messages_to_prompt": lambda messages: f"{len(messages)} messages"}
    call(llm_of(service, **own), "chat", TALK)
    call(llm_of(service, completion_to_prompt=str.upper), "complete", "when?")
    call(llm_of(service, completion_to_prompt=str.upper), "complete", "when?", formatted=True)
    assert [one["content"] for one in sent(service)] == ["4 messages", "WHEN?", "when?"]


@pytest.mark.parametrize("method", CHATTING)
def test_only_the_last_message_is_sent_where_the_conversation_holds_the_others(start, method):
    service = start()
    call(llm_of(service, history="last"), method, TALK, conversation_id="conv_7")
    assert sent(service) == [{"bot_id": "bot_1", "content": QUESTION, "conversation_id": "conv_7"}]


def test_a_conversation_may_begin_with_its_only_message(start):
    service = start()
    call(llm_of(service, history="last"), "chat", TALK[-1:])
    assert sent(service) == [{"bot_id": "bot_1", "content": QUESTION}]


@pytest.mark.parametrize("method", CHATTING)
@pytest.mark.parametrize(
    ("messages", "told"),
    [(TALK, "conversation_id="), (TALK[:3], "assistant's, not the user's"), ([], "is empty")],
    ids=["nowhere else", "not the user's", "nothing"],
)
def test_messages_are_never_dropped_silently(start, method, messages, told):
    service = start()
    with pytest.raises(ConfigurationError, match=told):
        call(llm_of(service, history="last"), method, messages)
    assert service.calls == 0


@pytest.mark.parametrize("method", COMPLETING)
def test_a_completion_continues_a_conversation(start, method):
    service = start()
    llm = llm_of(service)
    first = call(llm, method, QUESTION)
    call(llm, method, "And on Sundays?", **first.additional_kwargs)
    assert [one.get("conversation_id") for one in sent(service)] == [None, "conv_1"]


@pytest.mark.parametrize("method", COMPLETING + CHATTING)
def test_the_answer_is_told_as_the_interface_writes_it(start, method):
    given = call(llm_of(start()), method, TALK[-1:] if method in CHATTING else QUESTION)
    assert given.raw == MESSAGE
    assert given.additional_kwargs == {"conversation_id": "conv_1"}
    if isinstance(given, ChatResponse):
        # What stands there is printed into later prompts.
        assert given.message.additional_kwargs == {}
        assert given.message.role is MessageRole.ASSISTANT


@pytest.mark.parametrize("method", COMPLETING + CHATTING)
@pytest.mark.parametrize("argument", ["temperature", "tools", "response_format", "bot_id"])
def test_an_argument_that_no_bot_takes_is_an_error_and_not_ignored(start, method, argument):
    service = start()
    with pytest.raises(ConfigurationError, match=f"{argument}: a bot takes no such argument"):
        call(llm_of(service), method, TALK if method in CHATTING else "x", **{argument: 1})
    assert service.calls == 0


@pytest.mark.parametrize("method", CHATTING)
@pytest.mark.parametrize("beside", [[], [TextBlock(text="What is this?")]], ids=["alone", "text"])
def test_an_image_is_an_error_that_says_what_to_do_instead(start, method, beside):
    service = start()
    messages = [*TALK, ChatMessage(role=MessageRole.USER, content=[*beside, ImageBlock(image=b"")])]
    with pytest.raises(ConfigurationError, match=r"number 5 holds a ImageBlock.*into words"):
        call(llm_of(service), method, messages)
    assert service.calls == 0


@pytest.mark.parametrize("method", COMPLETING + CHATTING)
def test_an_empty_question_is_not_sent(start, method):
    service = start()
    with pytest.raises(ConfigurationError, match="content: is empty"):
        call(llm_of(service), method, [ChatMessage(" ")] if method in CHATTING else " ")
    assert service.calls == 0


@pytest.mark.parametrize("method", COMPLETING + CHATTING)
def test_a_wrong_key_is_told_of(scripted, method):
    server = scripted(answer(401, {"code": "key", "message": "unknown"}))
    with pytest.raises(AuthenticationError, match="Check the API key") as caught:
        call(llm_of(server), method, TALK if method in CHATTING else "x")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("method", ["stream_complete", "stream_chat"])
def test_a_stream_that_nobody_reads_sends_nothing(start, method):
    service = start()
    getattr(llm_of(service), method)(TALK if method in CHATTING else "x")
    assert service.calls == 0


def test_a_system_prompt_is_sent_with_what_is_predicted(start):
    service = start()
    llm_of(service, system_prompt="Be brief.").predict(PromptTemplate(QUESTION))
    assert sent(service)[0]["content"] == f"Be brief.\n\n{QUESTION}"


def test_components_are_told_that_it_completes_and_calls_no_tools():
    metadata = KnowledgeBotLLM("bot_1", client=Client(KEY, ELSEWHERE)).metadata
    assert not metadata.is_chat_model
    assert not metadata.is_function_calling_model
    chatting = KnowledgeBotLLM("bot_1", client=Client(KEY, ELSEWHERE), is_chat_model=True)
    assert chatting.metadata.is_chat_model


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"api_key": KEY}, r"api_key: no argument .*client=Client\("),
        ({"temperature": 0.1}, "temperature: no argument"),
        ({"history": "all"}, "'flatten' or 'last'"),
        ({"client": KEY}, "expected a knowledge_bot.Client, not str"),
        ({"async_client": Client(KEY, ELSEWHERE)}, "AsyncClient, not Client"),
    ],
    ids=["key", "temperature", "history", "client", "async_client"],
)
def test_an_argument_that_cannot_be_used_is_named_and_a_key_is_not_quoted(options, told):
    with pytest.raises(ConfigurationError, match=told) as caught:
        KnowledgeBotLLM("bot_1", **{"client": Client(KEY, ELSEWHERE), **options})
    assert KEY not in str(caught.value)


def test_without_a_client_the_environment_names_the_service(start, monkeypatch):
    with pytest.raises(ConfigurationError, match="set KNOWLEDGE_BOT_BASE_URL"):
        KnowledgeBotLLM("bot_1")
    service = start()
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", service.url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    KnowledgeBotLLM("bot_1").complete(QUESTION)
    assert service.requests[0].headers["x-api-key"] == KEY


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda llm: pickle.loads(pickle.dumps(llm))])
def test_a_duplicate_asks_with_the_same_key_and_not_the_environment_s(
    start, monkeypatch, duplicate
):
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", ELSEWHERE)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "key-of-another-account")
    service = start()
    duplicate(llm_of(service)).complete(QUESTION)
    assert [request.headers["x-api-key"] for request in service.requests] == [KEY]
