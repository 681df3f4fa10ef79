"""Both clients against every form of answer that the interface shows."""

import asyncio
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
from scripted_server import answer

BOTS = {"data": [{"id": "bot_1", "name": "Guide"}]}


@pytest.fixture(params=["wrapped", "bare"])
def form(request):
    """Either form of an answer: wrapped in `value`, or the bare object."""
    return (lambda body: {"value": body}) if request.param == "wrapped" else (lambda body: body)


def test_a_created_source_is_read_in_both_forms(call, scripted, form):
    server = scripted(answer(body=form(SOURCE)))
    source = call(create, server.url)
    assert source == Source(
        id="src_1",
        name="Handbook",
        collections=(Collection(id="col_1", name="House"),),
        status="pending",
        created_at=datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC),
    )


def test_a_message_is_read_in_both_forms(call, scripted, form):
    server = scripted(answer(body=form(MESSAGE)))
    message = call(ask, server.url)
    assert message == Message.model_validate(MESSAGE)
    assert message.created_at.tzinfo is UTC
    assert server.requests[0].json() == {
        "value": {"bot_id": "bot_1", "content": "When do you open?"}
    }


def test_lists_are_read_in_both_forms(call, scripted, form):
    entry = {"data": [{"id": "x", "name": "X"}]}
    server = scripted(answer(body=form(entry)))
    assert call(lambda client: client.list_bots(), server.url) == [Bot(id="x", name="X")]
    assert call(lambda client: client.list_collections(), server.url) == [
        Collection(id="x", name="X")
    ]
    assert call(lambda client: client.list_conversations("bot_1"), server.url) == [
        Conversation(id="x", name="X")
    ]
    assert [(r.method, r.path) for r in server.requests] == [
        ("GET", "/public/v1/bots"),
        ("GET", "/public/v1/collections"),
        ("GET", "/public/v1/bots/bot_1/conversations"),
    ]


@pytest.mark.parametrize("body", [b"pong", b'"pong"', b"pong\n", b'{"value": "pong"}'])
def test_pong_is_read_as_text_and_as_json(call, scripted, body):
    assert call(lambda client: client.ping(), scripted(on_ping=answer(body=body)).url) is True


def test_fields_that_the_interface_does_not_name_are_kept(call, scripted):
    source = call(create, scripted(answer(body={**SOURCE, "language": "en"})).url)
    assert source.language == "en"
    assert source.model_dump(mode="json") == {**SOURCE, "language": "en"}


def test_a_web_page_is_sent_with_its_headers(call, scripted):
    server = scripted(answer(body=SOURCE))
    for headers in ({"Accept-Language": "de"}, [Header(name="Accept-Language", value="de")]):
        call(
            lambda client, headers=headers: client.create_webpage_source(
                name="Hours", collections=["col_1"], url="https://example.org/", headers=headers
            ),
            server.url,
        )
    for request in server.requests:
        assert request.path == "/public/v1/sources/webpage"
        assert request.json() == {
            "value": {
                "name": "Hours",
                "collections": ["col_1"],
                "url": "https://example.org/",
                "headers": [{"name": "Accept-Language", "value": "de"}],
            }
        }


def test_collections_are_taken_as_ids_objects_or_one_of_either(call, scripted):
    server = scripted(answer(body=SOURCE))
    one = Collection(id="col_1", name="House")
    for collections in ("col_1", one, ["col_1"], [one], ("col_1", one), iter([one])):
        call(
            lambda client, several=collections: client.create_text_source(
                name="n", collections=several, content="c"
            ),
            server.url,
        )
    assert {str(r.json()["value"]["collections"]) for r in server.requests} == {"['col_1']"}


def test_a_post_without_a_key_is_not_sent_and_a_get_is(call, scripted):
    server = scripted(answer(body=BOTS))
    assert call(read, server.url, api_key=None) == [Bot(id="bot_1", name="Guide")]
    with refused("api_key"):
        call(create, server.url, api_key=None)
    assert [request.method for request in server.requests] == ["GET"]
    assert "x-api-key" not in server.requests[0].headers


def test_the_environment_names_the_service_and_the_key(monkeypatch, scripted):
    server = scripted(answer(body=BOTS))
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", server.url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", "from-the-environment")
    with Client() as client:
        client.list_bots()
    assert server.requests[0].headers["x-api-key"] == "from-the-environment"


def test_an_asynchronous_chat_goes_on_in_one_event_loop_after_another(scripted):
    server = scripted(answer(body=MESSAGE))
    client = AsyncClient(KEY, server.url)
    chat = client.chat("bot_1")

    async def two_turns() -> None:
        await asyncio.gather(chat.ask("When do you open?"), chat.ask("And on Sundays?"))

    asyncio.run(two_turns())
    asyncio.run(two_turns())
    sent = [request.json()["value"].get("conversation_id") for request in server.requests]
    assert sent == [None, "conv_1", "conv_1", "conv_1"]


def test_the_log_shows_method_path_status_and_nothing_of_the_content(call, scripted, caplog):
    server = scripted(answer(body=SOURCE))
    with caplog.at_level(logging.DEBUG):
        call(create, server.url)
    lines = [record.getMessage() for record in caplog.records if record.name == "knowledge_bot"]
    assert ["GET /ping: 200 in" in lines[0], "POST /sources/write: 200 in" in lines[1]] == [
        True
    ] * 2
    assert len(lines) == 2
    assert KEY not in caplog.text
    assert "We open at 9" not in caplog.text
