"""Fetching a web page that somebody named, without letting it reach what only this machine can."""

from knowledge_bot_service.fetch.fetcher import (
    FetchError,
    FetchPolicy,
    NotModifiedError,
    Page,
    Validators,
    fetch,
)

__all__ = ["FetchError", "FetchPolicy", "NotModifiedError", "Page", "Validators", "fetch"]
