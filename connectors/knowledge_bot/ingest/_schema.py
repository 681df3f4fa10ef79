"""The ledger's tables and their version, and checks that a database holds them."""

import contextlib

from knowledge_bot._database import Connection, Database, DatabaseError


class LedgerError(DatabaseError):
    """The ledger cannot be opened, read or written. Nothing is sent without it."""


VERSION = 4

# All names share a prefix, since a PostgreSQL database often serves other programs too. Columns
# that most rows do not need are NULL, and what all items of a run share is in a table of its own:
# with ten million items, a byte per row is ten megabytes. All times are Unix seconds.
#
# An item's row is written once for each result. No index holds what a result changes, and in
# PostgreSQL a page keeps room for the next version of its rows (`{roomy}`), so that the indexes
# are left alone ("Heap-Only Tuples"). What is being sent is in a narrow table of its own.
_TABLES = """
CREATE TABLE kbot_ledger (version INTEGER NOT NULL);
INSERT INTO kbot_ledger (version) VALUES ({version});
CREATE TABLE kbot_scopes (        -- within which a key is unique
    number {identity},
    service TEXT NOT NULL,
    collections TEXT NOT NULL,    -- sorted, with commas
    UNIQUE (service, collections)
);
CREATE TABLE kbot_origins (       -- read as a whole, such as a folder
    number {identity},
    scope INTEGER NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (scope, name)
);
CREATE TABLE kbot_runs (          -- the live runs, and their leases
    run BIGINT PRIMARY KEY,
    scope INTEGER NOT NULL,
    machine TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    lease_until DOUBLE PRECISION NOT NULL
);
CREATE TABLE kbot_items (         -- what became of each item
    number {identity},
    id {bytes} NOT NULL UNIQUE,   -- a hash of service, collections and key
    scope INTEGER NOT NULL,
    origin INTEGER,
    key TEXT NOT NULL,
    name TEXT,                    -- NULL: the same as the key
    kind TEXT NOT NULL,
    location TEXT,                -- of a page or a file; NULL: the same as the key
    state TEXT NOT NULL,          -- created, refused or unknown
    digest {bytes},               -- of the content that the service has
    pending {bytes},              -- of the content sent last, unless state is created
    version TEXT,                 -- changes with the content, and is cheaper than digest
    source_id TEXT,               -- the source created last ...
    source_name TEXT,             -- ... and its name, where the item has a newer one
    source_revision TEXT,         -- ... and its revision in the service
    ready_at BIGINT,              -- ... and when the service answered from it
    idempotency_key TEXT,         -- of the attempt whose outcome is unknown
    run BIGINT NOT NULL,          -- the run that wrote the row last
    revision INTEGER NOT NULL,    -- writing compares and swaps it
    attempts INTEGER NOT NULL,
    error TEXT,
    updated_at BIGINT NOT NULL,
    gone_at BIGINT,               -- when its origin stopped yielding it ...
    gone_reason TEXT              -- ... and why
){roomy};
CREATE INDEX kbot_items_unsettled ON kbot_items (state) WHERE state <> 'created';
CREATE INDEX kbot_items_origin ON kbot_items (origin) WHERE origin IS NOT NULL;
CREATE INDEX kbot_items_gone ON kbot_items (gone_at) WHERE gone_at IS NOT NULL;
CREATE TABLE kbot_claims (        -- the requests in flight: items that are being sent
    id {bytes} PRIMARY KEY,       -- of the item, which may have no row yet
    run BIGINT NOT NULL,
    scope INTEGER NOT NULL,
    origin INTEGER,
    key TEXT NOT NULL,
    name TEXT,                    -- NULL: the same as the key
    kind TEXT NOT NULL,
    location TEXT,                -- NULL: the same as the key
    pending {bytes},              -- of the content being sent
    idempotency_key TEXT,         -- that the request carries
    claimed_at BIGINT NOT NULL
){keyed};
CREATE TABLE kbot_superseded (
    source_id TEXT PRIMARY KEY,
    source_revision TEXT,
    replaced_by TEXT,
    scope INTEGER NOT NULL,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    superseded_at BIGINT NOT NULL
);
CREATE TABLE kbot_announced (     -- up to which run results were told to somebody else
    name TEXT PRIMARY KEY,
    run BIGINT NOT NULL,
    announced_at BIGINT NOT NULL
);
CREATE TABLE kbot_pages (         -- validators for conditional requests
    id {bytes} PRIMARY KEY,       -- a hash of the address
    known {bytes} NOT NULL        -- packed by the page reader
);
CREATE TABLE kbot_rates (         -- the shared queue of runs with a rate
    service TEXT PRIMARY KEY,
    free_at DOUBLE PRECISION NOT NULL   -- the next free turn
);
"""


class LedgerDatabase(Database):
    """Where a ledger is kept."""

    noun = "ledger"
    error = LedgerError
    tables = _TABLES.replace("{version}", str(VERSION))

    def is_made(self, connection: Connection) -> bool:
        """Return whether a database holds a ledger of this version; False if it holds none yet."""
        names = connection.names()
        if "kbot_ledger" not in names:
            others = [name for name in names if "kbot_heads" not in name]
            if others and connection.sqlite:
                raise self.error(
                    f"{self.name} is not a ledger: it is a database of another program, with the "
                    f"table {others[0]!r}. Nothing was written to it; name another file"
                )
            return False
        ((version,),) = connection.rows("SELECT version FROM kbot_ledger")
        if version > VERSION:
            raise self.error(
                f"{self.name} was written by a newer knowledge-bot (ledger version {version}, "
                f"this one knows {VERSION}). Nothing was written to it; update knowledge-bot"
            )
        if version < VERSION:
            raise self.error(
                f"{self.name} is a ledger of an older design (version {version}, this one knows "
                f"{VERSION}), and cannot be used. Nothing was written to it. Name a new ledger. "
                "Everything is then sent once more, so use a new collection, or remove the old "
                "sources first"
            )
        return True

    def check_replaced(self, *, there: bool) -> None:
        """Raise LedgerError: SQLite would go on writing to a file that has lost its name."""
        raise self.error(
            f"the ledger {self.name} was {'replaced' if there else 'removed'} while it was in use. "
            "It does not know what was sent since. Restore it before the next run, or that is sent "
            "again"
        )

    def check_whole(self) -> None:
        """Check SQLite's file on disk, since an open connection may read from memory.

        Raises:
            LedgerError: the file is damaged.
        """
        if self.file is not None:
            with contextlib.closing(self.connect(reading=True)) as connection:
                ((found,),) = connection.rows("PRAGMA quick_check(1)")
            if found != "ok":
                raise self.error(
                    f"the ledger {self.name} was damaged while it was in use: {found}. Restore it "
                    "from a copy before the next run, or what it has lost is sent again"
                )
