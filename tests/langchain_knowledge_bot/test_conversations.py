"""What of a message list is sent, and how it reads."""

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
)

from knowledge_bot import ConfigurationError
from langchain_knowledge_bot.conversations import Outgoing, Place, anew, continued
from langchain_knowledge_bot.messages import turns_of


def own(text, number=1, conversation="conv_1", bot="bot_1"):
    return AIMessage(
        text,
        response_metadata={
            "model_provider": "knowledge_bot",
            "bot_id": bot,
            "conversation_id": conversation,
            "message_id": f"msg_{number}",
        },
    )


def sent(*messages, history="transcript", named=None, default=None):
    turns = turns_of(messages, "bot_1")
    return continued(turns, history, named=named, default=default)


def test_what_people_said_is_sent_as_it_is():
    assert sent(HumanMessage("one", name="ada"), HumanMessage("two")) == Outgoing(
        "one\n\ntwo", conversation_id=None
    )


def test_what_follows_the_newest_answer_is_sent_into_its_conversation():
    assert sent(own("a", 1), HumanMessage("one"), own("b", 2), HumanMessage("two")) == Outgoing(
        "two", "conv_1", Place("conv_1", "msg_2")
    )


@pytest.mark.parametrize(
    "other",
    [
        AIMessage("said"),
        AIMessage("said", response_metadata={"model_provider": "openai"}),
        own("said", bot="bot_2"),
        own("said", conversation=None),
    ],
    ids=["bare", "other provider", "other bot", "no conversation"],
)
def test_other_answers_are_no_anchor(other):
    assert sent(other, HumanMessage("one")) == Outgoing("Assistant: said\n\nUser: one", None)


def test_a_transcript_names_every_speaker():
    assert sent(
        SystemMessage("Be brief."),
        HumanMessage("one", name="ada"),
        AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "two"}]),
        AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "1"}]),
        ToolMessage("three", tool_call_id="1", name="search"),
        ToolMessage("four", tool_call_id="2"),
        ChatMessage("five", role="critic"),
        AIMessage("six", name="writer"),
    ).content == (
        "System: Be brief.\n\nUser (ada): one\n\nAssistant: two\n\nTool (search): three\n\n"
        "Tool: four\n\nCritic: five\n\nAssistant (writer): six"
    )


def test_a_transcript_names_who_spoke_in_a_stream_as_any_other():
    assert sent(
        SystemMessageChunk("Be brief."), HumanMessageChunk("one"), AIMessageChunk("two")
    ).content == ("System: Be brief.\n\nUser: one\n\nAssistant: two")


def test_the_newest_question_alone_is_sent_on_demand():
    messages = (
        SystemMessage("Be brief."),
        HumanMessage("one"),
        AIMessage("two"),
        HumanMessage("three"),
        HumanMessage("four"),
        ToolMessage("five", tool_call_id="1"),
    )
    assert sent(*messages, history="latest").content == "three\n\nfour"
    with pytest.raises(ConfigurationError, match="End the list with a question"):
        sent(SystemMessage("Be brief."), history="latest")


def test_anything_but_questions_is_an_error_on_demand():
    with pytest.raises(ConfigurationError, match=r"some of Assistant, System.*history="):
        sent(SystemMessage("x"), AIMessage("y"), HumanMessage("z"), history="error")
    assert sent(own("a"), HumanMessage("one"), history="error").content == "one"


def test_a_named_conversation_is_continued_from_its_own_newest_answer():
    messages = own("a", 1, "conv_1"), HumanMessage("one"), own("b", 2, "conv_2"), HumanMessage("2")
    assert sent(*messages, named="conv_1", default="conv_9") == Outgoing(
        "User: one\n\nAssistant: b\n\nUser: 2", "conv_1", Place("conv_1", "msg_1")
    )
    assert sent(*messages, default="conv_9").conversation_id == "conv_2"
    assert sent(HumanMessage("one"), default="conv_9").conversation_id == "conv_9"
    assert sent(HumanMessage("one"), named="conv_8", default="conv_9").conversation_id == "conv_8"


def test_a_whole_list_starts_a_conversation_anew():
    turns = turns_of([HumanMessage("one"), own("a"), HumanMessage("two")], "bot_1")
    assert anew(turns, "transcript") == Outgoing("User: one\n\nAssistant: a\n\nUser: two", None)


@pytest.mark.parametrize("messages", [[], [HumanMessage(" ")], [HumanMessage("one"), own("a")]])
def test_a_list_that_asks_nothing_is_an_error(messages):
    with pytest.raises(ConfigurationError, match="there is nothing to send"):
        sent(*messages)


@pytest.mark.parametrize(
    "kind", [HumanMessage, SystemMessage, lambda c: ToolMessage(c, tool_call_id="1")]
)
@pytest.mark.parametrize("block", ["image", "image_url", "audio", "file", "video"])
def test_what_is_not_text_is_an_error_that_names_it(kind, block):
    with pytest.raises(ConfigurationError, match=rf"message 2 .* type '{block}'.*into words"):
        sent(HumanMessage("one"), kind([{"type": "text", "text": "x"}, {"type": block}]))
