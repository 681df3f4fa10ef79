"""Clients shared by all objects that reach the service in the same way.

Frameworks make their objects anew at will (LangChain for each call with its own configuration) and
close none of them. With a client for each, every call would open a connection and leave it open.
"""

import os
import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING

from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._configuration import Configuration

if TYPE_CHECKING:
    from pydantic import SecretStr

    from knowledge_bot._transports import Destination

# How many clients are kept, the latest used, for example one for each tenant. A client that is
# dropped lasts as long as somebody holds it; then its connections are closed.
_MOST = 64

# Found by what the client itself holds, so that no API key outlives its client.
_clients: "OrderedDict[tuple[Configuration, Destination], Client]" = OrderedDict()
_twins: "weakref.WeakKeyDictionary[Client, AsyncClient]" = weakref.WeakKeyDictionary()
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # not on Windows
    # So that the lock is free in the child, where clients open connections of their own.
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


def shared_client(
    api_key: "str | SecretStr | None" = None,
    base_url: str | None = None,
    *,
    timeout: float = 60.0,
    max_retries: int = 2,
) -> Client:
    """Return the client for a key, an address and settings; the same one for the same.

    It is shared, so do not close it. What is left out comes from the environment at the time of
    the call.

    Raises:
        ConfigurationError: no base URL, or an argument or a proxy that cannot be used.
    """
    client = Client(api_key, base_url, timeout=timeout, max_retries=max_retries)
    # The proxy is the environment's, which may have changed.
    way = configuration_of(client), client._connections.destination  # noqa: SLF001 - the core's own
    with _lock:
        known = _clients.pop(way, None)
        if known is None or known._is_closed:  # noqa: SLF001 - the core's own
            known = client
            connections = client._connections  # noqa: SLF001 - the core's own
            # Connections that a call or a derived client still uses are not garbage yet.
            closing = weakref.finalize(connections, connections.transport.close)
            closing.atexit = (
                False  # then a call may be under way in a thread, and would be waited for
            )
        _clients[way] = known
        dropped = [_clients.popitem(last=False) for _ in range(len(_clients) - _MOST)]
    del dropped  # not under the lock: this closes connections
    return known


def async_twin(client: Client) -> AsyncClient:
    """Return the asynchronous client with a client's settings; the same one each time.

    Raises:
        ConfigurationError: the client sends with a `transport` or an `http_client` of the user's.
    """
    with _lock:
        twin = _twins.get(client)
        if twin is None or twin._is_closed:  # noqa: SLF001 - the core's own
            twin = _twins[client] = client.to_async()
    return twin


def allow_connections(client: AsyncClient, number: int) -> None:
    """Let a client have so many connections at once, from its first request in a loop on."""
    client._connections.transport.connections = number  # noqa: SLF001 - the core's own


def configuration_of(client: Client | AsyncClient) -> Configuration:
    """Return what a client is configured with."""
    return client._configuration  # noqa: SLF001 - the core's own
