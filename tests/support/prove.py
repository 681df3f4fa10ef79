"""Runs the tests that the promises rest on, and reports on each: see `scripts/prove`."""

import subprocess
import sys
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"


@dataclass(frozen=True)
class Proof:
    """A promise, the files and folders of its tests, and which of them, in pytest's words."""

    says: str
    tests: tuple[str, ...]
    only: str = ""

    def arguments(self) -> list[str]:
        """Return what pytest is called with: all of the tests, those of the night too."""
        return ["-m", "slow or not slow", *(["-k", self.only] if self.only else []), *self.tests]


def proofs() -> list[Proof]:
    """Return what `tests/proofs.toml` names."""
    rows = tomllib.loads((ROOT / "tests/proofs.toml").read_text("utf-8"))["proof"]
    return [Proof(row["says"], tuple(row["tests"]), row.get("only", "")) for row in rows]


def main(words: list[str]) -> int:
    """Run the proofs whose promise has one of the words, or all, and write the report.

    Returns 1 if a test failed, or if there was none.
    """
    BUILD.mkdir(exist_ok=True)
    chosen = [
        proof
        for proof in proofs()
        if not words or any(word.lower() in proof.says.lower() for word in words)
    ]
    rows = [_row(proof.says, *_run(proof)) for proof in chosen]
    head = ["| promise | passed | failed | skipped | seconds |", "|---|---|---|---|---|"]
    text = "\n".join([*head, *(row for row, _ in rows)]) + "\n"
    (BUILD / "proofs.md").write_text(text, "utf-8")
    sys.stdout.write(text)
    return 0 if rows and all(proved for _, proved in rows) else 1


def _row(says: str, counts: Counter[str], seconds: float) -> tuple[str, bool]:
    """Return a promise's line of the report, and whether it is proved."""
    wrong = counts["failure"] + counts["error"]
    numbers = (counts["passed"], wrong, counts["skipped"], round(seconds))
    return f"| {says} | {' | '.join(map(str, numbers))} |", counts["passed"] > 0 and not wrong


def _run(proof: Proof) -> tuple[Counter[str], float]:
    told = BUILD / "proof.xml"
    told.unlink(missing_ok=True)
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={told}", *proof.arguments()]
    subprocess.run(command, cwd=ROOT, check=False)
    seconds = time.monotonic() - began
    if not told.exists():  # pytest could not even begin
        return Counter(error=1), seconds
    cases = ET.parse(told).iter("testcase")
    return Counter(_outcome(case) for case in cases), seconds


def _outcome(case: ET.Element) -> str:
    return next(
        (part.tag for part in case if part.tag in ("failure", "error", "skipped")), "passed"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
