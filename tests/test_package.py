"""The wheel: what is in it, and that each extra alone is enough for its modules."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from configparser import RawConfigParser
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from knowledge_bot import __version__

ROOT = Path(__file__).parents[1]

# Each distribution: the folder of its pyproject.toml, its package, and its own entry points.
DISTRIBUTIONS = {
    "knowledge-bot": (".", "knowledge_bot", {"console_scripts"}),
    "knowledge-bot-gateway": (
        "connectors/knowledge_bot_gateway",
        "knowledge_bot_gateway",
        {"console_scripts", "knowledge_bot.commands", "knowledge_bot.mounts"},
    ),
    "knowledge-bot-service": (
        "service",
        "knowledge_bot_service",
        {"knowledge_bot.commands"},
    ),
    "knowledge-bot-web": ("connectors/knowledge_bot_web", "knowledge_bot_web", set()),
    "airflow-provider-knowledge-bot": (
        "airflow_provider",
        "airflow_knowledge_bot",
        {"apache_airflow_provider"},
    ),
    "langchain-knowledge-bot": (
        "connectors/langchain_knowledge_bot",
        "langchain_knowledge_bot",
        set(),
    ),
    "llama-index-knowledge-bot": (
        "connectors/llama_index_knowledge_bot",
        "llama_index_knowledge_bot",
        set(),
    ),
}

# What each extra is enough for, and what it must not bring along.
EXTRAS = {
    "": (
        (
            "import knowledge_bot.testing, knowledge_bot.transcripts; "
            "from knowledge_bot.checks import Question, check; Question(ask='?', contains='x')"
        ),
        (
            "airflow click defusedxml fastapi feedparser fsspec langchain_core llama_index "
            "opentelemetry pathspec psycopg rich sqlalchemy"
        ),
    ),
    "airflow": (
        (
            "import airflow_knowledge_bot.operators, airflow_knowledge_bot.sensors, "
            "airflow_knowledge_bot.triggers, airflow_knowledge_bot.decorators; "
            "from knowledge_bot.ingest import Ledger, ingest; "
            "from knowledge_bot.origins import Feed"
        ),
        "trafilatura langchain_core llama_index",
    ),
    "all": (
        (
            "import airflow_knowledge_bot.operators, knowledge_bot.cli; "
            "import opentelemetry.trace, psycopg; "
            "from knowledge_bot_service import LocalService; "
            "from langchain_knowledge_bot import ChatKnowledgeBot; "
            "from llama_index_knowledge_bot import KnowledgeBotLLM"
        ),
        "dlt pyspark ray",
    ),
    "cli": (
        (
            "import knowledge_bot.cli; "
            "from knowledge_bot.ingest import Ledger, ingest; "
            "from knowledge_bot.checks import Question; Question(ask='When?', matches='9:30')"
        ),
        "airflow fastapi langchain_core llama_index psycopg",
    ),
    "gateway": (
        "from knowledge_bot_gateway import Admission, Upstream, create_app, create_mcp_server",
        "airflow langchain_core llama_index openai trafilatura",
    ),
    "ingest": (
        (
            "from knowledge_bot.ingest import Ledger, ingest; "
            "from knowledge_bot.origins import Feed, Folder, Site, Sql"
        ),
        "airflow click fastapi fsspec langchain_core llama_index psycopg rich",
    ),
    "langchain": (
        (
            "from langchain_knowledge_bot import ChatKnowledgeBot, KnowledgeBotCollection, "
            "KnowledgeBotRetriever, KnowledgeBotTool; "
            "from knowledge_bot.ingest import Ledger, ingest"
        ),
        "click fastapi airflow llama_index",
    ),
    "llama-index": (
        (
            "from llama_index_knowledge_bot import CollectionSink, KnowledgeBotLLM, "
            "KnowledgeBotQueryEngine; "
            "from knowledge_bot.ingest import Ledger, ingest"
        ),
        "fastapi airflow langchain_core",
    ),
    "objects": (
        (
            "from knowledge_bot.ingest import Ledger, ingest; "
            "from knowledge_bot.origins import Objects; "
            "next(Objects('memory://bucket/docs/**').items())"
        ),
        "airflow boto3 click fastapi langchain_core llama_index s3fs",
    ),
    "otel": ("import opentelemetry.trace", "click fastapi airflow langchain_core llama_index"),
    "postgresql": ("import psycopg", "click fastapi airflow langchain_core llama_index"),
    "serve": (
        (
            "import knowledge_bot.cli, knowledge_bot_service.web.app; "
            "import knowledge_bot_service.run.command; "
            "from knowledge_bot_service import LocalService"
        ),
        "airflow langchain_core llama_index",
    ),
}

# Nobody listens at that port: whatever the clients need is loaded before they notice.
CALLS = """
import asyncio
from knowledge_bot import AsyncClient, Client, ConnectionFailedError

