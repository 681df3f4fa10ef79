"""What an import costs in a fresh interpreter: CPU time and modules, ours and others'."""

import json
import statistics
import subprocess
import sys

from measuring import Figure, report

ROUNDS = 9
PROGRAM = """
import json, sys, time
{first}
before = len(sys.modules)
started = time.process_time()
{statement}
print(json.dumps([(time.process_time() - started) * 1000, len(sys.modules) - before]))
"""
STATEMENTS = (
    "import knowledge_bot",
    "from knowledge_bot import Client",
    "from knowledge_bot import AsyncClient",
    "import knowledge_bot.ingest",
    "import knowledge_bot.cli",
    "import openai",
    "import cohere",
    "import boto3",
    "import httpx",
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
    ]
    rows = [
        {"statement": name, "CPU ms": round(cpu[name], 1), "modules": modules[name]}
        for name in STATEMENTS
    ]
    report("Imports", figures, rows)


def measure(statement: str, first: str = "", python: str = sys.executable) -> tuple[float, int]:
    """Return milliseconds of CPU and the number of modules that the statement loads."""
    program = PROGRAM.format(statement=statement, first=first)
    output = subprocess.run(
        [python, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    milliseconds, modules = json.loads(output.splitlines()[-1])
    return milliseconds, modules


if __name__ == "__main__":
    main()
