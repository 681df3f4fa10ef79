"""A gateway before a service, in a thread, over a real socket."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import uvicorn

from knowledge_bot_gateway import Admission, Upstream, create_app, create_mcp_server

KEY = "gateway-key-7f31"


@contextlib.contextmanager
def gateway(
    base_url, api_key, *, keys=(KEY,), allow_writes=False, admission=None, on_mcp=None, **upstream
) -> Iterator[str]:
    """Run one; its address.

    `api_key` None has callers' keys passed through; `on_mcp` is given the MCP server before it
    starts; the rest goes to `Upstream`.
    """
    behind = Upstream(base_url, api_key, **upstream)
    server = create_mcp_server(behind, allow_writes=allow_writes)
    if on_mcp is not None:
        on_mcp(server)
    given = {"hosts": ("127.0.0.1",), **(admission or {})}
    app = create_app(behind, Admission(keys, **given), server)
    with serving(app) as address:
        yield address


@contextlib.contextmanager
def serving(app) -> Iterator[str]:
    """Run an ASGI application; its address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(
        app,
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
