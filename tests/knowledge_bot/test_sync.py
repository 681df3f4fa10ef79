"""The extension `sync`: what both clients send, and what they make of answers.

What the service from memory does is tested in tests/support/conformance.
"""

import io
import json

import pytest

from calls import SOURCE, settled
from knowledge_bot import (
    APIError,
    Client,
    ConflictError,
    ConnectionLostError,
    Delivery,
    NotFoundError,
    PreconditionFailedError,
    ServerError,
    SyncMissing,
    SyncTouch,
    UnexpectedResponseError,
    UnsupportedError,
)
from knowledge_bot._sync import bucket_of, mark_of
from knowledge_bot.testing import MemoryService, no_waiting
from refusals import refused

SUMS = {"known": True, "count": 0, "sums": ["0" * 16] * 256}
ENTRY = {"key": "a", "digest": "d", "source_id": "src_1", "status": "ready"}
ITEM = {"origin": "o", "key": "a", "digest": "d", "name": "n", "collections": "col_default"}
CALLS = {
    "compare": lambda c: c.compare_origin("o"),
    "entries": lambda c: c.list_entries("o"),
    "text": lambda c: c.put_text_source(content="c", **ITEM),
    "page": lambda c: c.put_webpage_source(url="https://h.example", **ITEM),
    "file": lambda c: c.put_file_source(file=b"c", **ITEM),
    "touch": lambda c: c.touch_entries("o", [SyncTouch("a", "d")]),
    "complete": lambda c: c.complete_origin("o", "r", limit=0.5),
    "overlap": lambda c: c.overlapping_origins("o", ["n"], "col_default"),
    "origins": lambda c: c.list_origins(),
    "rename": lambda c: c.rename_origin("o", "p"),
    "delete": lambda c: c.delete_origin("o"),
}


@pytest.fixture
def service():
    return MemoryService(extensions={"sync"})


@pytest.fixture(autouse=True)
def _no_waiting():
    with no_waiting():
        yield


def client_of(service):
    return Client("key", "https://service.test", transport=service.transport)


def answering(status, body, **options):
    """A service that announces `sync`, and answers with this whatever it is asked."""
    service = MemoryService(extensions={"sync"})
    content = body if isinstance(body, bytes) else json.dumps({"value": body}).encode()
    service.answer_next(status, content, times=None, **options)
    return service


@pytest.mark.parametrize(
    ("key", "version", "bucket", "mark"),
    [
        ("a.md", None, 59, "5462f1d49f6b2ead"),
        ("handbook/täglich.md", "12 1700000000", 205, "0ccdb6de2d01f323"),
        ("cafe\u0301", "1", 74, "6937341f58e0c23a"),
        ("caf\u00e9", "1", 181, "0b2c3b4d3b65ac6e"),
        ("../x%2Fy", "", 200, "6f982b4f22eae083"),
    ],
)
def test_sums_are_those_of_the_page(key, version, bucket, mark):
    assert (bucket_of(key), f"{mark_of(key, version):016x}") == (bucket, mark)


def test_what_an_origin_holds_is_put_compared_and_completed(call, service):
    async def night(client):
        item = {**ITEM, "version": "1"}
        made = await settled(client.put_text_source(content="c", **item, expected=None))
        file = {**item, "key": "b", "file": b"content", "filename": "b.TXT"}
        await settled(client.put_file_source(**file))
        page = {**item, "key": "c", "url": "https://h.example", "headers": {"A": "b"}}
        await settled(client.put_webpage_source(**page))
        sums = await settled(client.compare_origin("o"))
        entries = await settled(client.list_entries("o", bucket=bucket_of("b"), status="ready"))
        touches = [SyncTouch(f"{n}", "d") for n in range(600)]
        moved = SyncTouch("z", "d", "2", "z", "col_default", moved_from="a")
        outcomes = await settled(client.touch_entries("o", [*touches, moved]))
        gone = [SyncMissing(f"{n}", "d") for n in range(2000)] + [SyncMissing("b", "d", "gone")]
        options = {"missing": gone, "limit": 0.5, "note": "n", "told": [("c", "r")]}
        return (
            made,
            sums,
            entries,
            outcomes,
            await settled(client.complete_origin("o", "run", **options)),
        )

    made, sums, (entry,), outcomes, completion = call(night, service)
    assert (made.outcome, made.source.id) == ("created", service.sources[0]["id"])
    assert (sums.known, sums.count, sum(sums.sums)) == (
        True,
        3,
        sum(mark_of(key, "1") for key in "abc"),
    )
    assert (entry.key, entry.version, entry.digest, entry.told) == ("b", "1", "d", False)
    assert (len(outcomes), outcomes["z"], outcomes["0"]) == (601, "touched", "moved_on")
    assert (completion.removed, completion.keys) == (1, ("b",))
    paths = [request.path for request in service.requests]
    assert (paths.count("/sync/touch"), paths.count("/sync/complete")) == (2, 3)


