"""Calls to the embedded service by a plain HTTP client, and what every answer must look like."""

import hashlib
from typing import Any

import httpx

from in_process import InProcess, Transport
from knowledge_bot_service import LocalService

COLLECTIONS = {
    "col_one": "Handbook",
    "col_two": "Archive",
    "col_empty": "Empty",
    "col_lights": "Lights",
}
BOTS = {
    "bot_one": ["col_one"],
    "bot_two": ["col_two"],
    "bot_empty": ["col_empty"],
    "bot_lights": ["col_lights"],
}


def client_of(service: InProcess | LocalService) -> httpx.Client:
    return httpx.Client(
        base_url=service.base_url,
        headers={"X-API-KEY": service.api_key},
        timeout=30,
        transport=Transport(),
    )


def add_text(
    http: httpx.Client, name: str, content: str, collection: str = "col_one"
) -> dict[str, Any]:
    body = {"name": name, "collections": [collection], "content": content}
    return value_of(http.post("/sources/write", json={"value": body}))


def put_text(
    http: httpx.Client, key: str, content: str, collection: str = "col_one", **more: Any
) -> dict[str, Any]:
    """Make a text the source of a key of the origin `notes`; returns the source."""
    digest = f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"
    body = {"origin": "notes", "key": key, "digest": digest, "name": key, "content": content}
    answer = http.put("/sync/write", json={"value": body | {"collections": [collection]} | more})
    source: dict[str, Any] = value_of(answer)["source"]
    return source


def ask(
    http: httpx.Client, content: str, conversation: str | None = None, bot: str = "bot_one"
) -> dict[str, Any]:
    body = {"bot_id": bot, "content": content}
    if conversation is not None:
        body["conversation_id"] = conversation
    return value_of(http.post("/messages", json={"value": body}))


def value_of(response: httpx.Response) -> dict[str, Any]:
    """The wrapped value of an answer of 200."""
    assert response.status_code == 200, response.text
    body = response.json()
    assert list(body) == ["value"]
    value: dict[str, Any] = body["value"]
    return value


def problem_of(response: httpx.Response, status: int) -> dict[str, str]:
    """The body of an error, which has the documented two fields and no others."""
    assert response.status_code == status, response.text
    body: dict[str, str] = response.json()
    assert list(body) == ["code", "message"]
    assert all(isinstance(text, str) and text for text in body.values())
    return body
