"""What a real triggerer waits for: what a bot can answer."""

import pytest
from airflow import sdk

from airflow_processes import Airflow
from calls import KEY
from knowledge_bot import Client
from knowledge_bot_service import LocalService
from waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DAGS = """
from airflow.sdk import DAG, Asset, AssetWatcher, task
from airflow_knowledge_bot.triggers import KnowledgeBotSourcesEventTrigger

trigger = KnowledgeBotSourcesEventTrigger("col_1", poke_interval=1)
watcher = AssetWatcher(name="ready", trigger=trigger)
with DAG("told", schedule=[Asset("knowledgebot://HOST/col_1", watchers=[watcher])]):

    @task
    def payload(triggering_asset_events):
        return [one.extra["payload"] for ones in triggering_asset_events.values() for one in ones]

    payload()
"""


@pytest.fixture(scope="module")
def service():
    with LocalService(collections={"col_1": "House"}, api_key=KEY) as running:
        yield running


@pytest.fixture(scope="module")
def airflow(service, tmp_path_factory):
    home = tmp_path_factory.mktemp("waiting")
    (home / "dags").mkdir()
    text = DAGS.replace("HOST", service.base_url.split("/")[2])
    (home / "dags" / "waiting.py").write_text(text)
    connections = {
        "knowledge_bot_default": {
            "conn_type": "knowledge_bot",
            "host": service.base_url,
            "password": KEY,
        },
    }
    with Airflow(home, home / "dags", connections=connections) as running:
        yield running
        assert running.files_holding(KEY) == []


def test_each_change_of_what_can_be_answered_starts_a_dag_once(airflow, service):
    def told():
        runs = airflow.get("/dags/told/dagRuns")["dag_runs"]
        ended = [one["dag_run_id"] for one in runs if one["state"] == "success"]
        return [airflow.xcom("told", run_id, "payload") for run_id in ended]

    def payloads(count):
        found = [payload for run in told() for payload in run]
        return sorted(one["ready"] for one in found) if len(found) >= count else None

    with Client(KEY, service.base_url) as client:
        client.create_text_source(name="Hours", collections="col_1", content="We open at nine.")
        assert airflow.until(lambda: payloads(1), 180, "the first event") == [1]
        client.create_text_source(name="Ferry", collections="col_1", content="It leaves at ten.")
        assert airflow.until(lambda: payloads(2), 120, "the second event") == [1, 2]
    airflow.kill("triggerer")
    airflow.start("triggerer")
    if hasattr(sdk, "NEVER_EXPIRE"):
        # A triggerer that starts again looks at the sources at once.
        assert not until(lambda: payloads(2) != [1, 2], 20)
    else:  # Airflow 3.1 and 3.2 keep nothing for triggers: the present state is told once more
        assert airflow.until(lambda: payloads(3), 120, "the event once more") == [1, 2, 2]
