"""A service that answers alike, a client of it, and the same test through both ways of calling."""

import gc
import warnings
from collections.abc import Iterator

import pytest

from calls import both_ways
from knowledge_bot import Client
from knowledge_bot.testing import MemoryService


@pytest.fixture
def service() -> MemoryService:
    """A service whose bot says "At nine." to everything."""
    collections = {"col_1": "House", "col_2": "Notes"}
    return MemoryService(bots={"bot_1": lambda _: "At nine."}, collections=collections)


@pytest.fixture
def client(fields: dict[str, str]) -> Iterator[Client]:
    """A client of `service`, whose asynchronous twin is one as well."""
    with Client(**fields, max_retries=0) as client:
        yield client


# `retrieve(retriever, query)`
retrieve = both_ways("retrieve", "aretrieve")


@pytest.fixture(scope="module")
def loops_of_the_framework() -> Iterator[None]:
    """Collect what `asyncio_run` leaves: it closes its loop, and no connection that waits in it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
