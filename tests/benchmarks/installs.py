"""What each extra installs: packages and MiB, in an empty environment, on every Python at hand."""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import Figure, report

ROOT = Path(__file__).parents[2]
EXTRAS = (
    "",
    "ingest",
    "cli",
    "serve",
    "gateway",
    "langchain",
    "llama-index",
    "airflow",
    "objects",
    "postgresql",
    "otel",
    "all",
)
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
# Told by the environment itself: its distributions, and the bytes of the files that they record.
CONTENTS = """
import importlib.metadata, json
found = list(importlib.metadata.distributions())
sizes = (
    file.locate().stat().st_size
    for one in found for file in one.files or () if file.locate().is_file()
)
print(json.dumps([len(found), sum(sizes) / 2**20]))
"""


def main() -> None:
    """Build the wheels, and install the first with each extra on each Python."""
    projects = [ROOT, ROOT / "airflow_provider", ROOT / "service"]
    projects += [file.parent for file in ROOT.glob("connectors/*/pyproject.toml")]
    with tempfile.TemporaryDirectory() as folder:
        for project in projects:
            uv("build", "--quiet", "--wheel", "--out-dir", folder, str(project))
        wheel = next(Path(folder).glob("knowledge_bot-*.whl"))
        pythons = [python for version in VERSIONS if (python := find(version))]
        rows: list[dict[str, Any]] = [installed(wheel, extra, pythons) for extra in EXTRAS]
        size = wheel.stat().st_size / 1024
    figures = [
        Figure("the wheel, kB", size),
        Figure("packages of knowledge-bot alone", rows[0]["packages"], 20),
        Figure("knowledge-bot alone, MiB", rows[0]["MiB"], 21),
        Figure("Pythons on PATH that took every extra, of four", len(pythons)),
    ]
    report("What each extra installs", figures, rows)


def installed(wheel: Path, extra: str, pythons: list[str]) -> dict[str, Any]:
    counts: list[int] = []
    size = 0.0
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            uv("venv", "--quiet", "--python", python, folder)
            inside = str(Path(folder, "bin", "python"))
            wanted = f"{wheel}[{extra}]" if extra else str(wheel)
            beside = ("--find-links", str(wheel.parent))
            uv("pip", "install", "--quiet", "--python", inside, *beside, wanted)
            told = subprocess.run([inside, "-c", CONTENTS], check=True, capture_output=True)
            count, size_here = json.loads(told.stdout)
            counts.append(count)
            size = max(size, size_here)
    name = f"knowledge-bot[{extra}]" if extra else "knowledge-bot"
    return {
        "install": name,
        "packages": max(counts),
        "MiB": math.ceil(size),
        "Pythons": len(counts),
    }


def find(version: str) -> str | None:
    """Return the interpreter of a version, where there is one that starts."""
    done = subprocess.run(
        [UV, "python", "find", "--no-project", version], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None


def uv(*arguments: str) -> None:
    subprocess.run([UV, *arguments], check=True, env={**os.environ, "UV_SYSTEM_CERTS": "1"})


UV = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"

if __name__ == "__main__":
    main()
