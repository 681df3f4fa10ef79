"""What a run does with its items, through both clients."""

import contextlib
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from calls import KEY
from ingest_texts import texts
from knowledge_bot import Client, ConfigurationError
from knowledge_bot.ingest import File, Ledger, Skipped, Text, WebPage, ingest
from knowledge_bot.testing import MemoryService
from scripted_server import reset
from waiting import until

pytestmark = pytest.mark.timeout(60)


def test_every_item_is_created_once_and_a_second_run_asks_nothing(run, service, ledger, tmp_path):
    (tmp_path / "a.txt").write_text("A file.")
    items = [
        *texts(20),
        File(path=tmp_path / "a.txt"),
        WebPage(name="page", url="https://h.example/"),
    ]
    first = run(items, ledger=ledger)
    assert (first.created, first.failed, first.ok) == (22, 0, True)
    assert sorted(service.created) == sorted([f"t{n}" for n in range(20)] + ["a.txt", "page"])
    second = run(items, ledger=ledger)
    assert (second.created, second.unchanged) == (0, 22)
    assert len(service.arrived) == 22


def test_where_nobody_keeps_the_book_a_run_says_what_to_give(run, service):
    with pytest.raises(ConfigurationError, match="name a ledger") as raised:
        run(texts(3), ledger=None)
    assert raised.value.argument == "ledger"
    assert not service.arrived


@pytest.mark.parametrize(
    ("announcement", "told"), [("", False), ("sources=1", True), ("sources=1;manage", False)]
)
def test_a_key_that_may_only_write_is_told_what_its_ledger_does_not_know(
    tmp_path, caplog, announcement, told
):
    service = MemoryService(collections=["col_1"], extensions={"sources"})
    service.announcement = announcement
    with Client(KEY, "https://service.test", transport=service.transport) as client:
        ingest(client, texts(1), collections="col_1", ledger=tmp_path / "run.db")
    assert ("may only write" in caplog.text) == told


def test_a_changed_item_is_created_anew_and_the_old_source_named(run, service, ledger):
    run(texts(2), ledger=ledger)
    report = run([Text(name="t0", content="Another text."), texts(2)[1]], ledger=ledger)
    assert (report.created, report.superseded, report.unchanged) == (1, 1, 1)
    (old,) = ledger.superseded()
    assert old.key == "t0"
    assert old.source_id in ("src_1", "src_2")
    assert old.replaced_by == "src_3"


def test_an_item_in_other_collections_is_another_item(run, service, ledger):
    assert run(texts(1), ledger=ledger).created == 1
    assert run(texts(1), ledger=ledger, collections="col_2").created == 1
    other = Text(name="t0", content="Some text 0.", collections=["col_2", "col_1"])
    moved = run([other], ledger=ledger)
    assert (moved.created, moved.superseded) == (1, 1)
    assert run([other], ledger=ledger).unchanged == 1
    assert service.bodies[-1]["collections"] == ["col_2", "col_1"]


def test_an_unknown_outcome_is_held_and_never_sent_again(run, service, ledger):
    service.judge = lambda name, times: reset if name == "t1" else None
    report = run(texts(3), ledger=ledger)
    assert (report.created, report.unknown, report.ok) == (2, 1, False)
    again = run(texts(3), ledger=ledger)
    assert (again.unchanged, again.unknown) == (2, 1)
    assert service.arrived.count("t1") == 1
    assert [entry.key for entry in ledger.unknown()] == ["t1"]


def test_an_unknown_outcome_is_sent_again_where_the_user_says_so(run, service, ledger):
    service.judge = lambda name, times: reset if (name, times) == ("t1", 1) else None
    run(texts(3), ledger=ledger)
    report = run(texts(3), ledger=ledger, on_unknown="resend")
    assert (report.created, report.unknown) == (1, 0)
    assert list(ledger.unknown()) == []


def test_what_cannot_be_sent_is_named_and_the_rest_is_done(run, service, ledger, tmp_path):
    (tmp_path / "empty.txt").touch()
    os.mkfifo(tmp_path / "pipe")
    items = [
        File(path=tmp_path / "missing.txt"),
        File(path=tmp_path),
        File(path=tmp_path / "empty.txt"),
        File(path=tmp_path / "pipe"),
        Text(name="blank", content=" \n"),
        WebPage(name="relative", url="/page"),
        Skipped("line 7", "it is no JSON", invalid=True),
        Skipped(".git", "it is hidden"),
        {"name": "a dictionary"},
        Text(name="good", content="text"),
    ]
    report = run(items, ledger=ledger)
    assert (report.created, report.invalid, report.skipped) == (1, 6, 3)
    kinds = {outcome.name: outcome.kind for outcome in report.failures}
    skipped = {name for name, kind in kinds.items() if kind == "skipped"}
    invalid = {"missing.txt", tmp_path.name, "pipe", "relative", "line 7"}
    assert skipped == {"empty.txt", "blank", ".git"}
    assert invalid < kinds.keys() - skipped
    assert report.items == 7


