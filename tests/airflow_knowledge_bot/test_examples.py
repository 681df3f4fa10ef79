"""The Airflow examples, parsed as Airflow parses them: without a service or a connection."""

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.usefixtures("dags")
def test_every_example_is_parsed_without_a_service_or_a_connection(tmp_path):
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:  # Airflow 3.1
        from airflow.models.dagbag import DagBag

    for file in EXAMPLES.glob("*.py"):
        if "@dag" in (text := file.read_text(encoding="utf-8")):
            (tmp_path / file.name).write_text(text, encoding="utf-8")
    bag = DagBag(tmp_path)
    assert bag.import_errors == {}
    assert sorted(bag.dag_ids) == [
        "bulk_ingestion",
        "checked_answer",
        "feed_handbook",
        "mapped_sources",
        "question_after_feeding",
        "scheduled_ingestion",
        "settle_unknown",
        "text_from_a_function",
    ]
