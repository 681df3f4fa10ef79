"""The ledger: what was sent under which key, kept in SQLite or PostgreSQL.

A row says `claimed` on disk before its request leaves, and what came of it afterwards. A claim is
taken by comparing and swapping the row's version, so two workers never send the same item; a claim
whose owner died becomes `unknown`.
"""

from knowledge_bot.ingest.ledger.entries import Entry, LedgerError, State, SupersededSource
from knowledge_bot.ingest.ledger.ledger import Ledger

__all__ = ["Entry", "Ledger", "LedgerError", "State", "SupersededSource"]
