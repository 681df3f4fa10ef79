"""The embedded Knowledge-Bot Service: the whole interface in one process, on one SQLite file.

`kbot serve` runs it; `LocalService` runs it from Python, for examples, tests and trials. Names are
loaded on first use, since every start of `kbot` imports this package, even without the extra
`serve`.
"""

from typing import TYPE_CHECKING

from knowledge_bot.adapters import lazy_names, require

if TYPE_CHECKING:
    from knowledge_bot_service.config.settings import SettingsError
    from knowledge_bot_service.run.local import LocalService, LocalServiceError, Service
    from knowledge_bot_service.store.sources import SourceState

__all__ = ["LocalService", "LocalServiceError", "Service", "SettingsError", "SourceState"]

_HOMES = {
    "config.settings": ("SettingsError",),
    "run.local": ("LocalService", "LocalServiceError", "Service"),
    "store.sources": ("SourceState",),
}


def require_extra() -> None:
    """Check that the extra `serve` is installed.

    Raises:
        MissingExtraError: it is not.
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


__getattr__, __dir__ = lazy_names(__name__, _HOMES, require_extra)
