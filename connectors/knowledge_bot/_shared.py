"""Clients that are shared by all objects which reach the service in the same way.

A framework makes its objects anew whenever it likes, LangChain for each call with a configuration
of its own, and closes none of them. With a client for each, every call would open a connection and
leave it open.
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

    from knowledge_bot._transports import Place

# The latest ways to reach a service, as of the tenants of a program. A client that is not among
# them any more lasts as long as somebody has it; then its connections are closed.
_MOST = 64

# By what a client holds anyway, so that no key is kept longer than a client has it.
_clients: "OrderedDict[tuple[Configuration, Place], Client]" = OrderedDict()
_twins: "weakref.WeakKeyDictionary[Client, AsyncClient]" = weakref.WeakKeyDictionary()
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # not on Windows
    # Nobody holds the lock in the child; the clients open connections of their own there.
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

    It is nobody's own, so nobody closes it. What is left out comes from the environment, at the
    time of the call.

    Raises:
        ConfigurationError: no base URL, or an argument or a proxy that cannot be used.
    """
    client = Client(api_key, base_url, timeout=timeout, max_retries=max_retries)
    # The proxy is the environment's, which may have changed.
    way = configuration_of(client), client._connections.place  # noqa: SLF001 - the core's own
    with _lock:
        known = _clients.pop(way, None)
        if known is None or known._is_closed:  # noqa: SLF001 - the core's own
            known = client
            connections = client._connections  # noqa: SLF001 - the core's own
            # Those of a call that is under way, or of a derived client, are not garbage yet.
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


def configuration_of(client: Client | AsyncClient) -> Configuration:
    """Return what a client is configured with."""
    return client._configuration  # noqa: SLF001 - the core's own
