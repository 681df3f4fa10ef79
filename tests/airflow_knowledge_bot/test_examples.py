"""The Airflow examples: all are parsed without a service, and the one with the hook runs."""

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


@pytest.fixture
def stock(dags, service, connect):
    """`stock(fault)`: the run of the example on a service with a fault, and what it sent."""
    connect("https://service.test", max_retries=0, default_collection_id="col_house")

    def run(fault=None, *given):
        if fault:
            getattr(service, fault)(*given)
        text = (EXAMPLES / "text_from_a_function.py").read_text(encoding="utf-8")
        text = text.replace("seconds=10", "seconds=0")
        dag = dags.parse(text, "text_from_a_function").text_from_a_function()
        return dags.run(dag), [request.value for request in service.requests]

    return run


def test_a_function_s_text_becomes_a_source(stock):
    run, (sent,) = stock()
    assert (run.state, run.tasks["stock"].xcom["name"]) == ("success", sent["name"])
    assert sent["name"].startswith("Stock of 20")
    assert sent["content"].splitlines()[0] == "There are 4 of: cordless drill."


def test_it_is_sent_again_where_the_service_cannot_have_acted(stock):
    run, sent = stock("fail_next", 429)
    assert (run.state, run.tasks["stock"].try_number) == ("success", 2)
    assert sent[0] == sent[1]


@pytest.mark.parametrize("fault", [("lose_next_answer",), ("fail_next", 400)])
def test_what_may_be_there_or_was_refused_is_not_sent_again_and_the_failure_becomes_a_source(
    stock, fault
):
    run, (sent, told) = stock(*fault)
    assert (run.state, run.tasks["stock"].try_number) == ("failed", 1)
    assert sent["name"].startswith("Stock of 20")
    assert told["name"] == "text_from_a_function: stock failed"
