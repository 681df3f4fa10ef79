"""Bots as tools, alone and in an agent's graph."""

import asyncio

import pytest

from calls import KEY
from knowledge_bot import (
    AsyncClient,
    Bot,
    Client,
    ConfigurationError,
    PaymentRequiredError,
)
from langchain_knowledge_bot import KnowledgeBotTool, KnowledgeBotToolkit
from scripted_server import answer

QUESTION = {"question": "When do you open?"}
CALL = {"name": "ask_1", "args": QUESTION, "id": "call_1", "type": "tool_call"}
REFUSED = answer(400, {"code": "bad", "message": "too long"})


@pytest.fixture
def tool(bots):
    return KnowledgeBotTool(bot_id="bot_1", max_retries=0, **bots.fields)


def test_the_answer_is_the_content_and_a_plain_dict_the_artifact(invoke, tool, bots):
    assert invoke(tool, QUESTION) == "<answer 1> of bot_1"
    message = invoke(tool, CALL)
    assert message.content == "<answer 2> of bot_1"
    assert message.artifact == {
        "answer": "<answer 2> of bot_1",
        "bot_id": "bot_1",
        "conversation_id": list(bots.threads)[1],
        "message_id": message.artifact["message_id"],
        "created_at": 1_700_000_000_002,
        "sources": [],
        "found": True,
    }
    assert len(bots.threads) == 2


@pytest.mark.parametrize(
    ("reply", "expected"),
    [(REFUSED, "too long"), *((answer(status), str(status)) for status in (401, 402, 429, 500))],
    ids=["400", "401", "402", "429", "500"],
)
def test_an_agent_hears_of_a_question_that_failed(invoke, tool, bots, reply, expected):
    bots.refuse_next.append(reply)
    message = invoke(tool, CALL)
    assert message.status == "error"
    assert expected in message.content
    assert message.artifact is None


def test_what_keeps_every_question_here_ends_the_run(invoke, bots):
    with Client(None, bots.server.url) as client, pytest.raises(ConfigurationError):
        invoke(KnowledgeBotTool(bot_id="bot_1", client=client), CALL)
    assert bots.received == []


def test_without_a_handler_every_error_is_raised_as_it_is(invoke, bots):
    tool = KnowledgeBotTool(bot_id="bot_1", handle_tool_error=False, max_retries=0, **bots.fields)
    bots.refuse_next.append(answer(402))
    with pytest.raises(PaymentRequiredError):
        invoke(tool, CALL)


def test_the_agent_hears_of_an_empty_question(invoke, tool, bots):
    message = invoke(tool, {**CALL, "args": {"question": " "}})
    assert (message.status, message.content) == (
        "error",
        "The question is empty. Ask a whole question.",
    )
    assert bots.received == []


async def test_a_toolkit_asks_with_the_given_clients(scripted, bots):
    server = scripted(answer(body={"data": [{"id": "bot_1", "name": "One"}]}))
    client, awaiting = Client(KEY, server.url), AsyncClient(KEY, bots.server.url)
    toolkit = KnowledgeBotToolkit(client=client, async_client=awaiting)
    assert await toolkit.get_tools()[0].ainvoke(QUESTION) == "<answer 1> of bot_1"
    assert KEY not in repr(toolkit)


@pytest.mark.parametrize("awaiting", [False, True])
def test_a_toolkit_lists_the_bots_unless_it_has_them(scripted, awaiting):
    bots = [{"id": "bot_1", "name": "One"}, {"id": "bot_2", "name": "Two"}]
    server = scripted(answer(body={"data": bots}))
    described = {"bot_2": "Knows the second half."}
    with Client(KEY, server.url) as client:
        toolkit = KnowledgeBotToolkit.from_client(client, descriptions=described)
        tools = asyncio.run(toolkit.aget_tools()) if awaiting else toolkit.get_tools()
        listed = [Bot(id="bot_2", name="Two")]
        (known,) = KnowledgeBotToolkit.from_client(client, bots=listed).get_tools()
    assert [tool.name for tool in tools] == ["ask_one", "ask_two"]
    assert tools[1].description == described["bot_2"]
    assert known.name == "ask_two"
    assert len(server.requests) == 1
