"""The OpenAPI page: as the framework makes it, with the service's ids for clients with a key."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request

from knowledge_bot_service.gate import KEY_HEADER
from knowledge_bot_service.keys import Keys
from knowledge_bot_service.settings import Settings


def install(app: FastAPI, settings: Settings, keys: Keys) -> None:
    """Serve the description of an application at `/openapi.json`.

    With a valid key it names the collections and bots, as the list endpoints do, so that a program
    generated from it knows the valid ids.
    """
    ids = {
        "collections": [collection.id for collection in settings.collections],
        "bot_id": [bot.id for bot in settings.bots],
    }

    @app.get("/openapi.json", include_in_schema=False)
    def description(request: Request) -> dict[str, Any]:
        key = keys.find(request.headers.get(KEY_HEADER, ""))
        if key is None or key.has_expired:
            return app.openapi()
        named = copy.deepcopy(app.openapi())
        _name(named, ids)
        return named


def _name(node: object, ids: Mapping[str, Sequence[str]]) -> None:
    """Add the valid ids to each field that holds ids, anywhere in the description."""
    if isinstance(node, list):
        for element in node:
            _name(element, ids)
    elif isinstance(node, dict):
        for field, schema in (node.get("properties") or {}).items():
            # A list of ids describes its elements; an answer's list has objects and no ids.
            described = schema.get("items", schema)
            if field in ids and described.get("type") == "string":
                described["enum"] = list(ids[field])
        for child in node.values():
            _name(child, ids)
