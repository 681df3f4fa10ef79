"""`kbot search`."""

import json

from scripted_server import answer

PASSAGE = {
    "id": "pas_1",
    "source_id": "src_1",
    "name": "Handbook",
    "text": "At nine.\nEvery day.",
    "url": None,
    "revision": "r1",
    "score": 1.5,
    "found": None,
}
ANNOUNCED = answer(body="pong", headers={"Knowledge-Bot-Extensions": "passages=1"})


def test_passages_are_listed_best_first(run, answering):
    server = answering(answer(body={"data": [PASSAGE]}), on_ping=ANNOUNCED)
    done = run("search", "When?", "--bot", "bot_1", "--limit", "3")
    assert done.stdout == "Handbook\tAt nine. Every day.\tpas_1\n"
    assert server.requests[0].json() == {"value": {"query": "When?", "limit": 3, "bot_id": "bot_1"}}
    done = run("search", "When?", "--collection", "col_1", "--json")
    assert json.loads(done.stdout) == [PASSAGE]


def test_the_question_may_come_from_stdin(run, answering):
    server = answering(answer(body={"data": []}), on_ping=ANNOUNCED)
    assert run("search", "-", stdin="When?\n").exit_code == 0
    assert server.requests[0].json()["value"]["query"].strip() == "When?"


def test_a_service_that_cannot_is_named_as_such(run, answering):
    server = answering(answer(body={"data": []}))
    assert run("search", "When?").exit_code == 2
    assert server.requests == []


def test_the_embedded_service_is_searched(run, of_the_service, handbook):
    run("ingest", "folder", handbook, "--wait-ready", "30")
    assert run("search", "anything").exit_code == 0
