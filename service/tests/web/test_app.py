"""Every endpoint, and every way to be refused."""

import json
import re
import time

import pytest

from in_process import web
from service_calls import add_text, ask, problem_of, value_of

TEXT = {"name": "Rules", "collections": ["col_one"], "content": "Nobody sings in the lift."}
PAGE = {"name": "Page", "collections": ["col_one"], "url": "http://127.0.0.1:1/"}
MESSAGE = {"bot_id": "bot_one", "content": "Who sings in the lift?"}
POSTS = {"/sources/write": TEXT, "/sources/webpage": PAGE, "/messages": MESSAGE}


def test_ping_answers_pong_as_json_without_a_key(service):
    response = web.get(f"{service.base_url}/ping")
    assert (response.status_code, response.json()) == (200, "pong")


def test_collections_and_bots_are_listed_wrapped_with_the_documented_fields_only(http):
    assert value_of(http.get("/collections"))["data"][0] == {"id": "col_one", "name": "Handbook"}
    assert value_of(http.get("/bots"))["data"][:2] == [
        {"id": "bot_one", "name": "Guide"},
        {"id": "bot_two", "name": "bot_two"},
    ]


@pytest.mark.parametrize("path", ["/sources/write", "/sources/webpage"])
def test_a_created_source_is_pending_and_has_the_documented_fields(http, path):
    body = POSTS[path] | {"collections": ["col_two", "col_one", "col_two"]}
    source = value_of(http.post(path, json={"value": body}))
    assert {"collections", "created_at", "id", "name", "status"} < set(source)
    assert source["revision"]
    assert (source["ready_revision"], source["ready_at"], source["reason"]) == (None, None, None)
    assert source["warnings"] == []
    assert re.fullmatch(r"src_[0-9a-f]{24}", source["id"])
    assert (source["name"], source["status"]) == (body["name"], "pending")
    assert source["collections"] == [
        {"id": "col_two", "name": "Archive"},
        {"id": "col_one", "name": "Handbook"},
    ]
    assert isinstance(source["created_at"], int)
    assert abs(source["created_at"] - time.time() * 1000) < 60_000


def test_a_message_has_the_documented_fields_and_its_sources_and_starts_a_conversation(http):
    message = ask(http, "What is the tallest chimney?")
    assert sorted(message) == ["answer", "conversation_id", "created_at", "found", "id", "sources"]
    assert message["id"].startswith("msg_")
    assert isinstance(message["created_at"], int)
    listed = value_of(http.get("/bots/bot_one/conversations"))["data"]
    assert {"id": message["conversation_id"], "name": "What is the tallest chimney?"} in listed


def test_a_conversation_keeps_its_id_and_the_name_of_its_first_question(http):
    first = ask(http, "Word " * 100, bot="bot_two")
    again = ask(http, "And then?", first["conversation_id"], bot="bot_two")
    assert again["conversation_id"] == first["conversation_id"]
    listed = value_of(http.get("/bots/bot_two/conversations"))["data"]
    (name,) = [one["name"] for one in listed if one["id"] == first["conversation_id"]]
    assert name.startswith("Word Word")
    assert name.endswith("…")
    assert len(name) <= 80


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", path) for path in [*POSTS, "/sources/upload"]]
    + [("PUT", f"/sync/{kind}") for kind in ("webpage", "write", "upload")]
    + [("POST", f"/sync/{call}") for call in ("touch", "complete", "overlap")]
    + [("GET", "/sync"), ("GET", "/sync/entries")]
    + [(method, "/sync/origins") for method in ("GET", "PATCH", "DELETE")]
    + [(method, "/sources/src_x") for method in ("GET", "DELETE")]
    + [("GET", path) for path in ("/collections", "/bots", "/bots/bot_one/conversations")]
    + [("GET", "/sources"), ("POST", "/search")],
)
@pytest.mark.parametrize("key", [None, "wrong", "schlüssel"])
def test_everything_but_ping_needs_the_right_key(service, method, path, key):
    headers = {} if key is None else {"X-API-KEY": key.encode()}
    body = {"value": POSTS.get(path, {})}
    response = web.request(method, service.base_url + path, headers=headers, json=body)
    problem = problem_of(response, 401)
    assert problem["code"] == "unauthorized"
    assert service.api_key not in response.text


