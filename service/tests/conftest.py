"""A running service, and a plain HTTP client to it.

It runs in the tests' process; those of sockets, processes and crashes have one that is `served`.
"""

import pytest

from every_test import *  # noqa: F403 - fixtures and hooks are found by their names
from every_test import _no_measuring_of_children, _no_service_of_the_user  # noqa: F401 - as above
from in_process import InProcess
from knowledge_bot_service import LocalService
from knowledge_bot_service.store.database import ServiceDatabase
from service_calls import BOTS, COLLECTIONS, client_of


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """One service for all tests that neither stop it nor need it empty."""
    with InProcess(
        tmp_path_factory.mktemp("service"),
        collections=COLLECTIONS,
        bots=BOTS,
        bot_names={"bot_one": "Guide"},
        settings={"limits": {"request_bytes": 2_000_000, "upload_bytes": 3_000_000}},
    ) as running:
        yield running


@pytest.fixture
def fresh(tmp_path):
    """A service of the test's own."""
    with InProcess(tmp_path / "data", collections=COLLECTIONS, bots=BOTS) as running:
        yield running


@pytest.fixture
def served(tmp_path):
    """A service of the test's own in a process of its own, behind a socket."""
    waits = {"wait_for_sources": 60.0}
    with LocalService(
        tmp_path / "data", collections=COLLECTIONS, bots=BOTS, settings=waits
    ) as running:
        yield running


def _client(name):
    """A fixture: a client of the service that another fixture gives."""

    @pytest.fixture
    def client(request):
        with client_of(request.getfixturevalue(name)) as client:
            yield client

    return client


http, fresh_http, served_http = _client("service"), _client("fresh"), _client("served")


@pytest.fixture
def database(tmp_path):
    """A database without anything else of a service."""
    database = ServiceDatabase(tmp_path / "test.sqlite3")
    yield database
    database.close()
