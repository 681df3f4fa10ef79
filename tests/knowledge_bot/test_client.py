"""Both clients against every form of answer that the interface shows."""

import asyncio
import json
import logging
from datetime import UTC, datetime

import pytest

from calls import KEY, MESSAGE, SOURCE, ask, create, read
from knowledge_bot import (
    AsyncClient,
    Bot,
    Client,
    Collection,
    Conversation,
    Header,
    Message,
    Source,
)
from refusals import refused

LIST = {"data": [{"id": "x", "name": "X"}]}


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize(
    "answered",
    [
        (
            create,
            SOURCE,
            Source(
                id="src_1",
                name="Handbook",
                collections=(Collection(id="col_1", name="House"),),
                status="pending",
                created_at=datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
            ),
            "POST /sources/write",
        ),
        (ask, MESSAGE, Message.model_validate(MESSAGE), "POST /messages"),
        (read, LIST, [Bot(id="x", name="X")], "GET /bots"),
        (lambda c: c.list_collections(), LIST, [Collection(id="x", name="X")], "GET /collections"),
        (
            lambda c: c.list_conversations("bot_1"),
            LIST,
            [Conversation(id="x", name="X")],
            "GET /bots/bot_1/conversations",
        ),
    ],
)
def test_answers_are_read_wrapped_and_bare(call, service, wrapped, answered):
    use, body, result, request_line = answered
    service.answer_next(200, json.dumps({"value": body} if wrapped else body).encode())
    assert call(use, service) == result
    assert [f"{one.method} {one.path}" for one in service.requests] == [request_line]


def test_fields_that_the_interface_does_not_name_are_kept(call, service):
    service.answer_next(200, json.dumps({**SOURCE, "language": "en"}).encode())
    source = call(create, service)
    assert source.language == "en"
    assert source.model_dump(mode="json") == {**SOURCE, "language": "en"}


@pytest.mark.parametrize(
    "headers", [{"Accept-Language": "de"}, [Header(name="Accept-Language", value="de")]]
)
def test_a_web_page_is_sent_with_its_headers(call, service, headers):
    fields = {"name": "Hours", "collections": ["col_1"], "url": "https://example.org/"}
    call(lambda client: client.create_webpage_source(**fields, headers=headers), service)
    (request,) = service.requests
    assert request.path == "/sources/webpage"
    assert request.value == {**fields, "headers": [{"name": "Accept-Language", "value": "de"}]}


@pytest.mark.parametrize("shape", [lambda one: one, lambda one: [one], lambda one: iter([one])])
@pytest.mark.parametrize("one", ["col_1", Collection(id="col_1", name="House")])
def test_collections_are_taken_as_ids_objects_or_one_of_either(client, service, one, shape):
    client.create_text_source(name="n", collections=shape(one), content="c")
    assert service.requests[0].value["collections"] == ["col_1"]


def test_a_post_without_a_key_is_not_sent_and_a_get_is(call, service):
    assert call(read, service, api_key=None)
    with refused("api_key"):
        call(create, service, api_key=None)
    assert [request.method for request in service.requests] == ["GET"]
    assert "x-api-key" not in service.requests[0].headers


def test_the_environment_names_the_service_and_the_key(monkeypatch, service):
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", "https://named.example")
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "from-the-environment")
    with service.standing_in(), Client() as client:
        client.list_bots()
    assert client.base_url == "https://named.example/public/v1"
    assert service.requests[0].headers["x-api-key"] == "from-the-environment"


def test_an_asynchronous_chat_goes_on_in_one_event_loop_after_another(service):
    client = AsyncClient(KEY, "https://service.test", transport=service.async_transport)
    chat = client.chat("bot_1")

    async def two_turns() -> None:
        await asyncio.gather(chat.ask("When do you open?"), chat.ask("And on Sundays?"))

    asyncio.run(two_turns())
    asyncio.run(two_turns())
    assert [*map(len, service.conversations.values())] == [4]


def test_the_log_shows_method_path_status_and_nothing_of_the_content(call, service, caplog):
    with caplog.at_level(logging.DEBUG):
        call(create, service)
    ping, post = (one.getMessage() for one in caplog.records if one.name == "knowledge_bot")
    assert "GET /ping: 200 in" in ping
    assert "POST /sources/write: 200 in" in post
    assert KEY not in caplog.text
    assert "We open at 9" not in caplog.text
