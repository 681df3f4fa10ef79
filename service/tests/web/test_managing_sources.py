"""Sources as people manage them: listed, read, deleted and replaced."""

import contextlib
import json
import sqlite3
import time

import pytest

from document_files import pdf
from in_process import InProcess
from knowledge_bot_service import LocalService
from service_calls import (
    BOTS,
    COLLECTIONS,
    add_text,
    ask,
    client_of,
    problem_of,
    put_text,
    value_of,
)
from waiting import until

REFUSAL = "I could not find that in my sources."
LONG = "\n\n".join(f"Paragraph {number} says {'nothing ' * 60}new." for number in range(120))


def own_service(folder, **settings):
    return InProcess(folder, collections=COLLECTIONS, bots=BOTS, settings=settings)


@pytest.fixture
def service(fresh):
    """A service of each test's own, which `http` is a client of."""
    return fresh


@pytest.fixture(scope="module")
def anyones(tmp_path_factory):
    """A client of one service for all tests that need it neither empty nor running."""
    folder = tmp_path_factory.mktemp("fresh")
    with own_service(folder) as running, client_of(running) as client:
        yield client


def page(http, path, method="GET", **more):
    root = str(http.base_url).removesuffix("/public/v1/")
    return http.request(method, f"{root}/page/{path}", **more)


def listed(http, **parameters):
    return value_of(http.get("/sources", params=parameters))


def names_of(http, **parameters):
    return [one["name"] for one in listed(http, **parameters)["data"]]


def standing(http, source):
    return value_of(http.get(f"/sources/{source}"))


def text_of(http, source, **place):
    return value_of(http.get(f"/sources/{source}/text", params=place))


def put_nothing(http, key):
    """Put a file that cannot be read."""
    value = {"origin": "notes", "key": key, "digest": "none", "name": key}
    form = {"value": json.dumps(value | {"collections": ["col_one"]})}
    file = {"file": ("hours.pdf", b"%PDF-1.4 cut off", "application/pdf")}
    return value_of(http.put("/sync/upload", data=form, files=file))["source"]


def left(service):
    """How many passages, rows of their index, collections of sources, jobs and removals exist."""
    file = service.data / "knowledge.sqlite3"
    with contextlib.closing(sqlite3.connect(file, timeout=30)) as database:
        return tuple(
            database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("passage", "passage_index", "source_collection", "job", "removal")
        )


def is_empty(service):
    return left(service) == (0, 0, 0, 0, 0) and not list((service.data / "material").iterdir())


def test_a_list_is_searched_filtered_and_paged(http, fresh):
    for number in range(5):
        add_text(http, f"Rule {number}", "No running.")
    add_text(http, "ÜBER die Regeln", "Nicht rennen.", "col_two")
    fresh.wait_until_ready(300)
    assert listed(http, counts=True)["counts"] == {"ready": 6}
    assert listed(http, counts=True, collection="col_two")["counts"] == {"ready": 1}
    assert names_of(http, search="über DIE") == ["ÜBER die Regeln"]
    assert names_of(http, search="%") == []
    assert names_of(http, name="Rule 2") == ["Rule 2"]
    assert names_of(http, name="Rule") == names_of(http, name="rule 2") == []
    assert names_of(http, collection="col_two") == ["ÜBER die Regeln"]
    assert len(names_of(http, collection=["col_two", "col_one"])) == 6
    assert names_of(http, collection="col_lost") == []
    assert names_of(http, status=["failed", "pending"]) == []
    assert len(names_of(http, status=["failed", "ready"])) == 6
    first = listed(http, search="rule", limit=2)
    add_text(http, "Rule 5", "Added between two pages.")
    names = [one["name"] for one in first["data"]]
    while first["next"] is not None:
        first = listed(http, search="rule", limit=2, before=first["next"])
        names += [one["name"] for one in first["data"]]
    assert names == [f"Rule {number}" for number in (4, 3, 2, 1, 0)]


@pytest.mark.parametrize(
    "parameters",
    [
        {"text": {"passage": 2**63 - 1}},
        {"text": {"passage": "x"}},
        {"text": {"first": -1}},
        {"text": {"limit": 0}},
        {"limit": 0},
        {"limit": 501},
        {"before": -1},
        {"before": 2**63},
        {"before": "x"},
        {"status": "lost"},
        {"name": "n" * 1001},
        {"collection": "c" * 201},
        {"statuss": "ready"},
    ],
)
def test_a_list_that_cannot_be_is_a_400(anyones, parameters):
    path = "/sources"
    if place := parameters.get("text"):
        path, parameters = f"/sources/{add_text(anyones, 'Rules', 'No running.')['id']}/text", place
    response = anyones.get(path, params=parameters)
    assert problem_of(response, 400)["code"] == "invalid_request"


