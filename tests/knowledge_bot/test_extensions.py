"""What a service announces, and what the clients then do: keys of idempotency, and sources."""

import asyncio
import contextlib
import json
import logging
import pickle
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calls import KEY, MESSAGE, SOURCE, ask, create, read, upload
from knowledge_bot import (
    APIError,
    Client,
    ConfigurationError,
    ConnectionLostError,
    Delivery,
    NotFoundError,
    PermissionDeniedError,
    PreconditionFailedError,
    ServerError,
    SourceDetails,
    UnexpectedResponseError,
    UnsupportedError,
)
from knowledge_bot._extensions import end_of_life, new_key, spoken
from knowledge_bot.testing import MemoryService, no_waiting
from refusals import refused
from scripted_server import answer, close, raw, reset, then

ALL = "idempotency=1;lifetime=604800, sources=1;manage;rename"
BUSY = {"Retry-After": "0"}
DETAILS = {
    **SOURCE,
    "status": "processing",
    "revision": "r2",
    "ready_revision": "r1",
    "reason": None,
    "warnings": ["page 3 has no text"],
    "ready_at": 1_700_000_000_000,
    "colour": "green",
}
UNKNOWN_SOURCE = answer(404, {"code": "unknown_source", "message": "it is not there"})


def announcing(header=ALL):
    """An answer to a ping."""
    return answer(body="pong", headers={"Knowledge-Bot-Extensions": header} if header else {})


class Echoing:
    """Replies that repeat the request's key, one after the other; the last one repeats."""

    def __init__(self, *replies):
        self.replies, self.keys = replies, []

    def __call__(self, received):
        key = received.headers.get("idempotency-key")
        self.keys.append(key)
        status, body, more = self.replies[min(len(self.keys), len(self.replies)) - 1]
        return answer(status, body, {"Idempotency-Key": key, **more} if key else more)


CREATED = 200, SOURCE, {}
FAILED = 500, {"code": "c", "message": "m"}, {}


@pytest.fixture
def extended(scripted):
    """`extended(*replies, header=…, **options)`: a server that announces extensions."""

    def start(*replies, header=ALL, **options):
        return scripted(*(replies or (answer(body=SOURCE),)), on_ping=announcing(header), **options)

    return start


@pytest.fixture(autouse=True)
def _no_waiting():
    with no_waiting():
        yield


# The announcement ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (ALL, {"idempotency": {"lifetime": 604800}, "sources": {"manage": True, "rename": True}}),
        ("", {}),
        ("sources=2", {}),
        ("sources", {}),  # ?1, which is not the number 1
        ("sources=1.0", {}),
        ("com.example.acl=1;x, sources=1", {"com.example.acl": {"x": True}, "sources": {}}),
        ("sources=1, sources=2", {}),
        ("sources=1;manage=?0", {"sources": {"manage": False}}),
        ("sources=1;d=e/f;i=-1.5", {"sources": {"d": "e/f", "i": -1.5}}),
        (" sources=1 \t,\t a=*b ", {"sources": {}}),
    ],
)
def test_an_announcement_is_a_dictionary_of_structured_fields(header, found):
    assert spoken(header) == found


@pytest.mark.parametrize(
    "header",
    [
        *("sources=1,", ",", "sources=", "Sources=1", "sources =1", "sources= 1", "sources=1 2"),
        *("sources=(1 2)", "sources=1;", "sources=1;A", 'a="b"', "a=?2", "a=1.", "a=:b:", "="),
    ],
)
def test_what_is_none_is_told_once_and_announces_nothing(call, extended, caplog, header):
    with pytest.raises(ValueError):  # noqa: PT011 - said in the log
        spoken(header)
    server = extended(header=header)

    def use(client):
        return client.extensions()

    with caplog.at_level(logging.WARNING, "knowledge_bot"):
        assert call(use, server.url) == {}
    assert len(caplog.records) == 1


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
def test_any_header_is_read_or_refused(header):
    with contextlib.suppress(ValueError):
        assert isinstance(spoken(header), dict)


def test_what_is_announced_is_asked_once_for_all_who_share_the_connections(scripted):
    server = scripted(answer(body={"data": []}), on_ping=announcing())
    with Client(KEY, server.url) as client:
        derived = client.with_options(timeout=9)
        assert client.extensions() == derived.extensions() == client.extensions()
        assert "sources" in client.extensions()
        read(client)
        client.to_async()
        asyncio.run(awaited(client))
        assert len(server.pings) == 1
        with Client(KEY, server.url) as other:
            other.ping()
            other.extensions()
        assert len(server.pings) == 2
        assert pickle.loads(pickle.dumps(client)).extensions() == client.extensions()
        assert len(server.pings) == 3


