"""Where items come from: folders, sites, sitemaps, feeds, lists of addresses, and lines of JSON.

Each yields items one at a time, and a `Skipped` for what it leaves out or cannot read.
"""

from knowledge_bot.ingest.sources._feed import from_feed
from knowledge_bot.ingest.sources._folder import from_folder
from knowledge_bot.ingest.sources._lines import from_jsonl, from_urls
from knowledge_bot.ingest.sources._site import from_site
from knowledge_bot.ingest.sources._sitemap import from_sitemap

__all__ = ["from_feed", "from_folder", "from_jsonl", "from_site", "from_sitemap", "from_urls"]
