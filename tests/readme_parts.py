"""The parts of the README that come from programs; `scripts/readme` writes them anew.

A part stands between `<!-- part: name -->` and `<!-- end -->`. A test holds each to what its
program says now, so that no help text and no figure goes stale.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
RESULTS = ROOT / "tests" / "benchmarks" / "results.json"
_PART = re.compile(r"(<!-- part: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Result = dict[str, Any]


def with_parts(text: str) -> str:
    """Return the README's text with every part as its program says it now."""
    return _PART.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}{found[3]}", text)


def results() -> dict[str, Result]:
    """Return what the benchmarks measured last."""
    measured: dict[str, Result] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return measured


def help_of_kbot() -> str:
    """Return the help of `kbot`, in a terminal of 80 columns."""
    command = [Path(sys.executable).with_name("kbot"), "--help"]
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return f"```text\n$ kbot --help\n{done.stdout}```\n"


def resends() -> str:
    """Return how many POSTs arrive for one call, by fault and client."""
    return table(results()["resends"]["rows"])


def kills() -> str:
    """Return what a kill leaves behind, by loader."""
    rows = [
        {
            "loader": row["loader"],
            "documents there twice, per kill": f"{row['duplicates'] / row['kills']:.1f}",
            "lost": row["lost"],
            "named as unknown, per kill": f"{row['unknown'] / row['kills']:.1f}",
        }
        for row in results()["kills"]["rows"]
    ]
    return table(rows)


def installs() -> str:
    """Return what each extra installs."""
    rows = [
        {
            "install": f"`pip install '{row['install']}'`",
            "packages": row["packages"],
            "MiB": row["MiB"],
        }
        for row in results()["installs"]["rows"]
    ]
    return table(rows)


def figures() -> str:
    """Return every figure that has a bound, beside it."""
    rows = [
        {
            "measured by": f"`scripts/benchmark {topic}`",
            "figure": row["name"],
            "value": f"{row['value']:.3g}" if row["value"] < 1000 else f"{row['value']:,.0f}",
            "bound": f"{'≥' if row['at_least'] else '≤'} {row['bound']:g}"
            + ("" if row["kept"] else " (missed)"),
        }
        for topic, result in results().items()
        for row in result["figures"]
        if row["bound"] is not None
    ]
    return table(rows)


def table(rows: list[Result]) -> str:
    """Return rows as a Markdown table."""
    lines = [list(rows[0]), ["---"] * len(rows[0])] + [list(row.values()) for row in rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


PARTS: dict[str, Callable[[], str]] = {
    "kbot-help": help_of_kbot,
    "resends": resends,
    "kills": kills,
    "installs": installs,
    "figures": figures,
}

if __name__ == "__main__":
    README.write_text(with_parts(README.read_text(encoding="utf-8")), encoding="utf-8")
