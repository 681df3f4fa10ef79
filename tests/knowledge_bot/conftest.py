"""The same test through both clients, a folder, and a PostgreSQL."""

import asyncio
import inspect
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from calls import KEY, settled
from knowledge_bot import AsyncClient, Client
from knowledge_bot.testing import MemoryService
from postgresql_server import PostgreSQL
from postgresql_server import postgresql as running_postgresql

URL = "https://service.test"


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`call(use, at, **options)`: the result of `use(client)` on either client.

    `at` is a service in memory, or an address. What `use` returns may be a coroutine, also of a
    function that awaits `settled(…)` of several calls.
    """

    def run(use: Callable[[Any], Any], at: MemoryService | str, **options: Any) -> Any:
        blocking = request.param == "sync"
        options = {"api_key": KEY, "timeout": 5.0, **options}
        if isinstance(at, MemoryService):
            transport = at.transport if blocking else at.async_transport
            options = {"base_url": URL, "transport": transport, **options}
        else:
            options["base_url"] = at

        async def main() -> Any:
            async with AsyncClient(**options) as client:
                return await settled(use(client))

        if not blocking:
            return asyncio.run(main())
        with Client(**options) as client:
            result = use(client)
            if inspect.iscoroutine(result):
                return asyncio.run(result)
            return result

    return run


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    """A folder of three files, one of them in a folder below."""
    folder = tmp_path / "handbook"
    (folder / "deeper").mkdir(parents=True)
    for name in ("a.md", "b.txt", "deeper/c.md"):
        (folder / name).write_text(f"This is {name}.")
    return folder


@pytest.fixture(scope="session")
def server_of_postgresql() -> Iterator[PostgreSQL]:
    """A real PostgreSQL, from a wheel."""
    with running_postgresql() as server:
        yield server


@pytest.fixture
def new_schema(server_of_postgresql: PostgreSQL) -> Callable[[], str]:
    """`new_schema()`: the address of a schema of its own, which is made faster than a database."""
    url = server_of_postgresql.url()

    def make() -> str:
        name = f"of_a_test_{uuid.uuid4().hex}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{url}?options=-csearch_path%3D{name}"

    return make


@pytest.fixture
def postgresql(new_schema: Callable[[], str]) -> str:
    """Where something can be kept in PostgreSQL."""
    return new_schema()
