"""The same test through both clients, and a PostgreSQL."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from calls import KEY
from knowledge_bot import AsyncClient, Client
from postgresql_server import PostgreSQL
from postgresql_server import postgresql as running_postgresql


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`call(use, base_url, **options)`: the result of `use(client)` on either client."""

    def run(use: Callable[[Any], Any], base_url: str, **options: Any) -> Any:
        options = {"api_key": KEY, "timeout": 5.0, **options}
        if request.param == "sync":
            with Client(base_url=base_url, **options) as client:
                return use(client)

        async def main() -> Any:
            async with AsyncClient(base_url=base_url, **options) as client:
                return await use(client)

        return asyncio.run(main())

    return run


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
