"""`kbot add page`, `text` and `file`."""

import json
import os
import subprocess

import pytest

from calls import SOURCE
from pseudo_terminal import terminal
from scripted_server import answer, close

IN_ONE = ("--collection", "col_1")


def test_a_page_is_added_under_its_address(run, answering):
    server = answering(answer(body=SOURCE))
    done = run("add", "page", "https://h.example/a", *IN_ONE)
    assert (done.exit_code, done.stdout) == (0, "src_1\tHandbook\tpending\n")
    assert server.requests[0].path == "/public/v1/sources/webpage"
    assert server.requests[0].json() == {
        "value": {
            "name": "https://h.example/a",
            "collections": ["col_1"],
            "url": "https://h.example/a",
        }
    }


def test_headers_come_from_the_command_line_from_a_file_and_from_stdin(run, answering, tmp_path):
    (tmp_path / "headers").write_text("Authorization: Bearer secret-of-the-page\n\n")
    server = answering(answer(body=SOURCE))
    done = run(
        *("add", "page", "https://h.example", "--header", "Accept-Language: de", "--header"),
        *(f"@{tmp_path}/headers", "--header", "@-", *IN_ONE),
        stdin="X-One: 1\nX-Two: a:b",
    )
    assert done.exit_code == 0
    assert server.requests[0].json()["value"]["headers"] == [
        {"name": "Accept-Language", "value": "de"},
        {"name": "Authorization", "value": "Bearer secret-of-the-page"},
        {"name": "X-One", "value": "1"},
        {"name": "X-Two", "value": "a:b"},
    ]


def test_a_header_that_is_none_is_refused_without_being_shown(run, answering, tmp_path):
    server = answering(answer(body=SOURCE))
    done = run("add", "page", "https://h.example", "--header", "secret-of-the-page", *IN_ONE)
    assert done.exit_code == 2
    assert "NAME: VALUE" in done.stderr
    assert "secret-of-the-page" not in done.stderr
    assert server.started == 0


def test_a_text_comes_as_an_option_from_a_file_and_from_stdin(run, answering, tmp_path):
    (tmp_path / "hours.txt").write_bytes(b"\xef\xbb\xbfWe open at nine.\n")
    server = answering(answer(body=SOURCE))
    assert run("add", "text", "--name", "A", "--content", "One.", *IN_ONE).exit_code == 0
    assert run("add", "text", tmp_path / "hours.txt", *IN_ONE).exit_code == 0
    assert run("add", "text", "-", "--name", "C", *IN_ONE, stdin="Three.").exit_code == 0
    sent = [request.json()["value"] for request in server.requests]
    assert [(one["name"], one["content"]) for one in sent] == [
        ("A", "One."),
        ("hours.txt", "We open at nine.\n"),
        ("C", "Three."),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--name", "A"),
        ("-", "--content", "x", "--name", "A"),
        ("--content", "x"),
        ("-",),
        ("missing.txt",),
        ("--name", "A", "--content", " "),
    ],
)
def test_a_text_without_what_it_needs_is_a_usage_error(run, answering, arguments):
    server = answering(answer(body=SOURCE))
    assert run("add", "text", *arguments, *IN_ONE, stdin="x").exit_code == 2
    assert server.started == 0


def test_collections_come_from_the_environment_and_an_option_wins(run, answering):
    server = answering(answer(body=SOURCE))
    text = ("add", "text", "--name", "A", "--content", "x")
    assert run(*text, KNOWLEDGE_BOT_COLLECTION="col_1 col_2").exit_code == 0
    assert run(*text, *IN_ONE, KNOWLEDGE_BOT_COLLECTION="col_9").exit_code == 0
    sent = [request.json()["value"]["collections"] for request in server.requests]
    assert sent == [["col_1", "col_2"], ["col_1"]]


def test_files_are_uploaded_each_as_a_line_of_json(run, of_the_service, tmp_path):
    paths = [tmp_path / "one.txt", tmp_path / "two.md"]
    for path in paths:
        path.write_text(f"This is {path.name}.")
    done = run("add", "file", *paths, "--json")
    assert done.exit_code == 0
    added = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["name"] for one in added] == ["one.txt", "two.md"]
    assert all(one["collections"][0]["id"] == "col_handbook" for one in added)


def test_stdin_is_uploaded_under_a_name(run, answering):
    server = answering(answer(body=SOURCE))
    assert run("add", "file", "-", "--name", "n.txt", *IN_ONE, stdin=b"\x00\xff").exit_code == 0
    assert b'filename="n.txt"' in server.requests[0].body
    assert b"\r\n\r\n\x00\xff\r\n" in server.requests[0].body
    assert run("add", "file", "-", *IN_ONE, stdin=b"x").exit_code == 2


