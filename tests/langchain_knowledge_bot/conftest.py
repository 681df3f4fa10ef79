"""The same test through both ways of calling, and a service that keeps its conversations."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from remembering_bots import Bots


@pytest.fixture(params=["sync", "async"])
def invoke(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`invoke(runnable, input, **options)`: what `invoke` or `ainvoke` returns."""

    def run(runnable: Any, value: Any, **options: Any) -> Any:
        if request.param == "sync":
            return runnable.invoke(value, **options)
        return asyncio.run(runnable.ainvoke(value, **options))

    return run


@pytest.fixture
def bots() -> Iterator[Bots]:
    """A service of bots that remember."""
    service = Bots()
    yield service
    service.server.stop()
