"""What a bot in the place of a language model sends, and what it refuses to send."""

import asyncio
import inspect
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage, ChatResponse, ImageBlock, MessageRole, TextBlock
from llama_index.core.prompts import ChatPromptTemplate

from calls import KEY
from knowledge_bot import (
    Client,
    ConfigurationError,
    Message,
)
from knowledge_bot.transcripts import Turn, read
from llama_index_knowledge_bot import (
    CollectionSink,
    KnowledgeBotChatEngine,
    KnowledgeBotLLM,
    KnowledgeBotQueryEngine,
    KnowledgeBotRetriever,
    KnowledgeBotToolSpec,
)
from numbering_bots import contents, received
from refusals import refused

QUESTION = "When do you open?"
TALK = [
    ChatMessage(role=MessageRole.SYSTEM, content="Be brief."),
    ChatMessage(role=MessageRole.USER, content="Hello."),
    ChatMessage(role=MessageRole.ASSISTANT, content="Good day."),
    ChatMessage(role=MessageRole.USER, content=QUESTION),
]
TURNS = (
    Turn("system", "Be brief."),
    Turn("user", "Hello."),
    Turn("assistant", "Good day."),
    Turn("user", QUESTION),
)
COMPLETING = ["complete", "acomplete", "stream_complete", "astream_complete"]
CHATTING = ["chat", "achat", "stream_chat", "astream_chat"]
ELSEWHERE = "https://service.example"


def llm_of(client, **options):
    return KnowledgeBotLLM("bot_1", client=client, **options)


def call(llm, method, value, **options) -> Any:
    """Call any of the eight; of a stream, its last piece."""
    result = getattr(llm, method)(value, **options)
    if inspect.isawaitable(result):
        return asyncio.run(awaited(result))
    return list(result)[-1] if inspect.isgenerator(result) else result


async def awaited(result):
    outcome = await result
    return [piece async for piece in outcome][-1] if inspect.isasyncgen(outcome) else outcome


@pytest.mark.parametrize("method", CHATTING)
def test_a_list_is_one_message_that_its_readers_read_back(client, service, method):
    call(llm_of(client), method, TALK)
    (content,) = contents(service)
    assert read(content).turns == TURNS


@pytest.mark.parametrize("method", CHATTING)
def test_a_question_alone_is_sent_as_it_is_and_what_nobody_answered_goes_before_it(
    client, service, method
):
    llm = llm_of(client)
    call(llm, method, TALK[-1:])
    call(llm, method, [TALK[1], TALK[-1]])
    alone, after = contents(service)
    assert alone == QUESTION
    assert read(after).turns == (Turn("user", "Hello."), Turn("user", QUESTION))


def test_every_role_of_the_framework_has_a_place_in_a_transcript(client, service):
    given = [ChatMessage(role=role, content=role.value) for role in MessageRole]
    llm_of(client).chat([*given, TALK[-1]])
    *said, asked = read(contents(service)[0]).turns
    roles = {turn.text: turn.role for turn in said}
    assert (asked.text, roles["developer"], roles["function"]) == (QUESTION, "system", "tool")
    assert {roles[name] for name in ("chatbot", "model", "assistant")} == {"assistant"}
    assert {role: roles[role] for role in ("system", "user", "tool")} == {
        role: role for role in ("system", "user", "tool")
    }


@pytest.mark.parametrize("how", ["predict", "complete", "chat"])
@pytest.mark.parametrize("is_chat_model", [False, True])
def test_prompts_and_system_prompts_are_read_back_as_what_they_were(
    client, service, how, is_chat_model
):
    llm = llm_of(client, system_prompt="Be brief.", is_chat_model=is_chat_model)
    if how == "predict":
        llm.predict(ChatPromptTemplate(TALK[1:]))
    elif how == "complete":
        llm.complete(llm.messages_to_prompt(TALK[1:]))
    else:
        llm.chat(TALK[1:])
    (content,) = contents(service)
    assert read(content).turns == TURNS


def test_a_system_prompt_goes_with_a_question_alone_too(client, service):
    llm_of(client, system_prompt="Be brief.").complete(QUESTION)
    assert read(contents(service)[0]).turns == (TURNS[0], TURNS[-1])


@pytest.mark.parametrize("history", ["latest", "error"])
def test_a_system_prompt_that_would_not_be_sent_is_an_error(history):
    with refused("system_prompt"):
        llm_of(Client(KEY, ELSEWHERE), history=history, system_prompt="Be brief.")


@pytest.mark.parametrize("method", CHATTING)
@pytest.mark.parametrize(
    ("history", "messages", "expected"),
    [
        ("error", TALK, "besides the question there are messages of assistant, system"),
        ("transcript", TALK[:1], "End the list with a question"),
        ("latest", TALK[:1], "End the list with a question"),
        ("transcript", [], "End the list with a question"),
    ],
)
def test_a_list_that_cannot_be_sent_is_an_error_before_anything_is(  # noqa: PLR0917
    client, service, method, history, messages, expected
):
    with pytest.raises(ConfigurationError, match=expected):
        call(llm_of(client, history=history), method, messages)
    assert len(service.requests) == 0


def test_a_rendering_of_ones_own_is_used(client, service):
    own = {"messages_to_prompt": lambda messages: f"{len(messages)} messages"}
    call(llm_of(client, **own), "chat", TALK)
    call(llm_of(client, completion_to_prompt=str.upper), "complete", "when?")
    call(llm_of(client, completion_to_prompt=str.upper), "complete", "when?", formatted=True)
    assert contents(service) == ["4 messages", "WHEN?", "when?"]


