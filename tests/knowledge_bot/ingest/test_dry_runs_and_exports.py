"""What a run would do, and what is taken out of a ledger and given back."""

import pytest

from calls import KEY
from ingest_texts import texts
from knowledge_bot import Client
from knowledge_bot.ingest import File, Stop, WebPage, from_jsonl, ingest
from scripted_server import answer

pytestmark = pytest.mark.timeout(60)


def test_a_dry_run_stops_where_the_run_would(run, ledger):
    report = run(texts(40), ledger=ledger, dry_run=True, limit=3)
    assert (report.created, report.stopped) == (3, Stop.LIMIT)
    report = run(texts(40), ledger=ledger, dry_run=True, limit=40)
    assert (report.created, report.stopped) == (40, None)


def test_an_exported_page_keeps_its_version_and_is_not_created_twice(run, service, ledger):
    page = WebPage(name="hours", url="https://h.example/hours", version="2026-01-01")
    service.judge = lambda name, times: answer(400, {"message": "no"}) if times == 1 else None
    assert run([page], ledger=ledger).refused == 1
    assert run(from_jsonl(list(ledger.export())), ledger=ledger).created == 1
    assert run([page], ledger=ledger).unchanged == 1
    changed = page.model_copy(update={"version": "2026-02-02"})
    assert run([changed], ledger=ledger).superseded == 1


def test_what_is_opened_by_a_function_is_not_exported_as_a_file(service, ledger, tmp_path):
    (tmp_path / "a.txt").write_text("text")
    service.judge = lambda name, times: answer(400, {"message": "no"})
    one = File(path="store://bucket/a.txt", open=lambda: (tmp_path / "a.txt").open("rb"))
    with Client(KEY, service.url) as client:
        report = ingest(client, [one], collections="col_1", ledger=ledger)
    assert report.refused == 1
    assert [entry.kind for entry in ledger.refused()] == ["object"]
    assert list(ledger.export()) == []
