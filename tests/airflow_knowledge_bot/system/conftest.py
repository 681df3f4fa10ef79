"""The service of the system tests: that of the environment, or the embedded one."""

import os
from collections.abc import Callable

import pytest

# Read now: for each test, the environment says nothing about a service.
_NAMES = ("BASE_URL", "API_KEY", "BOT", "COLLECTION")
_GIVEN = [os.environ.get(f"KNOWLEDGE_BOT_{name}") for name in _NAMES]


@pytest.fixture
def under_test(request: pytest.FixtureRequest, connect: Callable[..., None]) -> None:
    """The connection to the service, with the collection and the bot that the DAGs use."""
    address, key, bot, collection = _GIVEN
    if address is None:
        request.getfixturevalue("connected")
    else:
        connect(address, password=key, default_bot_id=bot, default_collection_id=collection)
