"""What a DAG file pays for an import each time Airflow parses it, over `airflow.sdk` itself."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from imports import measure
from measuring import Figure, report

ROUNDS = 5
# Airflow is in the project's own environment (scripts/setup), not in that of the benchmarks.
PYTHON = Path(__file__).parents[2] / ".venv" / "bin" / "python"
OURS = "import airflow_knowledge_bot.operators, airflow_knowledge_bot.sensors"
STATEMENTS = (
    OURS,
    "import airflow.providers.standard.operators.python",
    "import airflow.providers.smtp.operators.smtp",
    "import airflow.providers.common.sql.operators.sql",
)

DAGS = 200
BARE = """
from airflow.sdk import DAG, BaseOperator, BaseSensorOperator

with DAG("bare_{number}", schedule=None):
    (
        BaseSensorOperator(task_id="up")
        >> BaseOperator(task_id="feed")
        >> BaseSensorOperator(task_id="known")
        >> BaseOperator(task_id="check")
        >> BaseOperator(task_id="ask")
    )
"""
OF_OURS = """
from airflow.sdk import DAG
from airflow_knowledge_bot.operators import (
    KnowledgeBotCheckOperator, KnowledgeBotIngestOperator, KnowledgeBotSendMessageOperator
)
from airflow_knowledge_bot.sensors import KnowledgeBotAnswerSensor, KnowledgeBotPingSensor
from knowledge_bot.origins import Folder

with DAG("ours_{number}", schedule=None):
    (
        KnowledgeBotPingSensor(task_id="up")
        >> KnowledgeBotIngestOperator(
            task_id="feed", origin=Folder("/data"), ledger_conn_id="ledger"
        )
        >> KnowledgeBotAnswerSensor(task_id="known", questions=[{{"ask": "a", "contains": "b"}}])
        >> KnowledgeBotCheckOperator(task_id="check", file="/data/questions.toml")
        >> KnowledgeBotSendMessageOperator(task_id="ask", content="a")
    )
"""
# The imports of the provider count, those of Airflow do not.
PARSING = """
import json, logging, sys, time
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, BaseOperator, BaseSensorOperator
logging.disable()
bag = DagBag(sys.argv[1], collect_dags=False)
started = time.process_time()
bag.collect_dags(sys.argv[1])
spent = time.process_time() - started
assert len(bag.dags) == int(sys.argv[2]), bag.import_errors
print(json.dumps([spent * 1000, "knowledge_bot._client" in sys.modules]))
"""


def main() -> None:
    """Import each in turn, several times, and report the medians; then parse files of DAGs."""
    if not PYTHON.exists():
        sys.exit("Airflow is not installed: run scripts/setup first")
    samples: dict[str, list[tuple[float, int]]] = {statement: [] for statement in STATEMENTS}
    for _ in range(ROUNDS):
        for statement in STATEMENTS:
            sample = measure(statement, "from airflow.sdk import DAG", str(PYTHON))
            samples[statement].append(sample)
    rows = [
        {
            "statement": statement,
            "CPU ms": round(statistics.median(cpu for cpu, _ in measured), 1),
            "modules": measured[-1][1],
        }
        for statement, measured in samples.items()
    ]
    figures = [
        Figure("parsing a DAG with the provider, CPU ms", float(rows[0]["CPU ms"]), 30),
        Figure("parsing a DAG with the provider, modules", int(rows[0]["modules"]), 15),
    ]
    bare, ours = parsing(BARE, OF_OURS)
    name = f"each of {DAGS} DAGs of 5 tasks over bare operators and sensors"
    figures.append(Figure(f"{name}, CPU ms", round((ours - bare) / DAGS, 3), 0.5))
    figures.append(Figure(f"{name}, ratio", round(ours / bare, 2), None))
    report("Airflow parsing", figures, rows)


def parsing(*files: str) -> list[float]:
    """Return the milliseconds of CPU to parse a folder of such files, the medians."""
    with tempfile.TemporaryDirectory() as home:
        samples: list[list[float]] = [[] for _ in files]
        folders = [Path(home, f"dags_{kind}") for kind in range(len(files))]
        for folder, file in zip(folders, files, strict=True):
            folder.mkdir()
            for number in range(DAGS):
                folder.joinpath(f"dag_{number}.py").write_text(file.format(number=number))
        for number in range(ROUNDS + 1):
            for folder, sample in zip(folders, samples, strict=True):
                spent, client = parse(folder, home)
                if client:
                    sys.exit("parsing imported the client")
                if number:  # the first round compiled the files
                    sample.append(spent)
    return [statistics.median(sample) for sample in samples]


def parse(folder: Path, home: str) -> tuple[float, bool]:
    """Return milliseconds of CPU, and whether the client was imported."""
    output = subprocess.run(
        [PYTHON, "-c", PARSING, folder, str(DAGS)],
        env=os.environ | {"AIRFLOW_HOME": home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    spent, client = json.loads(output.splitlines()[-1])
    return spent, client


if __name__ == "__main__":
    main()