async def awaited(client):
    async with client.to_async() as twin:
        await twin.extensions()


def test_what_is_announced_cannot_be_changed(extended):
    with Client(KEY, extended().url) as client, pytest.raises(TypeError):
        client.extensions()["sources"]["manage"] = False


@pytest.mark.parametrize(
    ("reply", "asked"),
    [*((answer(status, b"no such page"), 2) for status in (404, 405, 501)), (UNKNOWN_SOURCE, 1)],
)
def test_it_is_asked_again_where_a_path_and_not_a_source_is_not_there(call, extended, reply, asked):
    server = extended(reply)

    async def use(client):
        for _ in range(2):
            with pytest.raises(APIError):
                await result(client.get_source("src_1"))

    call_any(call, use, server.url)
    assert len(server.pings) == asked


def test_a_service_that_cannot_be_asked_is_no_service_without_extensions(call, scripted):
    server = scripted(answer(503), on_ping=answer(503))
    with pytest.raises(ServerError) as caught:
        call(lambda client: client.get_source("src_1"), server.url)
    assert (server.requests, len(server.pings)) == ([], 3)
    assert caught.value.delivery is Delivery.NOT_DELIVERED


async def result(value):
    """What a call of either client returns."""
    return await value if asyncio.iscoroutine(value) else value


def call_any(call, use, url, **options):
    """Call a coroutine function with either client."""

    def run(client):
        coroutine = use(client)
        return coroutine if hasattr(client, "aclose") else asyncio.run(coroutine)

    return call(run, url, **options)


# Keys of idempotency ------------------------------------------------------------------------------


def test_a_key_lives_from_its_birth_and_without_a_lifetime_not_at_all():
    extensions = {"idempotency": {"lifetime": 60}}
    assert abs(end_of_life(new_key(), extensions) - time.time() - 60) < 5
    assert end_of_life("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", extensions) == 1645557742.0 + 60
    assert abs(end_of_life("my-own", extensions) - time.time() - 60) < 5
    assert end_of_life(new_key(), {"idempotency": {"lifetime": "long"}}) <= time.time()


@pytest.mark.parametrize(
    "fault", [500, 502, 503, "lost", "cut short"], ids=lambda fault: str(fault).replace(" ", "_")
)
@pytest.mark.parametrize("use", [create, upload, ask])
def test_what_is_unknown_is_sent_again_with_its_key(call, extended, use, fault):
    seen = []

    def reply(received):
        key = received.headers["idempotency-key"]
        seen.append(key)
        echo = {"Idempotency-Key": f'"{key}"'}
        if len(seen) < 3:
            if fault == "lost":
                return reset
            if fault == "cut short":
                return then(answer(200, SOURCE, echo, length=9999), close)
            return answer(fault)
        return answer(body=MESSAGE if "messages" in received.path else SOURCE, headers=echo)

    server = extended(reply_to=reply)
    assert call(use, server.url).id in ("src_1", "msg_1")
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert uuid.UUID(seen[0]).version == 7


def test_each_call_has_a_key_of_its_own(call, extended):
    replies = Echoing(CREATED)
    server = extended(reply_to=replies)

    async def use(client):
        for _ in range(3):
            await result(create(client))

    call_any(call, use, server.url)
    assert len(set(replies.keys)) == 3
    assert len(server.pings) == 1


def test_where_nothing_is_announced_no_key_is_sent_and_nothing_unknown_is_sent_again(
    call, scripted
):
    server = scripted(answer(500))
    with pytest.raises(ServerError) as caught:
        call(create, server.url)
    (request,) = server.requests
    assert "idempotency-key" not in request.headers
    assert caught.value.idempotency_key is None


@pytest.mark.parametrize(
    "broken", [answer(500), then(raw(b"HTTP/1.1 200 OK\r\n\r\n<html>"), close), reset, answer(302)]
)
def test_a_broken_ping_neither_fails_nor_repeats(call, scripted, broken):
    server = scripted(answer(body=SOURCE), on_ping=broken)

    async def use(client):
        for _ in range(3):
            await result(create(client))

    call_any(call, use, server.url)
    assert (len(server.pings), len(server.requests)) == (1, 3)


