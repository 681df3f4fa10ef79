"""What this project's own packages need of the core, beyond what its users do.

The adapters, the gateway, the service and the provider import it from here, and from no private
module. Users should not: a name may change in any release, together with those packages. Each is
loaded when it is first used.
"""

from typing import TYPE_CHECKING

from knowledge_bot._lazy import lazy_names

if TYPE_CHECKING:
    from knowledge_bot._answers import Answer
    from knowledge_bot._collections import SyncOptions, ingestion_of, sync_of
    from knowledge_bot._configuration import API_KEY_VARIABLE, BASE_URL_VARIABLE, is_loopback
    from knowledge_bot._endpoints import check_number, collection_ids, identifier
    from knowledge_bot._extensions import Extensions, check_announced, end_of_life, new_key
    from knowledge_bot._extras import require
    from knowledge_bot._freshness import awith_freshness, ledger_of, with_freshness
    from knowledge_bot._model_settings import (
        WITHOUT_EFFECT,
        WithoutEffect,
        level_outside,
        with_effect,
    )
    from knowledge_bot._retrieval import Retrieval, Retrieved, bots_named, cited_in
    from knowledge_bot._shared import (
        allow_connections,
        async_twin,
        configuration_of,
        shared_client,
    )
    from knowledge_bot._tool_names import tool_descriptions, tool_name, tool_names
    from knowledge_bot.checks._files import parse_questions
    from knowledge_bot.checks._questions import question_of
    from knowledge_bot.ingest._ledger import remove
    from knowledge_bot.ingest._plan import OnUnknown
    from knowledge_bot.ingest._run import SharedOptions, check_names, shared_options
    from knowledge_bot.ingest.sources._loader import Texts, text_or_skipped
    from knowledge_bot.ingest.sources._objects import Objects, objects_in

__all__ = [
    "API_KEY_VARIABLE",
    "BASE_URL_VARIABLE",
    "WITHOUT_EFFECT",
    "Answer",
    "Extensions",
    "Objects",
    "OnUnknown",
    "Retrieval",
    "Retrieved",
    "SharedOptions",
    "SyncOptions",
    "Texts",
    "WithoutEffect",
    "allow_connections",
    "async_twin",
    "awith_freshness",
    "bots_named",
    "check_announced",
    "check_names",
    "check_number",
    "cited_in",
    "collection_ids",
    "configuration_of",
    "end_of_life",
    "identifier",
    "ingestion_of",
    "is_loopback",
    "lazy_names",
    "ledger_of",
    "level_outside",
    "new_key",
    "objects_in",
    "parse_questions",
    "question_of",
    "remove",
    "require",
    "shared_client",
    "shared_options",
    "sync_of",
    "text_or_skipped",
    "tool_descriptions",
    "tool_name",
    "tool_names",
    "with_effect",
    "with_freshness",
]

_HOMES = {
    "_answers": ("Answer",),
    "_collections": ("SyncOptions", "ingestion_of", "sync_of"),
    "_configuration": ("API_KEY_VARIABLE", "BASE_URL_VARIABLE", "is_loopback"),
    "_endpoints": ("check_number", "collection_ids", "identifier"),
    "_extensions": ("Extensions", "check_announced", "end_of_life", "new_key"),
    "_extras": ("require",),
    "_freshness": ("awith_freshness", "ledger_of", "with_freshness"),
    "_model_settings": ("WITHOUT_EFFECT", "WithoutEffect", "level_outside", "with_effect"),
    "_retrieval": ("Retrieval", "Retrieved", "bots_named", "cited_in"),
    "_shared": ("allow_connections", "async_twin", "configuration_of", "shared_client"),
    "_tool_names": ("tool_descriptions", "tool_name", "tool_names"),
    "checks._files": ("parse_questions",),
    "checks._questions": ("question_of",),
    "ingest._plan": ("OnUnknown",),
    "ingest._ledger": ("remove",),
    "ingest._run": ("SharedOptions", "check_names", "shared_options"),
    "ingest.sources._loader": ("Texts", "text_or_skipped"),
    "ingest.sources._objects": ("Objects", "objects_in"),
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
