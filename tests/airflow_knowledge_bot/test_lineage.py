"""What OpenLineage gets of a task."""

from types import SimpleNamespace

import pytest

from airflow_knowledge_bot.operators import (
    KnowledgeBotCreateTextSourceOperator,
    KnowledgeBotCreateWebpageSourceOperator,
    KnowledgeBotIngestOperator,
    KnowledgeBotUploadSourceOperator,
)
from knowledge_bot.origins import Folder

pytest.importorskip("airflow.providers.openlineage", reason="Airflow's OpenLineage provider")


def lineage_of(operator):
    operator.execute({"ti": SimpleNamespace(xcom_push=lambda key, value: None)})
    result = operator.get_openlineage_facets_on_complete(None)
    return [
        [(dataset.namespace, dataset.name) for dataset in datasets]
        for datasets in (result.inputs, result.outputs)
    ]


@pytest.mark.usefixtures("good")
def test_a_source_s_lineage_goes_from_where_it_was_to_its_collections(tmp_path):
    file = tmp_path / "tides #1?.txt"
    file.write_text("High tide is at 6:12.")
    collection = ("knowledgebot://service.test", "col_1")
    given = {"task_id": "add", "source_name": "n", "collections": "col_1"}

    page = KnowledgeBotCreateWebpageSourceOperator(
        # A user and a query may hold a secret.
        url="https://page.example/hours?token=word",
        **given,
    )
    assert lineage_of(page) == [[("https://page.example", "hours")], [collection]]
    upload = KnowledgeBotUploadSourceOperator(file=str(file), **given)
    assert lineage_of(upload) == [[("file", str(file))], [collection]]
    file = file.rename(tmp_path / "tides.txt")
    upload = KnowledgeBotUploadSourceOperator(file=f"file://{file}", **given)
    assert lineage_of(upload) == [[("file", str(file))], [collection]]
    text = KnowledgeBotCreateTextSourceOperator(content="c", **given)
    assert lineage_of(text) == [[], [collection]]


@pytest.mark.usefixtures("good", "ledger")
def test_an_ingestion_s_lineage_begins_where_its_items_were(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "tides.txt").write_text("High tide is at 6:12.")
    ingest = KnowledgeBotIngestOperator(
        task_id="ingest",
        origin=Folder(tmp_path / "docs"),
        collections="col_1",
        ledger_conn_id="ledger",
    )
    collection = ("knowledgebot://service.test", "col_1")
    assert lineage_of(ingest) == [[("file", f"{tmp_path}/docs")], [collection]]
