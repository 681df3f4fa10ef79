"""The embedded Knowledge-Bot Service: the whole interface in one process, on one SQLite file.

`kbot serve` runs it; `LocalService` runs it from Python, for examples, tests and trials. Names are
loaded on first use, since every start of `kbot` imports this package, even without the extra
`serve`.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from knowledge_bot.errors import MissingExtraError

if TYPE_CHECKING:
    from knowledge_bot_service.config.settings import SettingsError
    from knowledge_bot_service.run.local import LocalService, LocalServiceError, Service
    from knowledge_bot_service.store.sources import SourceState

__all__ = ["LocalService", "LocalServiceError", "Service", "SettingsError", "SourceState"]

_HOMES = {
    "LocalService": "run.local",
    "LocalServiceError": "run.local",
    "Service": "run.local",
    "SettingsError": "config.settings",
    "SourceState": "store.sources",
}


def require_extra() -> None:
    """Check that the extra `serve` is installed.

    Raises:
        MissingExtraError: it is not.
    """
    for module in ("fastapi", "trafilatura"):  # of two packages
        if find_spec(module) is None:
            raise MissingExtraError(__name__, "serve", module)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_extra()
    value: object = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
