"""What becomes of sources: pages fetched, files read, and the reasons when they cannot be."""

import os
import re
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from in_process import InProcess
from knowledge_bot_service.readers.passages import IndexEntry
from knowledge_bot_service.store.catalog import Removal
from knowledge_bot_service.store.entries import insert_entries
from knowledge_bot_service.store.sources import Material, SourceStore, StoredSource, finish
from page_server import answer, serving
from service_calls import COLLECTIONS, add_text, ask, client_of, value_of
from waiting import until

PAGE = """<!doctype html><html><head><title>Opening hours</title></head><body>
<nav><a href="/">Home</a></nav><main><article><h1>Opening hours</h1>
<p>The swimming hall on Elm Street opens at seven in the morning on working days, and closes at
nine in the evening. On Sundays it opens at ten.</p>
<p>The sauna is open to members only. Towels can be hired at the desk for three euros a day, and
lockers take a two euro coin that is given back.</p></article></main></body></html>"""


@pytest.fixture(scope="module")
def pages():
    with serving() as server:
        server.answers["/hours"] = answer(PAGE.encode(), kind="text/html; charset=utf-8")
        server.answers["/gone"] = answer(status="404 Not Found")
        yield server


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("worker")
    with InProcess(
        folder,
        collections={"col_one": "One"},
        bots={"bot_one": ["col_one"]},
        allow_fetch=["127.0.0.1/32"],
    ) as running:
        yield running


def add_page(http, url, name="Hours", **more):
    body = {"name": name, "collections": ["col_one"], "url": url, **more}
    source: str = value_of(http.post("/sources/webpage", json={"value": body}))["id"]
    return source


def add_file(http, filename, content, content_type=""):
    part = (filename, content, content_type) if content_type else (filename, content)
    form = {"name": filename, "collections": ["col_one"]}
    response = http.post("/sources/upload", data=form, files={"file": part})
    source: str = value_of(response)["id"]
    return source


def end_of(service, source):
    service.wait_until_ready(300)
    (state,) = [state for state in service.sources() if state.id == source]
    return state.status, state.reason


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of processes")


def reading_processes(service):
    """The processes in which a service reads documents."""
    tasks = Path(f"/proc/{service.pid}/task").iterdir()
    return {int(one) for task in tasks for one in (task / "children").read_text().split()}


def test_a_page_is_fetched_with_its_headers_and_answers(service, http, pages):
    headers = [{"name": "X-Pass", "value": "let-me-in-7261"}]
    source = add_page(http, pages.url("/hours"), headers=headers)
    assert end_of(service, source) == ("ready", None)
    assert "x-pass: let-me-in-7261" in pages.requests[-1].lower()
    answer = ask(http, "When does the swimming hall open on working days?")["answer"]
    assert "seven in the morning" in answer
    assert answer.endswith("Sources: Hours")


def test_the_headers_of_a_page_are_gone_when_it_is_done(service, http, pages):
    headers = [{"name": "X-Pass", "value": "let-me-in-9954"}]
    for path in ("/hours", "/gone"):
        source = add_page(http, pages.url(path), headers=headers)
        end_of(service, source)
        # The answer that it is done and the removal of its file are two steps.
        with closing(sqlite3.connect(service.data / "knowledge.sqlite3")) as database:
            assert until(lambda: not any((service.data / "material").iterdir()))
            assert database.execute("SELECT count(*) FROM job").fetchone() == (0,)
    # Neither in the database nor in its log.
    for file in service.data.rglob("*"):
        assert file.is_dir() or b"let-me-in-9954" not in file.read_bytes(), file


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("{server}/gone", "404"),
        ("http://127.0.0.1:1/", "refused|connect"),
        ("http://10.255.255.1/", "10.255.255.1"),
        ("http://169.254.169.254/latest/meta-data/", "169.254.169.254"),
        ("http://[::1]:80/", "::1"),
    ],
)
def test_a_page_that_cannot_be_had_fails_with_the_reason(service, http, pages, url, reason):
    status, said = end_of(service, add_page(http, url.format(server=pages.url("")), name="Bad"))
    assert status == "failed"
    assert said is not None
    assert re.search(reason, said), said


def test_a_long_text_waits_in_a_file_and_is_ready(service, http):
    filler = "\n\n".join(f"Line {number} says little about anything." for number in range(4000))
    add_text(http, "Long", f"{filler}\n\nThe quarry closed in 1931.\n\n{filler}")
    service.wait_until_ready(300)
    assert "1931" in ask(http, "When did the quarry close?")["answer"]
    assert list(Path(service.data, "material").iterdir()) == []


@needs_proc
def test_a_source_whose_reading_process_is_killed_is_read_again(served, served_http):
    source = add_text(served_http, "Long", "Some words of a text. " * 20_000)["id"]
    assert until(lambda: reading_processes(served))
    os.kill(reading_processes(served).pop(), signal.SIGKILL)
    assert end_of(served, source) == ("ready", None)


