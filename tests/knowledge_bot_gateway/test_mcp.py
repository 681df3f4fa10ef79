"""Bots as an MCP server, as the official SDK's client sees it, over stdio and HTTP."""

import json
import subprocess
import sys
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from answering_bot import Bots
from calls import KEY as SERVICE_KEY
from gateways import KEY, gateway
from in_process import OnAPort
from knowledge_bot import Client as ServiceClient
from scripted_server import answer, close, silence
from waiting import until_awaited

KBOT = Path(sys.executable).with_name("kbot")
QUESTION = "When do you open?"
MODES = ["legacy", "2026-07-28"]


@pytest.fixture(scope="module")
def service():
    with OnAPort(
        collections={"col_house": "House"},
        bots={"bot_guide": ["col_house"], "bot_host": ["col_house"]},
        bot_names={"bot_guide": "The Guide", "bot_host": "Der Gastgeber (Süd)"},
    ) as service:
        yield service


@pytest.fixture
def bots():
    service = Bots(bot_guide={}, bot_host={QUESTION: "At ten."})
    yield service
    service.stop()


@pytest.fixture
def mcp_of():
    """Start a gateway before a service, and give what connects a client."""
    with ExitStack() as stack:

        def start(base_url, api_key, **options):
            address = stack.enter_context(gateway(base_url, api_key, **options))
            return lambda key=KEY, **more: connected(address, key, **more)

        yield start


@asynccontextmanager
async def connected(address, key=KEY, **options):
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{address}/mcp", http_client=http), **options) as client,
    ):
        yield client


def stdio(service, *arguments):
    return StdioServerParameters(
        command=str(KBOT),
        args=["mcp", *arguments],
        env={
            "KNOWLEDGE_BOT_BASE_URL": service.base_url,
            "KNOWLEDGE_BOT_API_KEY": service.api_key,
        },
    )


async def tools_of(client):
    return {tool.name: tool for tool in (await client.list_tools()).tools}


def text_of(result):
    return result.content[0].text


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_asks_and_asks_further(mcp_of, service, mode):
    connect = mcp_of(service.base_url, service.api_key)
    async with connect(mode=mode) as client:
        first = await client.call_tool("ask_bot", {"bot": "bot_guide", "question": QUESTION})
        assert not first.is_error
        assert first.structured_content["found"] is False
        conversation = first.structured_content["conversation_id"]
        second = await client.call_tool(
            "ask_the_guide", {"question": "And on Sunday?", "conversation_id": conversation}
        )
        assert second.structured_content["conversation_id"] == conversation
        assert json.loads(text_of(second)) == second.structured_content
        listed = await client.call_tool("list_conversations", {"bot": "the guide"})
        ids = [one["id"] for one in listed.structured_content["conversations"]]
        assert conversation in ids


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_searches_and_fetches_in_the_form_of_connectors(mcp_of, service, mode):
    with ServiceClient(service.api_key, service.base_url) as client:
        source = client.create_text_source(
            name="Canoes", collections="col_house", content="The canoes are kept by Ruth Okafor."
        )
    service.wait_until_ready()
    connect = mcp_of(service.base_url, service.api_key)
    async with connect(mode=mode) as client:
        assert {"search", "fetch"} <= set(await tools_of(client))
        found = await client.call_tool("search", {"query": "Who keeps the canoes?"})
        assert json.loads(text_of(found)) == found.structured_content
        result = found.structured_content["results"][0]
        assert set(result) == {"id", "title", "url"}
        assert result["title"] == "Canoes"
        fetched = await client.call_tool("fetch", {"id": result["id"]})
        assert json.loads(text_of(fetched)) == fetched.structured_content
        read = fetched.structured_content
        assert set(read) == {"id", "title", "text", "url", "metadata"}
        assert read["text"] == "The canoes are kept by Ruth Okafor."
        assert read["metadata"]["source_id"] == source.id
        with ServiceClient(service.api_key, service.base_url) as manager:
            manager.delete_source(source.id)
        gone = await client.call_tool("fetch", {"id": result["id"]})
        assert gone.is_error
        assert "refused" in text_of(gone)


