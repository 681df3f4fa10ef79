"""The database: sources, their passages, and what was done for idempotency keys."""
