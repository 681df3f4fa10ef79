"""DAGs that Airflow runs in the test's own process, from the file that a test writes."""

import fcntl
import importlib.util
import itertools
import os
import sqlite3
import sys
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

_HEAD = """
from datetime import datetime, timedelta
from airflow.sdk import DAG, Asset, AssetAlias, ObjectStoragePath, task
from airflow_knowledge_bot.operators import KnowledgeBotIngestOperator
from knowledge_bot.ingest import File, Skipped, Text, WebPage
from knowledge_bot.origins import Folder, Loader, Site, Sitemap, Sql, Urls

def ingest(task_id="ingest", **options):
    given = {"collections": "col_1", "ledger_conn_id": "ledger"} | options
    return KnowledgeBotIngestOperator(task_id=task_id, **given)

def upstream(value):
    return task(lambda: value, task_id="upstream")()

"""

_numbers = itertools.count()


@dataclass
class Run:
    """A run of a DAG that has ended.

    Attributes:
        state: how it ended.
        tasks: how its tasks did, by their ids; of mapped tasks with their index, as in `ingest[0]`.
        log: what Airflow wrote meanwhile.
    """

    state: str
    tasks: dict[str, "Task"]
    log: str = ""

    @property
    def task(self) -> "Task":
        """Its only task."""
        (only,) = self.tasks.values()
        return only


@dataclass
class Task:
    """What became of a task: state, last try, and what it handed on."""

    state: str
    try_number: int
    xcom: Any


class Dags:
    """Writes DAG files and runs them, as `python file.py` with `dag.test()` does.

    A run is a real one: the file is parsed, the DAG serialized, the task rendered, and Airflow's
    interface is between the task and the database.

    Args:
        shared: a folder that all workers of this run of the tests share. The first one leaves its
            new database there, and the others take a copy: Airflow's migrations take long.
    """

    def __init__(self, shared: Path) -> None:
        self.folder = Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
        self.folder.mkdir(exist_ok=True)
        if "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" in os.environ:  # a server of this worker's own
            from airflow.utils.db import initdb

            initdb()
            return
        database = Path(os.environ["AIRFLOW_HOME"]) / "airflow.db"
        migrated = shared / "airflow.db"
        with (shared / "airflow.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if migrated.exists():
                _copy(migrated, database)
            else:
                from airflow.utils.db import initdb

                initdb()
                _copy(database, migrated)

    def load(self, body: str, name: str | None = None) -> Any:
        """Write a DAG file of these lines, which are within `with DAG(…)`, and parse it.

        Lines before a line of dashes stand before the `with`.
        """
        name = name or f"runs_{next(_numbers)}"
        before, dashes, within = dedent(body).partition("\n---\n")
        if not dashes:
            before, within = "", before
        lines = "\n".join(f"    {line}" for line in within.strip().splitlines())
        text = f"{_HEAD}{before}\nwith DAG({name!r}, schedule=None) as dag:\n{lines}\n"
        return self.parse(text, name).dag

    def parse(self, text: str, name: str) -> ModuleType:
        """Write a whole DAG file, and import it; a second time, as a new module."""
        for file in self.folder.glob("*.py"):
            file.unlink()
        file = self.folder / f"{name}.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def rendered(self, dag: Any, task_id: str) -> dict[str, Any]:
        """Return the parameters of a task as Airflow shows them after its last run."""
        from airflow.models.renderedtifields import RenderedTaskInstanceFields as Fields
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            shown = select(Fields.rendered_fields).join(Fields.task_instance)
            shown = shown.where(TaskInstance.dag_id == dag.dag_id, TaskInstance.task_id == task_id)
            newest = session.scalars(shown.order_by(TaskInstance.start_date.desc())).first()
            return dict(newest or {})

    def run(self, dag: Any, **options: Any) -> Run:
        """Run a DAG once, to its end; logical_date=None is a run without one."""
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session

        with redirect_stdout(StringIO()) as written:
            run = dag.test(**options)
        tasks = {}
        with create_session() as session:
            for ti in run.get_task_instances(session=session):
                index = "" if ti.map_index < 0 else f"[{ti.map_index}]"
                (handed_on,) = [
                    *session.scalars(
                        XComModel.get_many(
                            run_id=run.run_id,
                            key="return_value",
                            dag_ids=dag.dag_id,
                            task_ids=ti.task_id,
                            map_indexes=ti.map_index,
                        )
                    )
                ][:1] or [None]
                xcom = None if handed_on is None else XComModel.deserialize_value(handed_on)
                tasks[f"{ti.task_id}{index}"] = Task(str(ti.state), ti.try_number, xcom)
        return Run(str(run.state), tasks, written.getvalue())


def _copy(database: Path, to: Path) -> None:
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
