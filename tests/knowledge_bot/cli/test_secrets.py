"""The key and the secrets of headers appear in nothing that `kbot` prints."""

import pytest

from calls import KEY
from knowledge_bot.testing import no_waiting

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
JUNK = {"status": 200, "body": b"junk"}
FAULTS = {
    "lost": lambda service: service.lose_next_answer(times=None),
    "late": lambda service: service.time_out_next(times=None),
    "400 that repeats the key": lambda service: service.fail_next(
        400, code=KEY, message=f"X-API-KEY: {KEY}", times=None
    ),
    "401": lambda service: service.fail_next(401, message=f"unknown key {KEY}", times=None),
    "500": lambda service: service.answer_next(500, f"<h1>{KEY}</h1>".encode(), times=None),
    "redirect": lambda service: service.answer_next(302, b"", {"Location": "/else"}, times=None),
    "junk": lambda service: service.answer_next(**JUNK, times=None),
}


@pytest.fixture(autouse=True)
def _no_waiting():
    with no_waiting():
        yield


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_secret_is_shown_whatever_the_service_does(run, standing_in, tmp_path, command, fault):
    service = standing_in(bots={"bot_1": {}}, collections=["col_1"])
    FAULTS[fault](service)
    done = run("--verbose", *command.split(), *COMMANDS[command], stdin=STDIN.get(command, ""))
    assert service.requests[0].headers["x-api-key"] == KEY
    assert KEY not in done.output
    assert "secret-of-the-page" not in done.output
    assert "Traceback" not in done.output
    for file in tmp_path.rglob("ledger.db*"):
        assert KEY.encode() not in file.read_bytes()
        assert b"secret-of-the-page" not in file.read_bytes()
    if fault != "junk" or not command.startswith("api"):  # which prints junk as it came
        assert done.exit_code in (1, 3, 4, 8)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_login_that_fails_shows_no_key(run, standing_in, fault):
    FAULTS[fault](standing_in())
    done = run("-v", "login", "--key-stdin", stdin=KEY)
    assert done.exit_code in (1, 4)
    assert KEY not in done.output