def test_what_stays_unknown_has_the_key_to_send_it_again_with(call, extended):
    replies = Echoing(FAILED, FAILED, FAILED, CREATED)
    server = extended(reply_to=replies)
    with pytest.raises(ServerError) as caught:
        call(create, server.url)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.delivery is Delivery.UNKNOWN
    assert error.idempotency_key == replies.keys[0]
    assert error.idempotency_key in str(error)

    def again(client):
        return client.create_text_source(
            name="n", collections="col_1", content="c", idempotency_key=error.idempotency_key
        )

    assert call(again, server.url).id == "src_1"
    assert set(replies.keys) == {error.idempotency_key}


GIVEN = {"idempotency_key": "mine-1"}
WITH_A_KEY = {
    "page": lambda c: c.create_webpage_source(
        name="n", collections="col_1", url="https://h.example", **GIVEN
    ),
    "text": lambda c: c.create_text_source(name="n", collections="col_1", content="c", **GIVEN),
    "file": lambda c: c.upload_source(name="n", collections="col_1", file=b"c", **GIVEN),
    "message": lambda c: c.send_message(bot_id="bot_1", content="?", **GIVEN),
}


@pytest.mark.parametrize("use", WITH_A_KEY)
def test_a_key_of_the_caller_is_sent_as_it_is(call, extended, use):
    replies = Echoing((200, MESSAGE if use == "message" else SOURCE, {}))
    call(WITH_A_KEY[use], extended(reply_to=replies).url)
    assert replies.keys == ["mine-1"]


@pytest.mark.parametrize("key", ["", "a b", 'a"b', "a,b", "ü", "x" * 256, "a\r\nb", 3])
def test_a_key_that_cannot_be_sent_is_refused_before(call, extended, key):
    server = extended()
    with pytest.raises(ConfigurationError, match="idempotency_key"):
        call(lambda c: c.send_message(bot_id="bot_1", content="?", idempotency_key=key), server.url)
    assert (server.requests, server.pings) == ([], [])


@pytest.mark.parametrize("echo", [{}, {"Idempotency-Key": "another"}])
def test_a_service_that_ignores_a_key_gets_no_more(call, extended, caplog, echo):
    lied = 200, SOURCE, echo
    seen = []

    def reply(received):
        seen.append(received.headers.get("idempotency-key"))
        return answer(*(lied if len(seen) < 3 else FAILED))

    server = extended(reply_to=reply)

    async def use(client):
        await result(create(client))
        assert "idempotency" not in await result(client.extensions())
        await result(create(client))
        with pytest.raises(ServerError) as caught:
            await result(create(client))
        assert caught.value.idempotency_key is None

    with caplog.at_level(logging.WARNING, "knowledge_bot"):
        call_any(call, use, server.url)
    assert seen[1:] == [None, None]
    assert len(caplog.records) == 1


def test_an_answer_that_cannot_be_read_and_names_no_key_is_not_asked_for_again(call, extended):
    server = extended(answer(body=b"{"))
    with pytest.raises(UnexpectedResponseError) as caught:
        call(create, server.url)
    assert len(server.requests) == 1
    assert caught.value.idempotency_key is None


def refusal(status, code, headers=None):
    return status, {"code": code, "message": "m"}, headers or {}


IN_USE = refusal(409, "idempotency_key_in_use", BUSY)
UNSEEN = refusal(401, "unauthorized")  # before the key was looked at
EXPIRED = refusal(412, "idempotency_key_expired")
REUSED = refusal(422, "idempotency_key_reused")
INVALID = refusal(400, "invalid_request")  # the key counted, and nothing was done with it
CONFLICT = refusal(409, "conflict", BUSY)


@pytest.mark.parametrize(
    ("replies", "ended", "sent"),
    [
        ((IN_USE, IN_USE, CREATED), None, 3),
        ((IN_USE,), (409, Delivery.UNKNOWN), 3),
        ((CONFLICT,), (409, Delivery.REFUSED), 1),
        *(((one,), (one[0], Delivery.REFUSED), 1) for one in (INVALID, UNSEEN, EXPIRED, REUSED)),
        ((FAILED, INVALID), (400, Delivery.REFUSED), 2),
        *(((FAILED, one), (one[0], Delivery.UNKNOWN), 2) for one in (UNSEEN, EXPIRED, REUSED)),
    ],
)
def test_what_becomes_of_a_request_with_a_key(call, extended, replies, ended, sent):
    answers = Echoing(*replies)
    url = extended(reply_to=answers).url
    if ended is None:
        assert call(create, url).id == "src_1"
    else:
        with pytest.raises(APIError) as caught:
            call(create, url)
        assert (caught.value.status_code, caught.value.delivery) == ended
    assert (len(answers.keys), len(set(answers.keys))) == (sent, 1)


