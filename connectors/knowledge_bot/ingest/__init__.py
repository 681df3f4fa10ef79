"""Ingestion: many items into collections, each exactly once, over any number of runs and workers.

    from knowledge_bot import Client
    from knowledge_bot.ingest import Ledger, ingest
    from knowledge_bot.origins import Folder

    with Client() as client:
        report = ingest(
            client, Folder("handbook"), collections="col_1", ledger=Ledger("kbot.db")
        )

- Items are what is sent: `WebPage`, `Text`, `File`. `knowledge_bot.origins` finds them, one at a
  time, and yields a `Skipped` for what it leaves out.
- A `Ledger` remembers what was sent. `ingest` and `aingest` compare, send and record, and return a
  `Report`. `IngestionOptions` describes their options; an `Ingestion` holds them, for use in
  several places.
- `watch_folder` runs again whenever something below a folder changes.

The service can neither list nor delete sources and takes no idempotency key. So the ledger records
an intent on disk before a request leaves. What a killed process left behind is reported as
`unknown`, never guessed.

Importing this package loads neither pydantic nor sqlite3; each name is loaded on first use. It
needs the extra `ingest`.
"""

from typing import TYPE_CHECKING

from knowledge_bot._extras import require
from knowledge_bot._lazy import lazy_names

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import File, Item, Text, WebPage
    from knowledge_bot.ingest._ledger import (
        Entry,
        Ledger,
        LedgerCounts,
        SupersededSource,
    )
    from knowledge_bot.ingest._listings import Skipped
    from knowledge_bot.ingest._options import IngestionOptions
    from knowledge_bot.ingest._report import IncompleteIngestionError, Outcome, Report, Stop
    from knowledge_bot.ingest._run import Ingestion, aingest, complete, ingest
    from knowledge_bot.ingest._schema import LedgerError
    from knowledge_bot.ingest._store import State
    from knowledge_bot.ingest._watching import watch_folder

require(__name__, "ingest", "defusedxml", "feedparser", "lxml", "pathspec")

_HOMES = {
    "_schema": ("LedgerError",),
    "_listings": ("Skipped",),
    "_items": ("File", "Item", "Text", "WebPage"),
    "_ledger": ("Entry", "LedgerCounts", "Ledger", "SupersededSource"),
    "_report": ("IncompleteIngestionError", "Outcome", "Report", "Stop"),
    "_options": ("IngestionOptions",),
    "_run": ("Ingestion", "aingest", "complete", "ingest"),
    "_store": ("State",),
    "_watching": ("watch_folder",),
}

__all__ = [
    "Entry",
    "File",
    "IncompleteIngestionError",
    "Ingestion",
    "IngestionOptions",
    "Item",
    "Ledger",
    "LedgerCounts",
    "LedgerError",
    "Outcome",
    "Report",
    "Skipped",
    "State",
    "Stop",
    "SupersededSource",
    "Text",
    "WebPage",
    "aingest",
    "complete",
    "ingest",
    "watch_folder",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
