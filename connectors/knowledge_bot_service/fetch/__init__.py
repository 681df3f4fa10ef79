"""Fetches web pages by addresses from strangers, without access to internal networks."""

from knowledge_bot_service.fetch.fetcher import (
    FetchError,
    FetchPolicy,
    NotModifiedError,
    Page,
    PassingError,
    Validators,
    fetch,
)

__all__ = [
    "FetchError",
    "FetchPolicy",
    "NotModifiedError",
    "Page",
    "PassingError",
    "Validators",
    "fetch",
]