async def ping():
    async with AsyncClient("key", "http://127.0.0.1:9", max_retries=0) as client:
        await client.ping()

try:
    Client("key", "http://127.0.0.1:9", max_retries=0).ping()
except ConnectionFailedError:
    pass
try:
    asyncio.run(ping())
except ConnectionFailedError:
    print("both")
"""

# What the client alone cannot do.
MISSING = ["from knowledge_bot.ingest import ingest"]

# In an environment: its distributions, and the bytes of the files that they record.
CONTENTS = """
import importlib.metadata, json
found = list(importlib.metadata.distributions())
sizes = (
    file.locate().stat().st_size
    for one in found for file in one.files or () if file.locate().is_file()
)
print(json.dumps([sorted(one.name for one in found), sum(sizes) / 2**20]))
"""


# Builds a wheel or a source archive of each folder, in one process; then which, and where to.
BUILD = """
import os, sys
from hatchling import build
*projects, kind, folder = sys.argv[1:]
for project in projects:
    os.chdir(project)
    getattr(build, f"build_{kind}")(folder)
"""


def build(kind: str, folder: Path, *projects: str) -> Path:
    command = [sys.executable, "-c", BUILD, *(ROOT / one for one in projects), kind, folder]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
    """A folder with the wheel of each distribution."""
    folder = tmp_path_factory.mktemp("wheels")
    return build("wheel", folder, *(project for project, _, _ in DISTRIBUTIONS.values()))


def project_of(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_changelog_begins_with_this_version():
    releases = re.findall(
        r"^## (\d\S*) \(", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    assert releases[0] == __version__


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_wheel_holds_its_package_and_registers_its_own_entry_points(wheels, name):
    _, package, groups = DISTRIBUTIONS[name]
    archive = zipfile.ZipFile(next(wheels.glob(f"{name.replace('-', '_')}-[0-9]*.whl")))
    held = archive.namelist()
    assert {one.partition("/")[0] for one in held if "dist-info" not in one} == {package}
    assert f"{package}/py.typed" in held
    assert not [one for one in held if Path(one).name in {"README.md", "pyproject.toml"}]
    (metadata,) = (one for one in held if one.endswith(".dist-info/METADATA"))
    told = archive.read(metadata).decode()
    assert f"\nVersion: {__version__}\n" in told
    assert "\nLicense-File: LICENSE\n" in told
    registered = RawConfigParser()
    registered.read_string(
        "".join(archive.read(one).decode() for one in held if one.endswith("/entry_points.txt"))
    )
    assert set(registered.sections()) == groups


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_need_each_other_from_this_version_on_and_share_one_licence(name):
    folder, _, _ = DISTRIBUTIONS[name]
    project = project_of(folder)
    needed = [
        *project["dependencies"],
        *chain.from_iterable(project.get("optional-dependencies", {}).values()),
    ]
    ours = re.compile(rf"({'|'.join(DISTRIBUTIONS)})(\[[a-z,-]+\])?([=>].*|)")
    for found in filter(None, map(ours.fullmatch, needed)):
        itself = found[1] == name
        assert found[3] == ("" if itself else f">={__version__}"), found[0]
    assert (ROOT / folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_a_wheel_is_the_same_from_the_source_archive(wheels, tmp_path):
    archive = next(build("sdist", tmp_path, DISTRIBUTIONS["knowledge-bot-service"][0]).iterdir())
    shutil.unpack_archive(archive, tmp_path / "sources", filter="data")
    (sources,) = (tmp_path / "sources").iterdir()
    (one,) = build("wheel", tmp_path / "wheels", sources).iterdir()
    assert zipfile.ZipFile(one).namelist() == zipfile.ZipFile(wheels / one.name).namelist()


def test_the_sources_hold_what_is_needed_to_test_them(tmp_path):
    with tarfile.open(next(build("sdist", tmp_path, ".").iterdir())) as archive:
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


def installed(wheels: Path, extra: str, folder: Path, *more: str) -> Path:
    """Return the interpreter of a new environment with an extra, and nothing else."""
    venv.create(folder)
    python = folder / "bin" / "python"
    wanted = [f"knowledge-bot[{extra}]" if extra else "knowledge-bot", *more]
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--no-compile"]
    if uv is not None:  # in seconds what takes pip a minute
        command = [uv, "pip", "install", "--python", python]
    environment = {**os.environ, "UV_SYSTEM_CERTS": "1"}
    found = ["--quiet", "--find-links", wheels, *wanted]
    subprocess.run([*command, *found], check=True, env=environment)
    return python


def run(python: Path, code: str, folder: Path) -> str:
    done = subprocess.run(
        [python, "-I", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_extra_is_tried():
    assert set(EXTRAS) == {"", *project_of(".")["optional-dependencies"]}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_alone_is_enough_for_its_modules(wheels, tmp_path, extra):
    statement, absent = EXTRAS[extra]
    code = (
        f"{statement}\n"
        "from importlib.util import find_spec\n"
        f"present = [name for name in '{absent}'.split() if find_spec(name)]\n"
        "assert not present, present\n"
    )
    run(installed(wheels, extra, tmp_path / "env"), code, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_is_newest_of_all_runs_a_dag(wheels, tmp_path):
    python = installed(wheels, "all", tmp_path / "env")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    demo = [python, tmp_path / "examples" / "run_scheduled_ingestion.py"]
    done = subprocess.run(demo, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_client_alone_is_small_and_says_which_extra_is_missing(wheels, tmp_path):
    python = installed(wheels, "", tmp_path / "env")
    names, size = json.loads(run(python, CONTENTS, tmp_path))
    assert len(names) <= 20, names
    assert size <= 21
    assert run(python, CALLS, tmp_path) == "both\n"
    for statement in MISSING:
        code = f"try: {statement}\nexcept ModuleNotFoundError as error: print(error)"
        assert "'knowledge-bot[" in run(python, code, tmp_path), statement


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kbot_alone_says_which_extra_brings_a_command(wheels, tmp_path):
    kbot = installed(wheels, "cli", tmp_path / "env").with_name("kbot")
    for name, extra in {"serve": "serve", "mcp": "gateway", "gateway": "gateway"}.items():
        done = subprocess.run([kbot, name], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert f"'knowledge-bot[{extra}]'" in done.stderr
    assert subprocess.run([kbot, "serv"], capture_output=True, check=False).returncode == 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_distributions_install_one_by_one_in_any_order(wheels, tmp_path):
    """What needs most comes first, and the client last, which is there by then."""
    python = installed(wheels, "", tmp_path / "env")
    pip = [sys.executable, "-m", "pip", "--python", python]
    quiet = ["install", "--quiet", "--no-compile", "--find-links", wheels]
    for name in sorted(DISTRIBUTIONS, reverse=True):
        subprocess.run([*pip, *quiet, name], check=True)
    subprocess.run([*pip, "check"], check=True)
    modules = ", ".join(package for _, package, _ in DISTRIBUTIONS.values())
    run(python, f"import {modules}", tmp_path)
    commands = subprocess.run(
        [python.parent / "kbot", "--help"], check=True, capture_output=True, text=True
    ).stdout
    assert all(command in commands for command in ("serve", "mcp", "gateway"))


def test_the_hooks_use_the_locked_ruff():
    used = re.findall(r"ruff==[\d.]+", (ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    assert used
    assert all(f"\n{one} " in lock for one in used)
