"""The page's files, without a browser."""

import re
from importlib.resources import files

import pytest

from in_process import InProcess, web
from service_calls import add_text, client_of, problem_of, value_of


def root(service):
    return service.base_url.removesuffix("/public/v1")


def test_the_page_is_served_without_a_key_and_holds_no_data(service, http):
    add_text(http, "Secret name of a source", "Text.", "col_empty")
    response = web.get(f"{root(service)}/")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    for hidden in ("Secret name", "Handbook", "Guide", service.api_key):
        assert hidden not in response.text


def test_every_file_of_the_page_is_served_and_all_it_names_is_there(service):
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


def test_no_other_file_is_served(service):
    for path in ("/assets/routes.py", "/assets/..%2Froutes.py", "/assets/"):
        assert problem_of(web.get(root(service) + path), 404)["code"] == "not_found"


@pytest.mark.parametrize("path", ["/", "/assets/page.js", "/page/about", "/public/v1/bots"])
def test_a_browser_is_told_to_trust_keep_and_pass_on_nothing(service, path):
    headers = web.get(root(service) + path, headers={"X-API-KEY": service.api_key}).headers
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"


def test_a_collection_that_is_gone_is_named_by_its_id(tmp_path):
    with InProcess(tmp_path, collections=["col_old"]) as service, client_of(service) as http:
        add_text(http, "Rules", "No running.", "col_old")
        service.wait_until_ready(300)
    with InProcess(tmp_path) as service, client_of(service) as http:
        (source,) = value_of(http.get("/sources", params={"collection": "col_old"}))["data"]
    assert source["collections"] == [{"id": "col_old", "name": "col_old"}]
