"""The API key appears in nothing that a person or a log collector reads."""

import asyncio
import logging
import pickle
import traceback

import pytest

from calls import KEY, SOURCE, ask, create, upload
from http_libraries import CLIENTS
from knowledge_bot import AsyncClient, Client, Delivery, KnowledgeBotError
from knowledge_bot.conversations import Heads
from scripted_server import answer, close, reset, silence
from waiting import until_awaited

REPLIES = {
    "closed": close,
    "reset": reset,
    "silent": silence,
    "500": answer(500),
    "401 that repeats the key": answer(401, {"message": f"unknown key {KEY}"}),
    "200 that repeats the request": answer(body={"headers": {"X-API-KEY": KEY}}),
    "redirect": answer(302, headers={"Location": "/elsewhere"}),
    "junk": answer(body=b"junk"),
}


def shown_by(error: BaseException, *, frames: bool = True) -> str:
    """All that an error and its causes show, with the locals of every frame but the tests'."""
    shown = []
    behind: BaseException | None = error
    while behind is not None:
        shown += [
            str(behind),
            repr(behind),
            repr(vars(behind)),
            repr(getattr(behind, "__notes__", "")),
            repr(pickle.dumps(behind)),
        ]
        for frame, _ in traceback.walk_tb(behind.__traceback__ if frames else None):
            if "tests" not in frame.f_code.co_filename:
                shown += [f"{name}={value!r}" for name, value in frame.f_locals.items()]
        behind = behind.__cause__ or behind.__context__
    return "\n".join(shown)


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("use", [create, upload])
def test_the_key_is_in_no_error_no_traceback_and_no_log(call, scripted, caplog, use, reply):
    server = scripted(REPLIES[reply])
    with caplog.at_level(1), pytest.raises(KnowledgeBotError) as caught:
        call(use, server.url, timeout=0.4 if reply == "silent" else 20, max_retries=0)
    shown = shown_by(caught.value)
    assert "POST /sources" in shown
    assert KEY not in shown
    assert {"knowledge_bot"} <= {record.name.partition(".")[0] for record in caplog.records}
    assert KEY not in caplog.text


TOLD = "token-of-a-gateway"


def scrape(client):
    headers = {"Authorization": f"Bearer {TOLD}", "X-Tenant": "1"}
    url = "https://example.org/1"
    return client.create_webpage_source(name="1", collections="col_1", url=url, headers=headers)


@pytest.mark.parametrize("use", [create, scrape])
@pytest.mark.parametrize("reply", [400, 502, 302, 200])
def test_nor_is_what_a_header_says_where_the_service_repeats_it(call, scripted, caplog, use, reply):
    headers = {"X-Gateway": TOLD} if use is create else None
    said = f"1 page, not with Bearer {TOLD}"
    server = scripted(answer(reply, {"message": said}, headers={"Location": f"/{TOLD}"}))
    with caplog.at_level(1), pytest.raises(KnowledgeBotError) as caught:
        call(use, server.url, headers=headers, max_retries=0)
    sent = server.requests[0]
    assert TOLD in f"{sent.headers}{sent.body}"
    assert TOLD not in shown_by(caught.value, frames=use is create)  # the caller's own argument
    ours = [record for record in caplog.records if record.name.startswith("knowledge_bot")]
    assert TOLD not in "".join(record.getMessage() for record in ours)
    if reply == 400:
        assert caught.value.message == "1 page, not with Bearer ***"


async def create_and_upload(kind, url):
    ours, theirs = CLIENTS[kind]
    if ours is Client:
        with theirs() as http_client:
            client = Client(KEY, url, http_client=http_client)
            create(client)
            upload(client)
    else:
        async with theirs() as http_client:
            client = AsyncClient(KEY, url, http_client=http_client)
            await create(client)
            await upload(client)


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("reply", ["closed", "401 that repeats the key"])
def test_nor_over_the_http_client_of_a_user(scripted, caplog, kind, reply):
    server = scripted(answer(body=SOURCE), REPLIES[reply])
    with caplog.at_level(1), pytest.raises(KnowledgeBotError) as caught:
        asyncio.run(create_and_upload(kind, server.url))
    assert len(server.requests) == 2
    assert KEY not in shown_by(caught.value)
    assert len({record.name.partition(".")[0] for record in caplog.records}) >= 3
    assert KEY not in caplog.text


async def test_nor_in_what_a_cancelled_call_leaves_behind_which_the_service_may_have_acted_on(
    scripted,
):
    server = scripted(silence)
    async with AsyncClient(KEY, server.url) as client:
        asking = asyncio.create_task(ask(client))
        assert await until_awaited(lambda: server.requests)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await asking
    assert vars(caught.value)["delivery"] is Delivery.UNKNOWN
    assert "POST /messages was under way" in shown_by(caught.value)
    assert KEY not in shown_by(caught.value)


def shown_in(thing, seen=()):
    """What a debugger shows of an object and of all objects of ours below it."""
    yield from (repr(thing), str(thing))
    names = [*getattr(thing, "__dict__", ()), *getattr(thing, "__slots__", ())]
    for below in (getattr(thing, name) for name in names):
        yield repr(below)
        ours = type(below).__module__.startswith("knowledge_bot")
        if ours and not any(below is one for one in seen):
            yield from shown_in(below, (*seen, thing))


def test_nor_in_what_a_client_shows_of_itself(scripted):
    server = scripted(answer(body=SOURCE))
    with Client(KEY, server.url) as client:
        create(client)
        derived = client.with_options(timeout=1)
        for thing in (client, derived, client.chat("bot_1"), client.to_async()):
            assert KEY not in "".join(shown_in(thing))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at https://me:word@h/a", "at https://***@h/a"),
        ("'//me:word@h/a' is not absolute", "'//***@h/a' is not absolute"),
        ("postgresql+psycopg://me:w%40rd@h:1/db", "postgresql+psycopg://***@h:1/db"),
        ("https://h//@someone/a@b", "https://h//@someone/a@b"),
        ("mail me@h // or you@h", "mail me@h // or you@h"),
    ],
)
def test_no_error_shows_the_login_of_an_address(text, shown):
    assert str(KnowledgeBotError(text)) == f"{shown}."


def test_no_database_shows_its_password():
    heads = Heads("postgresql://me:word@127.0.0.1:1/db")
    assert "me" in heads._store._session._database.url
    assert "word" not in repr(heads) + repr(heads._store._session._database)


def test_the_planted_key_would_be_found(caplog):
    with caplog.at_level(logging.INFO):
        logging.getLogger("somebody").info("the key is %s", KEY)
    assert KEY in caplog.text
    assert KEY in shown_by(ValueError(KEY))
