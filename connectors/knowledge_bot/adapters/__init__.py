"""What the packages for frameworks share, and what else this project's packages need of the core.

- `retrieval`: what bots answer from, for retrievers.
- `tools`: the names and descriptions of bots as tools.
- `settings`: clients, and what else the classes of frameworks are set up with.
- `removing`: deletes the sources of documents.

The names below are the core's own, which its other packages import from here and from no private
module. Users should not: a name may change in any release, together with those packages. Each is
loaded when it is first used.
"""

from typing import TYPE_CHECKING

from knowledge_bot._lazy import lazy_names

if TYPE_CHECKING:
    from knowledge_bot._configuration import API_KEY_VARIABLE, BASE_URL_VARIABLE, is_loopback
    from knowledge_bot._endpoints import check_number, collection_ids, identifier
    from knowledge_bot._extensions import Extensions, check_announced, end_of_life, new_key
    from knowledge_bot._extras import require
    from knowledge_bot._json import plain
    from knowledge_bot._texts import storable
    from knowledge_bot._threads import Turns
    from knowledge_bot._words import OPTIONS, Words
    from knowledge_bot.adapters.removing import remove
    from knowledge_bot.adapters.settings import speaking
    from knowledge_bot.checks._files import parse_questions
    from knowledge_bot.checks._questions import question_of
    from knowledge_bot.ingest._options import (
        OnUnknown,
        SharedOptions,
        check_names,
        shared_options,
    )
    from knowledge_bot.origins._lines import item_of
    from knowledge_bot.origins._loader import Texts, is_random, text_or_skipped
    from knowledge_bot.origins._origin import detail_of

_HOMES = {
    "._configuration": ("API_KEY_VARIABLE", "BASE_URL_VARIABLE", "is_loopback"),
    "._endpoints": ("check_number", "collection_ids", "identifier"),
    "._extensions": ("Extensions", "check_announced", "end_of_life", "new_key"),
    "._extras": ("require",),
    "._json": ("plain",),
    "._texts": ("storable",),
    "._lazy": ("lazy_names",),
    "._threads": ("Turns",),
    ".checks._files": ("parse_questions",),
    ".checks._questions": ("question_of",),
    "._words": ("OPTIONS", "Words"),
    ".adapters.removing": ("remove",),
    ".adapters.settings": ("speaking",),
    ".ingest._options": ("OnUnknown", "SharedOptions", "check_names", "shared_options"),
    ".origins._lines": ("item_of",),
    ".origins._loader": ("Texts", "is_random", "text_or_skipped"),
    ".origins._origin": ("detail_of",),
}

__all__ = [
    "API_KEY_VARIABLE",
    "BASE_URL_VARIABLE",
    "OPTIONS",
    "Extensions",
    "OnUnknown",
    "SharedOptions",
    "Texts",
    "Turns",
    "Words",
    "check_announced",
    "check_names",
    "check_number",
    "collection_ids",
    "detail_of",
    "end_of_life",
    "identifier",
    "is_loopback",
    "is_random",
    "item_of",
    "lazy_names",
    "new_key",
    "parse_questions",
    "plain",
    "question_of",
    "remove",
    "require",
    "shared_options",
    "speaking",
    "storable",
    "text_or_skipped",
]
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