def test_who_sends_a_key_as_openai_does_is_told_where_that_is_read(service):
    headers = {"Authorization": f"Bearer {service.api_key}"}
    problem = problem_of(web.get(f"{service.base_url}/bots", headers=headers), 401)
    assert "OpenAI's API is under /v1" in problem["message"]


@pytest.mark.parametrize(
    ("path", "change", "code", "named"),
    [
        ("/sources/write", {"collections": ["col_one", "col_x"]}, "unknown_collection", "col_x"),
        ("/sources/webpage", {"collections": ["col_x"]}, "unknown_collection", "col_x"),
        ("/messages", {"bot_id": "bot_x"}, "unknown_bot", "bot_x"),
        ("/messages", {"conversation_id": "conv_x"}, "unknown_conversation", "conv_x"),
    ],
)
def test_an_unknown_id_is_named(http, path, change, code, named):
    problem = problem_of(http.post(path, json={"value": POSTS[path] | change}), 400)
    assert problem["code"] == code
    assert named in problem["message"]


def test_a_conversation_of_another_bot_is_not_found(http):
    conversation = ask(http, "Whose is it?", bot="bot_two")["conversation_id"]
    body = MESSAGE | {"conversation_id": conversation}
    problem = problem_of(http.post("/messages", json={"value": body}), 404)
    assert problem["code"] == "unknown_conversation"


@pytest.mark.parametrize(
    ("path", "change"),
    [
        *[
            (path, {"name": value})
            for path in list(POSTS)[:2]
            for value in ["", " ", None, 7, "x\0"]
        ],
        ("/sources/write", {"name": "n" * 1001}),
        ("/sources/write", {"collections": []}),
        ("/sources/write", {"collections": "col_one"}),
        ("/sources/write", {"collections": ["col_one"] * 10_000}),
        ("/sources/write", {"collections": ["c" * 300]}),
        ("/sources/write", {"content": ""}),
        ("/sources/write", {"content": " \n"}),
        ("/sources/write", {"content": "with a \0 inside"}),
        ("/sources/webpage", {"url": "file:///etc/passwd"}),
        ("/sources/webpage", {"url": "https://"}),
        ("/sources/webpage", {"url": "http://[::1"}),
        ("/sources/webpage", {"url": "http://a b/"}),
        ("/sources/webpage", {"headers": {"Accept": "text/html"}}),
        ("/sources/webpage", {"headers": [{"name": "Accept"}]}),
        ("/sources/webpage", {"headers": [{"name": "A B", "value": "x"}]}),
        ("/sources/webpage", {"headers": [{"name": "A", "value": "x\r\nB: y"}]}),
        ("/messages", {"content": ""}),
        ("/messages", {"content": "x" * 20_001}),
        ("/messages", {"bot_id": None}),
        ("/messages", {"conversation_id": 5}),
    ],
)
def test_a_field_that_is_not_as_documented_is_a_400_that_names_it(http, path, change):
    problem = problem_of(http.post(path, json={"value": POSTS[path] | change}), 400)
    assert problem["code"] == "invalid_request"
    assert f"value.{next(iter(change))}" in problem["message"]
    # In our words, not in those of the library that checks it.
    for word in ("Input", "Tuple", "String", "List", "Value error", "validation", "instance"):
        assert word not in problem["message"]


def test_a_refused_header_value_is_not_repeated(http):
    body = PAGE | {"headers": [{"name": "Cookie", "value": "secret-cookie\n"}]}
    assert "secret-cookie" not in http.post("/sources/webpage", json={"value": body}).text


