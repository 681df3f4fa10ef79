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

from calls import KEY, SOURCE, ask, create, passage, read, settled, upload
from knowledge_bot import (
    APIError,
    AsyncClient,
    Client,
    ConnectionLostError,
    Delivery,
    HTTPResponse,
    NotFoundError,
    PermissionDeniedError,
    RequestTimeoutError,
    ServerError,
    SourceDetails,
    UnexpectedResponseError,
    UnsupportedError,
)
from knowledge_bot._extensions import end_of_life, keeps_book_for_others, new_key, spoken
from knowledge_bot.testing import MemoryService, no_waiting
from refusals import refused
from served import served

ALL = "idempotency=1;lifetime=604800, sources=1;manage"
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


def announcing(header, *answers):
    """A service that announces this and answers with statuses and bodies; the last one repeats."""
    service = MemoryService(bots={"bot_1": {}}, collections=["col_1", "col_2"])
    service.announcement = header
    for number, (status, body, *headers) in enumerate(answers, 1):
        times = 1 if number < len(answers) else None
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        service.answer_next(status, content, *headers, times=times)
    return service


@pytest.fixture
def keyed():
    """A service that takes keys."""
    return MemoryService(
        bots={"bot_1": {}}, collections=["col_1"], extensions={"idempotency", "sources"}
    )


def keys_of(service):
    return [one.headers.get("idempotency-key") for one in service.requests]


@pytest.fixture(autouse=True)
def _no_waiting():
    with no_waiting():
        yield


# The announcement ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (ALL, {"idempotency": {"lifetime": 604800}, "sources": {"manage": True}}),
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
def test_what_is_none_is_told_once_and_announces_nothing(call, caplog, header):
    async def use(client):
        for _ in range(2):
            assert await settled(client.extensions()) == {}
            await settled(client.ping())

    with caplog.at_level(logging.WARNING, "knowledge_bot"):
        call(use, announcing(header))
    assert len(caplog.records) == 1


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
def test_any_header_is_read_or_refused(header):
    with contextlib.suppress(ValueError):
        assert isinstance(spoken(header), dict)


@pytest.mark.parametrize("kinds", [(Client, Client), (Client, AsyncClient)])
async def test_a_process_asks_once_for_all_clients_of_an_address_and_a_key(keyed, kinds):
    with served(keyed) as url:
        for key in (KEY, KEY, "another-key"):
            for kind in kinds:
                await settled(ask(kind(key, url)))
    assert len(keyed.pings) == 2


@pytest.mark.parametrize(
    ("header", "for_others"),
    [
        ("", False),
        ("idempotency=1;lifetime=604800", False),
        ("sources=1", True),
        ("sources=1;manage", False),  # to it all is announced that there is
        ("sources=1;manage, sync=1", False),
        ("sources=1, sync=1", False),
    ],
)
def test_a_book_that_another_key_may_be_told_of_is_known_by_the_rights_of_this_one(
    header, for_others
):
    assert keeps_book_for_others(spoken(header)) is for_others


def test_what_is_announced_is_asked_once_for_all_who_share_the_connections(keyed):
    def make():
        return Client(KEY, "https://service.test")

    async def awaited(client):
        async with client.to_async() as twin:
            await twin.extensions()

    with keyed.standing_in(), make() as client:
        derived = client.with_options(timeout=9)
        assert client.extensions() == derived.extensions() == client.extensions()
        assert "sources" in client.extensions()
        read(client)
        asyncio.run(awaited(client))
        assert len(keyed.pings) == 1
        with make() as other:
            other.ping()
            other.extensions()
        assert len(keyed.pings) == 2
        assert pickle.loads(pickle.dumps(client)).extensions() == client.extensions()
        assert len(keyed.pings) == 3


def test_what_is_announced_cannot_be_changed(keyed, call):
    with pytest.raises(TypeError):
        call(lambda client: client.extensions(), keyed)["sources"]["manage"] = False


