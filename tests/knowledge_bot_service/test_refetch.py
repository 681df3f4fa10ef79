"""Pages that are looked at again: what changes, what stays, and what is asked for."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from knowledge_bot_service import LocalService
from page_server import Server, answer, serving
from service_calls import client_of, value_of

pytestmark = pytest.mark.integration

OLD = b"<html><body><p>The depot opens at eight in the morning.</p></body></html>"
NEW = b"<html><body><p>The depot opens at ten in the morning.</p></body></html>"


@pytest.fixture
def pages() -> Iterator[Server]:
    with serving() as server:
        yield server


def service(folder: Path, **settings: object) -> LocalService:
    return LocalService(
        folder, allow_fetch=["127.0.0.1/32"], settings={"refetch": {"every": "1s"}} | settings
    )


def add_page(http: httpx.Client, url: str, **more: object) -> None:
    body = {"name": "Depot", "collections": ["col_default"], "url": url, **more}
    value_of(http.post("/sources/webpage", json={"value": body}))


def asked(http: httpx.Client) -> str:
    body = {"bot_id": "bot_default", "content": "When does the depot open?"}
    text: str = value_of(http.post("/messages", json={"value": body}))["answer"]
    return text


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def passages(folder: Path) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(folder / "knowledge.sqlite3")) as connection:
        return connection.execute("SELECT id, text FROM passage ORDER BY id").fetchall()


def test_a_page_whose_text_has_changed_gets_its_new_text(pages: Server, tmp_path: Path) -> None:
    pages.answers["/depot"] = answer(OLD)
    with service(tmp_path) as running, client_of(running) as http:
        add_page(http, pages.url("/depot"))
        running.wait_until_ready()
        assert "eight" in asked(http)
        pages.answers["/depot"] = answer(NEW)
        wait_for(lambda: "ten" in asked(http))
        assert len(passages(tmp_path)) == 1
        (state,) = running.sources()
        assert (state.status, state.reason) == ("ready", None)
        metrics = httpx.get(running.base_url.replace("/public/v1", "/metrics")).text
        assert 'kbot_service_refetches_total{outcome="changed"} 1.0' in metrics


def test_a_page_that_has_not_changed_is_asked_for_only_if_it_had(
    pages: Server, tmp_path: Path
) -> None:
    pages.answers["/depot"] = answer(
        OLD, 'ETag: "one"', "Last-Modified: Sun, 22 Nov 2026 10:00:00 GMT"
    )
    with service(tmp_path) as running, client_of(running) as http:
        add_page(http, pages.url("/depot"))
        running.wait_until_ready()
        before = passages(tmp_path)
        wait_for(lambda: "If-None-Match".lower() in pages.requests[-1].lower())
        assert 'if-none-match: "one"' in pages.requests[-1].lower()
        assert "if-modified-since: sun, 22 nov 2026 10:00:00 gmt" in pages.requests[-1].lower()
        pages.answers["/depot"] = answer(b"", status="304 Not Modified")
        seen = len(pages.requests)
        wait_for(lambda: len(pages.requests) >= seen + 2)
        assert "eight" in asked(http)
        # Nothing was written anew.
        assert passages(tmp_path) == before
        (state,) = running.sources()
        assert (state.status, state.reason) == ("ready", None)


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        (answer(b"", status="404 Not Found"), "there is no page at"),
        (answer(b"<html><body></body></html>"), "not brought up to date"),
        (answer(NEW, status="500 Oh"), "the server of"),
    ],
)
def test_a_page_that_cannot_be_read_again_keeps_its_text_and_says_why(
    pages: Server, tmp_path: Path, then: Callable[..., None], reason: str
) -> None:
    pages.answers["/depot"] = answer(OLD)
    with service(tmp_path) as running, client_of(running) as http:
        add_page(http, pages.url("/depot"))
        running.wait_until_ready()
        pages.answers["/depot"] = then
        wait_for(lambda: running.sources()[0].reason is not None)
        (state,) = running.sources()
        assert state.status == "ready"
        assert reason in str(state.reason)
        assert "eight" in asked(http)
        # It says so no longer when it can be read.
        pages.answers["/depot"] = answer(OLD)
        wait_for(lambda: running.sources()[0].reason is None)


def test_a_page_that_was_added_with_headers_is_not_fetched_without_them(
    pages: Server, tmp_path: Path
) -> None:
    pages.answers["/secret"] = pages.answers["/depot"] = answer(OLD)
    with service(tmp_path) as running, client_of(running) as http:
        add_page(http, pages.url("/secret"), headers=[{"name": "Authorization", "value": "x"}])
        add_page(http, pages.url("/depot"))
        running.wait_until_ready()
        wait_for(lambda: sum("/depot" in request for request in pages.requests) > 1)
    assert sum("/secret" in request for request in pages.requests) == 1


def test_without_the_setting_no_page_is_looked_at_again(pages: Server, tmp_path: Path) -> None:
    with service(tmp_path, refetch=None) as running, client_of(running) as http:
        add_page(http, pages.url("/depot"))
        running.wait_until_ready()
        time.sleep(1.5)
    assert len(pages.requests) == 1


def test_how_often_is_a_number_and_a_unit(tmp_path: Path) -> None:
    for wrong in ("1", "h", "0s", "-1h", 60, "1.5h"):
        with pytest.raises(Exception, match="must be a number and a unit"):
            service(tmp_path, refetch={"every": wrong})
