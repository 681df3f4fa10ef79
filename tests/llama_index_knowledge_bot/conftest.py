"""The same test through both ways of calling."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(params=["sync", "async"])
def retrieve(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`retrieve(retriever, query)`: what `retrieve` or `aretrieve` returns."""

    def run(retriever: Any, query: Any) -> Any:
        if request.param == "sync":
            return retriever.retrieve(query)
        return asyncio.run(retriever.aretrieve(query))

    return run