UNKNOWN_SOURCE = 404, {"code": "unknown_source", "message": "it is not there"}


@pytest.mark.parametrize(
    ("reply", "asked"),
    [*(((status, b"no such page"), 2) for status in (404, 405, 501)), (UNKNOWN_SOURCE, 1)],
)
def test_it_is_asked_again_where_a_path_and_not_a_source_is_not_there(call, reply, asked):
    async def use(client):
        for _ in range(2):
            with pytest.raises(APIError):
                await settled(client.get_source("src_1"))

    service = announcing(ALL, reply)
    call(use, service)
    assert len(service.pings) == asked


def test_a_service_that_cannot_be_asked_is_no_service_without_extensions(call, keyed):
    keyed.fail_next(503, times=None, where=lambda request: request.is_ping)
    with pytest.raises(ServerError) as caught:
        call(lambda client: client.get_source("src_1"), keyed)
    assert (keyed.requests, len(keyed.pings)) == ([], 3)
    assert caught.value.delivery is Delivery.NOT_DELIVERED


# Keys of idempotency ------------------------------------------------------------------------------


def test_a_key_lives_from_its_birth_and_without_a_lifetime_not_at_all():
    extensions = {"idempotency": {"lifetime": 60}}
    assert abs(end_of_life(new_key(), extensions) - time.time() - 60) < 5
    assert end_of_life("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", extensions) == 1645557742.0 + 60
    assert abs(end_of_life("my-own", extensions) - time.time() - 60) < 5
    assert end_of_life(new_key(), {"idempotency": {"lifetime": "long"}}) <= time.time()


@pytest.mark.parametrize("fault", [500, 502, 503, "lose_next_answer", "time_out_next"])
@pytest.mark.parametrize("use", [create, upload, ask])
def test_what_is_unknown_is_sent_again_with_its_key(call, keyed, use, fault):
    if isinstance(fault, int):
        keyed.fail_next(fault, times=2)
    else:
        getattr(keyed, fault)(times=2)
    call(use, keyed)
    (key,) = {*keys_of(keyed)}
    assert (len(keyed.requests), uuid.UUID(key).version) == (3, 7)
    assert len(keyed.sources) + len(keyed.conversations) == 1


def test_each_call_has_a_key_of_its_own(call, keyed):
    async def use(client):
        for _ in range(3):
            await settled(create(client))

    call(use, keyed)
    assert len({*keys_of(keyed)}) == len(keyed.sources) == 3
    assert len(keyed.pings) == 1


def test_where_nothing_is_announced_no_key_is_sent_and_nothing_unknown_is_sent_again(call, service):
    service.fail_next(500)
    with pytest.raises(ServerError) as caught:
        call(create, service)
    assert (keys_of(service), caught.value.idempotency_key) == ([None], None)


@pytest.mark.parametrize("broken", [(500, b""), (200, b"<html>"), (302, b"")])
def test_a_broken_ping_neither_fails_nor_repeats(call, service, broken):
    async def use(client):
        for _ in range(3):
            await settled(create(client))

    service.answer_next(*broken, times=None, where=lambda request: request.is_ping)
    call(use, service)
    assert (len(service.pings), len(service.requests)) == (1, 3)


def test_what_stays_unknown_has_the_key_to_send_it_again_with(call, keyed):
    keyed.time_out_next(acts=True, times=3)
    with pytest.raises(RequestTimeoutError) as caught:
        call(create, keyed)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.delivery is Delivery.UNKNOWN
    assert {error.idempotency_key} == {*keys_of(keyed)}
    assert error.idempotency_key in str(error)

    def again(client):
        return client.create_text_source(
            name="Handbook",
            collections="col_1",
            content="We open at 9.",
            idempotency_key=error.idempotency_key,
        )

    assert call(again, keyed).id == keyed.sources[0]["id"]
    assert len(keyed.sources) == 1


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
def test_a_key_of_the_caller_is_sent_as_it_is(call, keyed, use):
    call(WITH_A_KEY[use], keyed)
    assert keys_of(keyed) == ["mine-1"]


