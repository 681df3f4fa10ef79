"""One question stays one message, whatever a client does after a timeout or a lost connection."""

import asyncio
import gc
import json
import threading
import weakref

import httpx2
import openai
import pytest

from calls import MESSAGE
from gateways import HEADERS, KEY, app_of, asked, serving
from knowledge_bot.conversations import Heads
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


async def test_an_answer_that_was_not_fetched_is_no_other_clients_without_a_session(
    app, post, service
):
    """All clients number their calls alike."""
    of = "io.modelcontextprotocol/"
    meta = {
        f"{of}protocolVersion": "2026-07-28",
        f"{of}clientInfo": {"name": "test", "version": "1"},
        f"{of}clientCapabilities": {},
    }
    arguments = {"bot": "bot_guide", "question": "Who opens?"}
    called = {"name": "ask_bot", "arguments": arguments, "_meta": meta}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "ask_bot",
    }
    async with app.router.lifespan_context(app):
        before = asyncio.all_tasks()
        await give_up(app, "/mcp", call(7, "tools/call", called), **headers)
        assert await until_awaited(lambda: asked(service) and asyncio.all_tasks() <= before)
        answer = await post("/mcp", call(7, "tools/call", called), **headers)
    assert "<answer 2>" in answer.text
    assert len(asked(service)) == 2


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


def answered(**more):
    return lambda service: service.answer_next(body=json.dumps({**MESSAGE, **more}).encode())


def raw(body=b"", status=200, **headers):
    return lambda service: service.answer_next(status, body, headers)


# What a service may answer to a question that it was sent, by the status that a client sees.
FAULTS = {
    **{
        f"sources: {sources!r}": (answered(sources=sources), 200)
        for sources in (
            *([{"name": {"en": "Hours"}}], [{"name": ["a"]}], [{"name": None}], [1, None, "a"]),
            *({"name": "a"}, "a", 7, [{"name": "a", "id": 7, "url": 7}], [{"name": "\ud83d"}]),
            *([{"name": "a", "passages": 7}], [{"name": "a", "passages": [{"id": []}]}], [[]]),
        )
    },
    "half an emoji": (answered(answer="At nine \ud83d"), 200),
    "a zero byte": (answered(answer="At\0nine"), 200),
    "found is a text": (answered(found="yes"), 200),
    "an infinite field": (raw(json.dumps({**MESSAGE, "score": 1e999}).encode()), None),
    "a date of the far future": (answered(created_at=10**30), None),
    "a date of the past": (answered(created_at=-1), None),
    "an odd conversation": (answered(conversation_id='a/b\n"c'), None),
    "no answer": (answered(answer=None), 424),
    "an answer in parts": (answered(answer=["At nine."]), 424),
    "no conversation": (answered(conversation_id=None), None),
    "half of the JSON": (raw(json.dumps(MESSAGE).encode()[:20]), 424),
    "a page": (raw(b"<html>"), 424),
    "nothing": (raw(), 424),
    "a redirect": (raw(status=302, location="https://x.test"), 424),
    "what is no gzip": (raw(b"x", **{"content-encoding": "gzip"}), 424),
    **{f"status {status}": (raw(status=status), 424) for status in (500, 502, 504)},
    "a lost answer": (lambda service: service.lose_next_answer(), 424),
    "no answer in time": (lambda service: service.time_out_next(), 424),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_whatever_becomes_of_an_answer_the_question_is_one_message(ask, service, fault):
    prepare, expected = FAULTS[fault]
    prepare(service)
    for attempt in ("0", "1", "2"):  # as OpenAI's clients repeat it
        answer = await ask(**{"x-stainless-retry-count": attempt})
        assert answer.status_code in ({expected} if expected else {200, 424})
        json.loads(answer.text, parse_constant=pytest.fail)
    assert len(asked(service)) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "field",
    [
        *('"metadata": {"title": "\\ud83d", "a": [1e999, {"\\ude00": NaN}]}', '"user": "\\ud83d"'),
        *('"temperature": 1e999', '"top_p": NaN', '"max_output_tokens": -Infinity'),
        *('"prompt_cache_key": "\\ud83d"', '"safety_identifier": "\\udc00"', '"user": {"a": 1}'),
        *('"instructions": "\\ud83d"', f'"metadata": {{"a": {"[" * 200}{"]" * 200}}}'),
    ],
)
async def test_what_is_echoed_is_made_encodable(app, service, field, stream):
    streamed = ', "stream": true' if stream else ""
    body = f'{{"model": "bot_guide", "input": "When?", {field}{streamed}}}'
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as http:
        sent = {"content": body.encode(), "headers": HEADERS | {"content-type": "application/json"}}
        answer = await http.post("/v1/responses", **sent)
    assert answer.status_code == 200
    lines = [one[6:] for one in answer.text.splitlines() if one[:6] == "data: "] or [answer.text]
    for line in lines:
        json.loads(line, parse_constant=pytest.fail).get("id", "").encode()
    assert len(asked(service)) == 1


