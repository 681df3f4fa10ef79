"""The embedded service does what the extensions that it announces require (docs/extensions.md)."""

from collections.abc import Callable, Iterator

import pytest

from conformance import requirements
from conformance.kit import Kit
from in_process import OnAPort
from knowledge_bot import Client
from knowledge_bot_service.config.keys import StoredKeys


@pytest.fixture(scope="module")
def kit() -> Iterator[Kit]:
    collections = {"col_1": "House", "col_2": "Garden"}
    with OnAPort(collections=collections, bots={"bot_1": ["col_1"]}) as service:
        kept = StoredKeys(service.data)
        keys = [service.api_key, kept.add("second", "manage", expires=None)]
        keys.append(kept.add("guest", "manage", expires=None, collections=["col_2"]))
        first, *others = (Client(key, service.base_url) for key in keys)
        kit = Kit(first, "col_1", "bot_1", 60, *others)
        yield kit
        kit.delete_all()
        assert kit.made == []


@pytest.mark.parametrize(
    "requirement", [pytest.param(test, id=identifier) for identifier, test in requirements()]
)
def test_a_requirement_is_met(kit: Kit, requirement: Callable[[Kit], None]) -> None:
    requirement(kit)