@pytest.mark.parametrize("key", ["", "a b", 'a"b', "a,b", "ü", "x" * 256, "a\r\nb", 3])
def test_a_key_that_cannot_be_sent_is_refused_before(call, keyed, key):
    with refused("idempotency_key"):
        call(lambda c: c.send_message(bot_id="bot_1", content="?", idempotency_key=key), keyed)
    assert (keyed.requests, keyed.pings) == ([], [])


@pytest.mark.parametrize("echo", [{}, {"Idempotency-Key": "another"}])
def test_a_service_that_ignores_a_key_gets_no_more(call, caplog, echo):
    lied = 200, SOURCE, echo
    service = announcing(ALL, lied, lied, (500, {}))

    async def use(client):
        await settled(create(client))
        assert "idempotency" not in await settled(client.extensions())
        await settled(create(client))
        with pytest.raises(ServerError) as caught:
            await settled(create(client))
        assert caught.value.idempotency_key is None

    with caplog.at_level(logging.WARNING, "knowledge_bot"):
        call(use, service)
    assert keys_of(service)[1:] == [None, None]
    assert len(caplog.records) == 1


def test_an_answer_that_cannot_be_read_and_names_no_key_is_not_asked_for_again(call):
    service = announcing(ALL, (200, b"{"))

    async def use(client):
        with pytest.raises(UnexpectedResponseError) as caught:
            await settled(create(client))
        assert (len(service.requests), caught.value.idempotency_key) == (1, None)
        # It may be a page of a proxy: of the service it says nothing.
        assert "idempotency" in await settled(client.extensions())

    call(use, service)


# What the first requests are answered with, and how the call ends after how many.
IN_USE = 409, "idempotency_key_in_use"
UNSEEN = 401, "unauthorized"  # before the key was looked at
EXPIRED, REUSED = (412, "idempotency_key_expired"), (422, "idempotency_key_reused")
INVALID = 400, "invalid_request"  # the key counted, and nothing was done with it
FAILED = 500, "c"


@pytest.mark.parametrize(
    ("faults", "ended", "sent"),
    [
        ((IN_USE, IN_USE), None, 3),
        ((IN_USE,) * 3, (409, Delivery.UNKNOWN), 3),
        (((409, "conflict"),), (409, Delivery.REFUSED), 1),
        *(((one,), (one[0], Delivery.REFUSED), 1) for one in (INVALID, UNSEEN, EXPIRED, REUSED)),
        ((FAILED, INVALID), (400, Delivery.REFUSED), 2),
        *(((FAILED, one), (one[0], Delivery.UNKNOWN), 2) for one in (UNSEEN, EXPIRED, REUSED)),
    ],
)
def test_what_becomes_of_a_request_with_a_key(call, keyed, faults, ended, sent):
    for status, code in faults:
        body = json.dumps({"code": code, "message": "m", "id": "src_7"}).encode()
        keyed.answer_next(status, body, {"Idempotency-Key": "mine-1", "Retry-After": "0"})
    use = WITH_A_KEY["text"]
    if ended is None:
        assert call(use, keyed).id
    else:
        with pytest.raises(APIError) as caught:
            call(use, keyed)
        assert (caught.value.status_code, caught.value.delivery) == ended
        # Only there is it what the first request with the key made.
        assert caught.value.created_id == ("src_7" if faults[-1] == REUSED else None)
    assert keys_of(keyed) == ["mine-1"] * sent


def test_nothing_is_sent_again_when_its_key_has_expired(call, keyed):
    keyed.announcement = "idempotency=1;lifetime=0"
    keyed.fail_next(500)
    with pytest.raises(ServerError):
        call(create, keyed)
    assert len(keyed.requests) == 1


