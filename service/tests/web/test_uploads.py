"""Files that are sent: both notations, and what is wrong with a form."""

import json
import socket
from pathlib import Path

import httpx
import pytest

from knowledge_bot_service import LocalService
from service_calls import ask, problem_of, value_of

FIELDS = {"name": "Notes", "collections": ["col_one"]}
BOUNDARY = {"Content-Type": "multipart/form-data; boundary=limit"}


@pytest.mark.parametrize(
    ("animal", "form"),
    [
        ("heron", {"value": json.dumps({"name": "heron", "collections": ["col_one"]})}),
        ("badger", {"name": "badger", "collections": ["col_one", "col_two"]}),
        ("otter", {"name": "otter", "collections": '["col_one", "col_two"]'}),
        ("lynx", {"name": "lynx", "collections": "col_one"}),
    ],
)
def test_every_notation_of_an_upload_becomes_an_answer(http, animal, form):
    content = f"The {animal} sleeps in room {len(animal)}9.".encode()
    files = {"file": (f"{animal}.txt", content, "text/plain")}
    source = value_of(http.post("/sources/upload", data=form, files=files))
    assert (source["name"], source["status"]) == (animal, "pending")
    expected = ["col_one", "col_two"] if "col_two" in str(form) else ["col_one"]
    assert [collection["id"] for collection in source["collections"]] == expected
    answer = ask(http, f"Where does the {animal} sleep?")["answer"]
    assert f"room {len(animal)}9" in answer
    assert answer.partition("Sources: ")[2].startswith(animal)


def test_the_file_part_may_come_before_the_fields(http):
    body = (
        b'--limit\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        b"The anvil weighs ninety kilos.\r\n"
        b'--limit\r\nContent-Disposition: form-data; name="value"\r\n\r\n'
        b'{"name": "Anvil", "collections": ["col_one"]}\r\n--limit--\r\n'
    )
    value_of(http.post("/sources/upload", content=body, headers=BOUNDARY))
    assert "ninety kilos" in ask(http, "How much does the anvil weigh?")["answer"]


@pytest.mark.parametrize(
    ("form", "named"),
    [
        ({}, "name"),
        ({"name": "x"}, "collections"),
        ({"collections": ["col_one"]}, "name"),
        ({"name": "x", "collections": "[1"}, "collections"),
        ({"name": "x", "collections": "[1]"}, "collections"),
        ({"name": "x\0", "collections": "col_one"}, "name"),
        ({"value": "{"}, "value"),
        ({"value": b"\xff"}, "value"),
        ({"value": "[]"}, "request body"),
        ({"value": "[" * 100_000}, "value"),
        ({"value": '{"name": "\\ud800", "collections": ["col_one"]}'}, "name"),
        ({"value": json.dumps(FIELDS | {"collections": []})}, "collections"),
        ({"name": "x" * 1_100_000, "collections": "col_one"}, "1024KB"),
    ],
)
def test_a_form_that_is_not_as_documented_is_a_400_that_says_why(http, form, named):
    response = http.post("/sources/upload", data=form, files={"file": ("a.txt", b"x")})
    problem = problem_of(response, 400)
    assert problem["code"] == "invalid_request"
    assert named in problem["message"]


@pytest.mark.parametrize("boundary", ["b" * 300, '"b', "\xff\xfe", "a b", "="])
def test_a_boundary_that_cannot_be_one_is_a_400(http, boundary):
    kind = f"multipart/form-data; boundary={boundary}".encode("latin-1")
    response = http.post("/sources/upload", content=b"x", headers={"Content-Type": kind})
    assert problem_of(response, 400)["code"] == "invalid_request"


def test_a_form_has_as_many_parts_as_a_source_has_collections(http):
    file = {"file": ("a.txt", b"The spade is in the shed.")}
    most = {"name": "Spade", "collections": ["col_one"] * 1000}
    value_of(http.post("/sources/upload", data=most, files=file))
    part = b'--limit\r\nContent-Disposition: form-data; name="x"\r\n\r\n\r\n'
    response = http.post("/sources/upload", content=part * 5000, headers=BOUNDARY)
    assert "Too many fields" in problem_of(response, 400)["message"]


HALF = b'--limit\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf a fi'


@pytest.mark.parametrize(
    ("content", "kind", "code", "named"),
    [
        (b"", "", "invalid_request", ""),
        (b"no form", "", "invalid_request", ""),
        (b"--limit\r\n", "", "invalid_request", ""),
        (b"--limit\r\nbroken header\r\n\r\n", "", "invalid_request", ""),
        (b"--other\r\n\r\n", "", "invalid_request", ""),
        (b"--limit\r\nX: " + b"a" * 2_000_000, "", "invalid_request", ""),
        (HALF, "", "invalid_request", "`file`"),
        (b"x", "multipart/form-data", "invalid_request", "boundary"),
        (b"{}", "application/json", "unsupported_media_type", "multipart/form-data"),
    ],
)
def test_a_body_that_is_no_form_is_a_400(http, content, kind, code, named):
    headers = {"Content-Type": kind} if kind else BOUNDARY
    problem = problem_of(http.post("/sources/upload", content=content, headers=headers), 400)
    assert problem["code"] == code
    assert named in problem["message"]


def test_a_form_without_a_file_or_with_two_is_a_400(http):
    none = http.post("/sources/upload", files={"value": (None, json.dumps(FIELDS))})
    assert "`file`" in problem_of(none, 400)["message"]
    two = [("file", ("a.txt", b"x")), ("file", ("b.txt", b"y"))]
    response = http.post("/sources/upload", data=FIELDS, files=two)
    assert "`file`" in problem_of(response, 400)["message"]


def test_nothing_stays_of_uploads_that_are_refused_or_done(fresh, fresh_http):
    fine = {"file": ("a.txt", b"The bell rings at six.")}
    value_of(fresh_http.post("/sources/upload", data=FIELDS, files=fine))
    for form, named in (({}, "name"), (FIELDS | {"collections": ["col_x"]}, "col_x")):
        refused = fresh_http.post("/sources/upload", data=form, files=fine)
        assert named in problem_of(refused, 400)["message"]
    fresh.wait_until_ready(300)
    ask(fresh_http, "When does the bell ring?")
    assert list(Path(fresh.data, "material").iterdir()) == []


def test_an_upload_that_breaks_off_leaves_nothing_and_is_no_fault_of_the_service(tmp_path, capfd):
    part = b'--limit\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf'
    with LocalService(tmp_path) as service:
        head = (
            "POST /public/v1/sources/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
            f"X-API-KEY: {service.api_key}\r\nContent-Type: {BOUNDARY['Content-Type']}\r\n\r\n"
        )
        address = httpx.URL(service.base_url)
        material = tmp_path / "material"
        with socket.create_connection((address.host, address.port or 0)) as connection:
            connection.sendall(head.encode() + part)
    assert not any(material.iterdir())
    assert "Traceback" not in capfd.readouterr().err
