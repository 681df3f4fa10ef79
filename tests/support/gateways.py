"""Gateways before a service in memory: in the process of the test, or at a real address."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from itertools import count

import openai
import uvicorn
from starlette.testclient import TestClient

from calls import KEY as SERVICE_KEY
from knowledge_bot.testing import MemoryService
from knowledge_bot_gateway import Admission, Upstream, create_app, create_mcp_server

KEY = "gateway-key-7f31"
HEADERS = {"Authorization": f"Bearer {KEY}"}

# Clients are kept by their addresses, and each test has a service of its own.
_addresses = count(1)


@contextlib.contextmanager
def numbering(**bots) -> Iterator[MemoryService]:
    """A service whose `bot_guide` numbers its answers; clients find it at any address."""
    numbers = count(1)
    bots = {"bot_guide": lambda question: f"<answer {next(numbers)}> of {question.bot_id}", **bots}
    with MemoryService(bots=bots).standing_in() as service:
        yield service


def asked(service):
    """The messages that arrived, in order."""
    return [one.value["content"] for one in service.requests if one.path == "/messages"]


def upstream(api_key=SERVICE_KEY, base_url=None, **options):
    """The service, at an address that nobody else has where none is given."""
    return Upstream(base_url or f"https://service-{next(_addresses)}.test", api_key, **options)


def app_of(*, keys=(KEY,), admission=None, allow_writes=False, on_mcp=None, **options):
    """The application of a gateway; `api_key=None` has callers' keys passed through.

    `on_mcp` is given the MCP server before it starts; the rest goes to `Upstream`.
    """
    behind = upstream(**options)
    server = create_mcp_server(behind, allow_writes=allow_writes)
    if on_mcp is not None:
        on_mcp(server)
    given = {"hosts": ("gateway", "127.0.0.1"), **(admission or {})}
    return create_app(behind, Admission(keys, **given), server)


@contextlib.contextmanager
def gateway(**options) -> Iterator[TestClient]:
    """Run one in this process; what sends to it."""
    with TestClient(app_of(**options), "http://gateway", raise_server_exceptions=False) as http:
        yield http


def openai_of(http, key=KEY, **options):
    """OpenAI's client of a gateway in this process."""
    base_url = http.base_url.join("/v1")
    return openai.OpenAI(base_url=base_url, api_key=key, http_client=http, **options)


@contextlib.contextmanager
def serving(app) -> Iterator[str]:
    """Run an ASGI application; its address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(
        app,
        http="h11",  # as the commands have it
        log_level="warning",
        timeout_graceful_shutdown=2,
        timeout_keep_alive=60,  # longer than a client is held up on a busy machine
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join(15)
        listener.close()