def test_nothing_is_sent_again_when_its_key_has_expired(call, extended):
    replies = Echoing(FAILED)
    with pytest.raises(ServerError):
        call(create, extended(reply_to=replies, header="idempotency=1;lifetime=0").url)
    assert len(replies.keys) == 1


@pytest.mark.parametrize("later", ["refuse_next_connection", "fail_next"])
def test_an_attempt_that_got_nowhere_does_not_settle_the_one_before_it(memory, client, later):
    memory.lose_next_answer()
    if later == "fail_next":
        memory.fail_next(429, times=2)
    else:
        memory.refuse_next_connection(times=2)
    with pytest.raises(ConnectionLostError) as caught:
        add(client)
    assert caught.value.delivery is Delivery.UNKNOWN
    assert add(client, idempotency_key=caught.value.idempotency_key).id == memory.sources[0]["id"]
    assert len(memory.sources) == 1


def test_a_mock_that_knows_no_ping_answers_a_post():
    class Mock:
        def send(self, request):
            assert request.method == "POST"
            from knowledge_bot import HTTPResponse

            return HTTPResponse(200, {}, json.dumps(SOURCE).encode())

        def close(self): ...

    assert create(Client(KEY, "https://service.test", transport=Mock())).id == "src_1"


# Sources ------------------------------------------------------------------------------------------

REPLACING = {
    "text": (lambda c, **o: c.replace_source("src_1", content="new", **o), "write"),
    "page": (lambda c, **o: c.replace_source("src_1", url="https://h.example", **o), "webpage"),
    "file": (lambda c, **o: c.replace_source("src_1", file=b"new", filename="a.md", **o), "upload"),
}
WHERE = {"name": "n", "collections": "col_1"}
MANAGED = {
    "list": lambda c: listed(c.list_sources()),
    "get": lambda c: c.get_source("src_1"),
    "replace": lambda c: c.replace_source("src_1", content="c", **WHERE),
    "rename": lambda c: c.replace_source("src_1", name="n"),
    "delete": lambda c: c.delete_source("src_1"),
}


def listed(pages):
    """All of an iterator of either client."""
    if not hasattr(pages, "__aiter__"):
        return list(pages)

    async def all_of_them():
        return [one async for one in pages]

    return all_of_them()


SEARCHING = {
    "search": lambda c: c.search("When?"),
    "get passage": lambda c: c.get_passage("pas_1"),
}


@pytest.mark.parametrize(
    ("use", "header"),
    [
        *((use, "") for use in MANAGED),
        *((use, "sources=1;rename") for use in ("replace", "rename", "delete")),
        ("replace", "sources=1;manage=?0"),
        ("rename", "sources=1;manage"),
        *((use, "idempotency=1;lifetime=600, sources=1;manage") for use in SEARCHING),
        ("text", "sources=1;manage"),
    ],
)
def test_what_is_not_announced_is_not_sent(call, extended, use, header):
    server = extended(answer(body=DETAILS), header=header)
    with pytest.raises(UnsupportedError) as caught:
        call({**MANAGED, **SEARCHING, **WITH_A_KEY}[use], server.url)
    assert caught.value.delivery is Delivery.NOT_DELIVERED
    assert server.requests == []


def test_a_source_has_its_state(call, extended):
    server = extended(answer(body={"value": DETAILS}))
    found = call(MANAGED["get"], server.url)
    assert isinstance(found, SourceDetails)
    assert (found.status, found.revision, found.ready_revision) == ("processing", "r2", "r1")
    assert (found.warnings, found.ready_at.timestamp()) == (("page 3 has no text",), 1_700_000_000)
    assert found.model_extra == {"colour": "green"}
    assert server.requests[0].path == "/public/v1/sources/src_1"


@pytest.mark.parametrize("fields", [SOURCE, {**SOURCE, "warnings": None}])
def test_a_state_of_which_nothing_is_said_is_read(call, extended, fields):
    found = call(MANAGED["get"], extended(answer(body=fields)).url)
    assert (found.revision, found.reason, found.warnings, found.ready_at) == (None, None, (), None)


