"""Bots as an MCP server, as the official SDK's client sees it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from calls import KEY as SERVICE_KEY
from gateways import HEADERS, asked, upstream
from knowledge_bot.testing import MemoryService
from knowledge_bot_gateway import create_mcp_server
from served import served
from waiting import until_awaited

KBOT = Path(sys.executable).with_name("kbot")
QUESTION = "When do you open?"
MODES = ["legacy", "2026-07-28"]
TO_GUIDE = {"bot": "bot_guide", "question": QUESTION}
SESSION = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def connected(mode="2026-07-28", *, allow_writes=False, **options):
    """A client of a server in this process."""
    server = create_mcp_server(upstream(**options), allow_writes=allow_writes)
    return Client(server, mode=mode)


def call(identity, method, params):
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


async def tools_of(client):
    return {tool.name: tool for tool in (await client.list_tools()).tools}


def text_of(result):
    return result.content[0].text


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_asks_and_asks_further(service, mode):
    async with connected(mode) as client:
        first = await client.call_tool("ask_bot", TO_GUIDE)
        assert not first.is_error
        assert first.structured_content["answer"] == "<answer 1> of bot_guide"
        conversation = first.structured_content["conversation_id"]
        second = await client.call_tool(
            "ask_bot_guide", {"question": "And on Sunday?", "conversation_id": conversation}
        )
        assert second.structured_content["conversation_id"] == conversation
        assert json.loads(text_of(second)) == second.structured_content
        listed = await client.call_tool("list_conversations", {"bot": "Bot_Guide"})
        ids = [one["id"] for one in listed.structured_content["conversations"]]
        assert ids == [conversation]
        collections = await client.call_tool("list_collections", {})
        named = [{"id": "col_default", "name": "col_default"}]
        assert collections.structured_content == {"collections": named}


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_searches_and_fetches_in_the_form_of_connectors(mode):
    kept = "The canoes are kept by Ruth Okafor."
    with MemoryService(extensions={"passages"}).standing_in():
        async with connected(mode, allow_writes=True) as client:
            source = {"name": "Canoes", "content": kept, "collections": ["col_default"]}
            added = (await client.call_tool("add_text", source)).structured_content
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
            assert (read["text"], read["metadata"]["source_id"]) == (kept, added["id"])
            gone = await client.call_tool("fetch", {"id": "pas_gone"})
            assert gone.is_error
            assert "refused" in text_of(gone)


async def test_where_nothing_can_be_searched_no_tool_says_so(service):
    async with connected() as client:
        assert {"search", "fetch"}.isdisjoint(await tools_of(client))
        found = await client.call_tool("search", {"query": "x"})
        assert found.is_error
        assert "not_delivered" in text_of(found)


async def test_while_the_service_does_not_say_whether_it_searches_no_tool_does(service):
    service.fail_next(503, times=None, where=lambda request: request.path.endswith("/ping"))
    async with connected() as client:
        tools = await tools_of(client)
    assert "ask_bot" in tools
    assert {"search", "fetch"}.isdisjoint(tools)


async def test_an_agent_sees_the_newest_conversations(service):
    async with connected() as client:
        asked = [
            await client.call_tool("ask_bot", {"bot": "bot_host", "question": f"Question {n}?"})
            for n in range(25)
        ]
        newest = [one.structured_content["conversation_id"] for one in asked][::-1]
        for limit, given in ((20, {}), (2, {"limit": 2})):
            listed = await client.call_tool("list_conversations", {"bot": "bot_host", **given})
            found = listed.structured_content
            assert [one["id"] for one in found["conversations"]] == newest[:limit]
            assert found["more"] == 25 - limit
        assert (await client.call_tool("list_conversations", {"bot": "x", "limit": 0})).is_error


async def test_callers_have_their_own_keys_over_http(start, service):
    http = start(api_key=None, keys=())
    for key in ("one", "two"):
        headers = {
            "Authorization": f"Bearer {key}",
            "Accept": "application/json, text/event-stream",
        }
        begun = http.post("/mcp", json=call(1, "initialize", SESSION), headers=headers)
        headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        tool = {"name": "ask_bot", "arguments": TO_GUIDE}
        assert "answer" in http.post("/mcp", json=call(2, "tools/call", tool), headers=headers).text
    assert [one.headers["x-api-key"] for one in service.requests] == ["one", "two"]


async def test_tools_tell_what_they_do(service):
    async with connected(allow_writes=True) as client:
        tools = await tools_of(client)
    for name, tool in tools.items():
        assert tool.output_schema["type"] == "object", name
        assert tool.description
        assert tool.annotations.destructive_hint is False
        assert tool.annotations.open_world_hint is True
        assert tool.annotations.read_only_hint is not name.startswith("add_")
        assert tool.annotations.idempotent_hint is name.startswith(("list_", "search", "fetch"))
    taken = {"question", "conversation_id"}
    assert set(tools["ask_bot"].input_schema["properties"]) == {"bot", *taken}
    assert set(tools["ask_bot_guide"].input_schema["properties"]) == taken
    assert tools["ask_bot_guide"].input_schema["required"] == ["question"]


async def test_a_bot_is_described_by_whoever_offers_it(service):
    said = {"bot_guide": "House rules, opening hours.", "nobody": "Nothing"}
    async with connected(descriptions=said) as client:
        tools = await tools_of(client)
    (described,) = (one for one in tools.values() if "House rules" in one.description)
    assert described.name != "ask_bot"
    assert "  " not in "".join(one.description for one in tools.values())


async def test_lists_may_be_kept_for_a_minute_by_one_client_alone(service):
    async with connected() as client:
        listed = await client.list_tools()
    assert (listed.ttl_ms, listed.cache_scope) == (60_000, "private")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"question": "When?", "conversationId": "conv_1"}, "'conversationId' was unexpected"),
        ({"question": "When?", "bot": "bot_host"}, "'bot' was unexpected"),
        ({}, "'question' is a required property; it takes the arguments question, conversation_id"),
        ({"question": 7}, "question: 7 is not of type 'string'"),
    ],
)
async def test_a_wrong_argument_is_told_in_the_words_of_the_tool_that_was_called(
    service, arguments, expected
):
    async with connected() as client:
        tools = await tools_of(client)
        own = next(name for name in tools if name.startswith("ask_") and name != "ask_bot")
        said = text_of(await client.call_tool(own, arguments))
    assert said.startswith(f"{own}: ")
    assert expected in said
    assert "pydantic" not in said
    assert "not_delivered" in said
    assert asked(service) == []


@pytest.mark.parametrize("name", ["ask_nobody", "summarise"])
async def test_a_tool_that_is_none_is_answered_with_those_that_there_are(service, name):
    async with connected() as client:
        listed = await tools_of(client)
        failed = await client.call_tool(name, {"question": QUESTION})
    assert failed.is_error
    assert f"there are {', '.join(listed)}. " in text_of(failed)
    assert "delivery: not_delivered" in text_of(failed)
    assert asked(service) == []


async def test_a_bots_tool_is_not_denied_while_the_bots_are_not_known(service):
    service.fail_next(503, times=None, where=lambda request: request.path == "/bots")
    async with connected() as client:
        failed = await client.call_tool("ask_bot_guide", {"question": QUESTION})
    assert failed.is_error
    assert "may_pass: true" in text_of(failed)
    assert asked(service) == []


async def test_bots_of_one_name_have_tools_of_their_own():
    names = {"bot_a1": "Guide", "bot_b2": "Guide", "bot_c3": "Der Gastgeber (Süd)"}
    listed = {"data": [{"id": bot, "name": name} for bot, name in names.items()]}
    service = MemoryService(bots={bot: {QUESTION: "At ten."} for bot in names})
    service.answer_next(
        body=json.dumps(listed).encode(), times=None, where=lambda one: one.path == "/bots"
    )
    with service.standing_in():
        async with connected() as client:
            named = {name for name in await tools_of(client) if name.startswith("ask_")}
            assert named == {"ask_bot", "ask_a1", "ask_b2", "ask_der_gastgeber_sud"}
            answered = await client.call_tool("ask_b2", {"question": QUESTION})
            assert answered.structured_content["answer"] == "At ten."
            ambiguous = await client.call_tool("ask_bot", {"bot": "Guide", "question": QUESTION})
            assert ambiguous.is_error
            assert "Several bots" in text_of(ambiguous)
    assert [one.value["bot_id"] for one in service.requests if one.method == "POST"] == ["bot_b2"]


@pytest.mark.parametrize(("bots", "tools_for_bots"), [(10, 10), (11, 0)])
async def test_more_than_ten_bots_have_no_tools_of_their_own(bots, tools_for_bots):
    with MemoryService(bots={f"bot_{number}": {} for number in range(bots)}).standing_in():
        async with connected() as client:
            asking = [name for name in await tools_of(client) if name.startswith("ask_")]
            assert "ask_bot" in asking
            assert len(asking) == 1 + tools_for_bots
            found = await client.call_tool("list_bots", {})
            assert len(found.structured_content["bots"]) == bots


async def test_nothing_is_written_unless_that_is_asked_for(service):
    given = {"name": "x", "content": "We open at nine.", "collections": ["col_default"]}
    async with connected() as client:
        assert not {name for name in await tools_of(client) if name.startswith("add_")}
        assert (await client.call_tool("add_text", given)).is_error
    assert service.sources == []
    async with connected(allow_writes=True) as client:
        added = await client.call_tool("add_text", given)
        assert added.structured_content["status"] == "pending"
    assert [one["name"] for one in service.sources] == ["x"]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (lambda service: service.lose_next_answer(), "delivery: unknown; may_pass: true"),
        (lambda service: service.fail_next(500), "delivery: unknown; may_pass: true"),
        (lambda service: service.fail_next(400), "delivery: refused; may_pass: false"),
        (lambda service: service.fail_next(429), "delivery: refused; may_pass: true"),
    ],
)
async def test_an_error_says_whether_the_service_may_have_acted_and_whether_it_may_pass(
    service, fault, told
):
    fault(service)
    async with connected() as client:
        failed = await client.call_tool("ask_bot", TO_GUIDE)
    assert failed.is_error
    assert f"({told})" in text_of(failed)
    assert asked(service) == [QUESTION]


async def test_an_error_advises_what_the_model_can_call(service):
    async with connected() as client:
        failed = await client.call_tool("ask_bot", {**TO_GUIDE, "bot": "bot_gone"})
    assert failed.is_error
    assert "`list_bots`" in text_of(failed)
    assert "kbot" not in text_of(failed)


async def test_a_service_that_is_away_leaves_the_server_standing(service):
    service.reachable = False
    async with connected() as client:
        assert "ask_bot" in await tools_of(client)
        failed = await client.call_tool("ask_bot", TO_GUIDE)
        assert failed.is_error
        assert "not_delivered" in text_of(failed)


async def test_progress_is_reported(service):
    seen = []

    async def heard(progress, total, message):
        seen.append((progress, total, message))

    async with connected() as client:
        await client.call_tool("ask_bot", TO_GUIDE, progress_callback=heard)
    assert [one[:2] for one in seen] == [(0, 1), (1, 1)]


async def test_a_cancelled_question_says_that_it_may_have_been_asked(service, caplog):
    async with connected("legacy") as client:
        with service.holding_answers():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "ask_bot", TO_GUIDE)
                assert await until_awaited(lambda: asked(service))
                tasks.cancel_scope.cancel()
            assert await until_awaited(lambda: "Cancelled" in caplog.text)
        assert "may have" in caplog.text
        # Others are answered as before.
        answered = await client.call_tool("ask_bot", {"bot": "bot_host", "question": QUESTION})
        assert answered.structured_content["answer"] == "At ten."
    assert asked(service) == [QUESTION] * 2


MALFORMED = [b"", b"{", b"[]", b"{}", b'{"jsonrpc": "2.0"}', b'"x"', b"\xff", b"[1, 2]", b"null"]


@pytest.mark.parametrize("body", MALFORMED)
def test_malformed_messages_are_errors_of_the_protocol(http, service, body):
    accepted = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    response = http.post("/mcp", content=body, headers={**HEADERS, **accepted})
    assert response.status_code == 400
    assert response.json()["error"]["code"] < 0
    assert service.requests == []


def test_a_client_that_says_nothing_of_types_accepts_any(http):
    begin = http.build_request("POST", "/mcp", json=call(0, "initialize", SESSION), headers=HEADERS)
    del begin.headers["Accept"]
    assert http.send(begin).status_code == 200


async def test_an_empty_question_is_reported_as_one(service):
    async with connected() as client:
        result = await client.call_tool("ask_bot", {"bot": "bot_1", "question": " "})
    assert result.is_error
    assert "question: " in text_of(result)
    assert "not_delivered" in text_of(result)


# `kbot mcp`, as an editor starts it ---------------------------------------------------------------


def environment(address):
    return {"KNOWLEDGE_BOT_BASE_URL": address, "KNOWLEDGE_BOT_API_KEY": SERVICE_KEY}


@pytest.mark.slow
async def test_an_agent_asks_over_stdio(service):
    with served(service) as address:
        command = StdioServerParameters(command=str(KBOT), args=["mcp"], env=environment(address))
        async with Client(command) as client:
            assert "add_text" not in await tools_of(client)
            result = await client.call_tool("ask_bot", TO_GUIDE)
    assert result.structured_content["answer"] == "<answer 1> of bot_guide"


# Lines that are no message, and what each is answered with.
UNREADABLE = {
    "{": (-32700, None),
    "[]": (-32600, None),
    '"x"': (-32600, None),
    '{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"x": "\\ud83d"}}': (-32700, 5),
    '\ufeff{"jsonrpc": "2.0", "id": "a", "method": "ping"}': (-32700, "a"),
    '{"jsonrpc": "2.0", "id": 7}': (-32600, 7),
}


def test_over_stdio_malformed_messages_are_answered_and_being_stopped_is_no_failure(service):
    with (
        served(service) as address,
        subprocess.Popen(
            [KBOT, "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(address),
            text=True,
        ) as process,
    ):
        process.stdin.write("\n".join([*UNREADABLE, "", ""]))
        process.stdin.write(json.dumps(call(1, "initialize", SESSION)) + "\n")
        process.stdin.flush()
        answers = []
        while not any("result" in one for one in answers):
            answers.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()
    assert answers[-1]["result"]["serverInfo"]["name"] == "knowledge-bot"
    assert [(one["error"]["code"], one["id"]) for one in answers[:-1]] == [*UNREADABLE.values()]
