"""The example DAG under Airflow's own scheduler, triggerer and API server."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from knowledge_bot_service import LocalService

EXAMPLES = Path(__file__).parents[2] / "examples"
RUNS = "/api/v2/dags/scheduled_ingestion/dagRuns"


@pytest.fixture
def service():
    with LocalService(
        collections={"col_handbook": "Handbook"}, bots={"bot_guide": ["col_handbook"]}
    ) as running:
        yield running


@pytest.fixture
def airflow(service, tmp_path):
    """An HTTP client of a real Airflow that has the DAG's file and the handbook, nothing else."""
    dags = tmp_path / "dags"
    shutil.copytree(EXAMPLES / "handbook", dags / "handbook")
    shutil.copy(EXAMPLES / "scheduled_ingestion.py", dags)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    connection = {
        "conn_type": "knowledge_bot",
        "host": service.base_url,
        "password": service.api_key,
        "extra": {"default_bot_id": "bot_guide", "default_collection_id": "col_handbook"},
    }
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")},
        # Its processes call `airflow` by name.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        # The sensor then waits in the triggerer.
        "AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True",
        "AIRFLOW_CONN_KNOWLEDGE_BOT_DEFAULT": json.dumps(connection),
    }
    with (tmp_path / "standalone.log").open("wb") as log:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("airflow"), "standalone"],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
            yield client
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def finished_run(airflow, seconds):
    """The DAG's first run, once it has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError, httpx.HTTPStatusError, ValueError):
            if "authorization" not in airflow.headers:
                token = airflow.get("/auth/token").raise_for_status().json()["access_token"]
                airflow.headers["authorization"] = f"Bearer {token}"
            runs = airflow.get(RUNS).raise_for_status().json()["dag_runs"]
            if runs and runs[0]["state"] in ("success", "failed"):
                return runs[0]
        time.sleep(1)
    raise TimeoutError(f"the DAG did not end within {seconds} s")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_dag_runs_under_a_scheduler_and_shows_the_key_nowhere(airflow, service, tmp_path):
    run = finished_run(airflow, 400)
    tasks = f"{RUNS}/{run['dag_run_id']}/taskInstances"
    listed = airflow.get(tasks, params={"limit": 100}).raise_for_status().json()
    states = {(one["task_id"], one["map_index"]): one["state"] for one in listed["task_instances"]}
    assert run["state"] == "success", states

    documents = sorted(path.name for path in (EXAMPLES / "handbook").iterdir())
    assert sorted(source.name for source in service.sources()) == documents
    assert {source.status for source in service.sources()} == {"ready"}
    assert {states["upload", index] for index in range(len(documents))} == {"success"}
    answers = airflow.get(f"{tasks}/hand_on/xcomEntries/return_value").raise_for_status().json()
    assert "14 days" in answers["value"][0]["answer"]

    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" and "upload" in str(path) for path in written)
    holders = [path for path in written if service.api_key.encode() in path.read_bytes()]
    assert holders == []
