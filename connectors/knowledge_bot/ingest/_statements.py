"""The ledger's tables, and every statement that is made of them, by name.

They are written once for SQLite and PostgreSQL: `?` stands for a value, `{rows}` for the rows of an
INSERT, `{ids}` for some of many ids, and the other names in braces for what the two spell
differently (`_database`).
"""

from typing import NamedTuple

VERSION = 4
"""Of the tables. A ledger with tables of another version cannot be used."""

# All names share a prefix, since a PostgreSQL database often serves other programs too. RowColumns
# that most rows do not need are NULL, and what many items share is in tables of its own: with ten
# million items, a byte per row is ten megabytes. All times are Unix seconds.
#
# In PostgreSQL a page keeps room for the next version of its rows (`{roomy}`).
TABLES = f"""
CREATE TABLE kbot_ledger (version INTEGER NOT NULL);
INSERT INTO kbot_ledger (version) VALUES ({VERSION});
CREATE TABLE kbot_origins (       -- within which a key is unique
    number {{identity}},
    service TEXT NOT NULL,
    name TEXT NOT NULL,
    note TEXT,                    -- what is remembered of the origin as a whole
    UNIQUE (service, name)
);
CREATE TABLE kbot_collections (   -- the sets of collections that items go to
    number {{identity}},
    ids TEXT NOT NULL UNIQUE      -- sorted, with commas
);
CREATE TABLE kbot_runs (          -- the live runs, and their leases
    run BIGINT PRIMARY KEY,
    machine TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    lease_until DOUBLE PRECISION NOT NULL
);
CREATE TABLE kbot_items (         -- what became of each item
    number {{identity}},
    id {{bytes}} NOT NULL UNIQUE, -- a hash of service, origin and key
    origin INTEGER NOT NULL,
    collections INTEGER NOT NULL,
    key TEXT NOT NULL,
    name TEXT,                    -- NULL: the same as the key
    kind TEXT NOT NULL,
    location TEXT,                -- of a page or a file; NULL: the same as the key
    state TEXT NOT NULL           -- claimed: its request is in flight
        CHECK (state IN ('claimed', 'created', 'refused', 'unknown')),
    digest {{bytes}},             -- of the content that the service has
    pending {{bytes}},            -- of the content sent last, unless state is created
    version TEXT,                 -- changes with the content, and is cheaper than digest
    source_id TEXT,               -- the source created last ...
    source_name TEXT,             -- ... and its name, where the item has a newer one
    idempotency_key TEXT,         -- that the request in flight carries, or the unknown one did
    run BIGINT NOT NULL,          -- the run that wrote the row last
    generation INTEGER NOT NULL,  -- writing compares and swaps it
    attempts INTEGER NOT NULL,
    error TEXT,
    updated_at BIGINT NOT NULL,
    gone_at BIGINT,               -- when its origin stopped yielding it ...
    gone_reason TEXT              -- ... and why
){{roomy}};
CREATE INDEX kbot_items_unsettled ON kbot_items (state) WHERE state <> 'created';
CREATE INDEX kbot_items_origin ON kbot_items (origin);
CREATE INDEX kbot_items_gone ON kbot_items (gone_at) WHERE gone_at IS NOT NULL;
CREATE TABLE kbot_superseded (
    source_id TEXT PRIMARY KEY,
    replaced_by TEXT,
    origin INTEGER NOT NULL,
    collections INTEGER NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    superseded_at BIGINT NOT NULL
);
CREATE TABLE kbot_notes (         -- what whoever runs ingestions has to remember between them
    name TEXT PRIMARY KEY,
    note TEXT NOT NULL            -- JSON
);
"""

ALWAYS_THERE = {
    "kbot_items", "kbot_origins", "kbot_collections", "kbot_runs", "kbot_superseded"
}  # fmt: skip

EXPORTED = ("origins", "collections", "items", "superseded", "notes")
"""The tables that tell which items were sent, and what dead runs were sending."""

DIED = "the worker that sent it died before it recorded the outcome"


class RowColumns(NamedTuple):
    """The columns of `kbot_items`, in their order in a row that is read."""

    id: bytes
    origin: int
    collections: int
    key: str
    name: str | None
    kind: str
    location: str | None
    state: str
    digest: bytes | None
    pending: bytes | None
    version: str | None
    source_id: str | None
    source_name: str | None
    idempotency_key: str | None
    run: int
    generation: int
    attempts: int
    error: str | None
    updated_at: int
    gone_at: int | None
    gone_reason: str | None
    number: int = 0  # the database gives it; never written


COLUMNS = ", ".join(RowColumns._fields)
_WRITTEN = RowColumns._fields[:-1]

# Items --------------------------------------------------------------------------------------------

ITEMS = f"SELECT {COLUMNS} FROM kbot_items WHERE {{condition}}"

WRITE = f"""
INSERT INTO kbot_items ({", ".join(_WRITTEN)})
VALUES {{rows}}
ON CONFLICT (id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _WRITTEN[1:])}
WHERE kbot_items.generation = excluded.generation - 1    -- unchanged since it was read, or ...
   OR (kbot_items.run = excluded.run                     -- ... the outcome of this run's claim,
       AND kbot_items.state IN ('claimed', 'unknown'))   -- even if it was taken for dead
"""
THERE = "SELECT id FROM kbot_items WHERE id {ids}"