def test_a_text_is_read_in_its_order_page_by_page(http, fresh):
    source = add_text(http, "Long", LONG)["id"]
    fresh.wait_until_ready(300)
    part = text_of(http, source, limit=100)
    assert part["previous"] is None
    assert (part["source"]["name"], part["source"]["status"]) == ("Long", "ready")
    read = [*part["passages"]]
    while part["next"] is not None:
        before = part["passages"][0]["id"]
        part = text_of(http, source, limit=100, first=part["next"])
        assert part["previous"] == before
        read += part["passages"]
    assert "\n\n".join(one["text"] for one in read).split() == LONG.split()


def test_a_passage_that_an_answer_quotes_is_shown_with_what_is_before_it(http, fresh):
    add_text(http, "Long", f"{LONG}\n\nThe canoes are kept by Ruth Okafor.\n\n{LONG}")
    fresh.wait_until_ready(300)
    cited = ask(http, "Where are the canoes kept by Ruth Okafor?")["sources"][0]
    named = cited["passages"][0]["place"]
    shown = text_of(http, cited["id"], passage=named, limit=5)
    place = [one["id"] for one in shown["passages"]].index(named)
    assert place == 2
    assert "Ruth Okafor" in shown["passages"][place]["text"]
    assert shown["previous"] is not None


def test_a_deleted_source_is_gone_from_answers_at_once_and_from_the_folder_soon(http, fresh):
    source = add_text(http, "Canoes", f"The canoes are kept by Ruth Okafor.\n\n{LONG}")["id"]
    fresh.wait_until_ready(300)
    told = ask(http, "Where are the canoes kept by Ruth Okafor?")
    assert "Ruth Okafor" in told["answer"]
    response = http.delete(f"/sources/{source}")
    assert (response.status_code, response.content) == (204, b"")
    assert ask(http, "Where are the canoes kept by Ruth Okafor?")["answer"] == REFUSAL
    assert listed(http)["data"] == []
    assert fresh.sources() == []
    assert problem_of(http.get(f"/sources/{source}"), 404)["code"] == "unknown_source"
    again = http.delete(f"/sources/{source}")
    assert problem_of(again, 404)["code"] == "unknown_source"
    assert until(lambda: is_empty(fresh))
    # What was said with it stays, and can be gone on with.
    conversation = told["conversation_id"]
    kept = page(http, f"bots/bot_one/conversations/{conversation}").json()["rows"]
    assert [(one["answer"], one["sources"][0]["id"]) for one in kept] == [(told["answer"], source)]
    assert ask(http, "And the boats?", conversation)["conversation_id"] == conversation


def test_nothing_of_a_deleted_source_stays_in_the_files(tmp_path):
    with own_service(tmp_path / "data") as service, client_of(service) as http:

        def files():
            found = [file for file in service.data.rglob("*") if file.is_file()]
            return b"".join(file.read_bytes() for file in found).lower()

        # Of the index there are parts from before and from after it.
        add_text(http, "Rules", LONG)
        service.wait_until_ready(300)
        secret = "\n\n".join(f"The vatrushka of gate {number} is ocelot." for number in range(2000))
        source = add_text(http, "Yggdrasil", secret)["id"]
        service.wait_until_ready(300)
        add_text(http, "More rules", LONG)
        service.wait_until_ready(300)
        assert all(word in files() for word in (b"vatrushka", b"ocelot", b"yggdrasil"))
        http.delete(f"/sources/{source}")
        assert until(lambda: left(service)[4] == 0)
        # While the service runs: the write-ahead log is among them.
        kept = files()
        assert b"nothing new" in kept
        assert [word for word in (b"atrushk", b"ocelot", b"ggdrasi") if word in kept] == []