def test_origins_are_listed_renamed_and_deleted(call, service):
    async def orders(client):
        await settled(client.put_text_source(content="c", **ITEM))
        overlap = await settled(client.overlapping_origins("p", ["n", "m"], "col_default"))
        renamed = await settled(client.rename_origin("o", "../x%2Fy"))
        listed = await settled(client.list_origins())
        for _ in range(2):  # one that is not there is fine
            await settled(client.delete_origin("../x%2Fy"))
        return overlap, renamed, listed

    overlap, renamed, (listed,) = call(orders, service)
    assert overlap == [("o", 1)]
    assert renamed == listed
    assert (listed.name, listed.count, listed.completed_at) == ("../x%2Fy", 1, None)
    assert service.sources == []


@pytest.mark.parametrize("sent", [{}, {"expected": None}, {"expected": "before"}], ids=str)
@pytest.mark.parametrize("encoding", ["value", "fields"])
def test_what_is_expected_is_sent_if_it_is_given(call, service, sent, encoding):
    item = {**ITEM, "file": b"c", **sent}
    call(lambda c: c.put_file_source(**item), service, upload_encoding=encoding)
    (request,) = service.requests
    wanted = {**ITEM, "collections": ["col_default"], "version": None, **sent}
    assert (request.method, request.path, request.value) == ("PUT", "/sync/upload", wanted)


def test_entries_are_listed_page_by_page(call, service):
    for number in range(1001):
        service._origins.put(  # as fast as it goes
            {**ITEM, "key": f"{number:04}"}, "write", {"name": "n", "collections": []}, "c",
            lambda: service._new_source({"name": "n", "collections": []}, "write", "c"),
        )  # fmt: skip
    found = call(CALLS["entries"], service)
    assert [one.key for one in found] == [f"{number:04}" for number in range(1001)]
    assert len(service.requests) == 2


# What is refused before anything is sent ----------------------------------------------------------

TOO_MUCH = {
    "key": ("", "x" * 2049, "a\0b", "\ud800", None, 7),
    "origin": ("", "x" * 2049, "a\0b", "\udfff", None),
    "version": ("x" * 2049, "é" * 1025, "a\0b", "\ud800", 7),
    "digest": ("", "x" * 129, "é", "a\0b", None),
    "expected": ("", "x" * 129, "é"),
    "name": ("",),
    "collections": ((), "bot_1"),
    "content": ("", None),
}


@pytest.mark.parametrize(
    ("named", "use"),
    [
        *(
            (name, lambda c, wrong=wrong: c.put_text_source(**{"content": "c", **ITEM, **wrong}))
            for name, several in TOO_MUCH.items()
            for wrong in ({name: one} for one in several)
        ),
        ("origin", lambda c: c.compare_origin("")),
        ("bucket", lambda c: c.list_entries("o", bucket=256)),
        ("status", lambda c: c.list_entries("o", status="")),
        ("moved_from", lambda c: c.touch_entries("o", [SyncTouch("a", "d", moved_from="")])),
        ("version", lambda c: c.touch_entries("o", [SyncTouch("a", "d", version="\0")])),
        ("limit", lambda c: c.complete_origin("o", "r", limit=1.1)),
        ("run", lambda c: c.complete_origin("o", "", limit=1)),
        ("note", lambda c: c.complete_origin("o", "r", limit=1, note="é" * 2049)),
        ("key", lambda c: c.complete_origin("o", "r", limit=1, missing=[SyncMissing("", "d")])),
        ("names", lambda c: c.overlapping_origins("o", ["n"] * 501, "col_default")),
        ("name", lambda c: c.rename_origin("o", "x" * 2049)),
    ],
)
def test_what_no_service_takes_is_not_sent(service, named, use):
    with refused(named):
        use(client_of(service))
    assert service.requests == []


def test_what_is_as_long_as_may_be_is_taken(service):
    longest = {"key": "x" * 2048, "origin": "x" * 2048, "version": "é" * 1024, "digest": "x" * 128}
    client, origin = client_of(service), longest.pop("origin")
    client.put_text_source(**{"content": "c", **ITEM, **longest, "origin": origin})
    (entry,) = client.list_entries(origin)
    assert {name: getattr(entry, name) for name in longest} == longest
    client.complete_origin(origin, "r", limit=1, note="é" * 2048)
    assert client.compare_origin(origin).note == "é" * 2048
    assert client.overlapping_origins("o", ["other"] * 500, "col_default") == []