def test_a_dry_run_counts_and_touches_nothing(run, service, ledger, tmp_path):
    report = run(texts(3), ledger=ledger, dry_run=True)
    assert (report.created, report.dry_run) == (3, True)
    assert list(tmp_path.iterdir()) == []
    run(texts(3), ledger=ledger)
    changed = [Text(name="t0", content="new"), *texts(4)[1:]]
    report = run(changed, ledger=ledger, dry_run=True)
    assert (report.created, report.superseded, report.unchanged) == (2, 1, 2)
    assert len(service.arrived) == 3


def test_a_dry_run_writes_nothing_and_waits_for_nobody_who_does(run, service, ledger, tmp_path):
    run(texts(1), ledger=ledger)
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.db")) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert run(texts(1), ledger=ledger, dry_run=True).unchanged == 1


@pytest.mark.parametrize("origin", [None, "handbook"])
def test_a_run_that_finds_nothing_to_do_writes_nothing(send, ledger, tmp_path, origin):
    send(texts(3), ledger=ledger, origin=origin)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}

    def slowly():  # longer than the ledger is left alone
        for text in texts(3):
            time.sleep(0.2)
            yield text

    assert send(slowly(), ledger=ledger, origin=origin).unchanged == 3
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_a_run_that_joins_another_one_takes_a_share_of_the_items(send, service, ledger):
    def wait(name, times):
        time.sleep(0.03)

    service.judge = wait
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(send, texts(800), ledger=ledger, concurrency=16)
        assert until(lambda: len(service.arrived) >= 32)
        reports = [send(texts(800), ledger=ledger, concurrency=16), first.result()]
    assert sum(report.created for report in reports) == 800
    assert sorted(service.arrived) == sorted(f"t{number}" for number in range(800))
    assert min(report.created for report in reports) > 240


def test_what_another_run_sent_in_the_meantime_is_not_sent_again(run, service, ledger, tmp_path):
    run([Text(name="t1", content="What it was at first.")], ledger=ledger)

    def send_the_next_one_elsewhere(name, times):
        if name == "t0":
            time.sleep(0.2)  # the next one is planned by now, and waits for its turn
            with Client(KEY, service.url) as client:
                other = Ledger(tmp_path / "ledger.db")
                ingest(client, texts(2)[1:], collections="col_1", ledger=other)

    service.judge = send_the_next_one_elsewhere
    report = run(texts(2), ledger=ledger, concurrency=1)
    assert (report.created, report.unchanged) == (1, 1)
    assert service.created == ["t1", "t1", "t0"]


def test_headers_of_pages_are_sent_and_stay_secret(run, service, ledger, tmp_path):
    headers = {"Authorization": "s3cr3t-9"}
    page = WebPage(name="p", url="https://h.example/", headers=headers, version="1")
    report = run([page], ledger=ledger)
    assert service.bodies[0]["headers"] == [{"name": "Authorization", "value": "s3cr3t-9"}]
    assert "s3cr3t-9" not in repr(page) + str(report) + repr(report)
    assert not any(b"s3cr3t-9" in path.read_bytes() for path in tmp_path.iterdir())
    changed = page.model_copy(update={"version": "2"})
    assert run([changed], ledger=ledger).superseded == 1


@pytest.mark.parametrize("version", [None, "1"])
def test_the_value_of_a_header_may_change_and_the_name_of_one_or_the_address_may_not(
    run, service, ledger, version
):
    def page(url="https://h.example/", **headers):
        return [WebPage(name="p", url=url, key="p", headers=headers, version=version)]

    run(page(Authorization="monday"), ledger=ledger)
    assert run(page(authorization="tuesday"), ledger=ledger).unchanged == 1
    assert run(page(Cookie="tuesday"), ledger=ledger).created == 1
    assert run(page(), ledger=ledger).created == 1
    assert run(page("https://h.example/other"), ledger=ledger).created == 1
    assert run(page("https://h.example/other"), ledger=ledger).unchanged == 1


def test_one_service_is_one_service_whatever_the_spelling_of_its_address(send, service, ledger):
    port = service.url.rpartition(":")[2]
    send(texts(3), url=f"http://localhost:{port}", ledger=ledger)
    for spelling in ("LocalHost:{}", "localhost:{}/", "localhost:{}/public/v1", "LOCALHOST:0{}/"):
        report = send(texts(3), url=f"HTTP://{spelling.format(port)}", ledger=ledger)
        assert (report.unchanged, report.created) == (3, 0), spelling
    assert send(texts(3), url=f"http://localhost:{port}/v2", ledger=ledger).created == 3


def test_a_claim_is_in_the_ledger_before_its_request_arrives(run, service, ledger):
    seen: list[tuple[bool, int]] = []

    def look(name, times):
        claimed = {entry.key for entry in ledger.entries("claimed")}
        seen.append((name in claimed, len(claimed)))

    service.judge = look
    assert run(texts(100), ledger=ledger, concurrency=4).created == 100
    assert all(was_claimed for was_claimed, _ in seen)
    assert max(claimed for _, claimed in seen) <= 4