def test_a_source_is_deleted_while_it_is_read(http, fresh):
    texts = [add_text(http, f"Text {number}", f"{LONG}\n\n{number}") for number in range(12)]
    uploads = [
        value_of(
            http.post(
                "/sources/upload",
                data={"name": "Upload", "collections": "col_one"},
                files={"file": ("upload.txt", LONG.encode())},
            )
        )
        for _ in range(4)
    ]
    for source in (*texts, *uploads):
        assert http.delete(f"/sources/{source['id']}").status_code == 204
    assert fresh.sources() == []
    assert until(lambda: is_empty(fresh))
    # Nothing waits for what is gone, and the workers go on.
    add_text(http, "Rules", "Nobody sings in the lift.")
    started = time.monotonic()
    assert "sings" in ask(http, "Who sings in the lift?")["answer"]
    assert time.monotonic() - started < 30


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_removal_goes_on_after_the_service_was_killed(tmp_path):
    with LocalService(tmp_path / "data", collections=COLLECTIONS, bots=BOTS) as service:
        with client_of(service) as http:
            source = add_text(http, "Long", LONG * 30)["id"]
            service.wait_until_ready(300)
            whole = left(service)[0]
            http.delete(f"/sources/{source}")
            assert until(lambda: left(service)[0] < whole, 300)
        service.kill()
        assert left(service)[0] > 0
        service.start()
        assert until(lambda: is_empty(service), 300)
        assert service.sources() == []


def test_passages_of_a_deleted_source_never_become_another_ones(http, fresh):
    source = add_text(http, "Secret", f"{LONG}\n\nThe canoes are kept by Ruth Okafor.")["id"]
    fresh.wait_until_ready(300)
    http.delete(f"/sources/{source}")
    newer = add_text(http, "Public", "The paddles are kept by Ida Holm.")["id"]
    fresh.wait_until_ready(300)
    shown = text_of(http, newer)["passages"]
    assert [one["text"] for one in shown] == ["The paddles are kept by Ida Holm."]
    assert ask(http, "Where are the canoes kept by Ruth Okafor?")["answer"] == REFUSAL


def test_a_replacement_takes_over_when_it_is_ready(http, fresh):
    older = put_text(http, "Opening", "The library opens at nine on Saturdays.")
    add_text(http, "Later", "Nobody sings in the lift.")
    fresh.wait_until_ready(300)
    ten = f"{LONG * 4}\n\nThe library opens at ten on Saturdays."
    accepted = put_text(http, "Opening", ten, name="Opening hours")
    assert accepted["id"] == older["id"]
    assert accepted["status"] == "pending"
    assert accepted["ready_revision"] == older["revision"] != accepted["revision"]
    assert "nine" in told_of_saturday(http)
    fresh.wait_until_ready(300)
    assert "ten" in told_of_saturday(http)
    assert "nine" not in told_of_saturday(http)
    source = standing(http, older["id"])
    assert source["name"] == "Opening hours"
    assert source["created_at"] == older["created_at"] < source["ready_at"]
    assert source["revision"] == source["ready_revision"] == accepted["revision"]
    assert listed(http, counts=True)["counts"] == {"ready": 2}
    assert until(lambda: left(fresh)[4] == 0)
    assert "nine on Saturdays" not in "".join(passages_of(fresh))


def told_of_saturday(http):
    """The answer at once: a question must not wait for the replacement."""
    answer: str = ask(http, "When does the library open on Saturdays?")["answer"]
    return answer


def passages_of(service):
    file = service.data / "knowledge.sqlite3"
    with contextlib.closing(sqlite3.connect(file, timeout=30)) as database:
        return [row[0] for row in database.execute("SELECT text FROM passage")]


def test_a_replacement_that_fails_leaves_the_old_text_and_says_why(http, fresh):
    source = put_text(http, "Opening", "The library opens at nine on Saturdays.")["id"]
    fresh.wait_until_ready(300)
    before = standing(http, source)
    accepted = put_nothing(http, "Opening")
    fresh.wait_until_ready(300)
    assert "nine" in told_of_saturday(http)
    shown = standing(http, source)
    assert (shown["status"], shown["revision"]) == ("failed", accepted["revision"])
    assert shown["reason"].startswith("the PDF is cut off")
    assert shown["ready_revision"] == before["revision"]
    assert shown["ready_at"] == before["ready_at"]
    assert listed(http, counts=True)["counts"] == {"failed": 1}
    assert [one["text"] for one in text_of(http, source)["passages"]] == passages_of(fresh)
    assert until(lambda: left(fresh)[4] == 0)
    assert not list((fresh.data / "material").iterdir())
    put_text(http, "Opening", "The library opens at ten on Saturdays.")
    fresh.wait_until_ready(300)
    assert standing(http, source)["reason"] is None
    assert listed(http, counts=True)["counts"] == {"ready": 1}