@pytest.mark.parametrize("later", ["refuse_next_connection", "fail_next"])
def test_an_attempt_that_got_nowhere_does_not_settle_the_one_before_it(call, keyed, later):
    keyed.lose_next_answer()
    if later == "fail_next":
        keyed.fail_next(429, times=2)
    else:
        keyed.refuse_next_connection(times=2)
    with pytest.raises(ConnectionLostError) as caught:
        call(create, keyed)
    assert caught.value.delivery is Delivery.UNKNOWN
    assert {caught.value.idempotency_key} == {*keys_of(keyed)}
    assert len(keyed.sources) == 1


def test_a_mock_that_knows_no_ping_answers_a_post():
    class Mock:
        def send(self, request):
            assert request.method == "POST"
            return HTTPResponse(200, {}, json.dumps(SOURCE).encode())

        def close(self): ...

    assert create(Client(KEY, "https://service.test", transport=Mock())).id == "src_1"


@pytest.mark.parametrize("interrupted", ["GET", "POST"])
def test_an_interruption_leaves_uncertain_what_was_posted_alone_and_names_its_key(
    keyed, interrupted
):
    class Interrupted:
        def send(self, request):
            if request.method == interrupted:
                raise KeyboardInterrupt
            return keyed.transport.send(request)

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


# Sources ------------------------------------------------------------------------------------------

MANAGED = {
    "list": lambda c: c.list_sources(),
    "get": lambda c: c.get_source("src_1"),
    "delete": lambda c: c.delete_source("src_1"),
}
SEARCHING = {
    "search": lambda c: c.search("When?"),
    "get passage": lambda c: c.get_passage("pas_1"),
}


@pytest.mark.parametrize(
    ("use", "header"),
    [
        *((use, "") for use in MANAGED),
        *(("delete", header) for header in ("sources=1", "sources=1;manage=?0")),
        *((use, "idempotency=1;lifetime=600, sources=1;manage") for use in SEARCHING),
        ("text", "sources=1;manage"),
    ],
)
def test_what_is_not_announced_is_not_sent(call, use, header):
    service = announcing(header)
    with pytest.raises(UnsupportedError) as caught:
        call({**MANAGED, **SEARCHING, **WITH_A_KEY}[use], service)
    assert caught.value.delivery is Delivery.NOT_DELIVERED
    assert service.requests == []


def test_a_source_has_its_state(call):
    service = announcing(ALL, (200, {"value": DETAILS}))
    found = call(MANAGED["get"], service)
    assert isinstance(found, SourceDetails)
    assert (found.status, found.revision, found.ready_revision) == ("processing", "r2", "r1")
    assert (found.warnings, found.ready_at.timestamp()) == (("page 3 has no text",), 1_700_000_000)
    assert found.model_extra == {"colour": "green"}
    assert service.requests[0].path == "/sources/src_1"


@pytest.mark.parametrize("fields", [SOURCE, {**SOURCE, "warnings": None}])
def test_a_state_of_which_nothing_is_said_is_read(call, fields):
    found = call(MANAGED["get"], announcing(ALL, (200, fields)))
    assert (found.revision, found.reason, found.warnings, found.ready_at) == (None, None, (), None)


def test_sources_are_listed_page_by_page(call):
    def page(number, following):
        return 200, {"data": [{**DETAILS, "id": f"src_{number}"}], "next": following}

    service = announcing(ALL, page(3, "a&b"), page(2, "c"), page(1, None))
    filters = {"name": "a b", "status": ("ready", "failed"), "collection": ["col_1"]}
    found = call(lambda client: client.list_sources(**filters), service)
    assert [one.id for one in found] == ["src_3", "src_2", "src_1"]
    first = "limit=500&name=a+b&status=ready&status=failed&collection=col_1"
    queries = [request.query for request in service.requests]
    assert queries == [first, f"{first}&before=a%26b", f"{first}&before=c"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"status": ""}, "status"),
        ({"status": 3}, "status"),
        ({"collection": "bot_1"}, "collection"),
    ],
    ids=str,
)
def test_a_filter_that_cannot_be_sent_is_refused_before_the_first_page(client, wrong, named):
    with refused(named):
        client.list_sources(**wrong)