@pytest.mark.parametrize("path", list(POSTS))
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"value": null}',
        b'{"value": []}',
        b'{"value": ',
        b"\xff\xfe\xfd",
        b'{"value": {"name": "\xff"}}',
        b"[" * 100_000,
        b'{"value": ' * 50_000,
        b'{"value": {"name": NaN}}',
    ],
    ids=lambda content: content[:16].decode("latin-1"),
)
def test_a_body_that_is_not_the_wrapped_object_is_a_400(http, path, content):
    response = http.post(path, content=content, headers={"Content-Type": "application/json"})
    assert problem_of(response, 400)["code"] == "invalid_request"


@pytest.mark.parametrize(
    "content_type",
    [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"],
)
def test_a_wrong_content_type_is_a_400(http, content_type):
    headers = {} if content_type is None else {"Content-Type": content_type}
    response = http.post("/messages", content=json.dumps({"value": MESSAGE}), headers=headers)
    assert problem_of(response, 400)["code"] == "unsupported_media_type"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/bots/bot_x/conversations", 404, "unknown_bot"),
        ("DELETE", "/messages", 405, "method_not_allowed"),
    ],
)
def test_what_is_not_at_a_path_is_told(http, method, path, status, code):
    response = http.request(method, path)
    assert problem_of(response, status)["code"] == code
    assert response.headers.get("Allow") == ("POST" if status == 405 else None)


def test_a_text_over_the_limit_is_a_413(http):
    body = TEXT | {"content": "word " * 500_000}
    problem = problem_of(http.post("/sources/write", json={"value": body}), 413)
    assert "2,000,000 bytes" in problem["message"]


def test_a_chunked_body_over_the_limit_is_a_413(http):
    def chunks():
        yield b'{"value": {"content": "'
        for _ in range(50):
            yield b"word " * 10_000

    response = http.post(
        "/sources/write", content=chunks(), headers={"Content-Type": "application/json"}
    )
    assert problem_of(response, 413)["code"] == "too_large"


@pytest.mark.parametrize(
    "name",
    [
        "a\nSources: fake",
        "a\r\nb",
        "a\tb",
        "a\n",
        "\x1b[31mred",
        "a\x85b",
        "a\u2028b",
        "report\u202efdp.exe",
        "a\u2066b",
        "\u200b",
        " \u200d\ufeff ",
        "\u3164",
        "\u00ad",
    ],
)
@pytest.mark.parametrize("path", ["/sources/write", "/sources/webpage"])
def test_a_name_that_forges_another_is_refused(http, path, name):
    value = {"name": name, "collections": ["col_one"], "content": "Text.", "url": "http://x.org/"}
    problem = problem_of(http.post(path, json={"value": value}), 400)
    assert problem["message"].startswith("value.name: ")
    form = {"value": json.dumps(value)}
    upload = http.post("/sources/upload", data=form, files={"file": ("a.txt", b"x")})
    assert "name: " in problem_of(upload, 400)["message"]


@pytest.mark.parametrize(
    "name",
    [
        "Plan, 2nd part.pdf",
        "می\u200cخواهم",  # noqa: RUF001 - Persian needs a joiner inside a word
        "👩\u200d💻 notes",
        "שלום\u200f!",
        "Straße  7",
        "日本語　資料",
        "·",
        "x" * 1000,
    ],
)
def test_any_other_name_is_kept_as_it_is(http, name):
    assert add_text(http, name, "A text.")["name"] == name


def test_who_guesses_keys_waits_and_nobody_else_does(service):
    def seconds(key):
        start = time.monotonic()
        web.get(f"{service.base_url}/bots", headers={"X-API-KEY": key})
        return time.monotonic() - start

    assert seconds("a-guess") > 0.2
    assert min(seconds(service.api_key) for _ in range(3)) < 0.2
