"""Two people with keys of their own, and what each reads: nothing of the other, in any way."""

import asyncio
import json
from collections import OrderedDict
from itertools import count

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import JSONRPCRequest, JSONRPCResponse

from gateways import app_of, asked, serving
from knowledge_bot_gateway._mcp import _Events
from waiting import until_awaited

ADA, BEN = "key-of-ada", "key-of-ben"
QUESTION = "When do you open?"


OF_THE_SERVICE = pytest.param("the service's keys", marks=pytest.mark.slow)


@pytest.fixture(params=["the gateway's keys", OF_THE_SERVICE])
def address(service, request):
    """A gateway of two people, before a bot whose answers all differ."""
    numbers = count(1)
    service.bots["bot_guide"] = lambda _: f"Answer {next(numbers)}."
    is_own = request.param == "the gateway's keys"
    app = app_of(keys=(ADA, BEN)) if is_own else app_of(keys=(), api_key=None)
    with serving(app) as address:
        yield address


class Person:
    """Asks with a key; `ask` returns an answer's text, its conversation and its id."""

    def __init__(self, address, key):
        self.address = address
        self.http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=30)

    async def post(self, path, **body):
        return await self.http.post(f"{self.address}{path}", json={"model": "bot_guide", **body})


class Chat(Person):
    stream = False

    async def ask(self, question, after=None, **more):
        before = [("user", QUESTION), ("assistant", after[0])] if after else []
        said = [{"role": role, "content": text} for role, text in [*before, ("user", question)]]
        got = await self.post("/v1/chat/completions", messages=said, stream=self.stream, **more)
        got.raise_for_status()
        if not self.stream:
            whole = got.json()
            return whole["choices"][0]["message"]["content"], whole["conversation"]["id"], None
        chunks = [json.loads(line[6:]) for line in got.text.splitlines() if line[:7] == "data: {"]
        text = "".join(one["choices"][0]["delta"].get("content", "") for one in chunks)
        return text, chunks[0]["conversation"]["id"], None

    async def take_over(self, of):
        return await self.ask("And then?", conversation=of[1])


class ChatStream(Chat):
    stream = True


class Responses(Person):
    stream = False

    async def ask(self, question, after=None, **more):
        more |= {"previous_response_id": after[2]} if after else {}
        got = await self.post("/v1/responses", input=question, stream=self.stream, **more)
        got.raise_for_status()
        if self.stream:
            whole = json.loads(got.text.split("event: response.completed\ndata: ")[1])["response"]
        else:
            whole = got.json()
        text = whole["output"][0]["content"][0]["text"]
        return text, whole["conversation"]["id"], whole["id"]

    async def take_over(self, of):
        named = await self.post("/v1/responses", input="And?", conversation=of[1])
        fetched = await self.http.get(f"{self.address}/v1/responses/{of[2]}")
        assert (named.status_code, fetched.status_code) == (404, 404)
        return await self.ask("And then?", after=of)


class ResponsesStream(Responses):
    stream = True


class OverMcp(Person):
    mode = "legacy"

    def connected(self):
        transport = streamable_http_client(f"{self.address}/mcp", http_client=self.http)
        return Client(transport, mode=self.mode)

    async def tools(self):
        async with self.connected() as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    async def ask(self, question, after=None):
        more = {"conversation_id": after[1]} if after else {}
        async with self.connected() as client:
            given = {"bot": "bot_guide", "question": question, **more}
            got = await client.call_tool("ask_bot", given)
            listed = await client.call_tool("list_conversations", {"bot": "bot_guide"})
        if got.is_error:
            raise httpx2.HTTPError(got.content[0].text)
        seen = listed.structured_content
        self.listed = {one["id"] for one in seen["conversations"]}, seen["more"]
        answer = got.structured_content
        return answer["answer"], answer["conversation_id"], None

    async def take_over(self, of):
        return await self.ask("And then?", after=of)


class OverMcpOf2026(OverMcp):
    mode = "2026-07-28"


