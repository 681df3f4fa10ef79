"""Where items come from: folders, stores, sites, feeds, loaders, lists of lines and tables.

Each yields items one at a time, and a `Skipped` for what it leaves out or cannot read.
"""

from knowledge_bot.ingest.sources._feed import from_feed
from knowledge_bot.ingest.sources._folder import from_folder
from knowledge_bot.ingest.sources._lines import from_jsonl, from_urls
from knowledge_bot.ingest.sources._loader import from_loader
from knowledge_bot.ingest.sources._objects import from_objects
from knowledge_bot.ingest.sources._rows import from_rows
from knowledge_bot.ingest.sources._site import from_site
from knowledge_bot.ingest.sources._sitemap import from_sitemap

__all__ = [
    "from_feed",
    "from_folder",
    "from_jsonl",
    "from_loader",
    "from_objects",
    "from_rows",
    "from_site",
    "from_sitemap",
    "from_urls",
]
