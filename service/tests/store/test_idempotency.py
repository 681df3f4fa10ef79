"""Requests that are sent again with their idempotency key (docs/extensions.md)."""

import sqlite3
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import httpx
import pytest

from in_process import InProcess, OnAPort, Transport
from scripted_server import Reply, ScriptedServer, answer, then
from service_calls import BOTS, COLLECTIONS, ask, client_of, problem_of, value_of
from waiting import until

KEY = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
WEEK = 7 * 24 * 60 * 60
TEXT: dict[str, Any] = {"name": "Rules", "collections": ["col_one"], "content": "Nobody sings."}
PAGE = {"name": "Page", "collections": ["col_one"], "url": "http://127.0.0.1:1/"}
QUESTION = {"bot_id": "bot_one", "content": "Who sings in the lift?"}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("idempotency")
    with InProcess(folder, collections=COLLECTIONS, bots=BOTS) as running:
        yield running


def uuid7(age=0.0):
    """A UUIDv7 that is so many seconds old (RFC 9562, section 5.7)."""
    born = int((time.time() - age) * 1000)
    bits = (uuid.uuid4().int & ((1 << 76) - 1)) | 7 << 76 | born << 80
    return str(uuid.UUID(int=bits & ~(0b11 << 62) | 0b10 << 62))


def post(http, path, value, *keys, **more):
    return http.post(path, json={"value": value}, headers=[(KEY, key) for key in keys], **more)


def upload(http, key, content=b"Text.", **form):
    fields = {"name": "File", "collections": ["col_one", "col_two"], **form}
    filename = fields.pop("filename", "file.txt")
    return http.post(
        "/sources/upload", data=fields, files={"file": (filename, content)}, headers={KEY: key}
    )


def sources(http, name):
    found: list[dict[str, Any]] = value_of(http.get("/sources", params={"name": name}))["data"]
    return found


@pytest.mark.parametrize(
    ("path", "value", "change"),
    [
        ("/sources/write", TEXT, {"name": "Other"}),
        ("/sources/write", TEXT, {"collections": ["col_one", "col_two"]}),
        ("/sources/write", TEXT, {"content": "Nobody sings!"}),
        ("/sources/webpage", PAGE, {"url": "http://127.0.0.1:1/other"}),
        ("/sources/webpage", PAGE, {"headers": [{"name": "Accept", "value": "text/html"}]}),
        ("/messages", QUESTION, {"content": "Who runs in the lift?"}),
        ("/messages", QUESTION, {"bot_id": "bot_two"}),
        ("/messages", QUESTION, {"conversation_id": "conv_" + "0" * 24}),
    ],
)
def test_another_request_with_the_key_is_refused_and_told_what_the_first_created(
    http, path, value, change
):
    key = uuid7()
    first = value_of(post(http, path, value, key))
    refused = post(http, path, value | change, key)
    assert (refused.status_code, refused.headers[KEY]) == (422, key)
    problem = refused.json()
    assert (problem["code"], problem["id"]) == ("idempotency_key_reused", first["id"])
    assert value_of(post(http, path, value, key)) == first


def test_an_upload_is_compared_by_its_parts_and_leaves_no_second_file(service, http):
    key = uuid7()
    first = upload(http, key)
    for form in ({}, {"collections": '["col_two", "col_one"]'}):
        again = upload(http, key, **form)
        assert (again.headers[REPLAYED], again.json()) == ("true", first.json())
    for content, form in (
        (b"Text!", {}),
        (b"Text.", {"filename": "other.txt"}),
        (b"Text.", {"name": "Other"}),
        (b"Text.", {"collections": "col_one"}),
    ):
        assert upload(http, key, content, **form).status_code == 422
    assert upload(http, uuid7(WEEK + 60)).status_code == 412
    service.wait_until_ready(300)
    assert not list((service.data / "material").iterdir())


def with_wrong_key(http):
    wrong = {"X-API-KEY": "wrong"}
    return httpx.Client(base_url=http.base_url, headers=wrong, transport=Transport())


def test_what_was_refused_leaves_the_key_free(http):
    key = uuid7()
    unknown = post(http, "/sources/write", TEXT | {"collections": ["col_lost"]}, key)
    assert (problem_of(unknown, 400)["code"], unknown.headers[KEY]) == ("unknown_collection", key)
    problem_of(post(http, "/sources/write", TEXT | {"content": " "}, key), 400)
    problem_of(post(with_wrong_key(http), "/sources/write", TEXT, key), 401)
    problem_of(
        post(http, "/messages", QUESTION | {"conversation_id": "conv_" + "0" * 24}, key), 404
    )
    first = post(http, "/sources/write", TEXT, key)
    assert REPLAYED not in first.headers
    problem_of(post(with_wrong_key(http), "/sources/write", TEXT, key), 401)