OLD = pytest.param(OverMcp, marks=pytest.mark.slow)
WAYS = (Chat, ChatStream, Responses, ResponsesStream, OLD, OverMcpOf2026)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: getattr(way, "__name__", None))
@pytest.mark.parametrize("together", [True, False], ids=["at once", "one after another"])
async def test_who_asks_the_same_has_an_answer_and_a_conversation_of_their_own(
    address, service, way, together
):
    ada, ben = way(address, ADA), way(address, BEN)
    if together:
        with service.holding_answers():
            asking = [asyncio.create_task(one.ask(QUESTION)) for one in (ada, ben)]
            assert await until_awaited(lambda: len(asked(service)) == 2)
        firsts = await asyncio.gather(*asking)
    else:
        firsts = [await one.ask(QUESTION) for one in (ada, ben)]
    assert len({text for text, *_ in firsts}) == len({where for _, where, _ in firsts}) == 2
    for one, first in zip((ada, ben), firsts, strict=True):
        assert (await one.ask("And then?", after=first))[1] == first[1]
        if isinstance(one, OverMcp):
            assert one.listed == ({first[1]}, 0)
    before = len(asked(service))
    for one, others in ((ada, firsts[1]), (ben, firsts[0])):
        with pytest.raises(httpx2.HTTPError):
            await one.take_over(others)
    assert len(asked(service)) == before == 4


@pytest.mark.parametrize("way", [Chat, ChatStream])
async def test_chats_that_read_alike_go_on_in_the_conversation_of_their_own_key(
    address, service, way
):
    service.bots["bot_guide"] = lambda _: "At nine."
    people = [way(address, key) for key in (ADA, BEN)]
    firsts = [await one.ask(QUESTION) for one in people]
    for one, first in zip(people, firsts, strict=True):
        assert (await one.ask("And then?", after=first))[1] == first[1]


async def test_the_bots_of_one_key_are_not_offered_to_another(service):
    of_ada = json.dumps({"data": [{"id": "bot_ada", "name": "Of Ada"}]}).encode()
    service.answer_next(
        body=of_ada,
        times=None,
        where=lambda one: (one.path, one.headers["x-api-key"]) == ("/bots", ADA),
    )
    with serving(app_of(keys=(), api_key=None)) as address:
        ada, ben = [await OverMcpOf2026(address, key).tools() for key in (ADA, BEN)]
    assert ("ask_of_ada" in ada, "ask_of_ada" in ben) == (True, False)
    assert ("ask_bot_guide" in ada, "ask_bot_guide" in ben) == (False, True)


def rpc(method, identity=None, **params):
    numbered = {} if identity is None else {"id": identity}
    return {"jsonrpc": "2.0", "method": method, "params": params, **numbered}


class Session(Person):
    """A session of MCP, by hand."""

    async def begin(self):
        self.http.headers |= {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        }
        of = {"protocolVersion": "2025-11-25", "capabilities": {}}
        body = rpc("initialize", 0, **of, clientInfo={"name": "test", "version": "1"})
        begun = await self.http.post(f"{self.address}/mcp", json=body)
        self.http.headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        await self.http.post(f"{self.address}/mcp", json=rpc("notifications/initialized"))
        return self

    async def call(self, identity, question=QUESTION):
        """Ask; the events of the answer, as (id, data)."""
        arguments = {"bot": "bot_guide", "question": question}
        body = rpc("tools/call", identity, name="ask_bot", arguments=arguments)
        return events((await self.http.post(f"{self.address}/mcp", json=body)).text)

    async def resume(self, last, until_one_has, status=200):
        """Fetch the events after one, until one of them has a text, or until they end."""
        url, seen = f"{self.address}/mcp", ""
        async with self.http.stream("GET", url, headers={"Last-Event-ID": last}) as stream:
            assert stream.status_code == status
            async for piece in stream.aiter_text():
                seen += piece
                if until_one_has in seen:
                    break
        return seen


