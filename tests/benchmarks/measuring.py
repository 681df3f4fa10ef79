"""What a topic measured: figures beside their bounds, and tables."""

import argparse
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured value and the bound that it must keep.

    Attributes:
        name: what was measured, with its unit where it is not a ratio.
        value: the measured value.
        bound: what it must keep; None where it is only told.
        at_least: whether the bound is a lower one.
    """

    name: str
    value: float
    bound: float | None = None
    at_least: bool = False

    @property
    def kept(self) -> bool | None:
        """Whether the bound is kept; None without one."""
        if self.bound is None:
            return None
        return self.value >= self.bound if self.at_least else self.value <= self.bound


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, user's and system's (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Return the bytes that a process has in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_mebibytes() -> float:
    """Return the most MiB that this process has had in memory.

    Not `ru_maxrss`, which a process inherits from the one that started it.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def run_together(commands: Sequence[Sequence[str]]) -> tuple[float, list[str]]:
    """Start processes that say "ready" and wait for a line, let them all go, and wait for them.

    Returns:
        When they were let go (`time.monotonic`), and what each printed after that.
    """
    pipe = subprocess.PIPE
    running = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for command in commands
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    began = time.monotonic()
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return began, [process.communicate()[0] for process in running]


def report(topic: str, figures: Sequence[Figure], rows: Iterable[Mapping[str, Any]] = ()) -> None:
    """Print the rows and the figures as tables; with `--json FILE`, write them as well."""
    parser = argparse.ArgumentParser(description=topic)
    parser.add_argument("--json", type=Path, metavar="FILE")
    file: Path | None = parser.parse_known_args()[0].json
    listed = [dict(row) for row in rows]
    print(f"## {topic}\n")
    if listed:
        print_table(listed)
    print_table([told(figure) for figure in figures])
    if file is not None:
        result = {
            "topic": topic,
            "machine": {"python": platform.python_version(), "system": platform.platform()},
            "figures": [asdict(figure) | {"kept": figure.kept} for figure in figures],
            "rows": listed,
        }
        file.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def told(figure: Figure) -> dict[str, Any]:
    """Return a figure as the row of a table."""
    sign = "≥" if figure.at_least else "≤"
    return {
        "figure": figure.name,
        "measured": f"{figure.value:.3g}" if figure.value < 1000 else f"{figure.value:,.0f}",
        "bound": "" if figure.bound is None else f"{sign} {figure.bound:g}",
        "kept": {True: "yes", False: "NO", None: ""}[figure.kept],
    }


def print_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a Markdown table."""
    columns = list(rows[0])
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(str(row[column]) for column in columns) + " |")
    print(flush=True)
