"""A service that creates sources, a ledger on each database, and both ways to ingest."""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from calls import KEY
from ingest_texts import texts
from knowledge_bot import AsyncClient, Client
from knowledge_bot.ingest import Ledger, Report, Text, aingest, ingest
from scripted_server import Received, Reply, ScriptedServer, answer, reset

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
    server: ScriptedServer | None = None

    @property
    def url(self) -> str:
        assert self.server is not None
        return self.server.url

    @property
    def pings(self) -> int:
        assert self.server is not None
        return len(self.server.pings)

    def reply(self, received: Received) -> Reply:
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
    service.server = scripted(reply_to=service.reply)
    return service


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, service: Service, tmp_path: Path) -> Callable[..., Report]:
    """`run(items, **options)`: ingest through either client."""

    def go(items: Any, **options: Any) -> Report:
        options = {"collections": "col_1", "ledger": tmp_path / "run.db", **options}
        if request.param == "sync":
            with Client(KEY, service.url, timeout=5) as client:
                return ingest(client, items, **options)

        async def main() -> Report:
            async with AsyncClient(KEY, service.url, timeout=5) as client:
                return await aingest(client, items, **options)

        return asyncio.run(main())

    return go


@pytest.fixture
def send(service: Service, tmp_path: Path) -> Callable[..., Report]:
    """`send(items, **options)`: ingest through a `Client`, where the way makes no difference."""

    def go(items: Any, url: str = service.url, **options: Any) -> Report:
        options = {"collections": "col_1", "ledger": tmp_path / "run.db", **options}
        with Client(KEY, url, timeout=5) as client:
            return ingest(client, items, **options)

    return go


# What its statements do in PostgreSQL, the tests of the ledger itself show in every run.
@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def ledger_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger can be made, in either database."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    address: str = request.getfixturevalue("postgresql")
    return address


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")


@pytest.fixture
def filled_with(send: Callable[..., Report], service: Service) -> Callable[[Ledger], Ledger]:
    """`filled_with(ledger)`: with an item of each state, one gone and one superseded source."""

    def fill(ledger: Ledger) -> Ledger:
        options: Any = {"ledger": ledger, "origin": "handbook", "concurrency": 1}
        send([*texts(2), Text(name="left", content="left")], **options)
        refusal = answer(400, {"code": "no", "message": "not so"})
        service.judge = lambda name, times: {"lost": reset, "bad": refusal}.get(name)
        changed = [Text(name="t1", content="changed")]
        send([*texts(1), *changed, *(Text(name=n, content=n) for n in ("lost", "bad"))], **options)
        service.judge = lambda name, times: None
        return ledger

    return fill


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of six files, and four more in a folder below."""
    folder = tmp_path / "handbook"
    for name in [f"{n}.md" for n in range(6)] + [f"archive/{n}.md" for n in range(4)]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"The text of {name}.")
    return folder


@pytest.fixture
def as_nobody() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """`with as_nobody():` lets the tests of root be refused what others are refused."""

    @contextlib.contextmanager
    def refused() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)

    return refused
