"""The architecture: one word for one class, no circles, and no package in the insides of another.

Which package may import which, pyproject.toml draws, and `scripts/lint` checks.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

grimp = pytest.importorskip("grimp", reason="import-linter is in the environment of all packages")

ROOT = Path(__file__).parents[1]
PACKAGES = {
    path.parent.name: path.parent
    for root in ("connectors", "airflow_provider", "service")
    for path in ROOT.glob(f"{root}/*/__init__.py")
}
FRAMEWORKS_EXPECT = {"KnowledgeBotRetriever"}
"""Public names that users of both LangChain and LlamaIndex look for."""


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def trees(*folders: Path) -> Iterator[tuple[Path, ast.Module]]:
    return ((file, parsed(file)) for folder in folders for file in sorted(folder.rglob("*.py")))


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules that a module imports, wherever the statement stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_class_name_stands_for_two_classes():
    names = Counter(
        node.name
        for _, tree in trees(*PACKAGES.values())
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    double = {name for name, count in names.items() if count > 1}
    assert double - FRAMEWORKS_EXPECT == set()


def test_no_modules_of_a_package_import_each_other_in_a_circle():
    """What is imported for its type alone, nothing builds on."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=True)
    arrows = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


def test_no_package_imports_a_private_module_of_another():
    """What other packages need of the core, `knowledge_bot.adapters` holds."""
    crossings = {
        f"{file.relative_to(ROOT)}: {module}"
        for name, package in PACKAGES.items()
        for file, tree in trees(package)
        for module in imported(tree)
        if module.split(".")[0] in PACKAGES.keys() - {name} and "._" in module
    }
    assert crossings == set()


def test_nobody_imports_the_insides_of_the_service():
    elsewhere = (ROOT / "connectors", ROOT / "airflow_provider", ROOT / "examples", ROOT / "tests")
    inside = {
        str(file.relative_to(ROOT))
        for file, tree in trees(*elsewhere)
        for module in imported(tree)
        if module.startswith("knowledge_bot_service.")
    }
    assert inside == set()


def test_the_lock_names_hashes_and_no_registry():
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "--hash=sha256:" in lock
    assert "://" not in lock
