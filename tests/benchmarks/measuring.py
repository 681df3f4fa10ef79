"""Measurements side by side, as ratios: these machines are shared and noisy.

What is compared runs in one process, in short blocks in turn, in another order each round; a figure
is the median of a candidate's blocks over the median of the anchor's. CPU time of the process is
what counts, since wall time holds the neighbours' work as well.
"""

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cost:
    """What one call costs, in microseconds: medians over the rounds."""

    cpu: float
    wall: float


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


def one_by_one(ask: Callable[[], object], calls: int) -> Callable[[], None]:
    """Return a block that makes so many calls, one after the other."""

    def block() -> None:
        for _ in range(calls):
            ask()

    return block


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


def interleave(
    blocks: Mapping[str, Callable[[], object]], *, calls: int, rounds: int = 15
) -> dict[str, Cost]:
    """Run every block once to warm up and then `rounds` times in turn.

    Args:
        blocks: for each candidate a function that makes `calls` calls.
        calls: how many calls a block makes.
        rounds: how many blocks of each are measured.

    Returns:
        The cost of one call for each candidate.
    """
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in blocks}
    for block in blocks.values():
        block()
    for _ in range(rounds):
        for name in random.sample(list(blocks), len(blocks)):
            cpu, wall = time.process_time(), time.perf_counter()
            blocks[name]()
            samples[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    return {
        name: Cost(*(statistics.median(column) / calls * 1e6 for column in zip(*rows, strict=True)))
        for name, rows in samples.items()
    }


def rows_of(label: str, costs: Mapping[str, Cost]) -> list[dict[str, Any]]:
    """Return the costs as rows of a table, `label` in front."""
    return [
        {
            "case": label,
            "client": name,
            "CPU µs": round(cost.cpu, 1),
            "wall µs": round(cost.wall, 1),
        }
        for name, cost in costs.items()
    ]


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
