"""The pytest plugin: `pytest_plugins = ["knowledge_bot.testing.pytest"]` in a `conftest.py`."""

from collections.abc import Iterator

import pytest

from knowledge_bot.testing import MemoryService, no_waiting


@pytest.fixture
def memory_service(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryService]:
    """A `MemoryService` with `bot_default` over `col_default`, while no retry waits.

    The environment names no other service and no key meanwhile, so that a client of the code under
    test that was not given the transport fails instead of reaching a real service.
    """
    monkeypatch.delenv("KNOWLEDGE_BOT_BASE_URL", raising=False)
    monkeypatch.delenv("KNOWLEDGE_BOT_API_KEY", raising=False)
    with no_waiting():
        yield MemoryService()
