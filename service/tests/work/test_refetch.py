"""Pages that are looked at again: what changes, what stays, and what is asked for."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from in_process import InProcess, web
from page_server import answer, serving
from service_calls import client_of, value_of
from waiting import until

pytestmark = pytest.mark.integration

OLD = b"<html><body><p>The depot opens at eight in the morning.</p></body></html>"
NEW = b"<html><body><p>The depot opens at ten in the morning.</p></body></html>"


COLLECTIONS = ["changed", "same", "unreadable", "busy", "secret"]


@pytest.fixture(scope="module")
def pages():
    with serving() as server:
        yield server


def service(folder, every="1s"):
    return InProcess(
        folder,
        collections=[f"col_{one}" for one in COLLECTIONS],
        bots={f"bot_{one}": [f"col_{one}"] for one in COLLECTIONS},
        allow_fetch=["127.0.0.1/32"],
        settings={"refetch": {"every": every}},
    )


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A service for all pages: each test has a page, a collection and a bot of its own."""
    with service(tmp_path_factory.mktemp("refetch")) as running:
        yield running


@pytest.fixture
def http(running):
    with client_of(running) as client:
        yield client
        # What is there is looked at every second, also while others are tested.
        for source in running.sources():
            address = f"{running.base_url}/sources/{source.id}"
            client.delete(address).raise_for_status()


def add_page(http, url, collection, **more):
    body = {"name": url, "collections": [collection], "url": url, **more}
    value_of(http.post("/sources/webpage", json={"value": body}))


def asked(http, bot):
    body = {"bot_id": bot, "content": "When does the depot open?"}
    text: str = value_of(http.post("/messages", json={"value": body}))["answer"]
    return text


def state_of(running, url):
    (state,) = (one for one in running.sources() if one.name == url)
    return state


def requests_of(pages, path):
    return [one for one in pages.requests if one.startswith(f"GET {path} ")]


def passages(running, url):
    with closing(sqlite3.connect(running.data / "knowledge.sqlite3")) as connection:
        return connection.execute(
            "SELECT passage.id, text FROM passage JOIN source ON source.id = passage.source"
            " WHERE source.name = ? ORDER BY passage.id",
            (url,),
        ).fetchall()


def test_a_page_whose_text_has_changed_gets_its_new_text(pages, running, http):
    url = pages.url("/changed")
    pages.answers["/changed"] = answer(OLD)
    add_page(http, url, "col_changed")
    running.wait_until_ready()
    assert "eight" in asked(http, "bot_changed")
    pages.answers["/changed"] = answer(NEW)
    assert until(lambda: "ten" in asked(http, "bot_changed"), 90)
    assert len(passages(running, url)) == 1
    state = state_of(running, url)
    assert (state.status, state.reason) == ("ready", None)
    # No other page of these tests changes its text.
    metrics = web.get(running.base_url.replace("/public/v1", "/metrics")).text
    assert 'kbot_service_refetches_total{outcome="changed"} 1.0' in metrics


def test_a_page_that_has_not_changed_is_asked_for_only_if_it_had(pages, running, http):
    url = pages.url("/same")
    pages.answers["/same"] = answer(
        OLD, 'ETag: "one"', "Last-Modified: Sun, 22 Nov 2026 10:00:00 GMT"
    )
    add_page(http, url, "col_same")
    running.wait_until_ready()
    before = passages(running, url)
    assert before
    assert until(lambda: "if-none-match" in requests_of(pages, "/same")[-1].lower(), 90)
    last = requests_of(pages, "/same")[-1].lower()
    assert 'if-none-match: "one"' in last
    assert "if-modified-since: sun, 22 nov 2026 10:00:00 gmt" in last
    pages.answers["/same"] = answer(b"", status="304 Not Modified")
    seen = len(requests_of(pages, "/same"))
    assert until(lambda: len(requests_of(pages, "/same")) >= seen + 2, 90)
    assert "eight" in asked(http, "bot_same")
    # Nothing was written anew.
    assert passages(running, url) == before
    state = state_of(running, url)
    assert (state.status, state.reason) == ("ready", None)


def test_a_page_that_cannot_be_read_again_keeps_its_text_and_says_why(pages, running, http):
    then = {
        "/gone": (answer(b"", status="404 Not Found"), "there is no page at"),
        "/empty": (answer(b"<html><body></body></html>"), "not brought up to date"),
        "/broken": (answer(NEW, status="500 Oh"), "the server of"),
    }
    for path in then:
        pages.answers[path] = answer(OLD)
        add_page(http, pages.url(path), "col_unreadable")
    running.wait_until_ready()
    pages.answers |= {path: reply for path, (reply, _) in then.items()}
    for path, (_, reason) in then.items():
        assert until(lambda path=path: state_of(running, pages.url(path)).reason is not None, 90)
        state = state_of(running, pages.url(path))
        assert state.status == "ready"
        assert reason in str(state.reason)
    assert "eight" in asked(http, "bot_unreadable")
    # They say so no longer when they can be read.
    pages.answers |= dict.fromkeys(then, answer(OLD))
    assert until(lambda: all(one.reason is None for one in running.sources()), 90)


def test_only_what_nobody_tries_again_is_to_be_sent_again(pages, running, http):
    url = pages.url("/busy")
    failed = f"the server of {url} failed (status 503)"
    pages.answers["/busy"] = answer(status="503 Busy")
    add_page(http, url, "col_busy")
    running.wait_until_ready()
    state = state_of(running, url)
    assert state.reason == f"{failed}; add it again later"
    page = {"name": url, "collections": ["col_busy"], "url": url}
    address = f"{running.base_url}/sources/{state.id}/webpage"
    # With headers it is not looked at again by itself.
    secret = {**page, "headers": [{"name": "Authorization", "value": "x"}]}
    for answered, body, reason in (
        (answer(OLD), secret, None),
        (answer(status="503 Busy"), secret, f"{failed}; replace it again"),
        (answer(OLD), page, None),
    ):
        pages.answers["/busy"] = answered
        value_of(http.put(address, json={"value": body}))
        running.wait_until_ready()
        assert str(state_of(running, url).reason).startswith(str(reason))
    pages.answers["/busy"] = answer(status="503 Busy")
    assert until(lambda: state_of(running, url).reason is not None, 90)
    today = datetime.now(UTC).date()
    assert state_of(running, url).reason == f"not brought up to date on {today}: {failed}"


def test_a_page_that_was_added_with_headers_is_not_fetched_without_them(pages, running, http):
    pages.answers["/secret"] = pages.answers["/open"] = answer(OLD)
    headers = [{"name": "Authorization", "value": "x"}]
    add_page(http, pages.url("/secret"), "col_secret", headers=headers)
    add_page(http, pages.url("/open"), "col_secret")
    running.wait_until_ready()
    assert until(lambda: len(requests_of(pages, "/open")) > 1, 90)
    assert len(requests_of(pages, "/secret")) == 1


def test_without_the_setting_no_page_is_looked_at_again(tmp_path):
    with (
        serving() as pages,
        InProcess(tmp_path, allow_fetch=["127.0.0.1/32"]) as running,
        client_of(running) as http,
    ):
        add_page(http, pages.url("/depot"), "col_default")
        running.wait_until_ready()
        assert not until(lambda: len(pages.requests) != 1, 1.5)


def test_how_often_is_a_number_and_a_unit(tmp_path):
    for wrong in ("1", "h", "0s", "-1h", 60, "1.5h"):
        with pytest.raises(Exception, match="every"):
            service(tmp_path, wrong)