@needs_proc
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_short_text_that_gets_no_time_for_minutes_is_read_when_there_is_some(served, served_http):
    source = add_text(served_http, "Short", "The quarry closed in 1931.")["id"]
    end = time.monotonic() + 200  # three times as long as a reader of short texts may stand still
    while time.monotonic() < end:
        for process in reading_processes(served):
            os.kill(process, signal.SIGSTOP)
        time.sleep(0.02)
    for process in reading_processes(served):
        os.kill(process, signal.SIGCONT)
    assert end_of(served, source) == ("ready", None)


def test_a_short_text_overtakes_the_long_ones_before_it(tmp_path):
    # With one reader of long ones: with several, the short one may be the last that is begun, and
    # not the last that is ready.
    alone = InProcess(tmp_path, collections=COLLECTIONS, settings={"workers": 1})
    with alone, client_of(alone) as http:
        for number in range(6):
            add_text(http, f"Long {number}", "Some words of a text. " * 40_000)
        add_text(http, "Short", "The quarry closed in 1931.")

        def ready():
            listed = value_of(http.get("/sources", params={"status": "ready"}))["data"]
            return [one["name"] for one in sorted(listed, key=lambda one: one["ready_at"])]

        # By the order in which they were ready: on a busy machine nobody looks at once.
        assert until(lambda: "Short" in ready(), 60)
        assert ready().index("Short") < 6


def test_no_more_pages_are_fetched_at_once_than_there_are_workers(tmp_path, pages):
    meeting, met = threading.Barrier(2), list[int]()

    def meet(connection):
        with suppress(threading.BrokenBarrierError):
            met.append(meeting.wait(1))
        answer(PAGE.encode())(connection)

    pages.answers |= {"/one": meet, "/two": meet}
    settings = {"workers": 1}
    with (
        InProcess(
            tmp_path, collections=COLLECTIONS, settings=settings, allow_fetch=["127.0.0.1/32"]
        ) as alone,
        client_of(alone) as http,
    ):
        sources = [add_page(http, pages.url(path)) for path in ("/one", "/two")]
        assert [end_of(alone, one) for one in sources] == [("ready", None)] * 2
    assert met == []


def test_a_text_of_nothing_that_can_be_seen_fails_with_the_reason(service, http):
    source = add_text(http, "Invisible", "\u200b\u200b")["id"]
    assert end_of(service, source) == ("failed", "there is no text in it")


def execute(service, statement):
    """Change the database behind the service's back."""
    with closing(sqlite3.connect(service.data / "knowledge.sqlite3", timeout=30)) as database:
        database.execute(statement)
        database.commit()


def test_a_source_whose_work_breaks_off_each_time_is_given_up_and_the_next_is_not(
    fresh, fresh_http
):
    execute(
        fresh,
        "CREATE TRIGGER odd BEFORE INSERT ON passage WHEN new.text LIKE '%odd%'"
        " BEGIN SELECT RAISE(ABORT, 'odd'); END",
    )
    odd = add_text(fresh_http, "Odd", "An odd text.")["id"]
    fine = add_text(fresh_http, "Fine", "A fine text.")["id"]
    status, reason = end_of(fresh, odd)
    assert status == "failed"
    assert reason == "given up after 3 attempts: processing it broke off each time"
    assert end_of(fresh, fine) == ("ready", None)


@pytest.fixture
def failing(database):
    """Begin a source of so many passages, and end it as one that failed."""

    def fail(passages):
        store = SourceStore(database, ["col_one"])
        source = StoredSource(
            id="src_1",
            name="Long",
            collections=(),
            status="pending",
            created_at=0,
            revision="rev_1",
            kind="text",
        )
        store.accept(source=source, material=Material(content="…")).result()
        entry = IndexEntry("Beginning", "long", "- begin", "[]", b"")
        database.run(insert_entries, 1, [1], [entry] * passages)
        database.run(finish, 1, "failed", "it takes too long")

    return fail


def passages_in(database):
    return database.reader().execute("SELECT count(*) FROM passage").fetchone()[0]


def test_what_fails_half_way_leaves_nothing_of_its_text(database, failing, tmp_path):
    failing(1)
    removal = Removal(database, tmp_path)
    removal.start()
    assert until(lambda: passages_in(database) == 0)
    removal.stop()


def test_a_removal_that_is_stopped_goes_on_at_the_next_start(database, failing, tmp_path):
    failing(500)
    first, second = Removal(database, tmp_path), Removal(database, tmp_path)
    may_write, ending = threading.Event(), threading.Thread(target=first.stop)
    database.write(lambda _: may_write.wait(60))
    first.start()
    ending.start()
    assert until(first._stopping.is_set)
    may_write.set()
    ending.join()
    assert passages_in(database) > 0
    second.start()
    assert until(lambda: passages_in(database) == 0)
    second.stop()
