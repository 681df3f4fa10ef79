"""How much a run sends, how fast, and what it reports on the way."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from ingest_texts import texts
from knowledge_bot.ingest import Outcome, Skipped, Stop, Text
from knowledge_bot.testing import no_waiting
from scripted_server import Reply, answer, reset

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("limit", [0, 1, 7, 100])
def test_a_limit_is_how_many_items_are_sent(send, service, ledger, limit):
    report = send(texts(150), ledger=ledger, limit=limit)
    assert (report.created, report.stopped, report.ok) == (limit, Stop.LIMIT, True)
    assert len(service.arrived) == limit
    assert str(limit) in report.stop_reason


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_dry_run_stops_where_the_run_would_and_a_limit_that_is_reached_at_the_end_stops_none(
    run, tmp_path, dry_run
):
    for limit, stop in ((3, Stop.LIMIT), (40, None)):
        ledger = tmp_path / f"{limit}.db"
        report = run(texts(40), ledger=ledger, dry_run=dry_run, limit=limit)
        assert (report.created, report.stopped) == (limit, stop)


def test_unchanged_items_do_not_count_for_the_limit(send, service, ledger):
    for day in range(1, 4):
        assert send(texts(20), ledger=ledger, limit=5).created == 5
        assert len(service.created) == 5 * day


def test_a_run_waits_for_what_another_one_is_sending_to_the_end_of_its_patience(
    send, service, ledger, monkeypatch
):
    clock = SimpleNamespace(monotonic=lambda: 1.0, time=time.time)  # which never comes to the end
    monkeypatch.setattr("knowledge_bot.ingest._ledger_keeper.time", clock)
    arrived, may_answer = threading.Event(), threading.Event()

    def judge(name: str, times: int) -> None:
        arrived.set()
        may_answer.wait(60)

    service.judge = judge
    with ThreadPoolExecutor() as pool:
        first = pool.submit(send, texts(1), ledger=ledger)
        assert arrived.wait(60)
        second = pool.submit(send, texts(1), ledger=ledger, wait_ready=0.5)
        with pytest.raises(TimeoutError):
            second.result(1)
        may_answer.set()
        assert (first.result(60).created, second.result(60).unchanged) == (1, 1)


def test_a_rate_holds_for_an_item_that_is_sent_again(send, service, ledger):
    arrived: list[float] = []

    def judge(name: str, times: int) -> Reply | None:
        arrived.append(time.monotonic())
        return answer(429, {"code": "slow", "message": "down"}) if times == 1 else None

    service.judge = judge
    with no_waiting():
        assert send(texts(6), ledger=ledger, rate=20).created == 6
    assert len(arrived) == 12
    assert max(arrived) - min(arrived) >= 11 / 20 - 0.2  # the first may arrive late


def test_each_item_that_is_created_or_fails_is_reported_as_it_happens(send, service, ledger):
    said: list[Outcome] = []
    send(texts(1), ledger=ledger, on_outcome=said.append)
    (created,) = said
    assert (created.kind, created.name, created.key) == ("created", "t0", "t0")
    assert created.source_id == "src_1"
    said.clear()
    service.judge = lambda name, times: {
        "t1": answer(400, {"code": "no", "message": "not so"}),
        "t2": reset,
    }.get(name)
    items = [*texts(4), Text(name="blank", content=" "), Skipped("x", "it is none", invalid=True)]
    report = send(items, ledger=ledger, on_outcome=said.append)
    kinds = {outcome.name: outcome.kind for outcome in said}
    assert kinds == {
        "t1": "refused",
        "t2": "unknown",
        "t3": "created",
        "blank": "skipped",
        "x": "invalid",
    }
    assert set(report.failures) == {outcome for outcome in said if outcome.kind != "created"}


def test_a_dry_run_names_each_item_that_would_be_sent(send, service, ledger):
    said: list[Outcome] = []
    send(texts(2), ledger=ledger)
    send(texts(4), ledger=ledger, dry_run=True, on_outcome=said.append)
    assert [(one.kind, one.name, one.source_id) for one in said] == [
        ("created", "t2", None),
        ("created", "t3", None),
    ]


@pytest.mark.parametrize("listener", ["on_outcome", "on_progress"])
def test_what_a_listener_raises_comes_out_after_what_is_in_flight_is_recorded(
    run, service, ledger, listener
):
    def fail(said):
        raise LookupError("the log is full")

    with pytest.raises(LookupError, match="log is full"):
        run(texts(50), ledger=ledger, concurrency=4, **{listener: fail})
    states = [entry.state for entry in ledger.entries()] if ledger.exists() else []
    assert states == ["created"] * len(service.created)
    assert len(states) <= 8


def test_the_report_counts_every_item_once(send, service, ledger):
    service.judge = lambda name, times: {
        "t1": answer(400, {"code": "no", "message": "not so"}),
        "t2": reset,
    }.get(name)
    send([Text(name="t0", content="older")], ledger=ledger)
    items = [*texts(6), Text(name="blank", content=" "), {"no": "item"}, texts(1)[0]]
    report = send(items, ledger=ledger)
    counted = report.counts
    assert sum(
        counted[name]
        for name in (
            *("created", "unchanged", "refused", "unknown"),
            *("undelivered", "invalid", "skipped", "elsewhere"),
        )
    ) == len(items)
    assert report.total == len(items)
    assert report.superseded == 1
    assert report.as_dict()["created"] == report.created == 4


def test_so_many_failures_are_kept(send, ledger):
    wrong = [Skipped(f"x{number}", "it is none", invalid=True) for number in range(1100)]
    hidden = [Skipped(f".{number}", "it is hidden") for number in range(5)]
    report = send([*wrong, *hidden, *texts(1)], ledger=ledger)
    assert (report.invalid, len(report.failures), report.created) == (1100, 1000, 1)
