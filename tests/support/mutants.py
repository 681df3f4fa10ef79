"""Changes one thing at a time in the packages, and sees whether the fast tests notice.

    .venv/bin/python tests/support/mutants.py [FOLDER] [--count 60] [--seed 13] [--only N] [--list]

Without a folder, such as `connectors/knowledge_bot/ingest`, all packages are drawn from.

A mutant has one comparison swapped, one constant changed, one condition negated, or one call
dropped. Each is tried in a copy of the tree, two at a time; a test that fails or hangs has noticed.
The mutants that nobody noticed are shown at the end. Exits with 1 if they are more than a tenth.
"""

import argparse
import ast
import difflib
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (Path("connectors"), Path("airflow_provider"), Path("service/knowledge_bot_service"))
ENGINE = Path("connectors/knowledge_bot/ingest")
COPIED = (
    "connectors",
    "airflow_provider",
    "service",
    "deploy",
    "docs",
    "examples",
    "scripts",
    "tests",
)
COPIED += ("CHANGELOG.md", "README.md", "pyproject.toml")
AT_ONCE = 2

# Those first that are quick and see much, and those last that take long.
FIRST = ("test_run", "test_limits", "test_ledger", "test_gone", "test_files", "test_calling")
LAST = ("test_ingesting", "test_troubled_service", "test_teardown", "test_crashes")


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        file: what is changed, below the root.
        text: what it holds, also where somebody works on it meanwhile.
        start: where it begins, in bytes of the file.
        end: where it ends.
        new: what is there instead.
        kind: which sort of change it is.
    """

    file: Path
    text: bytes
    start: int
    end: int
    new: str
    kind: str

    def source(self) -> str:
        """Return the file with the change."""
        return (self.text[: self.start] + self.new.encode() + self.text[self.end :]).decode()

    def __str__(self) -> str:
        line = self.text[: self.start].count(b"\n") + 1
        return f"{self.file.name}:{line} {self.kind}"

    def diff(self) -> str:
        """Return the lines that differ."""
        old = self.text.decode().splitlines()
        lines = difflib.unified_diff(old, self.source().splitlines(), n=0, lineterm="")
        return "\n".join(f"    {line}" for line in list(lines)[3:])


# What can be changed.

_SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}


def mutants_of(file: Path) -> list[Mutant]:
    """Return every mutant of a file, in the order of its lines."""
    source = _Source(file)
    found = {one for node in _code_of(ast.parse(source.text)) for one in source.changes(node)}
    return sorted(found, key=lambda one: (one.start, one.new))


class _Source:
    """A file, and what can be changed in it."""

    def __init__(self, file: Path) -> None:
        self._file, self.text = file, (ROOT / file).read_bytes()
        self._lines = [0, *(found.end() for found in re.finditer(b"\n", self.text))]

    def changes(self, node: ast.AST) -> Iterator[Mutant]:
        """Yield the changes of one part, without those of the parts in it."""
        if isinstance(node, ast.Compare):
            sides = pairwise([node.left, *node.comparators])
            for operator, (left, right) in zip(node.ops, sides, strict=True):
                yield from self._swapped(operator, left, right, "comparison swapped")
        elif isinstance(node, ast.BoolOp):
            for left, right in pairwise(node.values):
                yield from self._swapped(node.op, left, right, "condition changed")
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            if not _swaps_to_its_contrary(node.test):
                start, end = self._place(node.test)
                negated = f"not ({self.text[start:end].decode()})"
                yield Mutant(self._file, self.text, start, end, negated, "condition negated")
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            other = _other(node.value)
            yield Mutant(self._file, self.text, *self._place(node), other, "constant changed")
        elif isinstance(node, ast.Expr):
            yield Mutant(self._file, self.text, *self._place(node), "pass", "call dropped")

    def _swapped(
        self, operator: ast.AST, left: ast.expr, right: ast.expr, kind: str
    ) -> Iterator[Mutant]:
        old, new = _SWAPS[type(operator)]
        start, end = self._place(left)[1], self._place(right)[0]
        between = self.text[start:end].decode()
        if old in between:
            yield Mutant(self._file, self.text, start, end, between.replace(old, new, 1), kind)

    def _place(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._lines[node.lineno - 1] + node.col_offset
        return start, self._lines[node.end_lineno - 1] + node.end_col_offset


def _swaps_to_its_contrary(test: ast.expr) -> bool:
    exact = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], exact)


def _other(value: float) -> str:
    if isinstance(value, bool):
        return str(not value)
    return str(value + 1 if isinstance(value, int) else value * 2 or 1.0)


def _code_of(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what does something: no annotation, text, error or log, and nothing for mypy alone."""
    for child in _parts(node):
        if isinstance(child, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) == "__all__":
            continue
        if isinstance(child, ast.Slice):  # a text is shortened, for a message
            continue
        if isinstance(child, ast.Call) and ast.unparse(child.func).startswith("logger."):
            continue
        if not isinstance(child, ast.Expr) or _is_a_call(child.value):
            yield child
        yield from _code_of(child)


def _parts(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.AnnAssign):
        return [] if node.value is None else [node.value]
    if isinstance(node, ast.ClassDef):
        return [*node.body]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        defaults = [default for default in node.args.kw_defaults if default is not None]
        return [*node.args.defaults, *defaults, *node.body]
    return list(ast.iter_child_nodes(node))


