"""Runs of ingestion for the classes of frameworks that feed collections."""

from typing import Any, TypedDict

from knowledge_bot.ingest import Ingestion
from knowledge_bot.ingest._run import Prune, shared_options


class SyncOptions(TypedDict, total=False):
    """The options of `sync`; `knowledge_bot.ingest.IngestionOptions` explains them."""

    origin: str | None
    gone_limit: float
    prune: Prune
    wait_ready: float


def ingestion_of(face: Any, **options: Any) -> Ingestion:
    """Return a run with an object's collections, ledger and options, and with options of a call."""
    how: Any = {**shared_options(face), **options}
    return Ingestion(collections=face.collections, ledger=face.ledger, **how)


def sync_of(face: Any, source: object, options: SyncOptions) -> Ingestion:
    """Return the run of `sync`, with the source's class as its origin unless that is named."""
    origin = options.get("origin") or type(source).__name__
    return ingestion_of(face, **{**options, "origin": origin})
