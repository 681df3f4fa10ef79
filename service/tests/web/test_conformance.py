"""The embedded service does what the extensions that it announces require (docs/extensions.md)."""

from collections.abc import Callable, Iterator

import pytest

from conformance import requirements
from conformance.kit import Kit
from in_process import OnAPort
from knowledge_bot import Client


@pytest.fixture(scope="module")
def kit() -> Iterator[Kit]:
    with (
        OnAPort(collections={"col_1": "House"}, bots={"bot_1": ["col_1"]}) as service,
        Client(service.api_key, service.base_url) as client,
    ):
        kit = Kit(client, "col_1", "bot_1", wait=60)
        yield kit
        kit.delete_all()
        assert kit.made == []


@pytest.mark.parametrize(
    "requirement", [pytest.param(test, id=identifier) for identifier, test in requirements()]
)
def test_a_requirement_is_met(kit: Kit, requirement: Callable[[Kit], None]) -> None:
    requirement(kit)