def test_a_file_that_is_not_there_is_a_usage_error_before_anything_is_sent(
    run, answering, tmp_path
):
    server = answering(answer(body=SOURCE))
    (tmp_path / "there.txt").write_text("x")
    for wrong in (tmp_path / "missing.txt", tmp_path):
        done = run("add", "file", tmp_path / "there.txt", wrong, *IN_ONE)
        assert done.exit_code == 2
        assert str(wrong) in done.stderr
    assert server.started == 0


@pytest.mark.parametrize(
    ("reply", "code", "sent"), [(answer(400), 3, 3), (close, 8, 3), (answer(401), 4, 2)]
)
def test_a_file_that_fails_is_named_and_the_others_are_added(
    run, answering, tmp_path, *, reply, code, sent
):
    names = ["a.txt", "b.txt", "c.txt"]
    for name in names:
        (tmp_path / name).write_text("x")
    server = answering(answer(body=SOURCE), reply, answer(body=SOURCE))
    done = run("add", "file", *(tmp_path / name for name in names), *IN_ONE)
    assert done.exit_code == code
    assert f"Error: {tmp_path}/b.txt: POST /sources/upload" in done.stderr
    assert done.stdout.count("src_1") == sent - 1
    assert len(server.requests) == sent


def test_an_upload_shows_its_progress_on_a_terminal(program, answering, tmp_path):
    (tmp_path / "large.bin").write_bytes(b"x" * 5_000_000)
    answering(answer(body=SOURCE))
    command = [program, "add", "file", tmp_path / "large.bin", *IN_ONE]
    with terminal(command, {}) as screen:
        assert screen.end() == 0
    assert "large.bin" in screen.shown
    assert "5.0/5.0 MB" in screen.shown


def test_an_upload_shows_no_progress_in_a_pipe(kbot, answering, tmp_path):
    (tmp_path / "small.txt").write_text("x")
    answering(answer(body=SOURCE))
    done = kbot("add", "file", tmp_path / "small.txt", *IN_ONE)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_was_created_is_reported_also_when_stdout_cannot_be_written(program, answering):
    server = answering(answer(body=SOURCE))
    done = subprocess.run(
        f"{program} add text --name N --content C {' '.join(IN_ONE)} >/dev/full",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, len(server.requests)) == (8, 1)
    assert done.stderr == (
        "Error: stdout cannot be written: No space left on device. "
        "src_1 (Handbook) is there all the same.\n"
    )


def test_files_that_were_not_sent_since_stdout_is_full_are_named(program, answering, tmp_path):
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text("x")
    server = answering(answer(body=SOURCE))
    done = subprocess.run(
        f"{program} add file {tmp_path}/?.txt {' '.join(IN_ONE)} >/dev/full",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, len(server.requests)) == (8, 1)
    assert f"Not sent: {tmp_path}/b.txt, {tmp_path}/c.txt." in done.stderr


def test_a_reader_that_went_away_before_the_id_is_reported_like_a_full_disk(program, answering):
    server = answering(answer(body=SOURCE))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [program, "add", "text", "--name", "N", "--content", "C", *IN_ONE],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, len(server.requests)) == (8, 1)
    assert "src_1 (Handbook) is there all the same." in done.stderr


REPLACED = {**SOURCE, "name": "New", "revision": "r2", "status": "processing"}
ANNOUNCED = answer(
    body="pong", headers={"Knowledge-Bot-Extensions": "sources=1;manage;rename, idempotency=1"}
)


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("text", "--content", "At ten."), "write"),
        (("page", "https://h.example/a"), "webpage"),
        (("file", "-", "--name", "Handbook"), "upload"),
    ],
)
def test_a_source_is_replaced_in_place_and_keeps_its_name_and_collections(
    run, answering, arguments, path
):
    server = answering(answer(body=SOURCE), answer(body=REPLACED), on_ping=ANNOUNCED)
    done = run("add", *arguments, "--replace", "src_1", stdin="At ten.")
    assert (done.exit_code, done.stdout) == (0, "src_1\tNew\tprocessing\n")
    asked, sent = server.requests
    assert (asked.method, asked.path) == ("GET", "/public/v1/sources/src_1")
    assert (sent.method, sent.path) == ("PUT", f"/public/v1/sources/src_1/{path}")
    assert b'"Handbook"' in sent.body
    assert b'"col_1"' in sent.body


def test_where_that_is_not_announced_nothing_is_added(run, answering):
    server = answering(answer(body=SOURCE))
    done = run("add", "text", "--content", "c", "--replace", "src_1", *IN_ONE)
    assert (done.exit_code, server.requests) == (2, [])


def test_one_source_takes_one_file(run, answering, tmp_path):
    (tmp_path / "a").write_text("a")
    server = answering(answer(body=SOURCE))
    assert run("add", "file", tmp_path / "a", tmp_path / "a", "--replace", "src_1").exit_code == 2
    assert server.requests == []
