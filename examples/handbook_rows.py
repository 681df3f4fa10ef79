"""Rows for the examples of engines, and an embedded service to send them to."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from knowledge_bot import Client
from knowledge_bot_service import LocalService

HANDBOOK = Path(__file__).resolve().parent / "handbook"


def handbook_rows() -> list[dict[str, str]]:
    """Return the sections of the handbook, as rows with `id`, `title` and `body`."""
    rows = []
    for file in sorted(HANDBOOK.glob("*.md")):
        for section in file.read_text(encoding="utf-8").split("\n## ")[1:]:
            title, _, body = section.partition("\n")
            rows.append({"id": f"{file.stem}: {title}", "title": title, "body": body.strip()})
    return rows


@contextmanager
def rows_service() -> Iterator[Client]:
    """Start a service with one bot. Workers find it through the environment, as in production."""
    with (
        LocalService(
            collections={"col_default": "Handbook"}, bots={"bot_default": ["col_default"]}
        ) as service,
        Client(service.api_key, service.base_url) as client,
    ):
        os.environ["KNOWLEDGE_BOT_BASE_URL"] = service.base_url
        os.environ["KNOWLEDGE_BOT_API_KEY"] = service.api_key
        yield client
