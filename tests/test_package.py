"""The wheel: what is in it, and that each extra alone is enough for its modules."""

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PACKAGES = {
    "airflow_knowledge_bot",
    "knowledge_bot",
    "knowledge_bot_service",
    "langchain_knowledge_bot",
    "llama_index_knowledge_bot",
}

# What each extra makes importable, and what it must not bring along.
EXTRAS = {
    "": (
        "knowledge_bot._client, knowledge_bot.cli, knowledge_bot.ingest._run",
        "fastapi airflow langchain_core llama_index psycopg sqlalchemy",
    ),
    "serve": (
        "knowledge_bot_service, knowledge_bot_service.app, knowledge_bot_service.command",
        "airflow langchain_core llama_index",
    ),
    "airflow": (
        (
            "airflow_knowledge_bot.operators, airflow_knowledge_bot.sensors, "
            "airflow_knowledge_bot.triggers, airflow_knowledge_bot.decorators"
        ),
        "trafilatura langchain_core llama_index",
    ),
    "langchain": (
        (
            "langchain_knowledge_bot.chat_models, langchain_knowledge_bot.retrievers, "
            "langchain_knowledge_bot.tools, langchain_knowledge_bot.collections"
        ),
        "fastapi airflow llama_index",
    ),
    "llama-index": ("llama_index_knowledge_bot", "fastapi airflow langchain_core"),
    "postgresql": ("psycopg, knowledge_bot.ingest._run", "fastapi airflow langchain_core"),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_packages_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if "dist-info" not in name} == PACKAGES
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)


def test_the_sources_hold_what_is_needed_to_test_them(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        ".ci/run",
        "docs/many-workers.md",
        "examples/scheduled_ingestion.py",
        "requirements.lock",
        "scripts/test",
        "tests/conftest.py",
    } <= names
    assert not [name for name in names if name.startswith(".venv")]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_alone_is_enough_for_its_modules(wheel, tmp_path, extra):
    modules, absent = EXTRAS[extra]
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    subprocess.run([python, "-m", "pip", "install", "--quiet", wanted], check=True)
    code = (
        f"import {modules}\n"
        "from importlib.util import find_spec\n"
        f"present = [name for name in '{absent}'.split() if find_spec(name)]\n"
        "assert not present, present\n"
    )
    subprocess.run([python, "-c", code], check=True, cwd=tmp_path)
