"""Fixtures for a project's own tests: a real service, without a line of set-up.

In the `conftest.py` at the top of the tests:

```python
pytest_plugins = ["knowledge_bot_service.pytest_plugin"]
```

A test that asks for `knowledge_bot_service` has one, and a client finds it by the environment:

```python
def test_it_answers_from_what_was_added(knowledge_bot_service):
    with Client() as client:
        client.create_text_source(name="Hours", collections="col_default", content="We open at 9.")
        assert "9" in client.send_message(bot_id="bot_default", content="When do you open?").answer
```

The plugin is not registered by an entry point: pytest would load it in every run of every
environment that has this package, whether or not its tests want a service.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from knowledge_bot_service import LocalService

__all__ = [
    "knowledge_bot_service",
    "knowledge_bot_service_options",
    "knowledge_bot_session_service",
]


@pytest.fixture(scope="session")
def knowledge_bot_service_options() -> Mapping[str, Any]:
    """What `LocalService` is made with: override it to declare collections, bots or settings."""
    return {}


@pytest.fixture
def knowledge_bot_service(
    knowledge_bot_service_options: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[LocalService]:
    """An empty service of the test's own, which `KNOWLEDGE_BOT_BASE_URL` and `_API_KEY` name."""
    with LocalService(**knowledge_bot_service_options) as service:
        monkeypatch.setenv("KNOWLEDGE_BOT_BASE_URL", service.base_url)
        monkeypatch.setenv("KNOWLEDGE_BOT_API_KEY", service.api_key)
        yield service


@pytest.fixture(scope="session")
def knowledge_bot_session_service(
    knowledge_bot_service_options: Mapping[str, Any],
) -> Iterator[LocalService]:
    """One service for all tests that ask for it, which keeps what any of them adds.

    It takes the start of a service, about half a second, out of each test. The environment is left
    alone, since tests that do not ask for it would find it there: give its `api_key` and `base_url`
    to the client.
    """
    with LocalService(**knowledge_bot_service_options) as service:
        yield service
