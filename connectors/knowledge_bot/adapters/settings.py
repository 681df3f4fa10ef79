"""How the classes of frameworks are set up: clients, a ledger, runs, and settings without effect.

Frameworks make their objects anew at will (LangChain for each call with its own configuration) and
close none of them. With a client for each, every call would open a connection and leave it open. So
clients are shared by all objects that reach the service in the same way.
"""

import os
import sys
import sysconfig
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

from knowledge_bot._client import AsyncClient, Client
from knowledge_bot._configuration import Configuration
from knowledge_bot._transports import STANDING_IN
from knowledge_bot._words import Words
from knowledge_bot.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import SecretStr

    from knowledge_bot._transports import Destination
    from knowledge_bot.ingest import Ingestion, Ledger
    from knowledge_bot.ingest._options import Prune

C = TypeVar("C", Client, AsyncClient)

# How many clients are kept, the latest used, for example one for each tenant. A client that is
# dropped lasts as long as somebody holds it; then its connections are closed.
_MOST = 64

# Found by what the client itself holds, so that no API key outlives its client.
_clients: "OrderedDict[tuple[Configuration, Destination, Any], Client]" = OrderedDict()
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
    # The proxy is the environment's, which may have changed, and a test's service may stand in.
    destination = client._connections.destination  # noqa: SLF001 - the core's own
    way = configuration_of(client), destination, STANDING_IN.get("Transport")
    with _lock:
        known = _clients.pop(way, None)
        if known is None or known._is_closed:  # noqa: SLF001 - the core's own
            known = client
            connections = client._connections  # noqa: SLF001 - the core's own
            # Connections that a call or a derived client still uses are not garbage yet.
            closing = weakref.finalize(connections, connections.transport.close)
            closing.atexit = False  # it would wait for a call that is under way in a thread
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


def speaking(client: C, words: Words) -> C:
    """Let the errors of a client that was just made advise in other words; return it."""
    return client._speaking(words)  # noqa: SLF001 - the core's own


class SyncOptions(TypedDict, total=False):
    """The options of `sync`; `knowledge_bot.ingest.IngestionOptions` explains them."""

    origin: str | None
    anyway: bool
    gone_limit: float
    prune: "Prune"
    wait_ready: float


def ledger_of(given: "Ledger | str | os.PathLike[str] | None") -> "Ledger | None":
    """Return a ledger whose address can be used; None: there is none.

    Raises:
        ConfigurationError: it cannot.
    """
    from knowledge_bot.ingest import Ledger, LedgerError

    if given is None:
        return None
    ledger = given if isinstance(given, Ledger) else Ledger(given)
    try:
        _ = ledger.database
    except LedgerError as error:
        raise ConfigurationError.of("ledger", f"{error}") from error
    return ledger


def ingestion_of(face: Any, **options: Any) -> "Ingestion":
    """Return a run with an object's collections, ledger and options, and with options of a call.

    What it is given is a part of the object's origin, unless `complete` says otherwise.
    """
    from knowledge_bot.ingest import Ingestion
    from knowledge_bot.ingest._options import shared_options

    usual: Any = {**shared_options(face), "origin": face.origin, "complete": False}
    return Ingestion(collections=face.collections, ledger=face.ledger, **(usual | options))


def sync_of(face: Any, source: object, options: SyncOptions) -> "Ingestion":
    """Return the run of `sync`, with the source's class as its origin unless that is named."""
    origin = options.get("origin") or face.origin or type(source).__name__
    return ingestion_of(face, **{**options, "origin": origin, "complete": True})


class WithoutEffect(TypedDict, total=False):
    """What other models take and the service does not (interface section 4).

    Code that switches models keeps working, with a warning.
    """

    frequency_penalty: float | None
    logit_bias: dict[Any, Any] | None
    logprobs: bool | None
    max_completion_tokens: int | None
    max_tokens: int | None
    n: int | None
    presence_penalty: float | None
    seed: int | None
    stream: bool
    streaming: bool
    temperature: float | None
    top_k: int | None
    top_p: float | None


WITHOUT_EFFECT: Final = WithoutEffect.__optional_keys__


def with_effect(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that have an effect; warn of each other, at the line that passed it."""
    for name in sorted(WITHOUT_EFFECT.intersection(arguments)):
        warnings.warn(
            f"{name} has no effect: the service has no such setting", stacklevel=level_outside()
        )
    return {name: value for name, value in arguments.items() if name not in WITHOUT_EFFECT}


# Where a framework's own frames are, and Python's, through which a call comes.
_LIBRARIES: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def level_outside() -> int:
    """Return the `stacklevel` with which the caller's warning names the user's line."""
    depth, frame = 1, sys._getframe(1)  # noqa: SLF001 - what `inspect.currentframe` returns
    while frame.f_back and (
        frame.f_code.co_filename.startswith(_LIBRARIES)
        or "knowledge_bot" in str(frame.f_globals.get("__name__")).partition(".")[0]
    ):
        depth, frame = depth + 1, frame.f_back
    return depth
