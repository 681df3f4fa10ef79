"""A real Airflow in a folder of its own: its processes, its REST interface and its files."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import psutil

from waiting import free_port

T = TypeVar("T")

FINISHED = ("success", "failed")
SERVICES = ("api-server", "scheduler", "dag-processor", "triggerer")


class Airflow:
    """An Airflow that ends with its `with` block, whatever became of its processes.

    Args:
        home: an empty folder for its database, configuration and logs.
        dags: the folder of its DAG files.
        connections: Airflow connections by id, as their JSON form.
        settings: environment variables, such as `AIRFLOW__CORE__PARALLELISM`.
        services: what is started, each a process group of its own. `standalone` is all in one.
    """

    def __init__(
        self,
        home: Path,
        dags: Path,
        *,
        connections: Mapping[str, Mapping[str, Any]],
        settings: Mapping[str, str] | None = None,
        services: Iterable[str] = SERVICES,
    ) -> None:
        self.home = home
        self.url = f"http://127.0.0.1:{free_port()}"
        self._services = tuple(services)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._environment = {
            **{name: value for name, value in os.environ.items() if "AIRFLOW_" not in name},
            # Its processes call `airflow` by name.
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "AIRFLOW_HOME": str(home / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__API__PORT": self.url.rpartition(":")[2],
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API_AUTH__JWT_SECRET": "a-secret-that-all-processes-of-the-test-share",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            **{
                f"AIRFLOW_CONN_{conn_id.upper()}": json.dumps(connection)
                for conn_id, connection in connections.items()
            },
            **(settings or {}),
        }
        self.api = httpx.Client(base_url=self.url, timeout=30)

    def __enter__(self) -> Self:
        try:
            self.command("db", "migrate")
            for service in self._services:
                self.start(service)
            self.until(self._is_healthy, 300, "Airflow is healthy")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.api.close()
        for process in self._processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + 20
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(deadline - time.monotonic(), 0.1))
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def command(self, *arguments: str) -> str:
        """Run one of Airflow's commands to its end and return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, service: str, *arguments: str, name: str | None = None) -> None:
        """Start a process group; its output goes to a file."""
        name = name or service
        with (self.home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "airflow", *service.split(), *arguments],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """Kill a process and its children at once, as a machine that loses its power does."""
        process = self._processes.pop(name)
        # Its tasks are process groups of their own.
        family = [*psutil.Process(process.pid).children(recursive=True), process]
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        process.wait()

    def trigger(self, dag_id: str, **conf: Any) -> str:
        """Start a run of a DAG, once Airflow has read its file; return the run's id."""
        run = {"logical_date": None, "conf": conf}

        def started() -> str | None:
            answer = self.api.post(f"/api/v2/dags/{dag_id}/dagRuns", json=run)
            if answer.status_code == 404:
                return None
            run_id: str = answer.raise_for_status().json()["dag_run_id"]
            return run_id

        return self.until(started, 120, f"Airflow has read the DAG {dag_id}")

    def finished(self, dag_id: str, run_id: str, seconds: float = 240) -> dict[str, Any]:
        """Wait until a run has ended; return it."""

        def ended() -> dict[str, Any] | None:
            run = self.get(f"/dags/{dag_id}/dagRuns/{run_id}")
            return run if run["state"] in FINISHED else None

        return self.until(ended, seconds, f"the run of {dag_id} has ended")

    def tasks(self, dag_id: str, run_id: str) -> dict[tuple[str, int], dict[str, Any]]:
        """Return a run's task instances by task id and map index."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances"
        listed = self.get(path, limit=1000)["task_instances"]
        return {(one["task_id"], one["map_index"]): one for one in listed}

    def xcom(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> Any:
        """Return what a task handed on."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        return self.get(path, map_index=map_index)["value"]

    def get(self, path: str, **parameters: Any) -> Any:
        """Read from the REST interface."""
        return self.api.get(f"/api/v2{path}", params=parameters).raise_for_status().json()

    def task_log(self, dag_id: str, task_id: str) -> str:
        """Return all that the tries of a task wrote, over all runs."""
        folder = self.home / "airflow" / "logs" / f"dag_id={dag_id}"
        files = sorted(folder.rglob(f"task_id={task_id}/**/*.log*"))
        return "\n".join(file.read_text(errors="replace") for file in files)

    def until(self, ready: Callable[[], T | None], seconds: float, what: str) -> T:
        """Wait until something is there; return it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError, httpx.HTTPStatusError):
                if (found := ready()) is not None:
                    return found
            time.sleep(0.5)
        outputs = {file.name: file.read_text()[-3000:] for file in self.home.glob("*.log")}
        raise TimeoutError(f"not within {seconds} s: {what}; {outputs}")

    def files_holding(self, secret: str) -> list[Path]:
        """Return all files of this Airflow that hold a text: logs, database, configuration."""
        written = [path for path in self.home.rglob("*") if path.is_file()]
        return [path for path in written if secret.encode() in path.read_bytes()]

    def _is_healthy(self) -> bool | None:
        if "authorization" not in self.api.headers:
            token = self.api.get("/auth/token").raise_for_status().json()["access_token"]
            self.api.headers["authorization"] = f"Bearer {token}"
        health = self.get("/monitor/health")
        states = [health[part]["status"] for part in ("scheduler", "dag_processor", "triggerer")]
        return True if states == ["healthy"] * 3 else None
