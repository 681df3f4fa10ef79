"""The embedded Knowledge-Bot Service: the whole interface, for real, in one process on one file.

`kbot serve` runs it; `LocalService` runs it from Python, for examples, tests and trials. A name is
loaded when it is first used, since every start of `kbot` imports this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge_bot_service.local import LocalService, LocalServiceError
    from knowledge_bot_service.settings import SettingsError
    from knowledge_bot_service.store import SourceState

__all__ = ["LocalService", "LocalServiceError", "SettingsError", "SourceState"]

_HOMES = {
    "LocalService": "local",
    "LocalServiceError": "local",
    "SettingsError": "settings",
    "SourceState": "store",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
