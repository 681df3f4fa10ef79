"""Why a run ended early: each reason is a member of `Stop`, and a sentence with its detail."""

import logging
import threading
import time

import pytest

from ingest_texts import texts
from knowledge_bot import ConnectionFailedError, Delivery, UnexpectedResponseError
from knowledge_bot.ingest import Stop
from knowledge_bot.ingest._pressure import Judge, Outage, Pressure
from scripted_server import answer

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("may_pass", [True, False])
def test_what_only_a_person_can_mend_ends_a_run_at_once(may_pass):
    judge = Judge(Pressure(8, None, Outage(None, None)), repeatable=False)
    away = ConnectionFailedError("no", delivery=Delivery.NOT_DELIVERED, may_pass=may_pass)
    decision = judge.failed(away, time.monotonic(), 1, 0, keyed=False)
    assert decision.kind == "undelivered"
    assert (decision.stop is None, decision.retry_in is not None) == (may_pass, may_pass)


def test_the_third_odd_answer_in_a_row_ends_a_run_and_not_one_fewer():
    judge = Judge(Pressure(8, None, Outage(None, None)), repeatable=False)
    odd = UnexpectedResponseError("odd", status_code=200, body=b"<html>")
    stops = [judge.failed(odd, time.monotonic(), 1, 0, keyed=False).stop for _ in range(3)]
    assert [stop is None for stop in stops] == [True, True, False]


ANSWERS = {
    Stop.AUTHENTICATION: 401,
    Stop.PAYMENT: 402,
    Stop.REFUSED: 400,
    Stop.UNAVAILABLE: 500,
}


@pytest.mark.parametrize("stop", [*ANSWERS, Stop.LIMIT, Stop.REQUESTED])
def test_a_run_that_ends_early_says_why(send, service, caplog, stop):
    options, detail = {}, "not so"
    if stop in ANSWERS:
        body = {"code": "no", "message": "not so"}
        service.judge = lambda name, times: answer(ANSWERS[stop], body)
    elif stop is Stop.LIMIT:
        options, detail = {"limit": 3}, "3"
    else:
        options, detail = {"stop": threading.Event()}, ""
        options["stop"].set()
    with caplog.at_level(logging.WARNING, "knowledge_bot.ingest"):
        report = send(texts(60), **options)
    assert report.stopped is stop
    assert detail in report.stop_reason
    assert (report.stop_reason in caplog.text) is (stop is not Stop.LIMIT)


@pytest.mark.parametrize("status", [200, 404, 405, 501])
@pytest.mark.parametrize("body", [b"<html>It works!</html>", b'{"detail": "no"}'])
def test_another_server_at_the_address_gets_three_items_and_what_is_in_flight(
    send, service, status, body
):
    service.judge = lambda name, times: answer(status, body)
    report = send(texts(60), concurrency=2)
    assert report.stopped is Stop.UNAVAILABLE
    assert len(service.arrived) <= 4
