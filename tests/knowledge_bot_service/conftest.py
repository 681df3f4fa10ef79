"""A running service, and a plain HTTP client to it: what is tested is what crosses the socket."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from knowledge_bot_service import LocalService
from service_calls import BOTS, COLLECTIONS, client_of


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """One service for all tests that neither stop it nor need it empty."""
    with LocalService(
        tmp_path_factory.mktemp("service"),
        collections=COLLECTIONS,
        bots=BOTS,
        bot_names={"bot_one": "Guide"},
        settings={"limits": {"request_bytes": 2_000_000, "upload_bytes": 3_000_000}},
    ) as running:
        yield running


@pytest.fixture
def http(service: LocalService) -> Iterator[httpx.Client]:
    with client_of(service) as client:
        yield client


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[LocalService]:
    """A service of the test's own."""
    with LocalService(tmp_path / "data", collections=COLLECTIONS, bots=BOTS) as running:
        yield running


@pytest.fixture
def fresh_http(fresh: LocalService) -> Iterator[httpx.Client]:
    with client_of(fresh) as client:
        yield client
