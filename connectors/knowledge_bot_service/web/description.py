"""The OpenAPI page: as the framework makes it, with the service's ids for clients with a key."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request

from knowledge_bot_service.config.settings import Settings
from knowledge_bot_service.web.gate import key_of


def install(app: FastAPI, settings: Settings) -> None:
    """Serve the description of an application at `/openapi.json`.

    With a valid key it names the collections and bots that the key sees, as the list endpoints do,
    so that a program generated from it knows the valid ids.
    """

    @app.get("/openapi.json", include_in_schema=False)
    def description(request: Request) -> dict[str, Any]:
        key = key_of(request.scope)
        if key is None:
            return app.openapi()
        seen = key.limit(settings)
        ids = {
            "collections": [collection.id for collection in seen.collections],
            "bot_id": [bot.id for bot in seen.bots],
        }
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
            # One that may be left out is described as one of several.
            for described in (schema.get("items", schema), *schema.get("anyOf", ())):
                if field in ids and described.get("type") == "string":
                    described["enum"] = list(ids[field])
        for child in node.values():
            _name(child, ids)
