"""The tables of the database."""

import sqlite3
from typing import Final

from knowledge_bot_service.config.folder import FolderError

VERSION: Final = 8
"""The version of the tables, and of the analysis of what is in them (`PRAGMA user_version`).

Terms are stored as the analyser made them, so that a change of the analyser is a new version too.
"""

_TABLES: Final = """
CREATE TABLE collection (
    id INTEGER PRIMARY KEY,
    public_id TEXT NOT NULL UNIQUE
) STRICT;
-- A row is a revision of a source. One with `replaces` is the new text of another row, until it is
-- ready and takes its place, or for as long as it has failed. `place` is that of the source in
-- lists, the same for all its revisions. `title` is the document's own and `url` the web page's.
-- Either may be unknown. `made_of` is a digest of what was sent, and what that was. `warnings` is
-- JSON. `reader` is the version of the readers that it failed in. No id is used again
-- (AUTOINCREMENT): passages of a source that is gone may still be there.
CREATE TABLE source (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    public_id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('webpage', 'text', 'file')),
    status TEXT NOT NULL CHECK (status IN ('pending', 'processing', 'ready', 'failed')),
    reason TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    title TEXT,
    url TEXT,
    replaces INTEGER UNIQUE REFERENCES source,
    revision TEXT NOT NULL DEFAULT '',
    place INTEGER NOT NULL DEFAULT 0,
    ready_at INTEGER,
    made_of TEXT,
    warnings TEXT NOT NULL DEFAULT '[]',
    reader INTEGER
) STRICT;
CREATE INDEX source_unfinished
    ON source (status, id) WHERE status IN ('pending', 'processing');
-- To count them, which would read every row, names and all.
CREATE INDEX source_status ON source (status);
CREATE INDEX source_place ON source (place);
CREATE INDEX source_made_of ON source (made_of);
CREATE TABLE source_collection (
    source INTEGER NOT NULL REFERENCES source,
    collection INTEGER NOT NULL REFERENCES collection,
    PRIMARY KEY (source, collection)
) STRICT, WITHOUT ROWID;
-- `note` is what the last completion left for the next run.
CREATE TABLE origin (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    completed_at INTEGER,
    note TEXT
) STRICT;
-- What an origin holds: for each key the place of a source. `mark` is of the key and the version,
-- as a signed number. `told` is the reason of a failure that somebody was told, and `waits` whether
-- the last run that looked for the key missed it.
CREATE TABLE entry (
    origin INTEGER NOT NULL REFERENCES origin,
    key TEXT NOT NULL,
    version TEXT,
    digest TEXT NOT NULL,
    place INTEGER NOT NULL UNIQUE,
    bucket INTEGER NOT NULL,
    mark INTEGER NOT NULL,
    told TEXT,
    waits INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (origin, key)
) STRICT, WITHOUT ROWID;
-- All that the sums of an origin are made of, and what tells whether a key sees the sources.
CREATE INDEX entry_bucket ON entry (origin, bucket, mark, place);
-- What runs have missed that are not at their end.
CREATE TABLE missing (
    origin INTEGER NOT NULL REFERENCES origin,
    run TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    sure INTEGER NOT NULL,
    told_at INTEGER NOT NULL,
    PRIMARY KEY (origin, run, key)
) STRICT, WITHOUT ROWID;
-- What is left to do for a source, until it is ready or failed. `material` is JSON.
CREATE TABLE job (
    source INTEGER PRIMARY KEY REFERENCES source,
    material TEXT NOT NULL
) STRICT;
-- Sources that are deleted or replaced, until their file and all their passages are removed.
CREATE TABLE removal (
    source INTEGER PRIMARY KEY,
    file TEXT
) STRICT;
-- `blocks` is JSON: what the text is made of. `vectors` are those of its parts.
CREATE TABLE passage (
    id INTEGER PRIMARY KEY,
    source INTEGER NOT NULL REFERENCES source,
    text TEXT NOT NULL,
    blocks TEXT NOT NULL DEFAULT '[]',
    vectors BLOB NOT NULL DEFAULT x''
) STRICT;
CREATE INDEX passage_source ON passage (source);
-- How many passages were ever added and removed: counting them takes milliseconds.
CREATE TABLE passage_count (
    added INTEGER NOT NULL,
    removed INTEGER NOT NULL
) STRICT;
INSERT INTO passage_count VALUES (0, 0);
-- Analysed text. The categories make marks part of a word, as many scripts need it.
CREATE VIRTUAL TABLE passage_index USING fts5 (
    scope, title, body,
    tokenize = "unicode61 remove_diacritics 0 categories 'L* N* Co Mn Mc'"
);
CREATE VIRTUAL TABLE passage_term USING fts5vocab (passage_index, 'row');
CREATE TABLE conversation (
    id INTEGER PRIMARY KEY,
    public_id TEXT NOT NULL UNIQUE,
    bot TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX conversation_bot ON conversation (bot, id);
-- `sources` are those that the answer names, as JSON.
CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    public_id TEXT NOT NULL UNIQUE,
    conversation INTEGER NOT NULL REFERENCES conversation,
    question TEXT NOT NULL,
    answer TEXT NOT NULL,
    sources TEXT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX message_conversation ON message (conversation, id);
-- What was done for requests with an idempotency key: the id of what was created, and the answer.
CREATE TABLE idempotency_key (
    key TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    created TEXT NOT NULL,
    answer TEXT NOT NULL,
    forgotten_at INTEGER NOT NULL
) STRICT;
CREATE INDEX idempotency_key_forgotten_at ON idempotency_key (forgotten_at);
"""


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty database, in one transaction.

    The connection is in autocommit mode; nobody else uses the database.

    Raises:
        FolderError: the database is another program's, or of another version.
        sqlite3.Error: the file cannot be read or written, or is no database.
    """
    if check_version(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Not executescript, which would commit first. No statement has a semicolon inside.
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def check_version(connection: sqlite3.Connection) -> int:
    """Return the version of a database's tables; 0 where there are none. Nothing is changed.

    Raises:
        FolderError: the database is another program's, or of another version.
    """
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    is_empty = connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
    if is_empty:
        return 0
    if version != VERSION:
        raise FolderError(
            f"the database is of version {version}, and this release of knowledge-bot has version "
            f"{VERSION}; 0 is another program's. Nothing was changed. Take the release that made "
            "it, or another data folder, and feed that again."
        )
    return version