async def test_where_nothing_can_be_searched_no_tool_says_so(mcp_of, bots):
    connect = mcp_of(bots.url, SERVICE_KEY)
    async with connect() as client:
        assert {"search", "fetch"}.isdisjoint(await tools_of(client))
        found = await client.call_tool("search", {"query": "x"})
        assert found.is_error
        assert "not_delivered" in text_of(found)


async def test_an_agent_sees_the_newest_conversations(mcp_of, service):
    connect = mcp_of(service.base_url, service.api_key)
    async with connect() as client:
        asked = [
            await client.call_tool("ask_bot", {"bot": "bot_host", "question": f"Question {n}?"})
            for n in range(25)
        ]
        newest = [one.structured_content["conversation_id"] for one in asked][::-1]
        for limit, given in ((20, {}), (2, {"limit": 2})):
            listed = await client.call_tool("list_conversations", {"bot": "bot_host", **given})
            found = listed.structured_content
            assert [one["id"] for one in found["conversations"]] == newest[:limit]
            assert found["more"] >= 25 - limit
        assert (await client.call_tool("list_conversations", {"bot": "x", "limit": 0})).is_error


async def test_an_agent_asks_two_bots_over_stdio(service):
    async with Client(stdio(service)) as client:
        tools = await tools_of(client)
        assert set(tools) == {
            "ask_bot",
            "search",
            "fetch",
            "list_bots",
            "list_collections",
            "list_conversations",
            "ask_the_guide",
            "ask_der_gastgeber_sud",
        }
        answers = [
            await client.call_tool(name, {"question": QUESTION})
            for name in ("ask_the_guide", "ask_der_gastgeber_sud")
        ]
        one, other = (each.structured_content["conversation_id"] for each in answers)
        assert one != other
        collections = await client.call_tool("list_collections", {})
        assert collections.structured_content == {
            "collections": [{"id": "col_house", "name": "House"}]
        }


async def test_tools_tell_what_they_do(mcp_of, service):
    connect = mcp_of(service.base_url, service.api_key, allow_writes=True)
    async with connect() as client:
        tools = await tools_of(client)
    for name, tool in tools.items():
        assert tool.output_schema["type"] == "object", name
        assert tool.description
        assert tool.annotations.destructive_hint is False
        assert tool.annotations.open_world_hint is True
        assert tool.annotations.read_only_hint is not name.startswith("add_")
        assert tool.annotations.idempotent_hint is name.startswith(("list_", "search", "fetch"))
    assert set(tools["ask_bot"].input_schema["properties"]) == {
        "bot",
        "question",
        "conversation_id",
    }
    assert set(tools["ask_the_guide"].input_schema["properties"]) == {
        "question",
        "conversation_id",
    }
    assert tools["ask_the_guide"].input_schema["required"] == ["question"]


async def test_a_bot_is_described_by_whoever_offers_it(mcp_of, bots):
    said = {"bot_guide": "House rules, opening hours.", "nobody": "Nothing"}
    async with mcp_of(bots.url, SERVICE_KEY, descriptions=said)() as client:
        tools = await tools_of(client)
    (described,) = (one for one in tools.values() if "House rules" in one.description)
    assert described.name != "ask_bot"
    assert "  " not in "".join(one.description for one in tools.values())


async def test_lists_may_be_kept_for_a_minute_by_one_client_alone(mcp_of, bots):
    async with mcp_of(bots.url, SERVICE_KEY)(mode="2026-07-28") as client:
        listed = await client.list_tools()
    assert (listed.ttl_ms, listed.cache_scope) == (60_000, "private")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"question": "When?", "conversationId": "conv_1"}, "has no argument 'conversationId'"),
        ({"question": "When?", "bot": "bot_host"}, "has no argument 'bot'"),
        ({}, "needs the argument 'question'; it takes question, conversation_id"),
        ({"question": 7}, "takes string as 'question', not int"),
    ],
)
async def test_a_wrong_argument_is_told_in_the_words_of_the_tool_that_was_called(
    mcp_of, bots, arguments, expected
):
    async with mcp_of(bots.url, SERVICE_KEY)() as client:
        tools = await tools_of(client)
        own = next(name for name in tools if name.startswith("ask_") and name != "ask_bot")
        said = text_of(await client.call_tool(own, arguments))
        assert (await client.call_tool("ask_nobody", {"question": QUESTION})).is_error
    assert said.startswith(f"{own} {expected}")
    assert "pydantic" not in said
    assert "not_delivered" in said
    assert not bots.asked_of("bot_guide")


