"""The key and the secrets of headers appear in nothing that `kbot` prints."""

import pytest

from calls import KEY
from knowledge_bot.testing import no_waiting
from scripted_server import answer, close, reset, silence, then

TO = ("--collection", "col_1")
COMMANDS = {
    "bots": (),
    "ask": ("bot_1", "When?"),
    "chat": ("bot_1",),
    "add page": ("https://h.example", "--header", "@-", *TO),
    "add text": ("--name", "A", "--content", "x", *TO),
    "add file": (__file__, *TO),
    "api GET": ("/bots",),
    "api POST": ("/messages", "--data", "{}"),
    "ingest jsonl": ("-", *TO),
    "ingest jsonl --json": ("-", *TO),
}
STDIN = {
    "chat": "When?",
    "add page": "Authorization: secret-of-the-page",
    "ingest jsonl": '{"url": "https://h.example", "headers": {"A": "secret-of-the-page"}}',
}
STDIN["ingest jsonl --json"] = STDIN["ingest jsonl"]
REPLIES = {
    "closed": close,
    "reset": reset,
    "silent": silence,
    "400 that repeats the key": answer(400, {"code": KEY, "message": f"X-API-KEY: {KEY}"}),
    "401": answer(401, {"message": f"unknown key {KEY}"}),
    "500": answer(500, f"<h1>{KEY}</h1>".encode()),
    "redirect": answer(302, headers={"Location": "/elsewhere"}),
    "junk": answer(body=b"junk"),
    "cut short": then(answer(body=b"{", length=100), close),
}


@pytest.fixture(autouse=True)
def _no_waiting():
    with no_waiting():
        yield


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_secret_is_shown_whatever_the_service_does(run, answering, tmp_path, command, reply):
    server = answering(REPLIES[reply])
    done = run(
        *("--verbose", "--timeout", "0.3" if reply == "silent" else "20"),
        *(*command.split(), *COMMANDS[command]),
        stdin=STDIN.get(command, ""),
    )
    assert server.requests[0].headers["x-api-key"] == KEY
    assert KEY not in done.output
    assert "secret-of-the-page" not in done.output
    assert "Traceback" not in done.output
    for file in tmp_path.rglob("ledger.db*"):
        assert KEY.encode() not in file.read_bytes()
        assert b"secret-of-the-page" not in file.read_bytes()
    if reply != "junk" or not command.startswith("api"):  # which prints junk as it came
        assert done.exit_code in (1, 3, 4, 8)


def test_a_login_that_fails_shows_no_key(run, scripted):
    for reply in REPLIES.values():
        if reply is not silence:
            server = scripted(reply)
            done = run("-v", "--base-url", server.url, "login", "--key-stdin", stdin=KEY)
            assert done.exit_code in (1, 4)
            assert KEY not in done.output
