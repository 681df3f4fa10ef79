"""What a run would do."""

import pytest

from ingest_texts import texts
from knowledge_bot.ingest import Stop

pytestmark = pytest.mark.timeout(60)


def test_a_dry_run_stops_where_the_run_would(run, ledger):
    report = run(texts(40), ledger=ledger, dry_run=True, limit=3)
    assert (report.created, report.stopped) == (3, Stop.LIMIT)
    report = run(texts(40), ledger=ledger, dry_run=True, limit=40)
    assert (report.created, report.stopped) == (40, None)
