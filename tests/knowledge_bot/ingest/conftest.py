"""A service that creates sources, a ledger on each database, and both ways to ingest."""

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from calls import KEY
from knowledge_bot import AsyncClient, Client
from knowledge_bot.ingest import Ledger, Report, aingest, ingest
from postgresql_server import PostgreSQL
from postgresql_server import postgresql as running_postgresql
from scripted_server import Received, Reply, ScriptedServer, answer

Judge = Callable[[str, int], Reply | None]
"""Given a source's name and how often it came, a reply that creates nothing, or None."""


@dataclass
class Service:
    """Creates each source that its judge has nothing against."""

    judge: Judge = lambda name, times: None
    created: list[str] = field(default_factory=list)
    arrived: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def reply(self, received: Received) -> Reply:
        fields = _fields(received.body)
        name = fields["name"]
        self.arrived.append(name)
        self.bodies.append(fields)
        verdict = self.judge(name, self.arrived.count(name))
        if verdict is not None:
            return verdict
        self.created.append(name)
        source = {
            "id": f"src_{len(self.created)}",
            "name": name,
            "collections": [],
            "status": "pending",
            "created_at": 1_700_000_000_123,
        }
        return answer(body={"value": source})


def _fields(body: bytes) -> dict[str, Any]:
    if not body.startswith(b"{"):
        body = body.partition(b'name="value"\r\n\r\n')[2].partition(b"\r\n--")[0]
    document = json.loads(body)
    fields: dict[str, Any] = document.get("value", document)
    return fields


@pytest.fixture
def service(scripted: Callable[..., ScriptedServer]) -> Service:
    service = Service()
    service.url = scripted(reply_to=service.reply).url
    return service


@pytest.fixture(params=["sync", "threads", "async"])
def run(request: pytest.FixtureRequest, service: Service) -> Callable[..., Report]:
    """`run(items, **options)`: ingest through either client, or one that has to block."""

    def go(items: Any, **options: Any) -> Report:
        options = {"collections": "col_1", **options}
        if request.param == "sync":
            with Client(KEY, service.url, timeout=5) as client:
                return ingest(client, items, **options)
        if request.param == "threads":
            with httpx.Client() as http, Client(KEY, service.url, http_client=http) as client:
                return ingest(client.with_options(timeout=5), items, **options)

        async def main() -> Report:
            async with AsyncClient(KEY, service.url, timeout=5) as client:
                return await aingest(client, items, **options)

        return asyncio.run(main())

    return go


@pytest.fixture(scope="session")
def server_of_postgresql() -> Iterator[PostgreSQL]:
    """A real PostgreSQL, from a wheel."""
    with running_postgresql() as server:
        yield server


@pytest.fixture
def postgresql(server_of_postgresql: PostgreSQL) -> str:
    """The address of a database of its own."""
    name = f"ledger_{uuid.uuid4().hex}"
    server_of_postgresql.create(name)
    return server_of_postgresql.url(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger can be made, in either database."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    address: str = request.getfixturevalue("postgresql")
    return address


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")
