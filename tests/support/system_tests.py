"""System tests as Airflow's providers have them: example DAGs that run against a real service.

The same as `tests_common.test_utils` of Airflow's repository, which is in no package.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import task

from dag_runs import Dags

ENV_ID = os.environ.get("SYSTEM_TESTS_ENV_ID", "local")
"""What names everything that a run of the system tests makes in the service."""


@task(trigger_rule="one_failed", retries=0)
def watcher() -> None:
    """Fail the run if any task failed, also where the teardown succeeds after it."""
    raise RuntimeError("A task before this one failed.")


def get_test_run(dag: Any) -> Callable[[Dags], None]:
    """Return the test that runs a DAG to its end."""

    @pytest.mark.integration
    @pytest.mark.usefixtures("ledger", "under_test")
    def test_run(dags: Dags) -> None:
        file = Path(dag.fileloc)
        run = dags.run(dags.parse(file.read_text(encoding="utf-8"), file.stem).dag)
        assert run.state == "success", run.log

    return test_run
