"""How much a run sends, how fast, and what it reports on the way."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ingest_texts import texts
from knowledge_bot.ingest import Ledger, Outcome, Report, Skipped, Stop, Text
from knowledge_bot.ingest._schema import LedgerDatabase
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
    run, dry_run
):
    for limit, stop in ((3, Stop.LIMIT), (40, None)):
        report = run(texts(40), dry_run=dry_run, limit=limit)
        assert (report.created, report.stopped) == (limit, stop)


def test_unchanged_items_do_not_count_for_the_limit(send, service, ledger):
    for day in range(1, 4):
        assert send(texts(20), ledger=ledger, limit=5).created == 5
        assert len(service.created) == 5 * day


@pytest.mark.parametrize("share", [True, False])
def test_runs_at_once_keep_to_one_rate_together(send, service, ledger_address, share):
    arrived: list[float] = []
    service.judge = lambda name, times: arrived.append(time.monotonic())
    send(texts(1), ledger=Ledger(ledger_address))  # loads what a run needs
    arrived.clear()

    def run(number: int) -> Report:
        items = [Text(name=f"{number}-{one}", content="A text.") for one in range(12)]
        return send(items, ledger=Ledger(ledger_address), rate=50, share=share)

    began = time.monotonic()  # the first may arrive late, and some of those after it catch up
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(run, range(4)))
    assert [report.created for report in reports] == [12] * 4
    rate = (len(arrived) - 1) / (max(arrived) - began)
    assert 10 <= rate <= 60, "four runs with 50 a second each would have 200"


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


def test_a_clock_that_is_set_back_does_not_stop_a_rate(send, service, ledger_address):
    assert send(texts(2), ledger=Ledger(ledger_address), rate=20).created == 2
    connection = LedgerDatabase.of(ledger_address).open(reading=False)
    assert connection is not None
    connection.run("UPDATE kbot_rates SET free_at = free_at + 3600")
    connection.close()
    began = time.monotonic()
    more = [Text(name=f"more {one}", content="A text.") for one in range(5)]
    assert send(more, ledger=Ledger(ledger_address), rate=20).created == 5
    assert time.monotonic() - began < 60


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
    states = [entry.state for entry in ledger.entries()]
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


def test_the_same_content_under_a_second_key_is_sent_and_named(send, service, ledger):
    send([Text(name="a", content="the same")], ledger=ledger)
    twins = [
        Text(name="b", content="the same"),
        Text(name="c", content="its own"),
        Text(name="d", content="twice in this run"),
        Text(name="e", content="twice in this run"),
    ]
    report = send(twins, ledger=ledger)
    assert (report.created, report.same_content, report.ok) == (4, 2, True)
    said = {one.name: one.error for one in report.failures if one.kind == "same_content"}
    assert "'a'" in said["b"]
    assert "'d'" in said["e"]
    assert send(twins, ledger=ledger).same_content == 0


def test_so_many_failures_are_kept_and_room_is_left_for_what_matters(send, ledger):
    wrong = [Skipped(f"x{number}", "it is none", invalid=True) for number in range(1100)]
    hidden = [Skipped(f".{number}", "it is hidden") for number in range(5)]
    report = send([*wrong, *hidden, *texts(1)], ledger=ledger)
    assert (report.invalid, len(report.failures), report.created) == (1100, 1000, 1)
    twins = [Text(name=f"twin {number}", content="the same") for number in range(40)]
    report = send([*twins, wrong[0]], ledger=ledger)
    assert (report.same_content, report.invalid) == (39, 1)
    kept = [one.kind for one in report.failures]
    assert (kept.count("same_content"), kept.count("invalid")) == (20, 1)


def test_the_same_content_in_other_collections_is_not_reported(send, ledger):
    send([Text(name="a", content="the same")], ledger=ledger)
    report = send([Text(name="b", content="the same")], ledger=ledger, collections="col_2")
    assert (report.created, report.same_content) == (1, 0)
