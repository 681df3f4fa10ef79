"""Sources as people manage them: listed, read, deleted and replaced."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowledge_bot_service import LocalService
from service_calls import BOTS, COLLECTIONS, add_text, ask, client_of, problem_of, value_of

REFUSAL = "I could not find that in my sources."
LONG = "\n\n".join(f"Paragraph {number} says {'nothing ' * 60}new." for number in range(120))


def admin_service(folder: Path, **settings: object) -> LocalService:
    return LocalService(
        folder, collections=COLLECTIONS, bots=BOTS, settings={"admin": True, **settings}
    )


@pytest.fixture
def managed(tmp_path: Path) -> Iterator[LocalService]:
    with admin_service(tmp_path / "data") as running:
        yield running


@pytest.fixture
def http(managed: LocalService) -> Iterator[httpx.Client]:
    with client_of(managed) as client:
        yield client


@pytest.fixture(scope="module")
def anyones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of one service for all tests that need it neither empty nor running."""
    folder = tmp_path_factory.mktemp("managed")
    with admin_service(folder) as running, client_of(running) as client:
        yield client


def page(http: httpx.Client, path: str, method: str = "GET", **more: Any) -> httpx.Response:
    root = str(http.base_url).removesuffix("/public/v1/")
    return http.request(method, f"{root}/page/{path}", **more)


def listed(http: httpx.Client, **parameters: str | int) -> dict[str, Any]:
    answer: dict[str, Any] = page(http, "sources", params=parameters).raise_for_status().json()
    return answer


def replace(http: httpx.Client, source: str, content: str, name: str = "Rules") -> httpx.Response:
    body = {"name": name, "collections": ["col_one"], "content": content}
    return page(http, f"sources/{source}/write", "PUT", json={"value": body})


