"""The arrows between the packages, as pyproject.toml draws them."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge_bot import adapters

ROOT = Path(__file__).parents[1]


def test_no_import_goes_against_the_architecture(tmp_path):
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--cache-dir", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_lock_names_hashes_and_no_registry():
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "--hash=sha256:" in lock
    assert "://" not in lock


def test_other_packages_import_no_private_module_of_the_core():
    """What they need of it, `knowledge_bot.adapters` holds."""
    packages = [
        *(ROOT / "connectors").iterdir(),
        *(ROOT / "airflow_provider").iterdir(),
        *(ROOT / "service").iterdir(),
    ]
    modules = [
        module
        for package in packages
        if package.name != "knowledge_bot"
        for module in package.rglob("*.py")
    ]
    imported = {
        f"{module.relative_to(ROOT)}: {node.module}"
        for module in modules
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and f"{node.module}".startswith("knowledge_bot.")
        if "._" in f"{node.module}"
    }
    assert len(modules) > 100
    assert imported == set()


@pytest.mark.parametrize("name", adapters.__all__)
def test_what_the_adapters_share_is_there(name):
    assert hasattr(adapters, name)
