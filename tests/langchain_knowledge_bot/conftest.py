"""Bots that number their answers, and the same test through both ways of calling."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from knowledge_bot.testing import MemoryService
from numbering_bots import numbering


@pytest.fixture
def service() -> MemoryService:
    """A service whose bots answer `<answer 1> of bot_1`, and so on."""
    return numbering()


@pytest.fixture(params=["sync", "async"])
def invoke(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`invoke(runnable, input, **options)`: what `invoke` or `ainvoke` returns."""

    def run(runnable: Any, value: Any, **options: Any) -> Any:
        if request.param == "sync":
            return runnable.invoke(value, **options)
        return asyncio.run(runnable.ainvoke(value, **options))

    return run
