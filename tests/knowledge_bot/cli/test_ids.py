"""Collections and bots that nobody named: the only one is taken, and nothing is guessed."""

import pytest

from calls import MESSAGE, SOURCE
from knowledge_bot_service import LocalService
from scripted_server import answer

ONE_COLLECTION = answer(body={"data": [{"id": "col_1", "name": "Handbook"}]})
ONE_BOT = answer(body={"data": [{"id": "bot_1", "name": "Guide"}]})
TEXT = ("add", "text", "--name", "A", "--content", "We open at nine.")


@pytest.fixture
def with_one_of_each(service, monkeypatch):
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", service.base_url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", service.api_key)
    return service


@pytest.fixture(scope="module")
def service_of_several():
    with LocalService(
        collections={"col_a": "Archive", "col_handbook": "Handbook"},
        bots={"bot_a": ["col_a"], "bot_handbook": ["col_handbook"]},
    ) as running:
        yield running


@pytest.fixture
def with_several(service_of_several, monkeypatch):
    monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", service_of_several.base_url)
    monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", service_of_several.api_key)


def test_the_only_collection_is_taken_and_named(run, with_one_of_each, handbook, tmp_path):
    (tmp_path / "page.txt").write_text("A page.")
    for command in (TEXT, ("add", "file", tmp_path / "page.txt"), ("ingest", "folder", handbook)):
        done = run(*command)
        assert done.exit_code == 0, done.stderr
        assert done.stderr.startswith("(adding to col_handbook, 'Handbook', the only collection)\n")


def test_the_only_bot_is_asked_and_named(run, with_one_of_each):
    done = run("ask", "When do you open?")
    assert done.exit_code == 0
    assert done.stderr.startswith("(asking bot_guide, the only bot)\n")
    assert done.stdout
    talk = run("chat", stdin="When do you open?\n")
    assert (talk.exit_code, talk.stderr.count("(asking bot_guide, the only bot)")) == (0, 1)


def test_a_quiet_ingestion_does_not_say_which(run, with_one_of_each, handbook):
    assert run("ingest", "folder", handbook, "--quiet").stderr == ""


def test_of_several_collections_none_is_taken(run, with_several, handbook):
    for command in (TEXT, ("ingest", "folder", handbook)):
        done = run(*command)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith(
            "Error: Which collection? The service has 2:\n"
            "  col_a         Archive\n"
            "  col_handbook  Handbook\n"
            "Pass --collection ID"
        )


def test_of_several_bots_none_is_asked(run, with_several):
    for command in (("ask", "When do you open?"), ("chat",)):
        done = run(*command, stdin="When do you open?")
        assert (done.exit_code, done.stdout) == (2, "")
        assert "Which bot? The service has 2:\n  bot_a\n  bot_handbook\nName one: " in done.stderr


def test_a_long_list_is_cut(run, answering):
    many = [{"id": f"bot_{number:03}", "name": "n"} for number in range(100)]
    answering(answer(body={"data": many}))
    done = run("ask", "When?")
    assert "bot_019" in done.stderr
    assert "bot_020" not in done.stderr
    assert "… and 80 more, see `kbot bots`" in done.stderr


@pytest.mark.parametrize(
    ("command", "kind"), [(TEXT, "collection"), (("ask", "When?"), "bot"), (("chat",), "bot")]
)
@pytest.mark.parametrize(
    ("listing", "code"),
    [
        (answer(body={"data": []}), 1),
        (answer(body={"data": [{"id": "x_1", "name": ""}, {"id": "x_2", "name": ""}]}), 2),
        (answer(401), 4),
        (answer(500), 1),
    ],
)
def test_nothing_is_posted_before_it_is_settled(run, answering, command, kind, *, listing, code):
    server = answering(listing)
    done = run(*command, stdin="When?")
    assert done.exit_code == code
    assert {request.method for request in server.requests} == {"GET"}
    if code == 1 and len(server.requests) == 1:
        assert kind in done.stderr


@pytest.mark.parametrize(
    ("command", "listing", "reply"),
    [
        (TEXT, ONE_COLLECTION, answer(body=SOURCE)),
        (("ask", "When?"), ONE_BOT, answer(body=MESSAGE)),
    ],
)
def test_it_is_asked_for_once_and_then_used(run, answering, command, listing, reply):
    server = answering(listing, reply)
    assert run(*command).exit_code == 0
    assert [request.method for request in server.requests] == ["GET", "POST"]


@pytest.mark.parametrize(
    "command",
    [(*TEXT, "--collection", "col_1"), ("ask", "bot_1", "When?"), ("chat", "bot_1")],
)
def test_what_is_named_is_not_asked_for(run, answering, command):
    server = answering(answer(body=SOURCE if command[0] == "add" else MESSAGE))
    assert run(*command, stdin="When?").exit_code == 0
    assert [request.method for request in server.requests] == ["POST"]


def test_a_dry_run_without_a_key_takes_the_only_collection(run, scripted, handbook):
    server = scripted(ONE_COLLECTION)
    done = run("--base-url", server.url, "ingest", "folder", handbook, "--dry-run")
    assert (done.exit_code, "a.md" in done.stdout) == (0, True)
    assert [request.method for request in server.requests] == ["GET"]


def test_a_name_cannot_steer_the_terminal(run, answering):
    name = "Guide\n\x1b[2J"
    answering(answer(body={"data": [{"id": "bot_1", "name": name}]}), answer(body=MESSAGE))
    first, _ = run("ask", "When?").stderr.splitlines()
    assert "\x1b" not in first
