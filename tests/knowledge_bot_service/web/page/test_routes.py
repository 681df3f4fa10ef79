"""The page's files and its list of sources, without a browser."""

import re
import sqlite3
from importlib.resources import files
from pathlib import Path

import httpx
import pytest

from in_process import InProcess, web
from service_calls import add_text, problem_of


def root(service: InProcess) -> str:
    return service.base_url.removesuffix("/public/v1")


def listed(service: InProcess, **parameters: str) -> httpx.Response:
    return web.get(
        f"{service.base_url}/sources",
        params=parameters,
        headers={"X-API-KEY": service.api_key},
    )


def test_the_page_is_served_without_a_key_and_holds_no_data(
    service: InProcess, http: httpx.Client
) -> None:
    add_text(http, "Secret name of a source", "Text.", "col_empty")
    response = web.get(f"{root(service)}/")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    for hidden in ("Secret name", "Handbook", "Guide", service.api_key):
        assert hidden not in response.text


def test_every_file_of_the_page_is_served_and_all_it_names_is_there(service: InProcess) -> None:
    names = {one.name for one in (files("knowledge_bot_service.web.page") / "files").iterdir()}
    texts = {"page.html": web.get(f"{root(service)}/").text}
    for name in names - {"page.html"}:
        response = web.get(f"{root(service)}/assets/{name}")
        assert response.status_code == 200
        kind = "text/css" if name.endswith(".css") else "text/javascript"
        assert response.headers["Content-Type"].startswith(kind)
        texts[name] = response.text
    named = set(re.findall(r"(?:assets|from \"\.)/([\w.]+)", "".join(texts.values())))
    assert named | {"page.html"} == names
    assert not re.search(r"(?:https?:)?//[a-z]", "".join(texts.values()).replace('https://"', ""))


def test_no_other_file_is_served(service: InProcess) -> None:
    for path in ("/assets/page.html", "/assets/routes.py", "/assets/..%2Froutes.py", "/assets/"):
        assert problem_of(web.get(root(service) + path), 404)["code"] == "not_found"


@pytest.mark.parametrize("path", ["/", "/assets/page.js", "/page/about", "/public/v1/bots"])
def test_a_browser_is_told_to_trust_keep_and_pass_on_nothing(service: InProcess, path: str) -> None:
    headers = web.get(root(service) + path, headers={"X-API-KEY": service.api_key}).headers
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"


def test_sources_are_listed_newest_first_with_their_state(
    fresh: InProcess, fresh_http: httpx.Client
) -> None:
    page = {"name": "Nowhere", "collections": ["col_one"], "url": "http://127.0.0.1:1/"}
    fresh_http.post("/sources/webpage", json={"value": page})
    text = {"name": "Rules", "collections": ["col_two", "col_one"], "content": "No running."}
    created = fresh_http.post("/sources/write", json={"value": text}).json()["value"]
    fresh.wait_until_ready()
    overview = listed(fresh, counts="true").json()["value"]
    assert overview["counts"] == {"ready": 1, "failed": 1}
    ready, failed = overview["data"]
    handbook = {"id": "col_one", "name": "Handbook"}
    assert ready == {
        **created,
        "collections": [handbook, {"id": "col_two", "name": "Archive"}],
        "status": "ready",
        "ready_revision": created["revision"],
        "ready_at": ready["ready_at"],
    }
    assert (failed["name"], failed["status"]) == ("Nowhere", "failed")
    assert "127.0.0.1" in failed["reason"]
    failed_ones = listed(fresh, status="failed").json()["value"]["data"]
    assert [one["name"] for one in failed_ones] == ["Nowhere"]
    assert problem_of(listed(fresh, status="lost"), 400)["code"] == "invalid_request"


def test_a_long_list_is_cut_and_a_collection_that_is_gone_is_named_by_its_id(
    tmp_path: Path,
) -> None:
    with InProcess(tmp_path, collections=["col_old"]) as service:
        pass
    with sqlite3.connect(tmp_path / "knowledge.sqlite3") as database:
        database.executemany(
            "INSERT INTO source (id, place, public_id, name, kind, status, created_at)"
            " VALUES (?1, ?1, ?2, ?3, 'text', 'ready', 0)",
            [(number, f"src_{number}", f"Text {number}") for number in range(250)],
        )
        database.execute("INSERT INTO source_collection SELECT id, 1 FROM source")
    database.close()
    with InProcess(tmp_path) as service:
        overview = listed(service, limit="200", collection="col_old", counts="true").json()["value"]
    assert overview["counts"] == {"ready": 250}
    assert [one["name"] for one in overview["data"]] == [
        f"Text {number}" for number in range(249, 49, -1)
    ]
    assert overview["data"][0]["collections"] == [{"id": "col_old", "name": "col_old"}]