async def test_an_answer_whose_stream_broke_is_fetched_again(bots):
    """The last event that came names the stream; what it lacks comes again."""
    session = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    headers = {
        "Authorization": f"Bearer {KEY}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
    }

    def call(identity, method, params):
        return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}

    asked = {"name": "ask_bot", "arguments": {"bot": "bot_host", "question": QUESTION}}
    with gateway(bots.url, SERVICE_KEY) as address:
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            url = f"{address}/mcp"
            begun = await http.post(url, json=call(1, "initialize", session))
            http.headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
            initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await http.post(url, json=initialized)
            async with http.stream("POST", url, json=call(2, "tools/call", asked)) as stream:
                first = await _first_id(stream.aiter_lines())
            assert await until_awaited(lambda: bots.asked_of("bot_host"))
            async with http.stream("GET", url, headers={"Last-Event-ID": first}) as again:
                async for line in again.aiter_lines():
                    if "At ten." in line:
                        break
    assert bots.asked_of("bot_host")[QUESTION] == 1


async def _first_id(lines):
    async for line in lines:
        if line.startswith("id:"):
            return line.removeprefix("id:").strip()
    raise AssertionError("no event has an id")


async def test_bots_of_one_name_have_tools_of_their_own(mcp_of, bots):
    connect = mcp_of(bots.url, SERVICE_KEY)
    async with connect() as client:
        named = {name for name in await tools_of(client) if name.startswith("ask_")}
        assert named == {"ask_bot", "ask_guide", "ask_host"}
        answered = await client.call_tool("ask_host", {"question": QUESTION})
        assert answered.structured_content["answer"] == "At ten."
        ambiguous = await client.call_tool("ask_bot", {"bot": "Guide", "question": QUESTION})
        assert ambiguous.is_error
        assert "Several bots" in text_of(ambiguous)


async def test_more_than_ten_bots_have_no_tools_of_their_own(mcp_of):
    many = Bots(**{f"bot_{number}": {} for number in range(11)})
    connect = mcp_of(many.url, SERVICE_KEY)
    async with connect() as client:
        assert [name for name in await tools_of(client) if name.startswith("ask_")] == ["ask_bot"]
        found = await client.call_tool("list_bots", {})
        assert len(found.structured_content["bots"]) == 11
    many.stop()


async def test_nothing_is_written_unless_that_is_asked_for(service):
    async with Client(stdio(service)) as client:
        assert not {name for name in await tools_of(client) if name.startswith("add_")}
        refused = await client.call_tool(
            "add_text", {"name": "x", "content": "y", "collections": ["col_house"]}
        )
        assert refused.is_error
    async with Client(stdio(service, "--allow-writes")) as client:
        added = await client.call_tool(
            "add_text",
            {"name": "Hours", "content": "We open at nine.", "collections": ["col_house"]},
        )
        assert added.structured_content["status"] == "pending"
    assert {one.name for one in service.sources()} & {"x", "Hours"} == {"Hours"}


async def test_what_there_is_are_resources(mcp_of, service):
    connect = mcp_of(service.base_url, service.api_key)
    async with connect() as client:
        listed = (await client.list_resources()).resources
        assert [str(one.uri) for one in listed] == [
            "knowledge-bot://bots",
            "knowledge-bot://collections",
        ]
        read = await client.read_resource("knowledge-bot://collections")
        assert json.loads(read.contents[0].text) == [{"id": "col_house", "name": "House"}]


@pytest.mark.parametrize(
    ("reply", "delivery"),
    [
        (close, "unknown"),
        (answer(500, {"code": "oops", "message": "It broke."}), "unknown"),
        (answer(400, {"code": "bad", "message": "Not so."}), "refused"),
    ],
)
async def test_an_error_says_whether_the_service_may_have_acted(mcp_of, bots, reply, delivery):
    bots.answers["bot_guide"][QUESTION] = reply
    connect = mcp_of(bots.url, SERVICE_KEY)
    async with connect() as client:
        failed = await client.call_tool("ask_bot", {"bot": "bot_guide", "question": QUESTION})
    assert failed.is_error
    assert f"(delivery: {delivery}; may_pass: " in text_of(failed)
    assert bots.asked_of("bot_guide")[QUESTION] == 1


