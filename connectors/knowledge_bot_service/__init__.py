"""The embedded Knowledge-Bot Service: the whole interface in one process, on one SQLite file.

`kbot serve` runs it; `LocalService` runs it from Python, for examples, tests and trials. Names are
loaded on first use, since every start of `kbot` imports this package, even without the extra
`serve`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from knowledge_bot._extras import require

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


def require_extra() -> None:
    """Check that the extra `serve` is installed.

    Raises:
        ModuleNotFoundError: it is not; the message says what to install.
    """
    require(
        __name__,
        "serve",
        "charset_normalizer",
        "fastapi",
        "lxml",
        "pypdf",
        "python_multipart",
        "snowballstemmer",
        "trafilatura",
        "uvicorn",
    )


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_extra()
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