async def test_a_fault_of_the_gateway_after_the_question_is_unknown_kept_and_logged(
    ask, app, service, caplog
):
    heads = Heads()
    heads.change = lambda *_: 1 / 0
    broken = app_of(heads=heads)
    transport = httpx2.ASGITransport(broken)
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as http:
        body = {"model": "bot_guide", "input": "When?"}
        answers = [await http.post("/v1/responses", json=body, headers=HEADERS) for _ in range(3)]
    assert {one.status_code for one in answers} == {424}
    assert {one.headers["x-should-retry"] for one in answers} == {"false"}
    assert "ZeroDivisionError" in caplog.text
    assert len(asked(service)) == 1


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("lost", [False, True])
async def test_a_stream_begins_before_its_answer_is_there(service, path, lost):
    app = app_of(patience=0.0)
    if lost:
        service.lose_next_answer()
    with serving(app) as address:
        url, body = f"{address}{path}", {"model": "bot_guide", "stream": True, **PATHS[path]}
        async with httpx2.AsyncClient(headers=HEADERS) as http:
            with service.holding_answers():
                async with http.stream("POST", url, json=body) as stream:
                    assert stream.status_code == 200
                    assert lost or (await anext(stream.aiter_text())).startswith(": ")
            again = await http.post(url, json=body)  # it was not read to its end
    told = '"code":"outcome_unknown"' if lost else "<answer 1>"
    assert told in again.text
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
        (
            f"{TASK}Generate a concise title summarizing the chat.\nUSER: Who opens?\nA: Mia",
            '{"title": "Who opens"}',
        ),
        (f"{TASK}Generate 1-3 broad tags categorizing the main themes", '{"tags": []}'),
        (f"{TASK}Suggest 3-5 relevant follow-up questions", '{"follow_ups": []}'),
        (
            f"{TASK}Analyze the chat history to determine the necessity of generating queries",
            '{"queries": []}',
        ),
        (f"{TASK}You are an autocompletion system. Continue the text in `<text>`", '{"text": ""}'),
        (f"{TASK}Generate a detailed prompt for am image generation task", '{"prompt": ""}'),
        ("Your task is to reflect the speaker's likely facial expression through an emoji.", ""),
        (
            "Please generate a concise, 5-word-or-less title for the conversation.\nUser: Who?",
            "Who",
        ),
        (
            "Please generate a concise title (max 40 characters) for a conversation\nUser: Who?",
            "Who",
        ),
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


def test_a_window_that_shortens_a_list_puts_nothing_into_its_conversation(client, service):
    said = [{"role": "user", "content": "Who opens?"}]
    answered = client.chat.completions.create(model="bot_guide", messages=said).choices[0].message
    asks = f"{TASK}Summarize the conversation above that will be compacted out of the active chat."
    said += [{"role": "assistant", "content": answered.content}, {"role": "user", "content": asks}]
    shortened = client.chat.completions.create(model="bot_guide", messages=said)
    assert shortened.choices[0].message.content == "Earlier messages are left out."
    assert asked(service) == ["Who opens?"]


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
