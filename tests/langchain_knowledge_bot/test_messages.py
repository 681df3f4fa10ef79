"""LangChain's messages as the core knows them."""

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

from knowledge_bot.conversations import Place, Said
from langchain_knowledge_bot.chat_models import said_in


def own(conversation="conv_1", bot="bot_1", provider="knowledge_bot"):
    result = {"conversation_id": conversation, "message_id": "msg_1", "bot_id": bot}
    return AIMessage("said", response_metadata={"model_provider": provider, **result})


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (SystemMessage("x"), Said("system", "x")),
        (SystemMessageChunk("x"), Said("system", "x")),
        (HumanMessage("x", name="ada"), Said("user", "x", "ada")),
        (HumanMessageChunk([{"type": "text", "text": "x"}, "y"]), Said("user", "xy")),
        (AIMessage("x", name="writer"), Said("assistant", "x", "writer")),
        (AIMessageChunk("x"), Said("assistant", "x")),
        (
            AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "x"}]),
            Said("assistant", "x"),
        ),
        (
            AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "1"}]),
            Said("assistant", ""),
        ),
        (ToolMessage("x", tool_call_id="1", name="search"), Said("tool", "x", "search")),
        (ChatMessage("x", role="user"), Said("user", "x")),
        (ChatMessage("x", role="developer"), Said("system", "x")),
        (ChatMessage("x", role="critic"), Said("assistant", "x", "critic")),
        (own(), Said("assistant", "said", place=Place("conv_1", "msg_1"))),
    ],
    ids=repr,
)
def test_a_message_is_somebodys(message, said):
    assert said_in([message], "bot_1") == [said]


@pytest.mark.parametrize(
    "message",
    [own(bot="bot_2"), own(provider="openai"), own(conversation=None)],
    ids=["another bot's", "another model's", "of no conversation"],
)
def test_other_answers_have_no_place(message):
    assert said_in([message], "bot_1") == [Said("assistant", "said")]


@pytest.mark.parametrize(
    "kind", [HumanMessage, SystemMessage, lambda c: ToolMessage(c, tool_call_id="1")]
)
@pytest.mark.parametrize("block", ["image", "image_url", "audio", "file", "video"])
def test_what_is_not_text_has_a_placeholder_and_is_named(kind, block):
    messages = [HumanMessage("one"), kind([{"type": "text", "text": "x"}, {"type": block}])]
    first, second = said_in(messages, "bot_1")
    assert (first.text, first.unreadable) == ("one", "")
    assert second.text == f"x [{block.removesuffix('_url')}] "
    assert f"message 2 ({messages[1].type})" in second.unreadable
    assert repr(block) in second.unreadable


def test_a_file_is_named_in_its_placeholder():
    blocks = [{"type": "file", "filename": "a.pdf"}, "See page 2"]
    assert said_in([HumanMessage(blocks)], "bot_1")[0].text == " [file a.pdf] See page 2"