def test_pages_without_text_are_a_warning(http, fresh):
    form = {"name": "Scan", "collections": "col_one"}
    file = {"file": ("scan.pdf", pdf("Nobody sings.", "", "Nobody runs.", ""), "application/pdf")}
    source = value_of(http.post("/sources/upload", data=form, files=file))
    assert source["warnings"] == []
    fresh.wait_until_ready(300)
    shown = standing(http, source["id"])
    assert (shown["status"], shown["reason"]) == ("ready", None)
    assert len(shown["warnings"]) == 1
    assert shown["warnings"][0].endswith(": 2, 4")


def test_the_last_of_several_replacements_wins(http, fresh):
    for hour in ("eight", "nine", "ten", "eleven"):
        long = f"{LONG * 2}\n\nThe library opens at {hour} on Saturdays."
        source = put_text(http, "Opening", long)
    fresh.wait_until_ready(300)
    assert "eleven" in told_of_saturday(http)
    assert [one.id for one in fresh.sources()] == [source["id"]]
    assert until(lambda: left(fresh)[3:] == (0, 0))
    assert [text for text in passages_of(fresh) if "eight" in text or "nine" in text] == []
    # It is deleted with its replacement.
    put_text(http, "Opening", LONG * 4)
    http.delete(f"/sources/{source['id']}")
    assert until(lambda: is_empty(fresh))
    assert fresh.sources() == []


def test_the_quota_counts_what_is_there(tmp_path):
    with (
        own_service(tmp_path / "data", limits={"sources": 2}) as service,
        client_of(service) as http,
    ):
        # One that failed does not count.
        page = {"name": "Page", "collections": ["col_one"], "url": "http://127.0.0.1:1/"}
        value_of(http.post("/sources/webpage", json={"value": page}))
        service.wait_until_ready(300)
        first = put_text(http, "One", "The first text.")["id"]
        add_text(http, "Two", "The second text.")
        body = {"name": "Three", "collections": ["col_one"], "content": "The third text."}
        refused = http.post("/sources/write", json={"value": body})
        assert problem_of(refused, 402)["code"] == "quota_exceeded"
        # A source and its replacement are one.
        put_text(http, "One", LONG * 4)
        assert problem_of(http.post("/sources/write", json={"value": body}), 402)
        http.delete(f"/sources/{first}")
        value_of(http.post("/sources/write", json={"value": body}))
        assert problem_of(http.post("/sources/write", json={"value": body}), 402)


@pytest.mark.parametrize("source", ["src_" + "0" * 24, "x", "%00", "src_" + "x" * 300])
def test_what_is_not_there_cannot_be_changed(anyones, source):
    responses = [
        anyones.get(f"/sources/{source}"),
        anyones.get(f"/sources/{source}/text"),
        anyones.delete(f"/sources/{source}"),
    ]
    for response in responses:
        problem_of(response, 404 if len(source) <= 200 and source != "%00" else 400)


def test_conversations_are_listed_newest_first_and_read_back(http, fresh):
    add_text(http, "Rules", "Nobody sings in the lift.")
    fresh.wait_until_ready(300)
    conversations = [ask(http, f"Question {number}?")["conversation_id"] for number in range(5)]
    for _ in range(2):
        ask(http, "Who sings in the lift?", conversations[0])
    found, before = [], {}
    while True:
        part = page(http, "bots/bot_one/conversations", params={"limit": 2, **before}).json()
        found += part["rows"]
        if part["next"] is None:
            break
        before = {"before": part["next"]}
    assert [one["id"] for one in found] == conversations[::-1]
    assert found[-1]["name"] == "Question 0?"
    path = f"bots/bot_one/conversations/{conversations[0]}"
    newest = page(http, path, params={"limit": 2}).json()
    assert [one["question"] for one in newest["rows"]] == ["Who sings in the lift?"] * 2
    assert newest["rows"][0]["sources"][0]["name"] == "Rules"
    older = page(http, path, params={"before": newest["next"]}).json()
    assert [one["question"] for one in older["rows"]] == ["Question 0?"]
    assert older["next"] is None


def test_a_conversation_of_another_bot_is_not_shown(anyones):
    conversation = ask(anyones, "Question?")["conversation_id"]
    for path in (
        f"bots/bot_two/conversations/{conversation}",
        "bots/bot_one/conversations/conv_x",
        "bots/bot_x/conversations",
        f"bots/bot_x/conversations/{conversation}",
    ):
        assert problem_of(page(anyones, path), 404)["code"].startswith("unknown_")
