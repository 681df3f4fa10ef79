"""Origins: the places that items come from, each a small frozen dataclass.

    from knowledge_bot import Client
    from knowledge_bot.ingest import ingest
    from knowledge_bot.origins import Folder

    with Client() as client:
        report = ingest(client, Folder("handbook"), collections="col_1", ledger="kbot.db")

The same object goes to `ingest` and to the operator of a DAG, and stands behind `kbot ingest
folder`. Making one reads nothing; `items()` finds the items, one at a time, and a `Skipped` for
each that it leaves out. An origin of your own is any object with a `name` and `items()` or
`aitems()`; see `Origin`.

Importing this package loads nothing but the standard library. It needs the extra `ingest`.
"""

from typing import TYPE_CHECKING

from knowledge_bot._extras import require
from knowledge_bot._lazy import lazy_names

if TYPE_CHECKING:
    from knowledge_bot.origins._folder import Folder
    from knowledge_bot.origins._lines import JsonLines
    from knowledge_bot.origins._lists import Feed, Sitemap, Urls
    from knowledge_bot.origins._loader import Loader
    from knowledge_bot.origins._objects import Objects
    from knowledge_bot.origins._origin import Memory, Origin
    from knowledge_bot.origins._rows import Rows, Sql
    from knowledge_bot.origins._site import Site

require(__name__, "ingest", "defusedxml", "feedparser", "lxml", "pathspec")

_HOMES = {
    "_folder": ("Folder",),
    "_lines": ("JsonLines",),
    "_lists": ("Feed", "Sitemap", "Urls"),
    "_loader": ("Loader",),
    "_objects": ("Objects",),
    "_origin": ("Memory", "Origin"),
    "_rows": ("Rows", "Sql"),
    "_site": ("Site",),
}

__all__ = [
    "Feed",
    "Folder",
    "JsonLines",
    "Loader",
    "Memory",
    "Objects",
    "Origin",
    "Rows",
    "Site",
    "Sitemap",
    "Sql",
    "Urls",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
