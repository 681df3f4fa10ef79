"""Which reports of an ingestion fail a task, and whether Airflow tries it again."""

import pytest

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.reports import IngestionIncomplete, check
from knowledge_bot.ingest import Report, Stop


@pytest.mark.parametrize(
    ("report", "error"),
    [
        (Report(undelivered=1), IngestionIncomplete),
        (Report(elsewhere=1), IngestionIncomplete),
        (Report(refused=1, undelivered=1), IngestionIncomplete),
        (Report(stopped=Stop.UNAVAILABLE, stop_reason="it is down"), IngestionIncomplete),
        (Report(stopped=Stop.LEDGER, stop_reason="the disk is full"), IngestionIncomplete),
        (Report(refused=1), AirflowFailException),
        (Report(unknown=1), AirflowFailException),
        (Report(invalid=1), AirflowFailException),
    ],
)
def test_airflow_tries_again_where_that_may_help(report, error):
    with pytest.raises(error):
        check(report, on_unknown="hold", conn_id="svc", collections=["col_1"])


def test_what_is_left_out_on_purpose_fails_nothing():
    check(Report(skipped=2, created=1), on_unknown="hold", conn_id="svc", collections=["col_1"])