def is_true(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def left(service: LocalService) -> tuple[int, ...]:
    """How many passages, rows of their index, collections of sources, jobs and removals exist."""
    file = service.data / "knowledge.sqlite3"
    with contextlib.closing(sqlite3.connect(file, timeout=30)) as database:
        return tuple(
            database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("passage", "passage_index", "source_collection", "job", "removal")
        )


def is_empty(service: LocalService) -> bool:
    return left(service) == (0, 0, 0, 0, 0) and not list((service.data / "material").iterdir())


def test_a_list_is_searched_filtered_and_paged(http: httpx.Client, managed: LocalService) -> None:
    for number in range(5):
        add_text(http, f"Rule {number}", "No running.")
    add_text(http, "ÜBER die Regeln", "Nicht rennen.", "col_two")
    managed.wait_until_ready()
    assert listed(http)["counts"] == {"ready": 6}
    assert [one["name"] for one in listed(http, name="über DIE")["sources"]] == ["ÜBER die Regeln"]
    assert listed(http, name="%")["sources"] == []
    assert [one["name"] for one in listed(http, collection="col_two")["sources"]] == [
        "ÜBER die Regeln"
    ]
    assert listed(http, status="failed")["sources"] == []
    first = listed(http, name="rule", limit=2)
    add_text(http, "Rule 5", "Added between two pages.")
    names = [one["name"] for one in first["sources"]]
    while first["next"] is not None:
        first = listed(http, name="rule", limit=2, before=first["next"])
        names += [one["name"] for one in first["sources"]]
    assert names == [f"Rule {number}" for number in (4, 3, 2, 1, 0)]


@pytest.mark.parametrize(
    "parameters",
    [
        {"limit": 0},
        {"limit": 201},
        {"before": -1},
        {"before": 2**63},
        {"before": "x"},
        {"status": "lost"},
        {"name": "n" * 1001},
        {"collection": "c" * 201},
    ],
)
def test_a_list_that_cannot_be_is_a_400(anyones: httpx.Client, parameters: dict[str, Any]) -> None:
    response = page(anyones, "sources", params=parameters)
    assert problem_of(response, 400)["code"] == "invalid_request"


def test_a_place_in_a_text_that_cannot_be_is_a_400(anyones: httpx.Client) -> None:
    source = add_text(anyones, "Rules", "Nobody sings in the lift.")["id"]
    for place in ({"passage": 2**63 - 1}, {"passage": "x"}, {"first": -1}, {"limit": 0}):
        response = page(anyones, f"sources/{source}", params=place)
        assert problem_of(response, 400)["code"] == "invalid_request"


def test_a_text_is_read_in_its_order_page_by_page(
    http: httpx.Client, managed: LocalService
) -> None:
    source = add_text(http, "Long", LONG)["id"]
    managed.wait_until_ready()
    part = page(http, f"sources/{source}", params={"limit": 100}).json()
    assert part["previous"] is None
    assert (part["source"]["name"], part["source"]["status"]) == ("Long", "ready")
    read = [*part["passages"]]
    while part["next"] is not None:
        before = part["passages"][0]["id"]
        part = page(http, f"sources/{source}", params={"limit": 100, "first": part["next"]}).json()
        assert part["previous"] == before
        read += part["passages"]
    assert "\n\n".join(one["text"] for one in read).split() == LONG.split()


def test_a_passage_that_an_answer_quotes_is_shown_with_what_is_before_it(
    http: httpx.Client, managed: LocalService
) -> None:
    add_text(http, "Long", f"{LONG}\n\nThe canoes are kept by Ruth Okafor.\n\n{LONG}")
    managed.wait_until_ready()
    cited = ask(http, "Where are the canoes kept by Ruth Okafor?")["sources"][0]
    shown = page(
        http, f"sources/{cited['id']}", params={"passage": cited["passages"][0], "limit": 5}
    ).json()
    place = [one["id"] for one in shown["passages"]].index(cited["passages"][0])
    assert place == 2
    assert "Ruth Okafor" in shown["passages"][place]["text"]
    assert shown["previous"] is not None


def test_a_deleted_source_is_gone_from_answers_at_once_and_from_the_folder_soon(
    http: httpx.Client, managed: LocalService
) -> None:
    source = add_text(http, "Canoes", f"The canoes are kept by Ruth Okafor.\n\n{LONG}")["id"]
    managed.wait_until_ready()
    told = ask(http, "Where are the canoes kept by Ruth Okafor?")
    assert "Ruth Okafor" in told["answer"]
    response = page(http, f"sources/{source}", "DELETE")
    assert response.json() == {"id": source, "name": "Canoes"}
    assert ask(http, "Where are the canoes kept by Ruth Okafor?")["answer"] == REFUSAL
    assert listed(http)["sources"] == []
    assert managed.sources() == []
    assert problem_of(page(http, f"sources/{source}"), 404)["code"] == "unknown_source"
    again = page(http, f"sources/{source}", "DELETE")
    assert problem_of(again, 404)["code"] == "unknown_source"
    assert is_true(lambda: is_empty(managed))
    # What was said with it stays, and can be gone on with.
    conversation = told["conversation_id"]
    kept = page(http, f"bots/bot_one/conversations/{conversation}").json()["rows"]
    assert [(one["answer"], one["sources"][0]["id"]) for one in kept] == [(told["answer"], source)]
    assert ask(http, "And the boats?", conversation)["conversation_id"] == conversation


def test_nothing_of_a_deleted_source_stays_in_the_files(tmp_path: Path) -> None:
    with admin_service(tmp_path / "data") as service, client_of(service) as http:

        def files() -> bytes:
            found = [file for file in service.data.rglob("*") if file.is_file()]
            return b"".join(file.read_bytes() for file in found).lower()

        # Of the index there are parts from before and from after it.
        add_text(http, "Rules", LONG)
        service.wait_until_ready()
        secret = "\n\n".join(f"The vatrushka of gate {number} is ocelot." for number in range(2000))
        source = add_text(http, "Yggdrasil", secret)["id"]
        service.wait_until_ready()
        add_text(http, "More rules", LONG)
        service.wait_until_ready()
        assert all(word in files() for word in (b"vatrushka", b"ocelot", b"yggdrasil"))
        page(http, f"sources/{source}", "DELETE")
        assert is_true(lambda: left(service)[4] == 0)
        # While the service runs: the write-ahead log is among them.
        kept = files()
        assert b"nothing new" in kept
        assert [word for word in (b"atrushk", b"ocelot", b"ggdrasi") if word in kept] == []


def test_a_source_is_deleted_while_it_is_read(http: httpx.Client, managed: LocalService) -> None:
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
        assert page(http, f"sources/{source['id']}", "DELETE").status_code == 200
    assert managed.sources() == []
    assert is_true(lambda: is_empty(managed))
    # Nothing waits for what is gone, and the workers go on.
    add_text(http, "Rules", "Nobody sings in the lift.")
    started = time.monotonic()
    assert "sings" in ask(http, "Who sings in the lift?")["answer"]
    assert time.monotonic() - started < 4


def test_a_removal_goes_on_after_the_service_was_killed(tmp_path: Path) -> None:
    with admin_service(tmp_path / "data") as service:
        with client_of(service) as http:
            source = add_text(http, "Long", LONG * 30)["id"]
            service.wait_until_ready()
            whole = left(service)[0]
            page(http, f"sources/{source}", "DELETE")
            assert is_true(lambda: left(service)[0] < whole)
        service.kill()
        assert left(service)[0] > 0
        service.start()
        assert is_true(lambda: is_empty(service))
        assert service.sources() == []


def test_passages_of_a_deleted_source_never_become_another_ones(
    http: httpx.Client, managed: LocalService
) -> None:
    source = add_text(http, "Secret", f"{LONG}\n\nThe canoes are kept by Ruth Okafor.")["id"]
    managed.wait_until_ready()
    page(http, f"sources/{source}", "DELETE")
    newer = add_text(http, "Public", "The paddles are kept by Ida Holm.")["id"]
    managed.wait_until_ready()
    shown = page(http, f"sources/{newer}").json()["passages"]
    assert [one["text"] for one in shown] == ["The paddles are kept by Ida Holm."]
    assert ask(http, "Where are the canoes kept by Ruth Okafor?")["answer"] == REFUSAL


def test_a_replacement_takes_over_when_it_is_ready(
    http: httpx.Client, managed: LocalService
) -> None:
    older = add_text(http, "Opening", "The library opens at nine on Saturdays.")
    add_text(http, "Later", "Nobody sings in the lift.")
    managed.wait_until_ready()
    replacing = replace(
        http, older["id"], f"{LONG * 4}\n\nThe library opens at ten on Saturdays.", "Opening hours"
    )
    assert value_of(replacing)["id"] == older["id"]
    assert "nine" in told_of_saturday(http)
    managed.wait_until_ready()
    assert "ten" in told_of_saturday(http)
    assert "nine" not in told_of_saturday(http)
    source = page(http, f"sources/{older['id']}").json()["source"]
    assert source["name"] == "Opening hours"
    assert source["created_at"] == older["created_at"]
    assert source["replaced_at"] >= older["created_at"]
    assert source["replacement"] is None
    assert listed(http)["counts"] == {"ready": 2}
    assert is_true(lambda: left(managed)[4] == 0)
    assert "nine on Saturdays" not in "".join(passages_of(managed))


def told_of_saturday(http: httpx.Client) -> str:
    """The answer at once: a question must not wait for the replacement."""
    answer: str = ask(http, "When does the library open on Saturdays?")["answer"]
    return answer


def passages_of(service: LocalService) -> list[str]:
    file = service.data / "knowledge.sqlite3"
    with contextlib.closing(sqlite3.connect(file, timeout=30)) as database:
        return [row[0] for row in database.execute("SELECT text FROM passage")]


def test_a_replacement_that_fails_leaves_the_old_text_and_says_why(
    http: httpx.Client, managed: LocalService
) -> None:
    source = add_text(http, "Opening", "The library opens at nine on Saturdays.")["id"]
    managed.wait_until_ready()
    form = {"name": "Opening", "collections": "col_one"}
    file = {"file": ("hours.pdf", b"%PDF-1.4 cut off", "application/pdf")}
    value_of(page(http, f"sources/{source}/upload", "PUT", data=form, files=file))
    managed.wait_until_ready()
    assert "nine" in told_of_saturday(http)
    shown = page(http, f"sources/{source}").json()["source"]
    assert (shown["status"], shown["replacement"]) == ("ready", None)
    assert shown["reason"].startswith("its replacement failed: ")
    assert is_true(lambda: left(managed)[4] == 0)
    assert not list((managed.data / "material").iterdir())
    value_of(replace(http, source, "The library opens at ten on Saturdays."))
    managed.wait_until_ready()
    assert page(http, f"sources/{source}").json()["source"]["reason"] is None


def test_the_last_of_several_replacements_wins(http: httpx.Client, managed: LocalService) -> None:
    source = add_text(http, "Opening", f"{LONG * 4}\n\nThe library opens at eight on Saturdays.")
    for hour in ("nine", "ten", "eleven"):
        replace(http, source["id"], f"{LONG * 2}\n\nThe library opens at {hour} on Saturdays.")
    managed.wait_until_ready()
    assert "eleven" in told_of_saturday(http)
    assert [one.id for one in managed.sources()] == [source["id"]]
    assert is_true(lambda: left(managed)[3:] == (0, 0))
    assert [text for text in passages_of(managed) if "eight" in text or "nine" in text] == []


def test_a_source_is_deleted_with_its_replacement(
    http: httpx.Client, managed: LocalService
) -> None:
    source = add_text(http, "Opening", "The library opens at nine on Saturdays.")["id"]
    managed.wait_until_ready()
    replace(http, source, LONG * 4)
    page(http, f"sources/{source}", "DELETE")
    assert is_true(lambda: is_empty(managed))
    assert managed.sources() == []


def test_a_replacement_survives_a_crash(tmp_path: Path) -> None:
    with admin_service(tmp_path / "data") as service:
        with client_of(service) as http:
            source = add_text(http, "Opening", "The library opens at nine on Saturdays.")["id"]
            service.wait_until_ready()
            replace(http, source, f"{LONG * 8}\n\nThe library opens at ten on Saturdays.")
        service.kill()
        assert [one.id for one in service.sources()] == [source]
        service.start()
        service.wait_until_ready()
        with client_of(service) as http:
            assert "ten" in told_of_saturday(http)
        assert [one.id for one in service.sources()] == [source]


def test_the_quota_counts_what_is_there(tmp_path: Path) -> None:
    with (
        admin_service(tmp_path / "data", limits={"sources": 2}) as service,
        client_of(service) as http,
    ):
        first = add_text(http, "One", "The first text.")["id"]
        add_text(http, "Two", "The second text.")
        body = {"name": "Three", "collections": ["col_one"], "content": "The third text."}
        assert problem_of(http.post("/sources/write", json={"value": body}), 402)
        # A source and its replacement are one.
        value_of(replace(http, first, LONG * 4, "One"))
        assert problem_of(http.post("/sources/write", json={"value": body}), 402)
        page(http, f"sources/{first}", "DELETE")
        value_of(http.post("/sources/write", json={"value": body}))
        assert problem_of(http.post("/sources/write", json={"value": body}), 402)


CHANGES = [
    ("DELETE", ""),
    ("PUT", "/write"),
    ("PUT", "/webpage"),
    ("PUT", "/upload"),
]


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_without_admin_nothing_is_changed(service: LocalService, method: str, path: str) -> None:
    with client_of(service) as http:
        source = add_text(http, "Kept", "The kept text.", "col_empty")["id"]
        body = {"name": "Kept", "collections": ["col_empty"], "content": "x", "url": "http://x.y/"}
        if path == "/upload":
            form = {"name": "Kept", "collections": "col_empty"}
            more: dict[str, Any] = {"data": form, "files": {"file": ("a.txt", b"x")}}
        else:
            more = {"json": {"value": body}}
        problem = problem_of(page(http, f"sources/{source}{path}", method, **more), 403)
        assert problem["code"] == "admin_is_off"
        assert "--admin" in problem["message"]
        assert page(http, "about").json()["admin"] is False
        assert page(http, f"sources/{source}").json()["source"]["reason"] is None


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_changes_need_the_key(anyones: httpx.Client, method: str, path: str) -> None:
    response = page(
        anyones, f"sources/src_x{path}", method, json={}, headers={"X-API-KEY": "wrong"}
    )
    assert problem_of(response, 401)["code"] == "unauthorized"


def test_a_readers_key_changes_nothing(tmp_path: Path) -> None:
    reader = {"name": "reader", "role": "read", "key": "key-of-a-reader"}
    with (
        admin_service(tmp_path / "data", keys=[reader]) as service,
        client_of(service) as http,
    ):
        source = add_text(http, "Kept", "The kept text.")["id"]
        http.headers["X-API-KEY"] = "key-of-a-reader"
        for response in (page(http, f"sources/{source}", "DELETE"), replace(http, source, "New.")):
            assert problem_of(response, 403)["code"] == "read_only_key"
        assert page(http, f"sources/{source}").json()["source"]["replacement"] is None


@pytest.mark.parametrize("source", ["src_" + "0" * 24, "x", "%00", "src_" + "x" * 300])
def test_what_is_not_there_cannot_be_changed(anyones: httpx.Client, source: str) -> None:
    responses = [
        page(anyones, f"sources/{source}"),
        page(anyones, f"sources/{source}", "DELETE"),
        replace(anyones, source, "Text."),
    ]
    for response in responses:
        problem_of(response, 404 if len(source) <= 200 and source != "%00" else 400)


@pytest.mark.parametrize(
    "change",
    [{"content": " "}, {"name": ""}, {"collections": ["col_x"]}, {"content": 7}],
)
def test_a_replacement_that_is_no_source_is_refused(
    anyones: httpx.Client, change: dict[str, Any]
) -> None:
    source = add_text(anyones, "Rules", "Nobody sings in the lift.")["id"]
    body = {"name": "Rules", "collections": ["col_one"], "content": "Text."} | change
    problem_of(page(anyones, f"sources/{source}/write", "PUT", json={"value": body}), 400)
    assert page(anyones, f"sources/{source}").json()["source"]["replacement"] is None


def test_conversations_are_listed_newest_first_and_read_back(http: httpx.Client) -> None:
    add_text(http, "Rules", "Nobody sings in the lift.")
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


def test_a_conversation_of_another_bot_is_not_shown(anyones: httpx.Client) -> None:
    conversation = ask(anyones, "Question?")["conversation_id"]
    for path in (
        f"bots/bot_two/conversations/{conversation}",
        "bots/bot_one/conversations/conv_x",
        "bots/bot_x/conversations",
        f"bots/bot_x/conversations/{conversation}",
    ):
        assert problem_of(page(anyones, path), 404)["code"].startswith("unknown_")