@pytest.mark.parametrize("use", CALLS)
def test_what_is_not_announced_is_not_sent(call, use):
    service = MemoryService(extensions={"sources"})
    with pytest.raises(UnsupportedError):
        call(CALLS[use], service)
    assert service.requests == []


# What goes wrong on the way -----------------------------------------------------------------------


@pytest.mark.parametrize("use", [use for use in CALLS if use != "rename"])
@pytest.mark.parametrize("fault", ["lose_next_answer", "fail_next"])
def test_all_of_it_is_sent_again_and_has_no_second_effect(call, service, use, fault):
    call(CALLS["text"], service)
    getattr(service, fault)(times=2)
    call(CALLS[use], service)
    assert len(service.requests) == 4
    assert len(service.sources) == (use != "delete")


def test_of_a_rename_whose_answer_was_lost_it_is_told_that_it_may_be_done(call, service):
    call(CALLS["text"], service)
    service.lose_next_answer()
    with pytest.raises(NotFoundError) as caught:
        call(CALLS["rename"], service)
    assert (caught.value.code, caught.value.delivery) == ("unknown_origin", Delivery.UNKNOWN)


def test_a_stream_that_was_read_is_not_sent_again(call, service):
    stream = io.BytesIO(b"c")
    stream.seekable = lambda: False
    service.lose_next_answer()
    with pytest.raises(ConnectionLostError) as caught:
        call(lambda c: c.put_file_source(file=stream, **ITEM), service)
    assert caught.value.delivery is Delivery.UNKNOWN
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("use", "status", "code", "error"),
    [
        ("text", 412, "entry_moved_on", PreconditionFailedError),
        ("file", 400, "digest_mismatch", APIError),
        ("rename", 409, "origin_exists", ConflictError),
        ("rename", 404, "unknown_origin", NotFoundError),
    ],
)
def test_a_refusal_is_told_by_its_code_and_not_sent_again(call, use, status, code, error):
    service = answering(status, {"code": code, "message": "m"})
    with pytest.raises(error) as caught:
        call(CALLS[use], service)
    assert (caught.value.code, caught.value.delivery) == (code, Delivery.REFUSED)
    assert not caught.value.may_pass
    assert (len(service.requests), len(service.pings)) == (1, 1)


@pytest.mark.parametrize("use", CALLS)
@pytest.mark.parametrize(
    ("status", "error"), [(404, NotFoundError), (405, APIError), (501, ServerError)]
)
def test_a_service_that_announces_it_and_has_it_not_is_asked_again(call, use, status, error):
    service = answering(status, b"<h1>Not here</h1>")

    async def twice(client):
        for _ in range(2):
            with pytest.raises(error) as caught:
                await settled(CALLS[use](client))
            assert (caught.value.status_code, caught.value.may_pass) == (status, False)

    call(twice, service)
    assert (len(service.requests), len(service.pings)) == (2, 2)


@pytest.mark.parametrize(
    ("use", "body"),
    [
        *((use, body) for use in CALLS for body in (b"<html>", b"[7]") if use != "delete"),
        *((use, {}) for use in CALLS if use not in ("delete", "origins")),
        ("compare", {**SUMS, "sums": SUMS["sums"][1:]}),
        ("compare", {**SUMS, "sums": [0] * 256}),
        ("compare", {**SUMS, "sums": ["0" * 15 + "A"] * 256}),
        ("compare", {**SUMS, "count": -1}),
        ("compare", {"known": True, "count": 0}),
        ("entries", {"data": [{**ENTRY, "key": None}]}),
        ("entries", {"data": [ENTRY, ENTRY]}),  # twice
        ("entries", {"data": [ENTRY], "next": "a"}),  # for ever
        ("entries", {"data": [], "next": "a"}),
        ("entries", {"data": [ENTRY], "next": "b"}),
        ("bucket", {"data": [ENTRY]}),
        ("text", {"outcome": "exploded", "source": SOURCE}),
        ("text", {"outcome": "created"}),
        ("touch", {"data": [{"key": "b", "outcome": "touched"}]}),
        ("touch", {"data": [{"key": "a", "outcome": "exploded"}]}),
        ("complete", {"removed": -1, "waiting": 0, "withheld": 0}),
        ("overlap", {"data": [{"origin": 7, "names": 1}]}),
        ("overlap", {"data": [{"origin": "p", "names": True}]}),
    ],
    ids=str,
)
def test_an_answer_that_is_not_the_page_s_is_an_error(use, body):
    uses = {**CALLS, "bucket": lambda c: c.list_entries("o", bucket=bucket_of("a") ^ 1)}
    with pytest.raises(UnexpectedResponseError) as caught:
        uses[use](client_of(answering(200, body)))
    assert not caught.value.may_pass
