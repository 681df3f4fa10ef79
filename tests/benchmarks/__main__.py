"""Runs the benchmarks and writes what they measured: `scripts/benchmark [topic …]`.

Each topic is a file of this folder, or of `service/tests/benchmarks`, and runs in a process of its
own. Its tables are printed, and its figures written to results.json, from which docs/figures.md is
made; the summary at the end holds each figure beside its bound.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import Figure, print_table, told

FOLDER = Path(__file__).parent
# What measures the service from its insides is beside its tests.
OF_THE_SERVICE = FOLDER.parents[1] / "service" / "tests" / "benchmarks"
RESULTS = FOLDER / "results.json"
# Need the history of a repository, or folders of data; each tells its usage.
BY_HAND = {"service_documents", "service_nights"}
BY_HAND |= {"service_answers"} if "KNOWLEDGE_BOT_QUESTION_SETS" not in os.environ else set()
NOT_TOPICS = {"__main__", "answering_server", "measuring"} | BY_HAND


def main() -> int:
    """Run the topics that the command line names, or all; exit with 1 where a bound is missed."""
    topics = sorted(set(topic_files()) - NOT_TOPICS)
    parser = argparse.ArgumentParser(prog="scripts/benchmark", description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="topic", help=", ".join(topics))
    wanted = parser.parse_args().topics or topics
    if unknown := set(wanted) - set(topics):
        parser.error(f"no such topic: {', '.join(sorted(unknown))}; there are {', '.join(topics)}")

    measured = {topic: run(topic) for topic in wanted}
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    results |= {topic: result for topic, result in measured.items() if result is not None}
    results = dict(sorted(results.items()))
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    figures = [
        (topic, Figure(row["name"], row["value"], row["bound"], row["at_least"]))
        for topic in wanted
        for row in (measured[topic] or {"figures": []})["figures"]
    ]
    if figures:
        print("# Summary\n")
        print_table([{"topic": topic, **told(figure)} for topic, figure in figures])
    failed = [topic for topic, result in measured.items() if result is None]
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return 1 if failed or any(figure.kept is False for _, figure in figures) else 0


def topic_files() -> dict[str, Path]:
    """Return the file of each topic."""
    return {file.stem: file for place in (FOLDER, OF_THE_SERVICE) for file in place.glob("*.py")}


def run(topic: str) -> dict[str, Any] | None:
    """Run one topic in a process of its own; return what it measured, None where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "result.json")
        command = [sys.executable, str(topic_files()[topic]), "--json", str(output)]
        env = os.environ | {"PYTHONPATH": str(FOLDER)}
        if subprocess.run(command, env=env, check=False).returncode != 0 or not output.exists():
            return None
        result: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
        return result


if __name__ == "__main__":
    sys.exit(main())