def events(text):
    blocks = (block.splitlines() for block in text.replace("\r\n", "\n").split("\n\n"))
    fields = ({line.partition(": ")[0]: line.partition(": ")[2] for line in one} for one in blocks)
    return [(one["id"], one.get("data", "")) for one in fields if "id" in one]


@pytest.mark.parametrize("key", [ADA, BEN], ids=["of one key", "of two keys"])
async def test_a_session_resumes_its_own_streams_alone(address, service, key):
    ada = await Session(address, ADA).begin()
    other = await Session(address, key).begin()
    (adas, _), *_ = await ada.call(7)
    assert "Answer 1." in await ada.resume(adas, "Answer 1.")
    assert "Answer" not in await other.resume(adas, "Answer")
    assert len(adas) >= 16  # nobody guesses it
    # The same call breaks in the other session, and its own answer is what it resumes to.
    with service.holding_answers():
        body = rpc("tools/call", 7, name="ask_bot", arguments={"bot": "bot_guide", "question": "?"})
        async with other.http.stream("POST", f"{address}/mcp", json=body) as broken:
            first = ""
            while "\nid: " not in first.replace("\r", "") and not first.startswith("id: "):
                first += await anext(broken.aiter_text())
        ((last, _),) = events(f"{first}\n\n")[:1]
        assert "is empty" in str(await ada.call(7, " "))  # meanwhile, under the same number
        resuming = asyncio.create_task(other.resume(last, "Answer"))
        assert await until_awaited(lambda: len(asked(service)) == 2)
    assert "Answer 2." in (seen := await resuming)
    assert "Answer 1." not in seen
    assert "is empty" not in seen


@pytest.mark.parametrize("reading", [True, False], ids=["who reads", "who is held up"])
async def test_a_stream_ends_though_its_events_are_no_longer_kept(reading):
    kept, seen, go_on = OrderedDict(), [], asyncio.Event()
    one, other = _Events(kept), _Events(kept)

    async def send(event):
        seen.append(event.message.id)
        await go_on.wait()

    last = await one.store_event("7", None)
    resuming = asyncio.create_task(one.replay_events_after(last, send))
    await one.store_event("8", JSONRPCResponse(jsonrpc="2.0", id=8, result={}))
    if reading:
        go_on.set()
    else:
        await one.store_event("7", JSONRPCRequest(jsonrpc="2.0", id=6, method="ping"))
        assert await until_awaited(lambda: seen == [6])
        await one.store_event("7", JSONRPCResponse(jsonrpc="2.0", id=7, result={}))
    await asyncio.sleep(0)
    for _ in range(2000):
        await other.store_event("7", None)
    if reading:
        await one.store_event("7", JSONRPCResponse(jsonrpc="2.0", id=7, result={}))
    go_on.set()
    async with asyncio.timeout(10):
        assert await resuming is None
    assert seen == ([7] if reading else [6])


async def test_a_session_is_used_and_ended_by_its_own_key_alone(address, service):
    ada, ben = [await Session(address, key).begin() for key in (ADA, BEN)]
    (last, _), *_ = await ada.call(1)
    ben.http.headers["Mcp-Session-Id"] = ada.http.headers["Mcp-Session-Id"]
    assert await ben.call(2) == []
    assert "Answer" not in await ben.resume(last, "Answer", status=404)
    url = f"{address}/mcp"
    assert (await ben.http.delete(url)).status_code == 404
    assert "Answer 2." in str(await ada.call(3))
    assert (await ada.http.delete(url)).status_code == 200
    assert await ada.call(4) == []
    assert len(asked(service)) == 2


async def test_an_equal_call_is_a_repetition_in_its_session_alone(address, service):
    ada, again = [await Session(address, ADA).begin() for _ in range(2)]
    assert await ada.call(1) == await ada.call(1) != await again.call(1)
    assert await ada.call(2) != await ada.call(1)
    assert len(asked(service)) == 3
    for number in (4, 5):  # without a session all clients count alike
        answer = await OverMcpOf2026(address, ADA).ask(QUESTION)
        assert answer[0] == f"Answer {number}."
