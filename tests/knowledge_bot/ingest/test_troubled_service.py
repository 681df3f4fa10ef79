"""What a run makes of a service that refuses, is overloaded, or is not there."""

import contextlib
import random
import socket
import threading
import time

import pytest

from calls import KEY
from ingest_texts import texts
from knowledge_bot import Client
from knowledge_bot.ingest import Stop, Text, ingest
from scripted_server import answer, pong, reset

pytestmark = pytest.mark.timeout(60)


def error(status: int, **headers: str):
    return answer(status, {"code": "no", "message": "not so"}, headers)


@pytest.fixture
def hurried(monkeypatch) -> None:
    """Nobody is waited for for long."""
    monkeypatch.setattr("knowledge_bot.ingest._pressure._FIRST_BACKOFF", 0.01)


def test_a_refused_item_is_named_and_tried_again_by_the_next_run(run, service, ledger):
    service.judge = lambda name, times: error(400) if (name, times) == ("t1", 1) else None
    report = run(texts(3), ledger=ledger)
    assert (report.created, report.refused) == (2, 1)
    (failure,) = report.failures
    assert (failure.kind, failure.name) == ("refused", "t1")
    assert "not so" in failure.error
    assert run(texts(3), ledger=ledger).created == 1


@pytest.mark.parametrize(
    ("status", "stop"),
    [(401, Stop.AUTHENTICATION), (403, Stop.AUTHENTICATION), (402, Stop.PAYMENT)],
)
def test_a_service_that_takes_no_more_ends_the_run_and_the_rest_is_untouched(
    run, service, ledger, status, stop
):
    service.judge = lambda name, times: error(status) if len(service.created) >= 5 else None
    report = run(texts(100), ledger=ledger, concurrency=4)
    assert report.stopped is stop
    assert report.unknown == 0
    assert len(service.arrived) <= 5 + 4
    service.judge = lambda name, times: None
    again = run(texts(100), ledger=ledger)
    assert again.created == 100 - report.created
    assert sorted(service.created) == sorted(f"t{n}" for n in range(100))


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    ("status", "headers"), [(429, {}), (503, {"Retry-After": "0"}), (507, {"Retry-After": "0"})]
)
def test_a_service_under_load_gets_every_item_in_the_end(run, service, ledger, status, headers):
    service.judge = lambda name, times: error(status, **headers) if times == 1 else None
    report = run(texts(12), ledger=ledger, concurrency=4)
    assert (report.created, report.failed) == (12, 0)
    assert report.duration < 30
    assert sorted(service.created) == sorted(f"t{n}" for n in range(12))


def test_a_pause_is_reported_with_its_reason(send, service, ledger):
    service.judge = lambda name, times: error(429, **{"Retry-After": "1"}) if times == 1 else None
    reports = []
    report = send(texts(1), ledger=ledger, on_progress=reports.append)
    assert (report.created, report.paused) == (1, "")
    assert any(one.paused for one in reports)


def test_a_service_that_is_away_for_long_is_not_asked_before_and_ends_the_run(
    send, service, ledger
):
    service.judge = lambda name, times: error(503, **{"Retry-After": "3600"})
    report = send(texts(20), ledger=ledger, concurrency=1)
    assert (report.stopped, report.undelivered, report.unknown) == (Stop.UNAVAILABLE, 2, 0)
    assert report.duration < 30
    assert len(service.arrived) == 2


def test_so_many_unknown_outcomes_in_a_row_end_a_run_and_not_one_fewer(send, service, ledger):
    # Ten and one that is in flight.
    service.judge = lambda name, times: error(500)
    assert send(texts(40), ledger=ledger, concurrency=1).unknown == 11
    assert len(service.arrived) == 11


def test_what_goes_well_in_between_begins_the_count_anew(send, service):
    lost = {*range(1, 11), *range(12, 22)}
    service.judge = lambda name, times: error(500) if int(name[1:]) in lost else None
    report = send(texts(30), concurrency=1)
    assert (report.unknown, report.created, report.stopped) == (20, 10, None)