def test_keys_outlive_the_service_and_are_forgotten_when_they_may_be(tmp_path):
    keys = [uuid7(), "not a UUID"]
    with InProcess(tmp_path, collections=COLLECTIONS, bots=BOTS) as service:
        with client_of(service) as http:
            first = [post(http, "/sources/write", TEXT, key).json() for key in keys]
        service.stop()
        service.start()
        with client_of(service) as http:
            assert [post(http, "/sources/write", TEXT, key).json() for key in keys] == first
    with closing(sqlite3.connect(tmp_path / "knowledge.sqlite3")) as database, database:
        kept = [row[0] for row in database.execute("SELECT forgotten_at FROM idempotency_key")]
        assert all(abs(one / 1000 - time.time() - WEEK) < 60 for one in kept)
        database.execute("UPDATE idempotency_key SET forgotten_at = 1")
    with InProcess(tmp_path, collections=COLLECTIONS, bots=BOTS) as service:
        with closing(sqlite3.connect(tmp_path / "knowledge.sqlite3")) as database:
            left = "SELECT count(*) FROM idempotency_key"
            assert until(lambda: database.execute(left).fetchone() == (0,))
        with client_of(service) as http:
            assert post(http, "/sources/write", TEXT, keys[1]).json() != first[1]


# While the first request is still being handled: an answer that somebody else words.


@pytest.fixture
def slow(tmp_path, monkeypatch):
    """A service whose answers are worded when the event is set."""
    monkeypatch.setattr("knowledge_bot_service.store.idempotency._PATIENCE", 1.0)  # seconds
    may_answer = threading.Event()
    endpoint = ScriptedServer()
    worded = answer(body={"choices": [{"message": {"role": "assistant", "content": "Bo [1]."}}]})
    wait: Reply = lambda _connection: may_answer.wait(60) and None  # noqa: E731
    endpoint.reply_to = lambda _received: then(wait, worded)
    answers = {"base_url": f"{endpoint.url}/v1", "model": "small-model", "timeout": 60.0}
    with OnAPort(
        tmp_path, collections=COLLECTIONS, bots=BOTS, settings={"answers": answers}
    ) as service:
        with client_of(service) as http:
            http.post("/sources/write", json={"value": TEXT | {"content": "Bo sings in the lift."}})
        service.wait_until_ready(300)
        yield service, may_answer, endpoint
    may_answer.set()
    endpoint.stop()


def test_a_request_whose_key_is_in_use_is_told_to_come_again(slow):
    service, may_answer, endpoint = slow
    key = uuid7()

    def send():
        with client_of(service) as mine:
            return post(mine, "/messages", QUESTION, key)

    with ThreadPoolExecutor(1) as pool, client_of(service) as http:
        first = pool.submit(send)
        assert until(lambda: len(endpoint.requests) == 1)
        refused = post(http, "/messages", QUESTION, key)
        assert problem_of(refused, 409)["code"] == "idempotency_key_in_use"
        assert int(refused.headers["Retry-After"]) > 0
        assert refused.headers[KEY] == key
        # One that waits when it ends gets its answer.
        waiting = ThreadPoolExecutor(1).submit(send)
        time.sleep(0.2)
        may_answer.set()
        assert waiting.result().json() == first.result().json()
    assert len(endpoint.requests) == 1


def test_a_client_that_hangs_up_gets_its_answer_when_it_comes_again(slow):
    service, may_answer, endpoint = slow
    key = uuid7()
    with client_of(service) as http:
        with pytest.raises(httpx.ReadTimeout):
            post(http, "/messages", QUESTION, key, timeout=1.0)
        assert until(lambda: len(endpoint.requests) == 1)
        may_answer.set()
        again = post(http, "/messages", QUESTION, key)
        assert again.headers[REPLAYED] == "true"
        assert value_of(again)["answer"].startswith("Bo.")
        conversations = value_of(http.get("/bots/bot_one/conversations"))["data"]
        assert [one["id"] for one in conversations] == [value_of(again)["conversation_id"]]
        assert ask(http, "Who sings in the lift?")["id"] != value_of(again)["id"]
