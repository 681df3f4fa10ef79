"""`kbot sources`."""

import json

import pytest

from calls import SOURCE
from knowledge_bot.testing import no_waiting
from scripted_server import answer

DETAILS = {
    **SOURCE,
    "status": "failed",
    "revision": "r2",
    "ready_revision": "r1",
    "reason": "it is a picture",
    "warnings": ["page 3 has no text"],
    "ready_at": None,
}
ANNOUNCED = answer(body="pong", headers={"Knowledge-Bot-Extensions": "sources=1;manage"})


def test_sources_are_listed_with_what_went_wrong(run, answering):
    server = answering(answer(body={"data": [DETAILS]}), on_ping=ANNOUNCED)
    done = run("sources", "list", "--status", "failed", "--collection", "col_1", "--name", "n")
    assert done.stdout == "src_1\tHandbook\tfailed\tit is a picture; page 3 has no text\n"
    assert server.requests[0].path.endswith("?limit=500&name=n&status=failed&collection=col_1")
    assert json.loads(run("sources", "list", "--json").stdout) == [DETAILS]


def test_one_is_shown(run, answering):
    answering(answer(body=DETAILS), on_ping=ANNOUNCED)
    assert run("sources", "show", "src_1").stdout.startswith("src_1\tHandbook\tfailed\t")
    assert json.loads(run("sources", "show", "src_1", "--json").stdout) == DETAILS


def test_sources_are_deleted(run, answering):
    server = answering(
        answer(404, {"code": "unknown_source", "message": "m"}), answer(204), on_ping=ANNOUNCED
    )
    assert run("sources", "delete", "src_1", "src_2").exit_code == 0
    assert [(one.method, one.path[-5:]) for one in server.requests] == [
        ("DELETE", "src_1"),
        ("DELETE", "src_2"),
    ]


def test_where_it_is_not_announced_nothing_is_sent(run, answering):
    server = answering(answer(body=DETAILS))
    for arguments in (("list",), ("show", "src_1"), ("delete", "src_1")):
        assert run("sources", *arguments).exit_code == 2
    assert server.requests == []


ADD = ("add", "text", "-", "--collection", "col_1", "--name", "n")
REPLACE = (*ADD, "--replace", "src_1")
DELETE = ("sources", "delete", "src_1")
ELSEWHERE = answer(404, b"<h1>No such page</h1>")
NEVER = answer(501, b"not here")
EXPIRED = answer(412, {"code": "idempotency_key_expired", "message": "m"})
REUSED = answer(422, {"code": "idempotency_key_reused", "message": "m", "id": "src_7"})
READ_ONLY = answer(403, {"code": "read_only_key", "message": "m"})
KEYS = "idempotency=1;lifetime=60"
MANAGED = "sources=1;manage"


@pytest.mark.parametrize(
    ("arguments", "service", "outcome"),
    [
        (DELETE, ("sources=1", answer(204)), (2, 0, "role manage")),
        (REPLACE, ("sources=1", answer(200, DETAILS)), (2, 1, "role manage")),
        (DELETE, (MANAGED, READ_ONLY), (4, 1, "did not act")),
        (DELETE, (MANAGED, ELSEWHERE), (1, 1, "No such page")),
        (REPLACE, (MANAGED, ELSEWHERE), (1, 1, "No such page")),
        (DELETE, (MANAGED, NEVER), (8, 3, "no second effect")),
        (ADD, (KEYS, EXPIRED), (1, 1, "too old")),
        (ADD, (KEYS, REUSED), (1, 1, "used for another request")),
        (ADD, (KEYS, answer(200, SOURCE)), (0, 1, "")),
    ],
)
def test_a_service_that_does_other_than_it_announces_is_told_of(
    run, answering, arguments, service, outcome
):
    announced, reply = service
    ping = answer(body="pong", headers={"Knowledge-Bot-Extensions": announced})
    server = answering(reply, on_ping=ping)
    with no_waiting():
        done = run(*arguments, stdin="We open at nine.")
    code, sent, told = outcome
    assert (done.exit_code, len(server.requests)) == (code, sent), done.stderr
    assert told in done.stderr
