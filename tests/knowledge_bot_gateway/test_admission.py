"""Who is let in, what is bounded, and that no key is shown."""

import json
import logging
import re
import socket
import time
from http.client import HTTPConnection

import httpx2
import openai
import pytest

from calls import KEY as SERVICE_KEY
from gateways import HEADERS, KEY, app_of, asked, openai_of, serving
from knowledge_bot import ConfigurationError
from knowledge_bot_gateway import Admission

ASKED = {"model": "bot_guide", "messages": [{"role": "user", "content": "Who opens?"}]}
CHAT = "/v1/chat/completions"
PATHS = ["/v1/models", CHAT, "/v1/responses", "/mcp", "/v1/openapi.json", "/x"]


@pytest.mark.parametrize("key", [None, "wrong", KEY[:-1], "ä"])
def test_nothing_is_shown_without_the_key(http, service, key):
    headers = {} if key is None else {"Authorization": f"Bearer {key}".encode("latin-1")}
    for path in PATHS:
        response = http.post(path, json=ASKED, headers=headers)
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "invalid_api_key"
        assert response.headers["www-authenticate"] == "Bearer"
    assert service.requests == []


def test_a_key_for_the_service_itself_is_told_where_that_is(http):
    said = http.get("/v1/models", headers={"X-API-KEY": KEY}).json()["error"]["message"]
    assert "base URL ends in /public/v1" in said
    assert KEY not in said


def test_a_callers_key_is_passed_through(start, service):
    http = start(api_key=None, keys=())
    for key in ("key-of-ada", "key-of-ben"):
        openai_of(http, key).chat.completions.create(**ASKED)
    sent = [one.headers["x-api-key"] for one in service.requests]
    assert sent == ["key-of-ada", "key-of-ben"]
    assert http.post(CHAT, json=ASKED).status_code == 401
    assert len(service.requests) == 2
    service.fail_next(401)
    with pytest.raises(openai.AuthenticationError):  # it is the caller's that was refused
        openai_of(http, "wrong").models.list()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "gateway.evil.example"])
def test_who_calls_it_by_another_name_is_not_let_in(http, host):
    assert http.get("/v1/models", headers={**HEADERS, "Host": host}).status_code == 421


@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_a_page_of_another_origin_is_not_let_in(http, origin):
    assert http.get("/v1/models", headers={**HEADERS, "Origin": origin}).status_code == 403


def test_a_page_of_a_named_origin_is_let_in_from_a_browser(start):
    origin = "https://chat.example"
    http = start(admission={"origins": (origin,)})
    preflight = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    answer = http.options(CHAT, headers=preflight)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
    answer = http.post(CHAT, json=ASKED, headers={**HEADERS, "Origin": origin})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
    wrong = http.options(CHAT, headers={**preflight, "Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in wrong.headers
    assert http.get("/v1/models", headers={"Origin": origin}).status_code == 401


@pytest.mark.parametrize("origin", ["chat.example", "https://chat.example/", "*", "null"])
def test_what_is_no_origin_is_refused(origin):
    with pytest.raises(ConfigurationError, match=re.escape(repr(origin))):
        Admission(("key",), origins=(origin,))


@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_body_is_refused_before_it_is_kept(start, service, chunked):
    http = start(admission={"most_bytes": 10_000})
    body = b'{"model": "' + b"x" * 200_000 + b'"}'
    content = (body[at : at + 4096] for at in range(0, len(body), 4096)) if chunked else body
    headers = {**HEADERS, "Content-Type": "application/json"}
    response = http.post(CHAT, content=content, headers=headers)
    assert response.status_code == 413
    assert response.json()["error"]["delivery"] == "not_delivered"
    assert asked(service) == []


@pytest.mark.parametrize(("size", "status"), [(10_000, 200), (10_001, 413)])
def test_a_body_may_be_as_large_as_the_limit(start, size, status):
    http = start(admission={"most_bytes": 10_000})
    asking = {"model": "bot_guide", "messages": [{"role": "user", "content": "Who opens?"}]}
    headers = {**HEADERS, "Content-Type": "application/json"}
    body = json.dumps(asking).ljust(size)
    assert http.post(CHAT, content=body, headers=headers).status_code == status


def test_a_client_that_sends_all_of_a_huge_body_first_reads_why_it_is_refused(service):
    """Where the connection was closed before, it saw a reset."""
    body = b'{"model": "' + b"x" * 5 * 1024 * 1024 + b'"}'
    with serving(app_of()) as address:
        url = httpx2.URL(address)
        for key, expected in ((KEY, 413), ("wrong", 401)):
            connection = HTTPConnection(url.host, url.port, timeout=60)
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            connection.request("POST", CHAT, body, headers)
            assert connection.getresponse().status == expected
            connection.close()


@pytest.mark.parametrize(
    ("line", "headers", "expected"),
    [
        (f"POST {CHAT}/", {}, 200),
        ("GET /v1/models/", {}, 200),
        ("HEAD /v1/models", {}, 200),
        (f"POST {CHAT}", {"Content-Encoding": "gzip"}, 415),
        (f"POST {CHAT}", {"Content-Type": "text/plain"}, 415),
    ],
)
def test_requests_are_read_as_clients_send_them(start, service, line, headers, expected):
    method, path = line.split()
    content = json.dumps(ASKED) if method == "POST" else None
    sent = {**HEADERS, "Content-Type": "application/json", **headers}
    answer = start().request(method, path, content=content, headers=sent, follow_redirects=False)
    assert answer.status_code == expected
    assert len(asked(service)) == (method == "POST" and expected == 200)


def test_a_body_that_never_comes_is_given_up(service):
    with serving(app_of(admission={"body_seconds": 0.2})) as address:
        url = httpx2.URL(address)
        with socket.create_connection((url.host, url.port)) as connection:
            connection.sendall(
                f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
                "Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{".encode()
            )
            began = time.monotonic()
            assert b" 408 " in connection.recv(4096).partition(b"\r\n")[0]
            assert time.monotonic() - began < 20  # and not thirty seconds, as by default


@pytest.mark.parametrize("key", ["", " ", "a b", "ä", "a\nb"])
def test_a_key_that_nobody_can_send_is_refused_at_once(key):
    with pytest.raises(ConfigurationError):
        Admission([key])


def test_no_key_is_in_errors_or_logs(start, service, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    passing, guarded = start(api_key=None, keys=()), start()
    shown = []
    for reachable, bodies in ((True, (ASKED, {**ASKED, "model": "x"}, {}, [])), (False, (ASKED,))):
        service.reachable = reachable
        for http, key in ((passing, "secret-of-ada"), (guarded, KEY), (guarded, "secret-of-ada")):
            for path in PATHS:
                for body in bodies:
                    headers = {"Authorization": f"Bearer {key}"}
                    response = http.post(path, json=body, headers=headers)
                    shown += [response.text, str(response.headers)]
    shown += [repr(vars(Admission([KEY]))), caplog.text, *capfd.readouterr()]
    text = "\n".join(shown)
    for key in (KEY, SERVICE_KEY, "secret-of-ada"):
        at = text.find(key)
        assert at < 0, text[at - 300 : at + 50]
