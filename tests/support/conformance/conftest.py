"""The service that is tested: at an address of the command line, or one in memory."""

import os
import warnings
from collections.abc import Iterator

import pytest

from conformance.kit import Kit
from extended_services import API_KEYS, ExtendedService
from knowledge_bot import Client


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "a service that is tested from outside")
    group.addoption("--base-url", metavar="URL", help="the service's address")
    group.addoption(
        "--api-key", metavar="KEY", help="a key that may add sources (or KNOWLEDGE_BOT_API_KEY)"
    )
    group.addoption("--second-api-key", metavar="KEY", help="another key of the same account")
    group.addoption("--limited-api-key", metavar="KEY", help="one that sees another collection")
    group.addoption("--collection", metavar="ID", help="make sources in it (default: the first)")
    group.addoption("--bot", metavar="ID", help="ask this bot (default: the first)")
    group.addoption(
        "--wait", type=float, metavar="SECONDS", help="until a source is ready (default: 60)"
    )


@pytest.fixture(scope="session")
def kit(request: pytest.FixtureRequest) -> Iterator[Kit]:
    """The service under test; what was made there is deleted at the end."""

    def given(name: str) -> str | None:
        found: str | None = request.config.getoption(name, default=None)
        return found

    address, transport = given("--base-url"), None
    keys = [given(f"--{one}api-key") for one in ("", "second-", "limited-")]
    if address is None:
        address, transport = "https://service.test", ExtendedService().transport
        keys = [*API_KEYS]
    keys[0] = keys[0] or os.environ.get("KNOWLEDGE_BOT_API_KEY")
    first, second, limited = (
        Client(key, address, transport=transport) if key or not number else None
        for number, key in enumerate(keys)
    )
    with first as client:
        collection = given("--collection") or client.list_collections()[0].id
        bot = given("--bot") or next((one.id for one in client.list_bots()), None)
        made = Kit(client, collection, bot, float(given("--wait") or 60), second, limited)
        if (status := made.add().status) in (401, 403):
            pytest.exit(f"{status}: this API key may not add to {collection}", 4)
        yield made
    for one in (second, limited):
        if one is not None:
            one.close()
    if made.made:
        warnings.warn(f"Left in the service: {', '.join(made.made)}", stacklevel=1)


@pytest.fixture(autouse=True)
def _deleted(kit: Kit) -> Iterator[None]:
    """No test finds what another one made, where sources can be deleted."""
    yield
    kit.delete_all()
