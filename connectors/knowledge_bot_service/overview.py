"""What a person sees of the sources: how many of each status, and the newest with their reasons."""

import sqlite3
from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict

from knowledge_bot.models import Collection

# A person reads no more; those that failed can be asked for alone.
NEWEST: Final = 200

_SELECT: Final = """
SELECT public_id AS id, name, kind, status, reason, created_at,
       (SELECT group_concat(collection.public_id)
          FROM source_collection JOIN collection ON collection.id = collection
         WHERE source = source.id) AS collections
FROM source WHERE ? IS NULL OR status = ? ORDER BY source.id DESC LIMIT ?
"""


class SourceSummary(BaseModel):
    """A source as a person sees it. `created_at` is in milliseconds since 1970."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    kind: str
    status: str
    reason: str | None
    collections: tuple[Collection, ...]
    created_at: int


class Overview(BaseModel):
    """How many sources there are by status, and the newest first, at most `NEWEST`."""

    model_config = ConfigDict(frozen=True)

    counts: dict[str, int]
    newest: tuple[SourceSummary, ...]


def read_overview(
    connection: sqlite3.Connection, collections: Mapping[str, Collection], status: str | None
) -> Overview:
    """Read the overview.

    Args:
        connection: reads the service's database, with rows by name.
        collections: the collections by id; one that is no longer declared is named by its id.
        status: list the sources of this status alone; None lists all.
    """
    counts = connection.execute("SELECT status, count(*) FROM source GROUP BY status").fetchall()
    rows = connection.execute(_SELECT, (status, status, NEWEST)).fetchall()
    return Overview(
        counts=dict(tuple(row) for row in counts),
        newest=tuple(
            SourceSummary.model_validate(
                {**row, "collections": _expanded(row["collections"], collections)}
            )
            for row in rows
        ),
    )


def _expanded(ids: str | None, collections: Mapping[str, Collection]) -> list[Collection]:
    found = ids.split(",") if ids else []
    return [collections.get(one) or Collection(id=one, name=one) for one in found]