def _is_a_call(node: ast.expr) -> bool:
    call = node.value if isinstance(node, ast.Await) else node
    return isinstance(call, ast.Call) and not ast.unparse(call.func).startswith("logger.")


# Whether the tests notice.


class Trees:
    """Copies of the tree, each used by one mutant at a time.

    Args:
        folder: where they are made.
    """

    def __init__(self, folder: Path) -> None:
        self._free: queue.Queue[Path] = queue.Queue()
        for number in range(AT_ONCE):
            tree = folder / f"tree{number}"
            tree.mkdir()
            for name in COPIED:
                if (ROOT / name).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / name, tree / name, ignore=ignored)
                else:
                    shutil.copy(ROOT / name, tree / name)
            self._free.put(tree)

    def test(self, file: Path, source: str, timeout: float) -> str:
        """Test with a file changed; return the last thing the tests said, empty if all passed."""
        tree = self._free.get()
        kept = (tree / file).read_bytes()
        try:
            (tree / file).write_text(source, encoding="utf-8")
            return _tested(tree, file, timeout)
        finally:
            (tree / file).write_bytes(kept)
            self._free.put(tree)


def _tested(tree: Path, file: Path, timeout: float) -> str:
    # A mutant may ask for memory without end.
    command = ["sh", "-c", 'ulimit -v 8000000; exec "$@"', "sh", sys.executable, "-m", "pytest"]
    command += [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not integration",
        "--timeout=60",
        "--tb=no",
    ]
    command += [f"--basetemp={tree / 'tmp'}", *map(str, tests_of(tree, file))]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(
            str(tree / root) for root in ("connectors", "airflow_provider", "service")
        ),
        "PYTHONDONTWRITEBYTECODE": "1",  # a mutant may have the size and the time of its original
    }
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # the tests end what they started
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        return f"hung for {timeout:.0f} s"
    if process.returncode == 0:
        return ""
    told = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, flags=re.MULTILINE)
    return told[0] if told else f"exit code {process.returncode}: {output[-300:]}"


def tests_of(tree: Path, file: Path) -> list[Path]:
    """Return the files with tests of a module, which mirror its folder, the quick ones first."""
    mirrored = tree / "tests" / Path(*file.parts[1:]).parent
    while not mirrored.is_dir():
        mirrored = mirrored.parent
    files = sorted(mirrored.rglob("test_*.py"))
    if file.is_relative_to(ENGINE):
        commands = tree / "tests" / "knowledge_bot" / "cli"
        files += [commands / "test_ingesting.py", commands / "test_ledgers.py"]
    order = {name: place for place, name in enumerate([*FIRST, "", *LAST])}
    return sorted(files, key=lambda file: order.get(file.stem, order[""]))


def main() -> int:
    """Try the mutants, and tell which ones nobody noticed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="*", default=PACKAGES, help="what is changed")
    parser.add_argument("--count", type=int, default=60, help="how many, chosen at random")
    parser.add_argument("--seed", type=int, default=13, help="which ones")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="only these of them")
    parser.add_argument("--list", action="store_true", help="show them, and test nothing")
    options = parser.parse_args()
    found = {file for folder in options.folders for file in (ROOT / folder).rglob("*.py")}
    files = sorted(file.relative_to(ROOT) for file in found if file.name != "__init__.py")
    all_mutants = [mutant for file in files for mutant in mutants_of(file)]
    chosen = random.Random(options.seed).sample(all_mutants, options.count)
    wanted = dict(enumerate(chosen, start=1))
    if options.only:
        wanted = {number: wanted[number] for number in options.only}
    say(f"{len(wanted)} of {len(all_mutants)} mutants of {len(files)} files, seed {options.seed}")
    if options.list:
        for number, mutant in wanted.items():
            say(f"{number}. {mutant}\n{mutant.diff()}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        survivors = tried(Trees(Path(folder)), wanted)
    for number in survivors:
        say(f"\n{number}. {wanted[number]}, not noticed:\n{wanted[number].diff()}")
    say(f"\n{len(wanted) - len(survivors)} of {len(wanted)} were noticed")
    return 0 if len(survivors) <= len(wanted) / 10 else 1


def tried(trees: Trees, wanted: dict[int, Mutant]) -> list[int]:
    """Test all mutants; return the numbers of those that nobody noticed."""
    longest: dict[Path, float] = {}
    for folder, mutant in {one.file.parent: one for one in wanted.values()}.items():
        file, source = mutant.file, mutant.text.decode()
        if not trees.test(file, source + "\nthis is no Python\n", 600):
            raise SystemExit(f"the copy of {file} is not what the tests import")
        began = time.monotonic()
        if failed := trees.test(file, source, 1800):
            raise SystemExit(f"without any mutant the tests of {folder} fail: {failed}")
        longest[folder] = max(180.0, 3 * (time.monotonic() - began))
        say(f"The tests of {folder} pass without a mutant, in {time.monotonic() - began:.0f} s")

    def run(number: int) -> int:
        mutant, began = wanted[number], time.monotonic()
        noticed = trees.test(mutant.file, mutant.source(), longest[mutant.file.parent])
        told = f"noticed by {noticed}" if noticed else "NOT NOTICED"
        say(f"{number}. {mutant}: {told}, {time.monotonic() - began:.0f} s")
        return 0 if noticed else number

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [number for number in pool.map(run, wanted) if number]


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - a script's result


if __name__ == "__main__":
    sys.exit(main())
