"""Why a run ended early: each reason is a member of `Stop`, and a sentence with its detail."""

import logging
import threading
import time

import pytest

from ingest_texts import texts
from knowledge_bot import ConnectionFailedError, Delivery
from knowledge_bot.ingest import Ledger, Stop
from knowledge_bot.ingest._limiter import Limiter
from scripted_server import answer

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("may_pass", [True, False])
def test_what_only_a_person_can_mend_ends_a_run_at_once(may_pass):
    limiter = Limiter(8, None, ping=None, on_stop=None)
    away = ConnectionFailedError("no", delivery=Delivery.NOT_DELIVERED, may_pass=may_pass)
    decision = limiter.failed(away, time.monotonic(), 1, 0, keyed=False, replacing=False)
    assert decision.kind == "undelivered"
    assert (decision.stop is None, decision.retry_in is not None) == (may_pass, may_pass)


def without_turns(ledger: Ledger) -> Ledger:
    """Return a ledger whose queue of turns cannot be written."""
    connection = ledger.database.open(reading=False)
    assert connection is not None
    connection.run("DROP TABLE kbot_rates")
    connection.run("CREATE TABLE kbot_rates (other TEXT)")
    connection.close()
    return ledger


@pytest.mark.parametrize("stop", Stop)
def test_a_run_that_ends_early_says_why(send, service, ledger, caplog, stop):
    status = {
        Stop.AUTHENTICATION: 401,
        Stop.PAYMENT: 402,
        Stop.REFUSED: 400,
        Stop.UNAVAILABLE: 500,
    }.get(stop)
    options: dict[str, object] = {"ledger": ledger}
    detail = "not so"
    if status is not None:
        service.judge = lambda name, times: answer(status, {"code": "no", "message": "not so"})
    elif stop is Stop.LEDGER:
        send(texts(1), ledger=ledger, rate=20)
        options |= {"ledger": without_turns(ledger), "rate": 20}
        detail = "kbot_rates"
    elif stop is Stop.LIMIT:
        options["limit"], detail = 3, "3"
    else:
        options["stop"], detail = threading.Event(), ""
        options["stop"].set()
    with caplog.at_level(logging.WARNING, "knowledge_bot.ingest"):
        report = send(texts(60), **options)
    assert report.stopped is stop
    assert detail in report.stop_reason
    assert (report.stop_reason in caplog.text) is (stop is not Stop.LIMIT)
