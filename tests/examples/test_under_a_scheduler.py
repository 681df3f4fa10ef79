"""The Airflow examples under Airflow's own scheduler, triggerer and API server."""

import json
import shutil
from pathlib import Path

import pytest

from airflow_processes import Airflow
from knowledge_bot_service import LocalService

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples"
DAG_FILES = [
    "checked_answer.py",
    "mapped_sources.py",
    "question_after_feeding.py",
    "scheduled_ingestion.py",
]
DOCUMENTS = sorted(path.name for path in (EXAMPLES / "handbook").iterdir())


@pytest.fixture(scope="module")
def service():
    with LocalService(
        collections={"col_handbook": "Handbook"},
        bots={"bot_guide": ["col_handbook"]},
        allow_fetch=("127.0.0.1/32",),
    ) as running:
        yield running


@pytest.fixture(scope="module")
def airflow(service, tmp_path_factory):
    """A real Airflow that has the DAGs' files and the handbook, nothing else."""
    home = tmp_path_factory.mktemp("examples")
    shutil.copytree(EXAMPLES / "handbook", home / "dags" / "handbook")
    for name in DAG_FILES:
        shutil.copy(EXAMPLES / name, home / "dags")
    connections = {
        "knowledge_bot_default": {
            "conn_type": "knowledge_bot",
            "host": service.base_url,
            "password": service.api_key,
            "extra": {"default_bot_id": "bot_guide", "default_collection_id": "col_handbook"},
        },
        "knowledge_bot_ledger_default": {
            "conn_type": "knowledge_bot_ledger",
            "host": str(home / "ledger.db"),
        },
    }
    lineage = {"type": "file", "log_file_path": str(home / "lineage.jsonl"), "append": True}
    settings = {"AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(lineage)}
    dags = home / "dags"
    with Airflow(home, dags, connections=connections, settings=settings) as running:
        running.command("pools", "set", "knowledge_bot", "4", "requests to the service")
        yield running
        # No task log, rendered template, XCom, serialised DAG or lineage event holds the key.
        assert any("documents" in str(path) for path in home.rglob("*.log"))
        assert running.files_holding(service.api_key) == []


def succeeded(airflow, dag_id, **conf):
    """Run a DAG to its end; return the run's id."""
    run_id = airflow.trigger(dag_id, **conf)
    run = airflow.finished(dag_id, run_id)
    states = {key: one["state"] for key, one in airflow.tasks(dag_id, run_id).items()}
    assert run["state"] == "success", states
    return run_id


def accepted(service):
    return sorted(source.name for source in service.sources())


def test_the_scheduled_ingestion_feeds_asks_and_hands_on(airflow, service):
    run_id = succeeded(airflow, "scheduled_ingestion")
    assert set(accepted(service)) >= set(DOCUMENTS)
    assert airflow.xcom("scheduled_ingestion", run_id, "check")["passed"] == 3
    answers = airflow.xcom("scheduled_ingestion", run_id, "hand_on")
    assert "14 days" in answers[0]["answer"]
    before = accepted(service)
    run_id = succeeded(airflow, "scheduled_ingestion")
    assert accepted(service) == before  # the second night sends nothing
    fed = airflow.xcom("scheduled_ingestion", run_id, "documents")
    assert (fed["created"], fed["unchanged"]) == (0, len(DOCUMENTS))


def test_each_page_and_note_is_a_task_within_the_pool(airflow, service):
    run_id = succeeded(airflow, "mapped_sources")
    tasks = airflow.tasks("mapped_sources", run_id)
    assert {tasks["add_note", index]["pool"] for index in (0, 1)} == {"knowledge_bot"}
    assert {tasks["add_note", index]["rendered_map_index"] for index in (0, 1)} == {
        "Keys",
        "Parking",
    }
    assert {"Keys", "Parking"} <= set(accepted(service))
    # The link to the service is there for whoever looks at the task.
    links = airflow.get(
        f"/dags/mapped_sources/dagRuns/{run_id}/taskInstances/add_note/links", map_index=0
    )
    start_page = service.base_url.removesuffix("public/v1")
    assert links["extra_links"] == {"Knowledge-Bot Service": start_page}


def test_an_answer_is_checked_once_the_service_is_up(airflow):
    loan = {"ask": "How long is the loan period for hand tools?", "contains": "14 days"}
    run_id = succeeded(airflow, "checked_answer", questions=[loan])
    assert airflow.xcom("checked_answer", run_id, "check")["passed"] == 1


def test_feeding_a_collection_starts_the_dag_that_asks(airflow, tmp_path):
    folder = tmp_path / "news"
    folder.mkdir()
    (folder / "news.txt").write_text("The ferry leaves at ten.")
    succeeded(airflow, "feed_handbook", folder=str(folder))
    asking = "question_after_feeding"

    def asked():
        # The scheduler feeds the handbook by itself, too, and what that is told is another count.
        runs = airflow.get(f"/dags/{asking}/dagRuns", state="success")["dag_runs"]
        for run_id in (run["dag_run_id"] for run in runs):
            if airflow.xcom(asking, run_id, "fed")["created"] == 1:
                return run_id
        return None

    run_id = airflow.until(asked, 240, "the asset's event started the other DAG")
    assert airflow.xcom(asking, run_id, "ask")["conversation_id"].startswith("conv_")


def test_openlineage_is_told_which_collection_each_source_went_into(airflow, service):
    pytest.importorskip("airflow.providers.openlineage", reason="Airflow's OpenLineage provider")
    succeeded(airflow, "mapped_sources")
    namespace = service.base_url.removesuffix("/public/v1").replace("http:", "knowledgebot:")

    def told():
        events = [json.loads(line) for line in (airflow.home / "lineage.jsonl").open()]
        ended = [
            event["outputs"]
            for event in events
            if event["eventType"] == "COMPLETE"
            and event["job"]["name"] == "mapped_sources.add_note"
        ]
        return ended or None

    (output,) = airflow.until(told, 60, "the event of the task's end")[0]
    assert (output["namespace"], output["name"]) == (namespace, "col_handbook")
