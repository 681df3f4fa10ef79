"""Which reports of an ingestion fail a task, and whether Airflow tries it again."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.operators.ingest import FAILED
from airflow_knowledge_bot.results import failure_of, summary
from knowledge_bot.ingest import IncompleteIngestionError, Outcome, Report, Stop

REFUSALS = Report(
    refused=50,
    undelivered=1,
    failures=(Outcome("refused", "a.txt", "a", "no such collection: col_1"),),
    stopped=Stop.REFUSED,
    stop_reason="50 items in a row were refused alike",
)


def task(**rules):
    given = {"fail_on": FAILED, "max_refused": 0, "on_unknown": "hold"} | rules
    return SimpleNamespace(knowledge_bot_conn_id="svc", ledger_conn_id="kept", **given)


def failure(report, unknown=(), invalid_passes=False, **rules):
    return failure_of(
        report,
        task(**rules),
        collections=["col_1"],
        unknown=unknown,
        invalid_passes=invalid_passes,
    )


@pytest.mark.parametrize(
    ("report", "error"),
    [
        (Report(undelivered=1), IncompleteIngestionError),
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
    assert isinstance(failure(report), error)


def test_an_unknown_outcome_is_left_to_the_next_try_where_that_is_wanted():
    result = failure(Report(unknown=1), on_unknown="resend")
    assert isinstance(result, IncompleteIngestionError)


def test_what_is_sent_again_may_be_there_twice_and_that_is_reported():
    text = str(failure(Report(unknown=1, undelivered=1), on_unknown="resend"))
    assert "on_unknown='resend': the next try sends what is missing, and what is unknown" in text
    assert "nothing twice" not in text
    assert "nothing twice" in str(failure(Report(undelivered=1), on_unknown="resend"))


def test_twenty_unknown_items_are_named_and_what_settles_them_is_reported():
    unknown = [Outcome("unknown", f"n{number}.md", f"/k/{number}") for number in range(20)]
    logged = str(failure(Report(unknown=23), unknown=unknown)).splitlines()
    assert logged[2].startswith(
        "Then settle them with KnowledgeBotResolveOperator and the ledger connection 'kept'"
    )
    assert "unknown: n0.md (key /k/0)" in logged
    assert "unknown: n19.md (key /k/19)" in logged
    assert "… and 3 more that are unknown." in logged


def test_what_could_not_be_read_in_a_store_is_left_to_the_next_try():
    assert isinstance(failure(Report(invalid=1), invalid_passes=True), IncompleteIngestionError)


def test_many_refusals_alike_are_reported_with_their_reason_and_what_to_do():
    text = str(failure(REFUSALS))
    assert "50 items in a row were refused alike" in text
    assert "one cause, which a retry does not remove" in text
    assert "task's parameter 'collections'" in text


def test_a_refusal_of_the_whole_run_names_the_parameter_and_nothing_that_was_not_read():
    report = Report(
        stopped=Stop.REFUSED,
        stop_reason="the service refuses the items: there is no collection col_1",
        incomplete="the run ended early",
    )
    text = str(failure(report))
    assert "a retry does not remove" in text
    assert "task's parameter 'collections'" in text
    assert "could not be read" not in text


@pytest.mark.parametrize(
    "report",
    [
        Report(skipped=2, created=1),
        Report(created=1, gone=3),
        Report(elsewhere=1),
        Report(created=1, stopped=Stop.LIMIT, stop_reason="the limit of 1 items was reached"),
    ],
)
def test_what_is_left_out_gone_elsewhere_or_over_the_limit_fails_nothing(report):
    assert failure(report) is None


@pytest.mark.parametrize(
    ("report", "rules", "is_red"),
    [
        (Report(refused=3), {"fail_on": {"unknown"}}, False),
        (Report(refused=3, unknown=1), {"fail_on": {"unknown"}}, True),
        (Report(invalid=3), {"fail_on": ()}, False),
        (Report(refused=3), {"max_refused": 3}, False),
        (Report(refused=4), {"max_refused": 3}, True),
        (Report(refused=1, created=99), {"max_refused": 0.01}, False),
        (Report(refused=2, created=98), {"max_refused": 0.01}, True),
        (Report(refused=1, unknown=1), {"max_refused": 1}, True),
        # A run that stops early has not looked at all items.
        (REFUSALS, {"fail_on": (), "max_refused": 1.0}, True),
        (Report(stopped=Stop.REQUESTED), {"fail_on": ()}, True),
    ],
)
def test_a_dag_s_author_says_which_failures_turn_a_task_red(report, rules, is_red):
    assert (failure(report, **rules) is not None) is is_red


@pytest.mark.parametrize("report", [REFUSALS, Report(undelivered=1, stopped=Stop.UNAVAILABLE)])
def test_a_failure_is_reported_one_fact_a_line(report):
    lines = str(failure(replace(report, stop_reason="it answers 503. "))).splitlines()
    assert len(lines) > 1
    assert all(len(line) < 600 and ".." not in line for line in lines)


def test_what_fails_a_task_comes_before_what_was_left_out():
    skipped = [Outcome("skipped", f"{number}.txt", None, "it is empty") for number in range(30)]
    report = Report(skipped=30, failures=(*skipped, Outcome("refused", "a", "a", "no")))
    history = SimpleNamespace(route=("https://x.example", (), None), began=0.0)
    result = summary(report, {}, None, history)
    assert len(result["failures"]) == 20
    assert result["failures"][0] == {"kind": "refused", "name": "a", "error": "no"}