# An item that is found under another key keeps its row, unless that was written meanwhile.
MOVE = f"""
UPDATE kbot_items SET {", ".join(f"{name} = ?" for name in _WRITTEN)}
WHERE number = ? AND state = 'created' AND digest = ?
  AND NOT EXISTS (SELECT 1 FROM kbot_items AS other WHERE other.id = ?)
"""
FORGET = """
DELETE FROM kbot_items WHERE id = ? AND coalesce(source_id, '') = ? AND state <> 'claimed'
"""

# What the run of an origin begins with: all that the service has of it.
KNOWN = """
SELECT key, number, version, digest,
    state = 'created' AND collections = ? AND gone_at IS NULL, gone_at IS NOT NULL
FROM kbot_items WHERE origin = ? AND digest IS NOT NULL ORDER BY number
"""
VERSION_OF = "SELECT version FROM kbot_items WHERE id = ?"

# Claims and runs ----------------------------------------------------------------------------------

_CLAIMED = "state <> 'created' AND state = 'claimed'"  # by the index
RELEASE = f"DELETE FROM kbot_items WHERE id {{ids}} AND run = ? AND {_CLAIMED}"
CLAIMING_RUNS = f"SELECT DISTINCT run FROM kbot_items WHERE {_CLAIMED}"
EXPIRE = f"UPDATE kbot_items SET state = 'unknown', error = '{DIED}' WHERE run = ? AND {_CLAIMED}"

RUNS = "SELECT run, machine, host, pid, started, lease_until FROM kbot_runs"
RENEW = """
INSERT INTO kbot_runs (run, machine, host, pid, started, lease_until)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run) DO UPDATE SET lease_until = excluded.lease_until
"""
END_RUN = "DELETE FROM kbot_runs WHERE run = ?"
# What killed runs left behind and nothing needs.
FORGET_RUNS = f"DELETE FROM kbot_runs WHERE lease_until < ? AND run NOT IN ({CLAIMING_RUNS})"

# What is gone, and what was superseded ------------------------------------------------------------

MARK_GONE = """
UPDATE kbot_items SET gone_at = {at}, gone_reason = {reason}, generation = generation + 1
WHERE number {ids} AND state <> 'claimed'
"""

SUPERSEDE = """
INSERT INTO kbot_superseded
    (source_id, replaced_by, origin, collections, key, name, superseded_at)
VALUES {rows} ON CONFLICT DO NOTHING
"""
SUPERSEDED = """
SELECT source_id, replaced_by, service, kbot_origins.name, ids, key, kbot_superseded.name,
    superseded_at
FROM kbot_superseded JOIN kbot_origins ON kbot_origins.number = origin
    JOIN kbot_collections ON kbot_collections.number = collections
ORDER BY superseded_at, source_id
"""
FORGET_SUPERSEDED = "DELETE FROM kbot_superseded WHERE source_id = ?"
FORGET_SUPERSEDED_OF = """
DELETE FROM kbot_superseded WHERE (origin, key) IN
    (SELECT origin, key FROM kbot_items WHERE id = ?)
"""

# Origins, collections, notes ----------------------------------------------------------------------

ORIGIN = "SELECT number FROM kbot_origins WHERE service = ? AND name = ?"
ADD_ORIGIN = "INSERT INTO kbot_origins (service, name) VALUES (?, ?) ON CONFLICT DO NOTHING"
SET = "SELECT number FROM kbot_collections WHERE ids = ?"
ADD_SET = "INSERT INTO kbot_collections (ids) VALUES (?) ON CONFLICT DO NOTHING"
ORIGIN_NOTE = "SELECT note FROM kbot_origins WHERE number = ?"
SET_ORIGIN_NOTE = "UPDATE kbot_origins SET note = ? WHERE number = ?"
ORIGINS = "SELECT number, service, name FROM kbot_origins"
SETS = "SELECT number, ids FROM kbot_collections"

NOTE = "SELECT note FROM kbot_notes WHERE name = ?"
DELETE_NOTE = "DELETE FROM kbot_notes WHERE name = ?"
ADD_NOTE = "INSERT INTO kbot_notes VALUES (?, ?)"

STATES = """
SELECT service, ids, state, CASE WHEN state = 'claimed' THEN run END, count(*), count(gone_at)
FROM kbot_items JOIN kbot_origins ON kbot_origins.number = origin
    JOIN kbot_collections ON kbot_collections.number = collections
GROUP BY 1, 2, 3, 4
"""

# In PostgreSQL nobody else may do the same meanwhile; SQLite has one writer anyway.
LOCK_RUNS = "LOCK TABLE kbot_runs IN SHARE ROW EXCLUSIVE MODE"
LOCK_ITEMS = "LOCK TABLE kbot_items IN SHARE ROW EXCLUSIVE MODE"
LOCK_NOTES = "LOCK TABLE kbot_notes IN SHARE ROW EXCLUSIVE MODE"
SET_NUMBERS = """
SELECT setval(pg_get_serial_sequence('{table}', 'number'), coalesce(max(number), 0) + 1, false)
FROM {table}
"""
