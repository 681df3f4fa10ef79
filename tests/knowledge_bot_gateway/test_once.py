"""One question stays one message, whatever a client does after a timeout or a lost connection."""

import asyncio
import gc
import threading
import weakref

import httpx
import openai
import pytest

from gateways import KEY
from knowledge_bot_gateway._once import Once
from scripted_server import answer, close
from waiting import until_awaited

PATHS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Who opens?"}]},
    "/v1/responses": {"input": "Who opens?"},
}
TASK = "### Task:\n"
HEADERS = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(params=PATHS)
def path(request):
    return request.param


@pytest.fixture
def ask(address, path):
    """Ask a question with a new connection, as a client that repeats it does."""

    def asked(timeout=30, headers=HEADERS, **more):
        body = {"model": "bot_guide", **PATHS[path], **more}
        return httpx.post(f"{address}{path}", json=body, headers=headers, timeout=timeout)

    return asked


@pytest.fixture
def held(bots):
    """Holds the answers of the service back until it is set."""
    going_on = threading.Event()
    bots.hold = going_on
    yield going_on
    going_on.set()


def test_a_client_that_gives_up_and_asks_again_gets_the_answer_of_its_one_message(ask, bots, held):
    for _ in range(3):
        with pytest.raises(httpx.ReadTimeout):
            ask(timeout=0.3)
    held.set()
    first = ask()
    assert first.status_code == 200
    assert len(bots.contents) == 1
    assert ask().json()["id"] != first.json()["id"]  # it was fetched; this is a new question
    assert len(bots.contents) == 2


SESSION = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
CALLED = {"name": "ask_bot", "arguments": {"bot": "bot_guide", "question": "Who opens?"}}


@pytest.fixture
def call(address):
    """Call the tool in one session of MCP, with a new connection each time."""
    headers = {**HEADERS, "Accept": "application/json, text/event-stream"}

    def sent(identity, method, params, **options):
        body = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}
        return httpx.post(f"{address}/mcp", json=body, headers=headers, **options)

    begun = sent(0, "initialize", {"protocolVersion": "2025-11-25", **SESSION})
    headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
    return lambda identity, timeout=30: sent(identity, "tools/call", CALLED, timeout=timeout)


def test_a_tool_that_is_called_again_with_the_same_id_asks_once(call, bots, held):
    for _ in range(3):
        with pytest.raises(httpx.ReadTimeout):
            call(7, timeout=0.5)
    held.set()
    assert "<answer 1>" in call(7).text
    assert len(bots.contents) == 1
    assert "<answer 2>" in call(8).text


def test_an_answer_that_came_when_nobody_was_there_is_kept(ask, bots, held):
    with pytest.raises(httpx.ReadTimeout):
        ask(timeout=0.3)
    held.set()
    while not bots.answered:
        pass
    assert ask().status_code == 200
    assert len(bots.contents) == 1


def test_an_answer_that_was_lost_on_its_way_is_sent_to_a_client_that_says_so(ask, bots):
    first = ask().json()["id"]
    for count, expected in (("1", 1), ("2", 1), ("0", 2)):
        repeated = ask(headers={**HEADERS, "x-stainless-retry-count": count})
        assert (repeated.json()["id"] == first) is (expected == 1)
        assert len(bots.contents) == expected


def test_what_may_have_been_asked_is_not_asked_again(ask, bots):
    bots.lose_next = [close]
    answers = [ask() for _ in range(3)]
    assert {each.status_code for each in answers} == {424}
    assert len(bots.contents) == 1


def test_what_was_refused_is_asked_again(ask, bots):
    bots.refuse_next = [answer(429, {"code": "busy", "message": "Later."}), None]
    assert [ask().status_code for _ in range(2)] == [429, 200]


def test_questions_that_differ_or_come_with_another_key_are_questions(start, bots, held):
    address = start(keys=("one", "two"))

    async def ask_all():
        async with httpx.AsyncClient(timeout=30) as http:
            body = {"model": "bot_guide", "messages": [{"role": "user", "content": "Who?"}]}
            url = f"{address}/v1/chat/completions"
            tasks = [
                asyncio.create_task(
                    http.post(url, json=one, headers={"Authorization": f"Bearer {key}"})
                )
                for key in ("one", "two")
                for one in (body, body, {**body, "user": "ada"})
            ]
            assert await until_awaited(lambda: len(bots.contents) >= 4)
            held.set()
            return await asyncio.gather(*tasks)

    answers = asyncio.run(ask_all())
    assert {each.status_code for each in answers} == {200}
    assert len(bots.contents) == 4


def test_openais_client_asks_once_though_its_time_is_short(address, bots, held):
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, timeout=0.5, max_retries=5)
    threading.Timer(1.2, held.set).start()
    found = client.responses.create(model="bot_guide", input="Who opens?")
    assert found.output_text.startswith("<answer 1>")
    assert len(bots.contents) == 1


def test_as_many_as_may_be_are_asked_at_once_each_in_its_own_conversation(start, bots, held):
    address = start(parallel=64)

    async def ask_all():
        limits = httpx.Limits(max_connections=80)
        async with httpx.AsyncClient(headers=HEADERS, limits=limits, timeout=60) as http:
            tasks = [
                asyncio.create_task(
                    http.post(
                        f"{address}/v1/responses", json={"model": "bot_guide", "input": f"{n}?"}
                    )
                )
                for n in range(64)
            ]
            assert await until_awaited(lambda: len(bots.contents) >= 64)
            held.set()
            return await asyncio.gather(*tasks)

    answers = asyncio.run(ask_all())
    assert {each.status_code for each in answers} == {200}
    assert len({each.json()["conversation"]["id"] for each in answers}) == 64
    assert sorted(bots.contents) == sorted(f"{n}?" for n in range(64))


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (
            f"{TASK}Generate a concise, 3-5 word title.\nUSER: When do you open on Saturday?\nA: 9",
            '{"title": "When do you open on Saturday"}',
        ),
        (f"{TASK}Generate 1-3 broad tags categorizing the main themes", '{"tags": []}'),
        (f"{TASK}Suggest 3-5 relevant follow-up questions", '{"follow_ups": []}'),
        (
            "Provide a concise, 5-word-or-less title for the conversation\nUser: Who opens?",
            "Who opens",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_a_chat_window_asks_for_itself_costs_no_message(
    client, bots, prompt, expected, stream
):
    said = [{"role": "user", "content": prompt}]
    found = client.chat.completions.create(model="bot_guide", messages=said, stream=stream)
    if stream:
        text = "".join(each.choices[0].delta.content or "" for each in found)
    else:
        text = found.choices[0].message.content
    assert text == expected
    assert bots.contents == []


def test_a_question_about_titles_is_a_question(client, bots):
    said = [{"role": "user", "content": "Generate a concise, 3-5 word title for our handbook."}]
    client.chat.completions.create(model="bot_guide", messages=said)
    assert len(bots.contents) == 1


class Start(dict):
    """A message of ASGI that can be watched."""


async def test_no_more_than_a_thousand_answers_are_kept_however_many_are_asked():
    watched = []

    async def app(scope, receive, send):
        start = Start(type="http.response.start", status=200, headers=[])
        watched.append(weakref.ref(start))
        await send(start)
        await send({"type": "http.response.body", "body": (await receive())["body"]})

    transport = httpx.ASGITransport(Once(app))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        for number in range(1100):
            answer = await client.post("/v1/responses", content=str(number))
            assert answer.text == str(number)
    gc.collect()
    assert sum(one() is not None for one in watched) <= 1000
