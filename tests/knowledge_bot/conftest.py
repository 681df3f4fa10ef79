"""The same test through both clients."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from calls import KEY
from knowledge_bot import AsyncClient, Client


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`call(use, base_url, **options)`: the result of `use(client)` on either client."""

    def run(use: Callable[[Any], Any], base_url: str, **options: Any) -> Any:
        options = {"api_key": KEY, "timeout": 5.0, **options}
        if request.param == "sync":
            with Client(base_url=base_url, **options) as client:
                return use(client)

        async def main() -> Any:
            async with AsyncClient(base_url=base_url, **options) as client:
                return await use(client)

        return asyncio.run(main())

    return run
