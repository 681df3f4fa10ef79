"""Which reports of an ingestion fail a task, and whether Airflow tries it again."""

import pytest

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.reports import failure_of, summary
from knowledge_bot.ingest import IncompleteIngestionError, Outcome, Report, Stop

REFUSALS = Report(
    refused=50,
    undelivered=1,
    failures=(Outcome("refused", "a.txt", "a", "no such collection: col_1"),),
    stopped=Stop.REFUSED,
    stop_reason="50 items in a row were refused alike",
)


def failure(report, on_unknown="hold"):
    return failure_of(report, on_unknown=on_unknown, conn_id="svc", collections=["col_1"])


@pytest.mark.parametrize(
    ("report", "error"),
    [
        (Report(undelivered=1), IncompleteIngestionError),
        (Report(elsewhere=1), IncompleteIngestionError),
        (Report(refused=1, undelivered=1), IncompleteIngestionError),
        (Report(stopped=Stop.UNAVAILABLE, stop_reason="it is down"), IncompleteIngestionError),
        (Report(stopped=Stop.LEDGER, stop_reason="the disk is full"), IncompleteIngestionError),
        (Report(stopped=Stop.REQUESTED, stop_reason="killed"), IncompleteIngestionError),
        (Report(refused=1), AirflowFailException),
        (Report(unknown=1), AirflowFailException),
        (Report(invalid=1), AirflowFailException),
        (Report(stopped=Stop.AUTHENTICATION, undelivered=1), AirflowFailException),
        (Report(stopped=Stop.PAYMENT, undelivered=1), AirflowFailException),
        (REFUSALS, AirflowFailException),
    ],
)
def test_airflow_tries_again_where_that_may_help(report, error):
    assert type(failure(report)) is error


def test_an_unknown_outcome_is_left_to_the_next_try_where_that_is_wanted():
    assert type(failure(Report(unknown=1), "resend")) is IncompleteIngestionError


def test_many_refusals_alike_are_told_with_their_reason_and_what_to_do():
    told = str(failure(REFUSALS))
    assert "50 items in a row were refused alike" in told
    assert "one reason, which trying again does not mend" in told
    assert "task's parameter 'collections'" in told


@pytest.mark.parametrize("report", [Report(skipped=2, created=1), Report(created=1, gone=3)])
def test_what_is_left_out_on_purpose_and_what_is_gone_fail_nothing(report):
    assert failure(report) is None


def test_what_fails_a_task_comes_before_what_was_left_out():
    skipped = [Outcome("skipped", f"{number}.txt", None, "it is empty") for number in range(30)]
    told = summary(Report(skipped=30, failures=(*skipped, Outcome("refused", "a", "a", "no"))))
    assert len(told["failures"]) == 20
    assert told["failures"][0] == {"kind": "refused", "name": "a", "error": "no"}
