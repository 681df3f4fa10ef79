"""One question stays one message, whatever a client does after a timeout or a lost connection."""

import asyncio
import gc
import json
import threading
import weakref

import httpx2
import openai
import pytest

from gateways import HEADERS, KEY, app_of, asked
from knowledge_bot_gateway._once import Once
from waiting import until_awaited

PATHS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Who opens?"}]},
    "/v1/responses": {"input": "Who opens?"},
}
TASK = "### Task:\n"


@pytest.fixture(params=PATHS)
def path(request):
    return request.param


@pytest.fixture
def app(service):
    return app_of(keys=(KEY, "another"))


@pytest.fixture
async def post(app):
    """Send a request in the loop of the gateway."""
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as http:
        yield lambda path, body, **headers: http.post(path, json=body, headers=HEADERS | headers)


@pytest.fixture
def ask(post, path):
    return lambda **headers: post(path, {"model": "bot_guide", **PATHS[path]}, **headers)


async def give_up(app, path, body, **headers):
    """Send a request, and be gone before its answer is whole."""
    coming = [
        {"type": "http.request", "body": json.dumps(body, separators=(",", ":")).encode()},
        {"type": "http.disconnect"},
    ]
    given = {"host": "gateway", "content-type": "application/json", **HEADERS, **headers}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.lower().encode(), text.encode()) for name, text in given.items()],
    }

    async def receive():
        await asyncio.sleep(0)
        return coming.pop(0)

    async def send(message):
        assert not message.get("body") or message.get("more_body")

    await app(scope, receive, send)


async def test_a_client_that_gives_up_and_asks_again_gets_the_answer_of_its_one_message(
    app, ask, path, service
):
    with service.holding_answers():
        for _ in range(3):
            await give_up(app, path, {"model": "bot_guide", **PATHS[path]})
        first = asyncio.create_task(ask())
        assert await until_awaited(lambda: asked(service))
    assert (await first).status_code == 200
    assert len(asked(service)) == 1
    # It was fetched; this is a new question.
    assert (await ask()).json()["id"] != first.result().json()["id"]
    assert len(asked(service)) == 2


async def test_an_answer_that_came_when_nobody_was_there_is_kept(app, ask, path, service):
    await give_up(app, path, {"model": "bot_guide", **PATHS[path]})
    assert await until_awaited(lambda: asked(service))
    assert (await ask()).status_code == 200
    assert len(asked(service)) == 1


def call(identity, method, params):
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


async def test_a_tool_that_is_called_again_with_the_same_id_asks_once(app, post, service):
    headers = {"Accept": "application/json, text/event-stream"}
    begun = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    arguments = {"bot": "bot_guide", "question": "Who opens?"}
    called = "tools/call", {"name": "ask_bot", "arguments": arguments}
    async with app.router.lifespan_context(app):
        body = call(0, "initialize", {"protocolVersion": "2025-11-25", **begun})
        answer = await post("/mcp", body, **headers)
        headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        with service.holding_answers():
            for _ in range(3):
                await give_up(app, "/mcp", call(7, *called), **headers)
            assert await until_awaited(lambda: asked(service))
        assert "<answer 1>" in (await post("/mcp", call(7, *called), **headers)).text
        assert len(asked(service)) == 1
        assert "<answer 2>" in (await post("/mcp", call(8, *called), **headers)).text


async def test_an_answer_that_was_lost_on_its_way_is_sent_to_a_client_that_says_so(ask, service):
    first = (await ask()).json()["id"]
    for count, expected in (("1", 1), ("2", 1), ("0", 2)):
        repeated = await ask(**{"x-stainless-retry-count": count})
        assert (repeated.json()["id"] == first) is (expected == 1)
        assert len(asked(service)) == expected


async def test_what_may_have_been_asked_is_not_asked_again(ask, service):
    service.lose_next_answer()
    assert {(await ask()).status_code for _ in range(3)} == {424}
    assert len(asked(service)) == 1


async def test_what_was_refused_is_asked_again(ask, service):
    service.fail_next(429)
    assert [(await ask()).status_code for _ in range(2)] == [429, 200]


async def test_questions_that_differ_or_come_with_another_key_are_questions(post, service):
    body = {"model": "bot_guide", **PATHS["/v1/responses"]}
    with service.holding_answers():
        tasks = [
            asyncio.create_task(post("/v1/responses", one, Authorization=f"Bearer {key}"))
            for key in (KEY, "another")
            for one in (body, body, {**body, "user": "ada"})
        ]
        assert await until_awaited(lambda: len(asked(service)) >= 4)
    assert {each.status_code for each in await asyncio.gather(*tasks)} == {200}
    assert len(asked(service)) == 4


def test_openais_client_asks_once_though_its_time_is_short(address, service):
    client = openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, timeout=0.5, max_retries=9)
    with service.holding_answers():
        asking = threading.Thread(target=lambda: found.append(ask_of(client)))
        found = []
        asking.start()
        asking.join(0.8)  # longer than it waits
    asking.join()
    assert found[0].output_text == "<answer 1> of bot_guide"
    assert len(asked(service)) == 1


def ask_of(client):
    return client.responses.create(model="bot_guide", input="Who opens?")


async def test_as_many_as_may_be_are_asked_at_once_each_in_its_own_conversation(post, service):
    with service.holding_answers():
        tasks = [
            asyncio.create_task(post("/v1/responses", {"model": "bot_guide", "input": f"{n}?"}))
            for n in range(64)
        ]
        assert await until_awaited(lambda: len(asked(service)) >= 64)
    answers = await asyncio.gather(*tasks)
    assert {each.status_code for each in answers} == {200}
    assert len({each.json()["conversation"]["id"] for each in answers}) == 64
    assert sorted(asked(service)) == sorted(f"{n}?" for n in range(64))


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
    client, service, prompt, expected, stream
):
    said = [{"role": "user", "content": prompt}]
    found = client.chat.completions.create(model="bot_guide", messages=said, stream=stream)
    if stream:
        text = "".join(each.choices[0].delta.content or "" for each in found)
    else:
        text = found.choices[0].message.content
    assert text == expected
    assert asked(service) == []


def test_a_question_about_titles_is_a_question(client, service):
    said = [{"role": "user", "content": "Generate a concise, 3-5 word title for our handbook."}]
    client.chat.completions.create(model="bot_guide", messages=said)
    assert len(asked(service)) == 1


class Start(dict):
    """A message of ASGI that can be watched."""


async def test_no_more_than_a_thousand_answers_are_kept_however_many_are_asked():
    watched = []

    async def app(scope, receive, send):
        start = Start(type="http.response.start", status=200, headers=[])
        watched.append(weakref.ref(start))
        await send(start)
        await send({"type": "http.response.body", "body": (await receive())["body"]})

    transport = httpx2.ASGITransport(Once(app))
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as client:
        for number in range(1100):
            answer = await client.post("/v1/responses", content=str(number))
            assert answer.text == str(number)
    gc.collect()
    assert sum(one() is not None for one in watched) <= 1000
