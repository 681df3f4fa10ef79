"""`kbot api`."""

import json
import subprocess

import pytest

from scripted_server import answer, close


def test_the_answer_is_printed_as_it_came(kbot, answering):
    body = b'{ "value":{"data": []}, "extra": "\xc3\xbc" }'
    server = answering(answer(body=body))
    done = kbot("api", "get", "/collections?page=2")
    assert (done.returncode, done.stdout) == (0, body.decode())
    assert server.requests[0].path == "/public/v1/collections?page=2"


def test_a_body_is_sent_as_it_stands(run, answering):
    server = answering(answer(body=b"{}"))
    body = '{"value": {"bot_id":  "bot_1"}}'
    assert run("api", "POST", "/messages", "--data", body).exit_code == 0
    assert run("api", "POST", "/messages", "--data", "-", stdin=body + "\n").exit_code == 0
    assert [request.body.decode() for request in server.requests] == [body, body]


@pytest.mark.parametrize("reply", [close, answer(500), answer(502)])
def test_a_post_without_an_answer_is_sent_once_and_ends_with_8(run, answering, reply):
    server = answering(reply)
    assert run("api", "POST", "/sources/write", "--data", "{}").exit_code == 8
    assert len(server.requests) == 1


@pytest.mark.parametrize("method", ["put", "PATCH", "DELETE"])
def test_what_has_no_second_effect_is_sent_again(run, answering, method):
    server = answering(answer(503, headers={"Retry-After": "0"}), answer(body=b"{}"))
    data = () if method == "DELETE" else ("--data", '{"value": {}}')
    assert run("api", method, "/sources/src_1", *data).exit_code == 0
    assert [request.method for request in server.requests] == [method.upper()] * 2
    assert server.requests[0].body == (b"" if method == "DELETE" else b'{"value": {}}')


def test_what_a_post_was_answered_is_reported_where_stdout_does_not_take_it(program, answering):
    server = answering(answer(body=b'{"id": "src_7"}'))
    done = subprocess.run(
        f"{program} api POST /sources/write --data '{{}}' >/dev/full",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, len(server.requests)) == (8, 1)
    assert '{"id": "src_7"}' in done.stderr


def test_a_get_is_sent_again_as_everywhere(run, answering):
    server = answering(
        answer(503, headers={"Retry-After": "0"}), answer(body=b"pong"), on_ping=None
    )
    assert run("api", "GET", "/ping").stdout == "pong"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("GET", "ping"),
        ("GET", "@elsewhere.example/"),
        ("GET", "https://elsewhere.example/"),
        ("GET", "/../admin"),
        ("GET", "/%2E%2e/admin"),
        ("GET", "/a b"),
        ("GET", "/a\r\nX: y"),
        ("GET", "/ping", "--data", "{}"),
        ("POST", "/messages", "--data", "{not json"),
        ("TRACE", "/sources/src_1"),
    ],
)
def test_what_cannot_be_meant_is_not_sent(run, answering, arguments):
    server = answering(answer(body=b"{}"))
    assert run("api", *arguments).exit_code == 2
    assert server.started == 0


def test_a_call_reaches_the_service(run, of_the_service):
    listed = json.loads(run("api", "GET", "/bots").stdout)
    assert listed["value"]["data"][0]["id"] == "bot_guide"


def test_a_query_is_in_no_log_and_in_no_error(run, answering):
    server = answering(answer(404))
    done = run("--verbose", "api", "GET", "/bots?token=hidden-word")
    assert server.requests[0].path == "/public/v1/bots?token=hidden-word"
    assert "GET /bots: 404 in" in done.stderr
    assert "hidden-word" not in done.output