@pytest.mark.parametrize("method", COMPLETING)
def test_a_completion_continues_a_conversation(client, service, method):
    llm = llm_of(client)
    first = call(llm, method, QUESTION)
    conversation_id = first.additional_kwargs["conversation_id"]
    call(llm, method, "And on Sundays?", conversation_id=conversation_id)
    assert [one.get("conversation_id") for one in received(service)] == [None, conversation_id]


@pytest.mark.parametrize("method", COMPLETING + CHATTING)
def test_the_answer_arrives_as_the_interface_writes_it(client, method):
    given = call(llm_of(client), method, TALK[-1:] if method in CHATTING else QUESTION)
    assert isinstance(given.raw, Message)
    assert given.additional_kwargs == {
        "bot_id": "bot_1",
        "conversation_id": given.raw.conversation_id,
        "message_id": given.raw.id,
        "created_at": given.raw.model_dump(mode="json")["created_at"],
        "sources": [],
        "found": True,
    }
    if isinstance(given, ChatResponse):
        # What stands there is printed into later prompts.
        assert given.message.additional_kwargs == {}
        assert given.message.role is MessageRole.ASSISTANT


@pytest.mark.parametrize("method", COMPLETING + CHATTING)
@pytest.mark.parametrize("argument", ["tools", "response_format", "bot_id"])
def test_an_argument_that_no_bot_takes_is_an_error_and_not_ignored(
    client, service, method, argument
):
    with pytest.raises(TypeError, match=f"^{argument}: "):
        call(llm_of(client), method, TALK if method in CHATTING else "x", **{argument: 1})
    assert len(service.requests) == 0


@pytest.mark.parametrize("method", CHATTING)
@pytest.mark.parametrize("beside", [[], [TextBlock(text="What is this?")]], ids=["alone", "text"])
def test_an_image_is_an_error_that_says_what_to_do_instead(client, service, method, beside):
    messages = [*TALK, ChatMessage(role=MessageRole.USER, content=[*beside, ImageBlock(image=b"")])]
    with pytest.raises(
        ConfigurationError, match=r"message 5 holds a block of type 'image'.*into words"
    ):
        call(llm_of(client), method, messages)
    assert len(service.requests) == 0


@pytest.mark.parametrize("method", CHATTING)
def test_an_image_before_the_question_is_told_as_one(client, service, method):
    shown = ChatMessage(role=MessageRole.USER, content=[ImageBlock(image=b"")])
    call(llm_of(client), method, [shown, ChatMessage("A cat.", role="assistant"), TALK[-1]])
    assert read(contents(service)[0]).turns[0] == Turn("user", " [image] ")


@pytest.mark.parametrize("method", ["stream_complete", "stream_chat"])
def test_a_stream_that_nobody_reads_sends_nothing(client, service, method):
    getattr(llm_of(client), method)(TALK if method in CHATTING else "x")
    assert len(service.requests) == 0


def places(warned):
    """Where it was warned of the setting; a library may warn of its own."""
    return [warning.filename for warning in warned if "temperature" in str(warning.message)]


@pytest.mark.parametrize("method", COMPLETING + CHATTING)
def test_a_setting_of_language_models_has_no_effect_and_a_warning_where_it_was_passed(
    client, service, method
):
    llm = llm_of(client)
    with pytest.warns(UserWarning, match="temperature has no effect") as warned:
        call(llm, method, TALK if method in CHATTING else "x", temperature=0.1)
    assert places(warned) == [__file__]
    assert len(service.requests) == 1


def test_a_setting_of_the_constructor_has_no_effect_and_a_warning_where_it_was_passed():
    with pytest.warns(UserWarning, match="temperature has no effect") as warned:
        llm_of(Client(KEY, ELSEWHERE), temperature=0.1)
    assert places(warned) == [__file__]


def test_components_see_that_it_completes_and_calls_no_tools():
    metadata = KnowledgeBotLLM("bot_1", client=Client(KEY, ELSEWHERE)).metadata
    assert not metadata.is_chat_model
    assert not metadata.is_function_calling_model
    chatting = KnowledgeBotLLM("bot_1", client=Client(KEY, ELSEWHERE), is_chat_model=True)
    assert chatting.metadata.is_chat_model


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"api_key": KEY}, TypeError),
        ({"temprature": 0.1}, TypeError),
        ({"history": "flatten"}, ConfigurationError),
        ({"client": KEY}, ConfigurationError),
        ({"async_client": Client(KEY, ELSEWHERE)}, ConfigurationError),
    ],
)
def test_an_argument_that_cannot_be_used_is_named_and_a_key_is_not_quoted(wrong, error):
    with pytest.raises(error, match=f"^{next(iter(wrong))}: ") as caught:
        KnowledgeBotLLM("bot_1", **{"client": Client(KEY, ELSEWHERE), **wrong})
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "cls",
    [
        *(CollectionSink, KnowledgeBotChatEngine, KnowledgeBotLLM, KnowledgeBotQueryEngine),
        *(KnowledgeBotRetriever, KnowledgeBotToolSpec),
    ],
)
def test_an_unknown_argument_is_the_same_error_of_every_class(cls):
    asked = [] if cls is KnowledgeBotToolSpec else ["col_1" if cls is CollectionSink else "bot_1"]
    with pytest.raises(TypeError, match="unheard_of"):
        cls(*asked, client=Client(KEY, ELSEWHERE), unheard_of=1)
