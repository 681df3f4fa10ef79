"""What a DAG file pays for an import each time Airflow parses it, over `airflow.sdk` itself."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

from measuring import Figure, report

ROUNDS = 5
# Airflow is in the project's own environment (scripts/setup), not in that of the benchmarks.
PYTHON = Path(__file__).parents[2] / ".venv" / "bin" / "python"
PROGRAM = """
import json, sys, time
from airflow.sdk import DAG
before = len(sys.modules)
started = time.process_time()
{statement}
print(json.dumps([(time.process_time() - started) * 1000, len(sys.modules) - before]))
"""
OURS = "import airflow_knowledge_bot.operators, airflow_knowledge_bot.sensors"
STATEMENTS = (
    OURS,
    "import airflow.providers.standard.operators.python",
    "import airflow.providers.smtp.operators.smtp",
    "import airflow.providers.common.sql.operators.sql",
)


def main() -> None:
    """Import each in turn, several times, and report the medians."""
    if not PYTHON.exists():
        sys.exit("Airflow is not installed: run scripts/setup first")
    samples: dict[str, list[tuple[float, int]]] = {statement: [] for statement in STATEMENTS}
    for _ in range(ROUNDS):
        for statement in STATEMENTS:
            samples[statement].append(measure(statement))
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
    report("Airflow parsing", figures, rows)


def measure(statement: str) -> tuple[float, int]:
    """Return milliseconds of CPU and the number of modules that the statement loads."""
    output = subprocess.run(
        [PYTHON, "-c", PROGRAM.format(statement=statement)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    milliseconds, modules = json.loads(output.splitlines()[-1])
    return milliseconds, modules


if __name__ == "__main__":
    main()
