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
from pathlib import Path

import pytest

from knowledge_bot import __version__

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[1]

PACKAGES = {
    "airflow_knowledge_bot",
    "knowledge_bot",
    "knowledge_bot_gateway",
    "knowledge_bot_service",
    "knowledge_bot_web",
    "langchain_knowledge_bot",
    "llama_index_knowledge_bot",
}

# What each extra is enough for, and what it must not bring along.
EXTRAS = {
    "": (
        (
            "import knowledge_bot.testing, knowledge_bot.transcripts; "
            "from knowledge_bot.checks import Question, check; Question(ask='?', contains='x')"
        ),
        (
            "airflow click defusedxml fastapi feedparser fsspec keyring langchain_core llama_index "
            "opentelemetry pathspec psycopg rich sqlalchemy watchfiles"
        ),
    ),
    "airflow": (
        (
            "import airflow_knowledge_bot.operators, airflow_knowledge_bot.sensors, "
            "airflow_knowledge_bot.triggers, airflow_knowledge_bot.decorators; "
            "from knowledge_bot.ingest import Ledger, from_feed, ingest"
        ),
        "trafilatura langchain_core llama_index",
    ),
    "all": (
        (
            "import airflow_knowledge_bot.operators, knowledge_bot.cli; "
            "import keyring, opentelemetry.trace, psycopg; "
            "from knowledge_bot_service import LocalService; "
            "from langchain_knowledge_bot import ChatKnowledgeBot; "
            "from llama_index_knowledge_bot import KnowledgeBotLLM"
        ),
        "dlt pyspark ray",
    ),
    "dlt": (
        "from knowledge_bot.sinks.dlt import knowledge_bot_destination",
        "airflow fastapi langchain_core llama_index psycopg pyspark ray",
    ),
    "ray": (
        "from knowledge_bot.sinks.ray import KnowledgeBotDatasink",
        "airflow fastapi langchain_core llama_index psycopg dlt pyspark",
    ),
    "spark": (
        "from knowledge_bot.sinks.spark import KnowledgeBotDataSource",
        "airflow fastapi langchain_core llama_index psycopg dlt ray",
    ),
    "checks": (
        (
            "import yaml; from knowledge_bot.checks import Question, check, load_questions; "
            "Question(ask='When?', matches='9:30')"
        ),
        "airflow click defusedxml fastapi langchain_core llama_index rich",
    ),
    "cli": (
        "import knowledge_bot.cli, watchfiles; from knowledge_bot.ingest import Ledger, ingest",
        "airflow fastapi keyring langchain_core llama_index psycopg",
    ),
    "gateway": (
        "from knowledge_bot_gateway import Admission, Upstream, create_app, create_mcp_server",
        "airflow langchain_core llama_index openai trafilatura",
    ),
    "ingest": (
        "from knowledge_bot.ingest import Ledger, from_feed, from_folder, from_site, ingest",
        "airflow click fastapi fsspec keyring langchain_core llama_index psycopg rich watchfiles",
    ),
    "keyring": ("import keyring", "click fastapi airflow langchain_core llama_index"),
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
            "from knowledge_bot.ingest import Ledger, from_objects, ingest; "
            "from_objects('memory://bucket/docs/**')"
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
MISSING = [
    "import airflow_knowledge_bot.operators",
    "import langchain_knowledge_bot",
    "import llama_index_knowledge_bot",
    "from knowledge_bot.ingest import ingest",
    "from knowledge_bot_service import LocalService",
]

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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def test_the_changelog_begins_with_this_version():
    releases = re.findall(
        r"^## (\d\S*) \(", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    assert releases[0] == __version__


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


def installed(wheel: Path, extra: str, folder: Path) -> Path:
    """Return the interpreter of a new environment with the wheel and an extra, and nothing else."""
    venv.create(folder)
    python = folder / "bin" / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--no-compile"]
    if uv is not None:  # in seconds what takes pip a minute
        command = [uv, "pip", "install", "--python", python]
    environment = {**os.environ, "UV_SYSTEM_CERTS": "1"}
    subprocess.run([*command, "--quiet", wanted], check=True, env=environment)
    return python


def run(python: Path, code: str, folder: Path) -> str:
    done = subprocess.run(
        [python, "-I", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_extra_is_tried():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(EXTRAS) == {"", *declared["project"]["optional-dependencies"]}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_alone_is_enough_for_its_modules(wheel, tmp_path, extra):
    statement, absent = EXTRAS[extra]
    code = (
        f"{statement}\n"
        "from importlib.util import find_spec\n"
        f"present = [name for name in '{absent}'.split() if find_spec(name)]\n"
        "assert not present, present\n"
    )
    run(installed(wheel, extra, tmp_path / "env"), code, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_client_alone_is_small_and_says_which_extra_is_missing(wheel, tmp_path):
    python = installed(wheel, "", tmp_path / "env")
    names, size = json.loads(run(python, CONTENTS, tmp_path))
    assert len(names) <= 22, names
    assert size <= 25
    assert run(python, CALLS, tmp_path) == "both\n"
    for statement in MISSING:
        code = f"try: {statement}\nexcept ModuleNotFoundError as error: print(error)"
        assert "pip install 'knowledge-bot[" in run(python, code, tmp_path), statement