def test_sources_are_listed_page_by_page(call, extended):
    def page(number, following):
        one = {**DETAILS, "id": f"src_{number}"}
        return answer(body={"value": {"data": [one], "next": following}})

    server = extended(page(3, "a&b"), page(2, "c"), page(1, None))

    def use(client):
        return listed(
            client.list_sources(name="a b", status=("ready", "failed"), collection=["col_1"])
        )

    assert [one.id for one in call(use, server.url)] == ["src_3", "src_2", "src_1"]
    first = "/public/v1/sources?limit=500&name=a+b&status=ready&status=failed&collection=col_1"
    assert [request.path for request in server.requests] == [
        first,
        f"{first}&before=a%26b",
        f"{first}&before=c",
    ]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"status": ""}, "status"),
        ({"status": 3}, "status"),
        ({"collection": "bot_1"}, "collection"),
    ],
    ids=str,
)
def test_a_filter_that_cannot_be_sent_is_refused_before_the_first_page(extended, wrong, named):
    with Client(KEY, extended().url) as client, refused(named):
        client.list_sources(**wrong)


@pytest.mark.parametrize("kind", REPLACING)
def test_a_source_is_replaced_in_place(call, extended, kind):
    use, path = REPLACING[kind]
    server = extended(answer(body=DETAILS))
    assert call(lambda c: use(c, revision="r1", **WHERE), server.url).revision == "r2"
    (request,) = server.requests
    assert (request.method, request.path) == ("PUT", f"/public/v1/sources/src_1/{path}")
    assert request.headers["if-match"] == '"r1"'
    assert "idempotency-key" not in request.headers


def test_it_is_renamed_where_nothing_else_is_given(call, extended):
    server = extended(answer(body=DETAILS))
    call(MANAGED["rename"], server.url)
    (request,) = server.requests
    assert (request.method, request.path) == ("PATCH", "/public/v1/sources/src_1")
    assert request.json() == {"value": {"name": "n"}}
    assert "if-match" not in request.headers


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"content": "c", "url": "https://h.example", **WHERE}, "content"),
        ({"content": "c", "name": "n"}, "collections"),
        (WHERE, "collections"),
        ({"name": ""}, "name"),
        ({"name": "n", "revision": 'a"b'}, "revision"),
    ],
)
def test_what_cannot_be_meant_is_refused_before(call, extended, arguments, named):
    server = extended()
    with refused(named):
        call(lambda c: c.replace_source("src_1", **arguments), server.url)
    assert (server.requests, server.pings) == ([], [])


def test_deleting_what_is_not_there_is_done(call, extended):
    assert call(MANAGED["delete"], extended(UNKNOWN_SOURCE).url) is None


@pytest.mark.parametrize("status", [404, 410, 403, 500])
def test_deleting_is_not_done_by_what_somebody_else_says(call, extended, status):
    server = extended(answer(status, b"<h1>Not here</h1>"))
    with pytest.raises(APIError) as caught:
        call(MANAGED["delete"], server.url)
    assert isinstance(
        caught.value, {404: NotFoundError, 403: PermissionDeniedError}.get(status, APIError)
    )
    assert len(server.requests) == (3 if status == 500 else 1)


@pytest.mark.parametrize("use", ["replace", "rename", "delete"])
@pytest.mark.parametrize("fault", [reset, answer(503)])
def test_what_has_no_second_effect_is_sent_again(call, extended, use, fault):
    server = extended(fault, fault, answer(200, DETAILS))
    call(MANAGED[use], server.url)
    assert len(server.requests) == 3


def test_another_revision_is_told_and_after_a_lost_answer_it_may_be_ours(call, extended):
    changed = answer(412, {"code": "revision_changed", "message": "m"})

    def use(client):
        return client.replace_source("src_1", content="c", revision="r1", **WHERE)

    for replies, delivery in (
        ((changed,), Delivery.REFUSED),
        ((reset, changed), Delivery.UNKNOWN),
    ):
        with pytest.raises(PreconditionFailedError) as caught:
            call(use, extended(*replies).url)
        assert (caught.value.delivery, caught.value.code) == (delivery, "revision_changed")


@pytest.mark.parametrize("use", ["replace", "rename", "delete"])
def test_nothing_is_changed_without_an_api_key(call, extended, monkeypatch, use):
    monkeypatch.delenv("KNOWLEDGE_BOT_API_KEY", raising=False)
    server = extended(answer(body=DETAILS))
    with refused("api_key"):
        call(MANAGED[use], server.url, api_key=None)
    assert (server.requests, server.pings) == ([], [])


