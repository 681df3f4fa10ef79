"""What an import costs in a fresh interpreter: CPU time and modules, ours and others'.

Of the Airflow provider it is what a DAG file pays each time Airflow parses it, over `airflow.sdk`.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

from measuring import Figure, report

ROUNDS = 9
# Airflow is in the project's own environment (scripts/setup), not in that of the benchmarks.
OF_AIRFLOW = str(Path(__file__).parents[2] / ".venv" / "bin" / "python")
PROGRAM = """
import json, sys, time
{first}
before = len(sys.modules)
started = time.process_time()
{statement}
print(json.dumps([(time.process_time() - started) * 1000, len(sys.modules) - before]))
"""
PROVIDER = "import airflow_knowledge_bot.operators, airflow_knowledge_bot.sensors"
STATEMENTS = (
    "import knowledge_bot",
    "from knowledge_bot import Client",
    "import knowledge_bot.ingest",
    "import openai",
    "import httpx",
    PROVIDER,
)


def main() -> None:
    """Import each in turn, several times, and report the medians."""
    samples: dict[str, list[tuple[float, int]]] = {statement: [] for statement in STATEMENTS}
    for _ in range(ROUNDS):
        for statement in STATEMENTS:
            samples[statement].append(measure(statement))
    cpu = {name: statistics.median(row[0] for row in rows) for name, rows in samples.items()}
    modules = {name: rows[-1][1] for name, rows in samples.items()}
    figures = [
        Figure("import knowledge_bot, CPU ms", cpu["import knowledge_bot"], 40),
        Figure("import knowledge_bot, modules", modules["import knowledge_bot"], 80),
        Figure(
            "from knowledge_bot import Client, CPU against import httpx",
            cpu["from knowledge_bot import Client"] / cpu["import httpx"],
            1.2,
        ),
        Figure("parsing a DAG with the provider, CPU ms", cpu[PROVIDER], 20),
        Figure("parsing a DAG with the provider, modules", modules[PROVIDER], 16),
    ]
    rows = [
        {"statement": name, "CPU ms": round(cpu[name], 1), "modules": modules[name]}
        for name in STATEMENTS
    ]
    report("Imports", figures, rows)


def measure(statement: str) -> tuple[float, int]:
    """Return milliseconds of CPU and the number of modules that the statement loads."""
    python, first = sys.executable, ""
    if statement == PROVIDER:
        python, first = OF_AIRFLOW, "from airflow.sdk import DAG"
    program = PROGRAM.format(statement=statement, first=first)
    done = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True)
    milliseconds, modules = json.loads(done.stdout.splitlines()[-1])
    return milliseconds, modules


if __name__ == "__main__":
    main()
