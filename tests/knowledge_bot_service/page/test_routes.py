"""The page's files and its list of sources, without a browser."""

import re
import sqlite3
from importlib.resources import files
from pathlib import Path

import httpx
import pytest

from knowledge_bot_service import LocalService
from service_calls import add_text, problem_of


def root(service: LocalService) -> str:
    return service.base_url.removesuffix("/public/v1")


def listed(service: LocalService, **parameters: str) -> httpx.Response:
    return httpx.get(
        f"{root(service)}/page/sources",
        params=parameters,
        headers={"X-API-KEY": service.api_key},
    )


def test_the_page_is_served_without_a_key_and_holds_no_data(
    service: LocalService, http: httpx.Client
) -> None:
    add_text(http, "Secret name of a source", "Text.", "col_empty")
    response = httpx.get(f"{root(service)}/")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    for hidden in ("Secret name", "Handbook", "Guide", service.api_key):
        assert hidden not in response.text


def test_every_file_of_the_page_is_served_and_all_it_names_is_there(service: LocalService) -> None:
    names = {one.name for one in (files("knowledge_bot_service.page") / "files").iterdir()}
    texts = {"page.html": httpx.get(f"{root(service)}/").text}
    for name in names - {"page.html"}:
        response = httpx.get(f"{root(service)}/assets/{name}")
        assert response.status_code == 200
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        assert response.headers["Content-Type"].startswith(kind)
        texts[name] = response.text
    named = set(re.findall(r"(?:assets|from \"\.)/([\w.]+)", "".join(texts.values())))
    assert named | {"page.html"} == names
    assert not re.search(r"(?:https?:)?//[a-z]", "".join(texts.values()).replace('https://"', ""))


def test_no_other_file_is_served(service: LocalService) -> None:
    for path in ("/assets/page.html", "/assets/routes.py", "/assets/..%2Froutes.py", "/assets/"):
        assert problem_of(httpx.get(root(service) + path), 404)["code"] == "not_found"


@pytest.mark.parametrize("path", ["/", "/assets/page.js", "/page/sources", "/public/v1/bots"])
def test_a_browser_is_told_to_trust_keep_and_pass_on_nothing(
    service: LocalService, path: str
) -> None:
    headers = httpx.get(root(service) + path, headers={"X-API-KEY": service.api_key}).headers
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("key", [None, "wrong"])
def test_the_list_of_sources_needs_the_key(service: LocalService, key: str | None) -> None:
    headers = {} if key is None else {"X-API-KEY": key}
    response = httpx.get(f"{root(service)}/page/sources", headers=headers)
    assert problem_of(response, 401)["code"] == "unauthorized"


def test_sources_are_listed_newest_first_with_their_state(
    fresh: LocalService, fresh_http: httpx.Client
) -> None:
    page = {"name": "Nowhere", "collections": ["col_one"], "url": "http://127.0.0.1:1/"}
    fresh_http.post("/sources/webpage", json={"value": page})
    text = {"name": "Rules", "collections": ["col_two", "col_one"], "content": "No running."}
    created = fresh_http.post("/sources/write", json={"value": text}).json()["value"]
    fresh.wait_until_ready()
    overview = listed(fresh).json()
    assert overview["counts"] == {"ready": 1, "failed": 1}
    ready, failed = overview["sources"]
    handbook = {"id": "col_one", "name": "Handbook"}
    assert ready == {
        "id": created["id"],
        "name": "Rules",
        "kind": "text",
        "status": "ready",
        "reason": None,
        "title": None,
        "url": None,
        "collections": [handbook, {"id": "col_two", "name": "Archive"}],
        "created_at": created["created_at"],
        "replaced_at": None,
        "replacement": None,
    }
    assert (failed["name"], failed["status"]) == ("Nowhere", "failed")
    assert "127.0.0.1" in failed["reason"]
    assert [one["name"] for one in listed(fresh, status="failed").json()["sources"]] == ["Nowhere"]
    assert problem_of(listed(fresh, status="lost"), 400)["code"] == "invalid_request"
    unknown = problem_of(listed(fresh, collection="col_lost"), 404)
    assert unknown["code"] == "unknown_collection"
    assert "col_lost" in unknown["message"]


def test_a_long_list_is_cut_and_a_collection_that_is_gone_is_named_by_its_id(
    tmp_path: Path,
) -> None:
    with LocalService(tmp_path, collections=["col_old"]) as service:
        pass
    with sqlite3.connect(tmp_path / "knowledge.sqlite3") as database:
        database.executemany(
            "INSERT INTO source (id, public_id, name, kind, status, created_at)"
            " VALUES (?, ?, ?, 'text', 'ready', 0)",
            [(number, f"src_{number}", f"Text {number}") for number in range(250)],
        )
        database.execute("INSERT INTO source_collection SELECT id, 1 FROM source")
    database.close()
    with LocalService(tmp_path) as service:
        overview = listed(service, limit="200", collection="col_old").json()
    assert overview["counts"] == {"ready": 250}
    assert [one["name"] for one in overview["sources"]] == [
        f"Text {number}" for number in range(249, 49, -1)
    ]
    assert overview["sources"][0]["collections"] == [{"id": "col_old", "name": "col_old"}]
