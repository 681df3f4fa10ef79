"""Ingestion: many items into collections, each exactly once, over any number of runs and workers.

    from knowledge_bot import Client
    from knowledge_bot.ingest import Ledger, from_folder, ingest

    with Client() as client:
        report = ingest(
            client, from_folder("handbook"), collections="col_1", ledger=Ledger("kbot.db")
        )

- Items say what is sent: `WebPage`, `Text`, `File`. `from_folder`, `from_sitemap`, `from_feed`,
  `from_jsonl` and `from_urls` find them, one at a time. In between they may yield a `Skipped`.
- A `Ledger` remembers what was sent. `ingest` and `aingest` compare, send and record, and return a
  `Report`.

The service can neither list nor delete its sources and takes no idempotency key, so the ledger
holds an intent on disk before a request leaves. What a killed process left behind is `unknown`: it
is reported and never guessed about.

Importing this package loads neither pydantic nor SQLAlchemy; a name is loaded when it is first
used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge_bot.ingest.discovery import (
        from_feed,
        from_folder,
        from_jsonl,
        from_sitemap,
        from_urls,
    )
    from knowledge_bot.ingest.incomplete import IncompleteIngestionError
    from knowledge_bot.ingest.items import File, Item, Skipped, Text, WebPage
    from knowledge_bot.ingest.ledger import Entry, Ledger, LedgerError, SupersededSource
    from knowledge_bot.ingest.report import Failure, Report, Stop
    from knowledge_bot.ingest.run import aingest, ingest

__all__ = [
    "Entry",
    "Failure",
    "File",
    "IncompleteIngestionError",
    "Item",
    "Ledger",
    "LedgerError",
    "Report",
    "Skipped",
    "Stop",
    "SupersededSource",
    "Text",
    "WebPage",
    "aingest",
    "from_feed",
    "from_folder",
    "from_jsonl",
    "from_sitemap",
    "from_urls",
    "ingest",
]

_HOMES = {
    "discovery": ("from_feed", "from_folder", "from_jsonl", "from_sitemap", "from_urls"),
    "incomplete": ("IncompleteIngestionError",),
    "items": ("File", "Item", "Skipped", "Text", "WebPage"),
    "ledger": ("Entry", "Ledger", "LedgerError", "SupersededSource"),
    "report": ("Failure", "Report", "Stop"),
    "run": ("aingest", "ingest"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