async def test_an_error_advises_what_the_model_can_call(mcp_of, bots):
    gone = answer(400, {"code": "unknown_bot", "message": "There is no such bot."})
    bots.answers["bot_guide"][QUESTION] = gone
    async with mcp_of(bots.url, SERVICE_KEY)() as client:
        failed = await client.call_tool("ask_bot", {"bot": "bot_guide", "question": QUESTION})
    assert failed.is_error
    assert "`list_bots`" in text_of(failed)
    assert "kbot" not in text_of(failed)


async def test_a_service_that_is_away_leaves_the_server_standing(mcp_of, bots):
    connect = mcp_of(bots.url, SERVICE_KEY)
    bots.stop()
    async with connect() as client:
        assert "ask_bot" in await tools_of(client)
        failed = await client.call_tool("ask_bot", {"bot": "bot_guide", "question": QUESTION})
        assert failed.is_error
        assert "not_delivered" in text_of(failed)
        with pytest.raises(MCPError) as failure:
            await client.read_resource("knowledge-bot://bots")
        assert "not_delivered" in str(failure.value)


async def test_progress_is_reported(mcp_of, bots):
    seen = []

    async def heard(progress, total, message):
        seen.append((progress, total, message))

    connect = mcp_of(bots.url, SERVICE_KEY)
    async with connect() as client:
        asked = {"bot": "bot_guide", "question": QUESTION}
        await client.call_tool("ask_bot", asked, progress_callback=heard)
    assert [one[:2] for one in seen] == [(0, 1), (1, 1)]


async def test_a_cancelled_question_says_that_it_may_have_been_asked(mcp_of, bots, caplog):
    bots.answers["bot_guide"][QUESTION] = silence
    connect = mcp_of(bots.url, SERVICE_KEY)
    async with connect(mode="legacy") as client:
        with anyio.move_on_after(1):
            await client.call_tool("ask_bot", {"bot": "bot_guide", "question": QUESTION})
        assert await until_awaited(lambda: "Cancelled" in caplog.text)
        assert "may have" in caplog.text
        # Others are answered as before.
        answered = await client.call_tool("ask_bot", {"bot": "bot_host", "question": QUESTION})
        assert answered.structured_content["answer"] == "At ten."
    assert bots.asked_of("bot_guide")[QUESTION] == 1


MALFORMED = [b"", b"{", b"[]", b"{}", b'{"jsonrpc": "2.0"}', b'"x"', b"\xff", b"[1, 2]", b"null"]


@pytest.mark.parametrize("body", MALFORMED)
async def test_malformed_messages_are_errors_of_the_protocol(bots, body):
    with gateway(bots.url, SERVICE_KEY) as address:
        async with httpx2.AsyncClient() as http:
            response = await http.post(
                f"{address}/mcp",
                content=body,
                headers={
                    "Authorization": f"Bearer {KEY}",
                    "Content-Type": "application/json",
                    "Accept": "application/json, text/event-stream",
                },
            )
    assert response.status_code == 400
    assert response.json()["error"]["code"] < 0
    assert bots.requests == []


def test_malformed_messages_over_stdio_do_not_end_it(bots):
    environment = {"KNOWLEDGE_BOT_BASE_URL": bots.url, "KNOWLEDGE_BOT_API_KEY": SERVICE_KEY}
    with subprocess.Popen(
        [KBOT, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        process.stdin.write('{\n[]\n"x"\n\n')
        process.stdin.write(json.dumps(INITIALIZE) + "\n")
        process.stdin.flush()
        answers = []
        while not any("result" in one for one in answers):
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.wait(10) == 0
    assert answers[-1]["result"]["serverInfo"]["name"] == "knowledge-bot"


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def test_without_a_service_it_says_how_to_name_one(tmp_path):
    done = subprocess.run(
        [KBOT, "mcp"],
        env={"KBOT_CONFIG": str(tmp_path / "none.toml")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "kbot login" in done.stderr
    assert done.stdout == ""


async def test_an_empty_question_is_reported_as_one(mcp_of, bots):
    async with mcp_of(bots.url, SERVICE_KEY)(KEY) as client:
        result = await client.call_tool("ask_bot", {"bot": "bot_1", "question": " "})
    assert result.is_error
    assert "question: " in result.content[0].text
    assert "not_delivered" in result.content[0].text
