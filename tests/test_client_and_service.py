"""The client against the embedded service: the interface from both ends."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from in_process import OnAPort
from knowledge_bot import AsyncClient, Client
from knowledge_bot_service import LocalService
from page_server import answer, serving

FACT = "The library of Tavo opens at nine on Saturdays."
QUESTION = "When does the library of Tavo open on Saturdays?"


@pytest.fixture(scope="module")
def service():
    with OnAPort(allow_fetch=["127.0.0.1/32"]) as running:
        yield running


@pytest.fixture(params=["sync", "async"])
def use(request, service) -> Callable[..., Any]:
    """`use(call, **options)`: the result of `call(client)` on either client of the service."""

    def run(call: Callable[[Any], Any], **options: Any) -> Any:
        given = {"api_key": service.api_key, "base_url": service.base_url, **options}
        if request.param == "sync":
            with Client(**given) as client:
                return call(client)

        async def main() -> Any:
            async with AsyncClient(**given) as client:
                return await call(client)

        return asyncio.run(main())

    return run


@pytest.fixture
def site():
    """A page about the hours."""
    text = f"<html><title>Hours</title><body><main><p>{FACT}</p></main></body></html>"
    with serving() as server:
        server.answers["/hours.html"] = answer(text.encode())
        yield server.url()


def status_of(service, source):
    service.wait_until_ready()
    return next((one.status, one.reason) for one in service.sources() if one.id == source)


def test_every_endpoint_is_understood_at_both_ends(use, service, site, tmp_path):
    assert use(lambda client: client.ping()) is True
    (collection,) = use(lambda client: client.list_collections())
    (bot,) = use(lambda client: client.list_bots())
    (tmp_path / "hours.txt").write_text(FACT)
    created = [
        use(lambda c: c.create_text_source(name="Text", collections=collection, content=FACT)),
        use(
            lambda c: c.create_webpage_source(
                name="Page",
                collections=[collection],
                url=f"{site}hours.html",
                headers={"Accept-Language": "en"},
            )
        ),
        *(
            use(
                lambda c: c.upload_source(
                    name="File", collections=collection.id, file=tmp_path / "hours.txt"
                ),
                upload_encoding=encoding,
            )
            for encoding in ("value", "fields")
        ),
    ]
    for source in created:
        assert source.status == "pending"
        assert source.collections == (collection,)
        assert status_of(service, source.id) == ("ready", None)

    message = use(lambda c: c.send_message(bot_id=bot.id, content=QUESTION))
    assert "nine" in message.answer
    more = use(
        lambda c: c.send_message(
            bot_id=bot.id, content="And where?", conversation_id=message.conversation_id
        )
    )
    assert more.conversation_id == message.conversation_id
    conversations = use(lambda client: client.list_conversations(bot.id))
    assert message.conversation_id in [conversation.id for conversation in conversations]


@pytest.mark.slow
def test_a_source_that_was_accepted_becomes_ready_although_the_service_is_killed(tmp_path):
    with LocalService(tmp_path) as service:
        with Client(service.api_key, service.base_url) as client:
            accepted = [
                client.create_text_source(
                    name=f"Text {n}", collections="col_default", content=f"{FACT} {n}"
                )
                for n in range(20)
            ]
        service.kill()
        service.start()
        service.wait_until_ready()
        states = {one.id: one.status for one in service.sources()}
        assert states == {source.id: "ready" for source in accepted}
        with Client(service.api_key, service.base_url) as client:
            assert "nine" in client.send_message(bot_id="bot_default", content=QUESTION).answer
