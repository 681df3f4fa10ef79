"""What a database's errors mean for a ledger."""

import sqlite3
from typing import Any

import sqlalchemy as sa

from knowledge_bot.ingest.ledger.databases import Database
from knowledge_bot.ingest.ledger.entries import LedgerError

DATABASE_ERRORS = (sa.exc.DBAPIError, sqlite3.Error)
"""What SQLAlchemy raises, and what SQLite's driver does where it is called directly."""

# PostgreSQL, appendix A: a serialization failure, a deadlock, and a server that shuts down or
# starts up.
_PASSING_STATES = {"40001", "40P01", "57P01", "57P02", "57P03"}

_REASONS = {
    "file is not a database": "it is not a SQLite file, so it is no ledger; name another file",
    "malformed": "the file is damaged; restore it from a copy",
    "disk is full": "the disk is full; make room and run again",
    "disk i/o error": "the disk does not take it (full, over a quota, or failing)",
    "readonly": "the file or its folder is read-only",
    "unable to open": "the file cannot be opened: does its folder exist, and may it be written to?",
    "is locked": "another process has held a lock on it for too long",
}


def is_passing(error: Any) -> bool:
    """Tell whether the same transaction may succeed a moment later."""
    cause = getattr(error, "orig", error)
    if getattr(error, "connection_invalidated", False) or "is locked" in str(cause):
        return True
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return state in _PASSING_STATES


def explained(error: Any, database: Database, what: str) -> LedgerError:
    """Return a database's error as ours; `what` could not be done, such as `written`."""
    said = " ".join(str(getattr(error, "orig", error)).split())
    reason = next((told for sign, told in _REASONS.items() if sign in said.lower()), "")
    return LedgerError(
        f"the ledger {database.told} cannot be {what}: {reason or said[:300]}"
        + (f" ({said[:200]})" if reason else "")
    )
