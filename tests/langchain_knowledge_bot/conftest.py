"""The same test through both ways of calling."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(params=["sync", "async"])
def invoke(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`invoke(runnable, input, **options)`: what `invoke` or `ainvoke` returns."""

    def run(runnable: Any, value: Any, **options: Any) -> Any:
        if request.param == "sync":
            return runnable.invoke(value, **options)
        return asyncio.run(runnable.ainvoke(value, **options))

    return run
