"""Calls that many tests make, and the documented answers to them."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

KEY = "key-of-the-tests-3f9a"

SOURCE = {
    "id": "src_1",
    "name": "Handbook",
    "collections": [{"id": "col_1", "name": "House"}],
    "status": "pending",
    "created_at": 1_700_000_000_123,
}
MESSAGE = {
    "id": "msg_1",
    "answer": "At nine.",
    "conversation_id": "conv_1",
    "created_at": 1_700_000_000_456,
}


def passage(number: int, **more: Any) -> dict[str, Any]:
    """One that a search finds."""
    return {
        "id": f"pas_{number}",
        "source_id": f"src_{number}",
        "name": f"{number}.md",
        "url": None,
        "revision": "r1",
        "text": f"Passage {number}.",
        "score": float(number),
        "found": True,
        **more,
    }


def create(client: Any) -> Any:
    return client.create_text_source(name="Handbook", collections="col_1", content="We open at 9.")


def upload(client: Any) -> Any:
    return client.upload_source(name="Handbook", collections="col_1", file=b"We open at 9.")


def ask(client: Any) -> Any:
    return client.send_message(bot_id="bot_1", content="When do you open?")


def read(client: Any) -> Any:
    return client.list_bots()


def upload_much(client: Any) -> Any:
    """More than the buffers of a connection take, so that the sender learns of a break in time."""
    return client.upload_source(name="Handbook", collections="col_1", file=bytes(32 << 20))


def both_ways(blocking: str, awaited: str) -> Any:
    """A fixture by which a test runs twice: `fixture(it, …)` calls one method of it, or the other.

    It returns what the method returns.
    """

    @pytest.fixture(params=["sync", "async"])
    def called(request: pytest.FixtureRequest) -> Callable[..., Any]:
        def call(it: Any, *arguments: Any, **options: Any) -> Any:
            if request.param == "sync":
                return getattr(it, blocking)(*arguments, **options)
            return asyncio.run(getattr(it, awaited)(*arguments, **options))

        return call

    return called


async def settled(value: Any) -> Any:
    """Return what a call of either client comes to."""
    return await value if inspect.isawaitable(value) else value
