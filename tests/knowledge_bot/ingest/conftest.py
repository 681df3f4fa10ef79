"""A service that creates sources, a ledger on each database, and both ways to ingest."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from calls import KEY
from knowledge_bot import AsyncClient, Client
from knowledge_bot.ingest import Ledger, Report, aingest, ingest
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
    raw: list[bytes] = field(default_factory=list)
    pings: int = 0
    url: str = ""

    def reply(self, received: Received) -> Reply:
        if received.path.endswith("/ping"):
            self.pings += 1
            return answer(body="pong")
        fields = _fields(received.body)
        name = fields["name"]
        self.arrived.append(name)
        self.bodies.append(fields)
        self.raw.append(received.body)
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


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, service: Service) -> Callable[..., Report]:
    """`run(items, **options)`: ingest through either client."""

    def go(items: Any, **options: Any) -> Report:
        options = {"collections": "col_1", **options}
        if request.param == "sync":
            with Client(KEY, service.url, timeout=5) as client:
                return ingest(client, items, **options)

        async def main() -> Report:
            async with AsyncClient(KEY, service.url, timeout=5) as client:
                return await aingest(client, items, **options)

        return asyncio.run(main())

    return go


@pytest.fixture
def send(service: Service) -> Callable[..., Report]:
    """`send(items, **options)`: ingest through a `Client`, where the way makes no difference."""

    def go(items: Any, url: str = service.url, **options: Any) -> Report:
        options = {"collections": "col_1", **options}
        with Client(KEY, url, timeout=5) as client:
            return ingest(client, items, **options)

    return go


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
