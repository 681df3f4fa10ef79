"""Bots as tools, alone and in an agent's graph."""

import asyncio
import re

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import ToolException
from langgraph.prebuilt import ToolNode

from calls import KEY
from knowledge_bot import (
    AsyncClient,
    AuthenticationError,
    Bot,
    Client,
    ConfigurationError,
    PaymentRequiredError,
)
from langchain_knowledge_bot import KnowledgeBotTool, KnowledgeBotToolkit
from scripted_server import answer, close, silence

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
    [(REFUSED, "too long"), (answer(500), "500"), (answer(429), "429")],
    ids=["400", "500", "429"],
)
def test_an_agent_hears_of_what_it_can_live_with(invoke, tool, bots, reply, expected):
    bots.refuse_next.append(reply)
    message = invoke(tool, CALL)
    assert message.status == "error"
    assert expected in message.content
    assert message.artifact is None


@pytest.mark.parametrize("reply", [silence, close], ids=["silent", "closed"])
def test_a_question_whose_answer_was_lost_is_sent_once(invoke, bots, reply):
    tool = KnowledgeBotTool(bot_id="bot_1", timeout=1, **bots.fields)
    bots.lose_next.append(reply)
    assert "may have acted" in invoke(tool, CALL).content
    assert bots.contents == ["When do you open?"]


@pytest.mark.parametrize(
    ("reply", "error"),
    [(answer(401), AuthenticationError), (answer(402), PaymentRequiredError)],
    ids=["401", "402"],
)
def test_what_needs_a_person_ends_the_run(invoke, tool, bots, reply, error):
    bots.refuse_next.append(reply)
    with pytest.raises(error):
        invoke(tool, CALL)


def test_the_agent_hears_of_an_empty_question(invoke, tool, bots):
    message = invoke(tool, {**CALL, "args": {"question": " "}})
    assert (message.status, message.content) == (
        "error",
        "The question is empty. Ask a whole question.",
    )
    assert bots.received == []


def test_failures_are_raised_on_demand(invoke, bots):
    tool = KnowledgeBotTool(bot_id="bot_1", handle_tool_error=False, **bots.fields)
    bots.refuse_next.append(REFUSED)
    with pytest.raises(ToolException, match="too long"):
        invoke(tool, CALL)


LISTED = [
    {"id": "bot_1", "name": "House rules & hours"},
    {"id": "bot_2", "name": "House rules, hours"},
    {"id": "bot_3", "name": "図書館"},
    {"id": "bot_4", "name": "x" * 90},
    {"id": "bot_5", "name": "x" * 91},
    {"id": "bot_3!", "name": "図書"},
]


@pytest.fixture(params=["sync", "async"])
def tools_of(request):
    async def tools(toolkit):
        return toolkit.get_tools() if request.param == "sync" else await toolkit.aget_tools()

    return tools


async def test_a_toolkit_has_one_tool_for_each_bot_with_a_name_of_its_own(tools_of, scripted):
    server = scripted(answer(body={"data": LISTED}))
    with Client(KEY, server.url) as client:
        tools = await tools_of(KnowledgeBotToolkit(client=client))
    names = [tool.name for tool in tools]
    assert names[:4] == ["ask_house_rules_hours", "ask_2", "ask_3", "ask_" + "x" * 60]
    assert len(set(names)) == len(LISTED)
    assert all(tool.name.replace("_", "").isalnum() and len(tool.name) <= 64 for tool in tools)
    assert [tool.bot_id for tool in tools] == [bot["id"] for bot in LISTED]
    assert "the bot 'House rules & hours'" in tools[0].description


async def test_a_toolkit_finds_the_service_in_the_environment(tools_of, scripted, monkeypatch):
    server = scripted(answer(body={"data": LISTED}))
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", server.url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", KEY)
    toolkit = KnowledgeBotToolkit(descriptions={"bot_2": "Knows the hours."})
    first, second, *_ = await tools_of(toolkit)
    assert (first.description[:9], second.description) == ("Answers q", "Knows the hours.")
    wrong = KnowledgeBotToolkit(descriptions={"bot_9": "Knows the hours."})
    with pytest.raises(ConfigurationError, match="descriptions: there is no bot_9; the bots are"):
        await tools_of(wrong)


async def test_named_bots_are_not_looked_up(tools_of, bots):
    toolkit = KnowledgeBotToolkit(bots=[Bot(id="bot_2", name="Hours")], **bots.fields)
    (only,) = await tools_of(toolkit)
    assert (only.name, only.bot_id) == ("ask_hours", "bot_2")
    assert bots.server.requests == []


async def test_a_toolkit_asks_with_the_given_clients(scripted, bots):
    server = scripted(answer(body={"data": LISTED[:1]}))
    client, awaiting = Client(KEY, server.url), AsyncClient(KEY, bots.server.url)
    toolkit = KnowledgeBotToolkit(client=client, async_client=awaiting)
    assert await toolkit.get_tools()[0].ainvoke(QUESTION) == "<answer 1> of bot_1"
    assert KEY not in repr(toolkit)


def test_bots_in_any_script_have_names_that_models_take_and_that_differ(bots):
    ids = [
        "bot_日本",
        "bot_中国",
        "bot_日本a",
        "bot_中国a",
        "bot_Café",
        "bot_" + "日" * 90,
        "bot_-",
    ]
    names = [KnowledgeBotTool(bot_id=each, **bots.fields).name for each in ids]
    assert len(set(names)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{5,64}", each) for each in names)
    assert "ask_cafe" in names


def test_bots_answer_the_calls_of_a_tool_node(invoke, tool):
    from langgraph.graph import MessagesState, StateGraph

    graph = StateGraph(MessagesState).add_node("tools", ToolNode([tool]))
    graph = graph.set_entry_point("tools").set_finish_point("tools").compile()
    asked = AIMessage("", tool_calls=[CALL, {**CALL, "id": "call_2"}])
    answers = invoke(graph, {"messages": [asked]})["messages"][1:]
    assert all(isinstance(each, ToolMessage) and each.status == "success" for each in answers)
    assert [each.tool_call_id for each in answers] == ["call_1", "call_2"]


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
