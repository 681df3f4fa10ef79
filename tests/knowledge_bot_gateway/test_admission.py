"""Who is let in, what is bounded, and that no key is shown."""

import logging
import re
import socket
import time

import httpx
import openai
import pytest

from calls import KEY as SERVICE_KEY
from gateways import KEY, gateway
from in_process import OnAPort
from knowledge_bot import ConfigurationError
from knowledge_bot_gateway import Admission

ASKED = {"model": "bot_guide", "messages": [{"role": "user", "content": "Who opens?"}]}
PATHS = ["/v1/models", "/v1/chat/completions", "/v1/responses", "/mcp", "/v1/openapi.json", "/x"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key", [None, "wrong", KEY[:-1], "ä"])
def test_nothing_is_shown_without_the_key(address, bots, path, key):
    headers = {} if key is None else {"Authorization": f"Bearer {key}".encode("latin-1")}
    response = httpx.post(f"{address}{path}", json=ASKED, headers=headers)
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "invalid_api_key"
    assert response.headers["www-authenticate"] == "Bearer"
    assert bots.contents == []


def test_any_of_several_keys_is_right(start):
    address = start(keys=("one", "two"))
    for key in ("one", "two"):
        openai.OpenAI(base_url=f"{address}/v1", api_key=key).chat.completions.create(**ASKED)


def test_a_callers_key_is_passed_through(start, bots):
    address = start(api_key=None, keys=())
    for key in ("key-of-ada", "key-of-ben"):
        openai.OpenAI(base_url=f"{address}/v1", api_key=key).chat.completions.create(**ASKED)
    assert [one.headers["x-api-key"] for one in bots.server.requests] == [
        "key-of-ada",
        "key-of-ben",
    ]
    assert httpx.post(f"{address}/v1/chat/completions", json=ASKED).status_code == 401
    assert len(bots.contents) == 2


def test_a_key_that_the_service_refuses_is_the_callers():
    with (
        OnAPort() as service,
        gateway(service.base_url, None, keys=()) as address,
        pytest.raises(openai.AuthenticationError),
    ):
        openai.OpenAI(base_url=f"{address}/v1", api_key="wrong").models.list()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example"])
def test_who_calls_it_by_another_name_is_not_let_in(address, host):
    headers = {"Authorization": f"Bearer {KEY}", "Host": host}
    response = httpx.get(f"{address}/v1/models", headers=headers)
    assert response.status_code in (400, 421)  # an empty name is refused before us


def test_a_page_of_another_origin_is_not_let_in(address):
    headers = {"Authorization": f"Bearer {KEY}", "Origin": "https://evil.example"}
    assert httpx.get(f"{address}/v1/models", headers=headers).status_code == 403
    headers["Origin"] = "null"
    assert httpx.get(f"{address}/v1/models", headers=headers).status_code == 403


def test_a_page_of_a_named_origin_is_let_in_from_a_browser(start, bots):
    origin = "https://chat.example"
    address = start(admission={"origins": (origin,)})
    preflight = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    answer = httpx.options(f"{address}/v1/chat/completions", headers=preflight)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    headers = {"Authorization": f"Bearer {KEY}", "Origin": origin}
    answer = httpx.post(f"{address}/v1/chat/completions", json=ASKED, headers=headers)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
    wrong = httpx.options(
        f"{address}/v1/chat/completions", headers={**preflight, "Origin": "https://evil.example"}
    )
    assert "access-control-allow-origin" not in wrong.headers
    assert httpx.get(f"{address}/v1/models", headers={"Origin": origin}).status_code == 401


@pytest.mark.parametrize("origin", ["chat.example", "https://chat.example/", "*", "null"])
def test_what_is_no_origin_is_refused(origin):
    with pytest.raises(ConfigurationError, match=re.escape(repr(origin))):
        Admission(("key",), origins=(origin,))


@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_body_is_refused_before_it_is_kept(start, bots, chunked):
    address = start(admission={"most_bytes": 10_000})
    body = b'{"model": "' + b"x" * 200_000 + b'"}'
    content = (body[at : at + 4096] for at in range(0, len(body), 4096)) if chunked else body
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    try:
        response = httpx.post(f"{address}/v1/chat/completions", content=content, headers=headers)
    except httpx.WriteError:  # it was still sending when the connection was closed
        return
    assert response.status_code == 413
    assert response.json()["error"]["delivery"] == "not_delivered"
    assert bots.contents == []


def test_a_body_that_never_comes_is_given_up(start):
    address = httpx.URL(start(admission={"body_seconds": 0.5}))
    with socket.create_connection((address.host, address.port)) as connection:
        connection.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}"
            "\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{".encode()
        )
        began = time.monotonic()
        assert b" 408 " in connection.recv(4096).partition(b"\r\n")[0]
        assert time.monotonic() - began < 20  # and not thirty seconds, as by default


@pytest.mark.parametrize("key", ["", " ", "a b", "ä", "a\nb"])
def test_a_key_that_nobody_can_send_is_refused_at_once(key):
    with pytest.raises(ConfigurationError):
        Admission([key])


def test_no_key_is_in_errors_or_logs(start, bots, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    passing = start(api_key=None, keys=())
    guarded = start()
    sentence = []
    for address, key in ((passing, "secret-of-ada"), (guarded, KEY), (guarded, "secret-of-ada")):
        headers = {"Authorization": f"Bearer {key}"}
        for path in PATHS:
            for body in (ASKED, {**ASKED, "model": "x"}, {}, []):
                response = httpx.post(f"{address}{path}", json=body, headers=headers)
                sentence += [response.text, str(response.headers)]
    bots.server.stop()
    for address, key in ((passing, "secret-of-ada"), (guarded, KEY)):
        headers = {"Authorization": f"Bearer {key}"}
        sentence.append(httpx.post(f"{address}/v1/responses", json=ASKED, headers=headers).text)
    sentence += [repr(vars(Admission([KEY]))), caplog.text, *capfd.readouterr()]
    text = "\n".join(sentence)
    for key in (KEY, SERVICE_KEY, "secret-of-ada"):
        at = text.find(key)
        assert at < 0, text[at - 300 : at + 50]
