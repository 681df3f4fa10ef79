"""Bots as tools, alone and in an agent's graph."""

import pytest
from pydantic import BaseModel, Field

from calls import KEY
from knowledge_bot import (
    AsyncClient,
    Bot,
    Client,
    ConfigurationError,
    PaymentRequiredError,
)
from langchain_knowledge_bot import KnowledgeBotTool, KnowledgeBotToolkit
from numbering_bots import contents, received

QUESTION = {"question": "When do you open?"}
CALL = {"name": "ask_1", "args": QUESTION, "id": "call_1", "type": "tool_call"}


@pytest.fixture
def tool(fields):
    return KnowledgeBotTool(bot_id="bot_1", max_retries=0, **fields)


def test_the_answer_is_the_content_and_a_plain_dict_the_artifact(invoke, tool, service):
    assert invoke(tool, QUESTION) == "<answer 1> of bot_1"
    message = invoke(tool, CALL)
    assert message.content == "<answer 2> of bot_1"
    assert message.artifact == {
        **QUESTION,
        "answer": "<answer 2> of bot_1",
        "bot_id": "bot_1",
        "conversation_id": list(service.conversations)[1],
        "message_id": message.artifact["message_id"],
        "created_at": message.artifact["created_at"],
        "sources": [],
        "found": True,
    }
    assert len(service.conversations) == 2


class Described(BaseModel):
    question: str = Field(description="A question about opening hours.")


class Named(BaseModel):
    query: str


@pytest.mark.parametrize(
    "options",
    [
        {"args_schema": Named},
        {"args_schema": {"type": "object", "properties": {"query": {"type": "string"}}}},
        {"name": "my bot!"},
        {"name": "x" * 65},
        {"bot_id": "col_1"},
        {"conversation": "continue", "response_format": "content"},
        {"conversation": "continue", "args_schema": Described.model_json_schema()},
    ],
    ids=str,
)
def test_options_that_no_agent_can_use_are_refused_when_the_tool_is_made(fields, options):
    with pytest.raises(ValueError, match=next(iter(options)).split("_")[0] + "|response"):
        KnowledgeBotTool(**{"bot_id": "bot_1", **fields, **options})


def test_a_tool_s_name_may_be_as_long_as_models_take(fields):
    assert KnowledgeBotTool(bot_id="bot_1", name="x" * 64, **fields).name == "x" * 64


def test_the_answer_alone_is_given_where_it_is_wanted_alone(invoke, fields):
    tool = KnowledgeBotTool(bot_id="bot_1", response_format="content", **fields)
    message = invoke(tool, CALL)
    assert (message.content, message.artifact) == ("<answer 1> of bot_1", None)


@pytest.mark.parametrize("status", [400, 401, 402, 429, 500])
def test_an_agent_hears_of_a_question_that_failed(invoke, tool, service, status):
    service.fail_next(status, message="too long")
    message = invoke(tool, CALL)
    assert message.status == "error"
    assert f"{status}" in message.content
    assert "too long" in message.content
    assert message.artifact is None


def test_what_keeps_every_question_here_ends_the_run(invoke, fields, service):
    with Client(None, fields["base_url"]) as client, pytest.raises(ConfigurationError):
        invoke(KnowledgeBotTool(bot_id="bot_1", client=client), CALL)
    assert received(service) == []


def test_without_a_handler_every_error_is_raised_as_it_is(invoke, fields, service):
    tool = KnowledgeBotTool(bot_id="bot_1", handle_tool_error=False, max_retries=0, **fields)
    service.fail_next(402)
    with pytest.raises(PaymentRequiredError):
        invoke(tool, CALL)


@pytest.mark.parametrize("args", [{"question": " "}, {"question": ["When?"]}, {"query": "When?"}])
def test_the_agent_hears_of_a_question_that_is_none(invoke, fields, service, args):
    schema = {"title": "Ask", "description": "Ask.", **Described.model_json_schema()}
    # The framework checks nothing against a schema that is a dict.
    message = invoke(
        KnowledgeBotTool(bot_id="bot_1", args_schema=schema, **fields), CALL | {"args": args}
    )
    assert (message.status, message.content) == (
        "error",
        "The question is empty, or no text. Ask a whole question.",
    )
    assert received(service) == []


def test_what_an_agent_fills_in_beside_the_question_is_not_sent(invoke, fields, service):
    class Reasoned(Described):
        reason: str

    tool = KnowledgeBotTool(bot_id="bot_1", args_schema=Reasoned, **fields)
    assert invoke(tool, {**QUESTION, "reason": "It may be open."}) == "<answer 1> of bot_1"
    assert contents(service) == [QUESTION["question"]]


async def test_a_toolkit_asks_with_the_given_clients(fields, service):
    awaiting = AsyncClient("the-awaiting-key", fields["base_url"])
    toolkit = KnowledgeBotToolkit(client=Client(**fields), async_client=awaiting)
    assert await toolkit.get_tools()[0].ainvoke(QUESTION) == "<answer 1> of bot_1"
    assert [one.headers["x-api-key"] for one in service.requests] == [KEY, "the-awaiting-key"]
    assert KEY not in repr(toolkit)


def test_a_toolkit_lists_the_bots_unless_it_has_them(fields, service):
    described = {"bot_2": "Knows the second half."}
    toolkit = KnowledgeBotToolkit(**fields, descriptions=described)
    tools = toolkit.get_tools()
    (known,) = KnowledgeBotToolkit(**fields, bots=[Bot(id="bot_2", name="Two")]).get_tools()
    assert [tool.name for tool in tools] == ["ask_bot_1", "ask_bot_2", "ask_bot_3"]
    assert tools[1].description == described["bot_2"]
    assert known.name == "ask_two"
    assert len(service.requests) == 1
