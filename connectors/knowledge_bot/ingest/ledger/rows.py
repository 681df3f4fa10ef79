"""Rows of the ledger's tables as they are read and written."""

import time
from typing import NamedTuple


class Row(NamedTuple):
    """A row of `kbot_sources`, in the order of its columns; see `schema` for their meaning."""

    id: str
    service: str
    collections: str
    key: str
    name: str
    kind: str
    state: str
    digest: str
    source_id: str | None
    source_name: str | None
    source_digest: str | None
    signature: str | None
    owner: str
    version: int
    attempts: int
    error: str
    updated_at: float


class Replaced(NamedTuple):
    """A row of `kbot_superseded`, in the order of its columns."""

    source_id: str
    replaced_by: str | None
    service: str
    collections: str
    key: str
    name: str
    superseded_at: float


class Touch(NamedTuple):
    """A file whose content is what the service has, although its size or times changed."""

    touched_id: str
    seen_version: int
    new_signature: str | None


def replaced_by(row: Row, source_id: str | None) -> list[Replaced]:
    """Return what a new source replaces, given the row from before it was created."""
    if row.source_id is None or row.source_id == source_id:
        return []
    return [
        Replaced(
            row.source_id,
            source_id,
            row.service,
            row.collections,
            row.key,
            row.source_name or row.name,
            time.time(),
        )
    ]