def test_deleting_what_is_not_there_is_done(call, keyed):
    assert call(MANAGED["delete"], keyed) is None
    assert len(keyed.requests) == 1


@pytest.mark.parametrize(
    ("status", "error", "sent"),
    [
        (404, NotFoundError, 1),
        (410, APIError, 1),
        (403, PermissionDeniedError, 1),
        (500, ServerError, 3),
    ],
)
def test_deleting_is_not_done_by_what_somebody_else_says(call, status, error, sent):
    service = announcing(ALL, (status, b"<h1>Not here</h1>"))
    with pytest.raises(error):
        call(MANAGED["delete"], service)
    assert len(service.requests) == sent


@pytest.mark.parametrize("fault", ["lose_next_answer", "fail_next"])
def test_deleting_has_no_second_effect_and_is_sent_again(call, fault):
    service = announcing(ALL)
    getattr(service, fault)(times=2)
    service.answer_next(204)
    call(MANAGED["delete"], service)
    assert len(service.requests) == 3


def test_nothing_is_deleted_without_an_api_key(call, keyed):
    with refused("api_key"):
        call(MANAGED["delete"], keyed, api_key=None)
    assert (keyed.requests, keyed.pings) == ([], [])


# Passages -----------------------------------------------------------------------------------------


def test_passages_are_found(call):
    service = announcing("passages=1", (200, {"value": {"data": [passage(1)]}}))
    (found,) = call(lambda c: c.search("When?", collections=["col_1", "col_2"], limit=40), service)
    assert (found.id, found.text, found.score, found.name) == ("pas_1", "Passage 1.", 1.0, "1.md")
    (request,) = service.requests
    assert (request.method, request.path) == ("POST", "/search")
    assert request.value == {"query": "When?", "limit": 40, "collections": ["col_1", "col_2"]}
    assert "idempotency-key" not in request.headers


def test_a_passage_is_read_and_one_that_is_gone_is_not_there(call):
    gone = 404, {"code": "unknown_passage", "message": "m"}
    service = announcing("passages=1", (200, passage(1, score=None)), gone)
    assert call(SEARCHING["get passage"], service).score is None
    with pytest.raises(NotFoundError):
        call(SEARCHING["get passage"], service)
    assert [request.path for request in service.requests] == ["/passages/pas_1"] * 2


@pytest.mark.parametrize("use", SEARCHING)
@pytest.mark.parametrize("fault", ["fail_next", "lose_next_answer"])
def test_a_search_changes_nothing_and_is_sent_again(call, use, fault):
    service = announcing("passages=1")
    service.fail_next(502) if fault == "fail_next" else service.lose_next_answer()
    found = {"data": [passage(1)]} if use == "search" else passage(1)
    service.answer_next(200, json.dumps(found).encode())
    assert call(SEARCHING[use], service)
    assert len(service.requests) == 2


@pytest.mark.parametrize(
    "wrong",
    [
        *({"query": ""}, {"limit": 0}, {"limit": 41}, {"bot_id": "col_1"}),
        {"collections": "bot_1"},
    ],
    ids=str,
)
def test_a_search_that_cannot_be_sent_is_refused_before(call, wrong):
    service = announcing("passages=1")
    with refused(*wrong):
        call(lambda c: c.search(**{"query": "x", **wrong}), service)
    assert service.requests == []


def test_the_service_from_memory_finds_what_was_added():
    service = MemoryService(extensions={"passages"})
    with Client(KEY, "https://service.test", transport=service.transport) as client:
        source = client.create_text_source(name="n", collections="col_default", content="At nine.")
        (found,) = client.search("At which hour?")
        assert (found.source_id, found.text) == (source.id, "At nine.")
        assert client.get_passage(found.id).text == "At nine."
        assert client.search("Something else") == []
