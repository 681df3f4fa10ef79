"""An Airflow home of the tests' own, connections in the environment, and a service in memory.

Airflow's database is a SQLite file. With KNOWLEDGE_BOT_TEST_DATABASE=postgresql it is in a server
of PostgreSQL, one for each worker of the tests.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from answering_bot import URL, Bot
from calls import KEY
from dag_runs import Dags
from knowledge_bot.testing import MemoryService
from postgresql_server import postgresql

# Airflow reads its environment when it is first imported, so this cannot wait for a fixture. Each
# worker of pytest-xdist is a process, and gets a home of its own.
_HOME = Path(tempfile.mkdtemp(prefix="knowledge-bot-airflow-tests-"))
for _name in [_name for _name in os.environ if _name.startswith("AIRFLOW_")]:
    del os.environ[_name]
os.environ |= {
    "AIRFLOW_HOME": str(_HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(_HOME / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
}
_servers = ExitStack()
if os.environ.get("KNOWLEDGE_BOT_TEST_DATABASE") == "postgresql":
    _database = _servers.enter_context(postgresql()).url(driver="psycopg2")
    os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = _database

CONN_ID = "knowledge_bot_default"


def pytest_unconfigure() -> None:
    """Remove the home. A fixture would not: the controller of pytest-xdist runs none."""
    shutil.rmtree(_HOME, ignore_errors=True)
    _servers.close()


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`connect(host, password=…, **extra)`: what the connection says from now on."""

    def put(host: str | None, *, password: str | None = KEY, **extra: Any) -> None:
        parts = {"conn_type": "knowledge_bot", "host": host, "password": password, "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_{CONN_ID.upper()}", json.dumps(parts))

    return put


@pytest.fixture(scope="session")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Dags:
    """Runs DAGs from the lines of their files, for real, in the test's own process."""
    own = tmp_path_factory.getbasetemp()
    return Dags(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own)


@pytest.fixture
def service() -> Iterator[MemoryService]:
    """A service in memory, which answers whatever a connection leads to."""
    collections = [f"col_{name}" for name in ("house", "1", "2", "7", "a", "b")]
    with MemoryService(bots={"bot_guide": {}}, collections=collections).standing_in() as running:
        yield running


@pytest.fixture
def connected(service: MemoryService, connect: Callable[..., None]) -> MemoryService:
    """The service, with a connection that names its bot and a collection."""
    connect(URL, default_bot_id="bot_guide", default_collection_id="col_house")
    return service


@pytest.fixture
def good(service: MemoryService, connect: Callable[..., None]) -> MemoryService:
    """The service, with a connection that names neither, and sends nothing a second time."""
    connect(URL, max_retries=0)
    return service


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A ledger in a file, and the Airflow connection `ledger` to it."""
    file = tmp_path / "ledger.db"
    connection = {"conn_type": "sqlite", "host": str(file)}
    monkeypatch.setenv("AIRFLOW_CONN_LEDGER", json.dumps(connection))
    return file


@pytest.fixture
def bot(connect: Callable[..., None]) -> Iterator[Bot]:
    """A service whose one bot gives the answers that the test says, with the connection to it."""
    connect(URL, max_retries=0)
    with Bot().standing_in() as running:
        yield running