def test_a_steady_third_of_refusals_does_not_slow_a_run_to_a_crawl(send, service, ledger):
    dice, enough = random.Random(7), threading.Event()

    def refuse_a_third(name, times):
        if len(service.created) == 100:  # the last few are those that were unlucky
            enough.set()
        return error(429) if dice.random() < 1 / 3 else None

    service.judge = refuse_a_third
    report = send(texts(5000), ledger=ledger, concurrency=16, stop=enough)
    assert report.unknown == 0
    # Where each refusal lets all of them wait, it is about 10 a second.
    assert report.created / report.duration > 15


def test_many_refusals_that_are_alike_stop_a_run(send, service, ledger):
    service.judge = lambda name, times: error(400)
    report = send(texts(5000), ledger=ledger)
    assert report.stopped is Stop.REFUSED
    assert "not so" in report.stop_reason
    assert 50 <= report.refused == len(service.arrived) <= 50 + 8
    service.judge = lambda name, times: None  # the wrong collection is put right
    assert send(texts(200), ledger=ledger).created == 200


def test_fifty_alike_are_enough_and_not_one_fewer(send, service):
    service.judge = lambda name, times: error(400)
    assert send(texts(80), concurrency=1).refused == len(service.arrived) == 50
    assert send(texts(49), concurrency=1).stopped is None


def test_refusals_that_differ_stop_nothing(send, service, ledger):
    service.judge = lambda name, times: answer(400, {"code": "no", "message": f"{name} is bad"})
    report = send(texts(120), ledger=ledger)
    assert (report.refused, report.stopped) == (120, None)


@pytest.mark.parametrize("order", ["mixed", "at the end"])
def test_a_folder_of_pictures_among_texts_does_not_end_a_run(send, service, ledger, order):
    items = [*texts(100), *(Text(name=f"picture {n}", content=f"{n}") for n in range(60))]
    if order == "mixed":
        random.Random(7).shuffle(items)
    service.judge = lambda name, times: error(400) if name.startswith("picture") else None
    report = send(items, ledger=ledger)
    assert (report.created, report.refused, report.stopped) == (100, 60, None)


@pytest.mark.parametrize(
    "gone", [reset, pytest.param(error(503), marks=pytest.mark.slow)], ids=["reset", "503"]
)
def test_a_service_that_is_away_for_a_while_is_waited_for(
    send, scripted, service, ledger, monkeypatch, *, gone
):
    """It may have acted on what was in flight: that is unknown, and nothing more is."""
    monkeypatch.setattr("knowledge_bot.ingest._pressure._LONGEST_PING_BACKOFF", 0.5)
    service.judge = lambda name, times: time.sleep(0.005)
    away, back = time.monotonic() + 0.2, time.monotonic() + 1

    def is_away() -> bool:
        return away < time.monotonic() < back

    def accepts(connection: socket.socket) -> bool:
        if is_away() and gone is reset:
            with contextlib.suppress(ConnectionResetError):
                reset(connection)
            return False
        return True

    def answer_ping(connection: socket.socket) -> None:
        (gone if is_away() else pong)(connection)

    server = scripted(
        reply_to=lambda received: gone if is_away() else service.reply(received),
        on_ping=answer_ping,
        on_accept=accepts,
    )
    report = send(texts(600), ledger=ledger, url=server.url, concurrency=8)
    assert report.stopped is None
    assert time.monotonic() > back
    assert report.unknown <= 8 + 4
    assert report.created == 600 - report.unknown
    assert len(service.arrived) == len(set(service.arrived))


@pytest.mark.usefixtures("hurried")
def test_an_unreachable_service_leaves_the_items_untouched(ledger, monkeypatch):
    monkeypatch.setattr("knowledge_bot.ingest._pressure._LONGEST_OUTAGE", 0.3)
    with Client(KEY, "http://127.0.0.1:9") as client:
        report = ingest(client, texts(500), collections="col_1", ledger=ledger, concurrency=4)
    assert report.stopped is Stop.UNAVAILABLE
    assert report.undelivered + report.unknown == 0
    assert "no connection" in report.stop_reason