# From memory --------------------------------------------------------------------------------------


@pytest.fixture
def memory():
    return MemoryService(extensions={"idempotency", "sources"})


@pytest.fixture
def client(memory):
    return Client("k", "https://service.test", transport=memory.transport)


def add(client, name="Hours", **options):
    return client.create_text_source(
        name=name, collections="col_default", content="At nine.", **options
    )


def test_without_extensions_a_service_from_memory_has_none():
    service = MemoryService()
    client = Client("k", "https://service.test", transport=service.transport)
    assert client.extensions() == {}
    with pytest.raises(UnsupportedError):
        client.delete_source(add(client).id)
    with pytest.raises(ConfigurationError):
        MemoryService(extensions={"telepathy"})


@pytest.mark.parametrize("interrupted", ["GET", "POST"])
def test_an_interruption_leaves_uncertain_what_was_posted_alone_and_names_its_key(
    memory, interrupted
):
    class Interrupted:
        def send(self, request):
            if request.method == interrupted:
                raise KeyboardInterrupt
            return memory.transport.send(request)

        def close(self): ...

    with pytest.raises(KeyboardInterrupt) as caught:
        create(Client(KEY, "https://service.test", transport=Interrupted()))
    (note,) = caught.value.__notes__
    assert "POST /sources/write" in note
    if interrupted == "GET":  # what the service announces is asked first
        assert caught.value.delivery is Delivery.NOT_DELIVERED
    else:
        assert caught.value.delivery is Delivery.UNKNOWN
        assert caught.value.idempotency_key in note


# Passages -----------------------------------------------------------------------------------------

PASSAGE = {
    "id": "pas_1",
    "source_id": "src_1",
    "name": "Handbook",
    "url": None,
    "revision": "r1",
    "text": "At nine.",
    "score": 1.5,
    "found": True,
}


@pytest.fixture
def searchable(extended):
    return lambda *replies: extended(*replies, header="passages=1")


def test_passages_are_found(call, searchable):
    server = searchable(answer(body={"value": {"data": [PASSAGE]}}))
    (found,) = call(
        lambda c: c.search("When?", collections=["col_1", "col_2"], limit=3), server.url
    )
    assert (found.id, found.text, found.score, found.name) == ("pas_1", "At nine.", 1.5, "Handbook")
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/public/v1/search")
    fields = {"query": "When?", "limit": 3, "collections": ["col_1", "col_2"]}
    assert request.json() == {"value": fields}
    assert "idempotency-key" not in request.headers


def test_a_passage_is_read_and_one_that_is_gone_is_not_there(call, searchable):
    gone = answer(404, {"code": "unknown_passage", "message": "m"})
    server = searchable(answer(body={**PASSAGE, "score": None}), gone)
    assert call(SEARCHING["get passage"], server.url).score is None
    with pytest.raises(NotFoundError):
        call(SEARCHING["get passage"], server.url)
    assert [request.path for request in server.requests] == ["/public/v1/passages/pas_1"] * 2


@pytest.mark.parametrize("use", SEARCHING)
@pytest.mark.parametrize("fault", [answer(502), close], ids=["502", "closed"])
def test_a_search_changes_nothing_and_is_sent_again(call, searchable, use, fault):
    found = [PASSAGE] if use == "search" else PASSAGE
    server = searchable(fault, answer(body={"data": found} if use == "search" else found))
    assert call(SEARCHING[use], server.url)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        *({"query": ""}, {"limit": 0}, {"limit": 41}, {"bot_id": "col_1"}),
        {"collections": "bot_1"},
    ],
    ids=str,
)
def test_a_search_that_cannot_be_sent_is_refused_before(call, searchable, wrong):
    server = searchable()
    with refused(*wrong):
        call(lambda c: c.search(**{"query": "x", **wrong}), server.url)
    assert server.requests == []


def test_the_service_from_memory_finds_what_was_added():
    memory = MemoryService(extensions={"passages"})
    with Client(KEY, "https://service.test", transport=memory.transport) as client:
        source = client.create_text_source(name="n", collections="col_default", content="At nine.")
        (found,) = client.search("At which hour?")
        assert (found.source_id, found.text) == (source.id, "At nine.")
        assert client.get_passage(found.id).text == "At nine."
        assert client.search("Something else") == []
