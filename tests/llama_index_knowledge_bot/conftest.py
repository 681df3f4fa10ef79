"""Services for the tests of this package, and the same test through both ways of calling."""

import asyncio
import gc
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from calls import MESSAGE
from knowledge_bot import Client
from scripted_server import ScriptedServer, answer

_PATIENCE = 20.0


class CountingService:
    """Answers each message with the same text under an id of its own, and counts.

    Args:
        together: answer only when so many requests have arrived.
        refusing: answer with 402 instead.
    """

    def __init__(self, together: int, *, refusing: bool) -> None:
        self.together, self.refusing = together, refusing
        self.calls = self.most_at_once = self._at_once = 0
        self._changed = threading.Condition()

    def __call__(self, connection: socket.socket) -> None:
        with self._changed:
            self.calls += 1
            self._at_once += 1
            number = self.calls
            self.most_at_once = max(self.most_at_once, self._at_once)
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: self.calls >= self.together, _PATIENCE):
                self.together = 1  # they come one by one; `most_at_once` shows it
            # Counted as over before the answer leaves: the next request may follow at once.
            self._at_once -= 1
        body = {**MESSAGE, "id": f"msg_{number}"}
        reply = answer(402, {"code": "quota", "message": "used up"}) if self.refusing else None
        (reply or answer(body={"value": body}))(connection)


@pytest.fixture
def start(scripted: Callable[..., ScriptedServer]) -> Callable[..., CountingService]:
    """Start a service; its address is `url`, and what it received `requests`."""

    def begin(*, together: int = 1, refusing: bool = False) -> CountingService:
        service = CountingService(together, refusing=refusing)
        server = scripted(service)
        service.url, service.requests = server.url, server.requests
        return service

    return begin


@pytest.fixture
def client(fields: dict[str, str]) -> Iterator[Client]:
    """A client of `service`, whose asynchronous twin is one as well."""
    with Client(**fields, max_retries=0) as client:
        yield client


@pytest.fixture(params=["sync", "async"])
def retrieve(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`retrieve(retriever, query)`: what `retrieve` or `aretrieve` returns."""

    def run(retriever: Any, query: Any) -> Any:
        if request.param == "sync":
            return retriever.retrieve(query)
        return asyncio.run(retriever.aretrieve(query))

    return run


@pytest.fixture(scope="module")
def loops_of_the_framework() -> Iterator[None]:
    """Collect what `asyncio_run` leaves: it closes its loop, and no connection that waits in it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
