"""httpx, and httpx2 where it is installed: it needs a newer h11 than the lowest httpcore allows."""

import contextlib
from types import ModuleType
from typing import Any

import httpx

from knowledge_bot import AsyncClient, Client

LIBRARIES: list[ModuleType] = [httpx]
with contextlib.suppress(ImportError):
    import httpx2

    LIBRARIES.append(httpx2)

CLIENTS: dict[str, tuple[type[Client | AsyncClient], type[Any]]] = {
    f"{library.__name__}.{ours.__name__}": (ours, getattr(library, ours.__name__))
    for library in LIBRARIES
    for ours in (Client, AsyncClient)
}
"""Our client and the library's one that it is given, by the latter's name."""
