"""The tables of the database, and the migrations from older versions."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from knowledge_bot_service.config.folder import FolderError
from knowledge_bot_service.readers.analyzer.blocks import dumped, loaded
from knowledge_bot_service.readers.documents.markdown import read_text
from knowledge_bot_service.readers.statements import indexed

VERSION: Final = 5
"""The version of the tables, and of the analysis of what is in them (`PRAGMA user_version`).

Terms are stored as the analyser made them, so that a change of the analyser is a new version too.
"""

# "kbot" in ASCII: what `file` and other programs know the database by.
_APPLICATION: Final = 0x6B626F74

_TABLES: Final = """
CREATE TABLE collection (
    id INTEGER PRIMARY KEY,
    public_id TEXT NOT NULL UNIQUE
) STRICT;
-- A row is a revision of a source. One with `replaces` is the new text of another row, until it is
-- ready and takes its place, or for as long as it has failed. `parent` is the revision that was the
-- newest when it came, and `fingerprint` that of the request that brought it. `place` is that of
-- the source in lists, the same for all its revisions. `title` is the document's own and `url` the
-- web page's. Either may be unknown. `warnings` is JSON. No id is used again (AUTOINCREMENT):
-- passages of a source that is gone may still be there.
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
    parent TEXT,
    fingerprint TEXT,
    place INTEGER NOT NULL DEFAULT 0,
    ready_at INTEGER,
    warnings TEXT NOT NULL DEFAULT '[]'
) STRICT;
CREATE INDEX source_unfinished
    ON source (status, id) WHERE status IN ('pending', 'processing');
-- To count them, which would read every row, names and all.
CREATE INDEX source_status ON source (status);
CREATE INDEX source_place ON source (place);
CREATE TABLE source_collection (
    source INTEGER NOT NULL REFERENCES source,
    collection INTEGER NOT NULL REFERENCES collection,
    PRIMARY KEY (source, collection)
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
-- A web page that was fetched without headers of its own: when it was looked at, and what the
-- server sent for conditional requests.
CREATE TABLE page (
    source INTEGER PRIMARY KEY REFERENCES source,
    checked_at INTEGER NOT NULL,
    etag TEXT,
    last_modified TEXT
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
-- `sources` are those that the answer names, as JSON. Those of older messages are unknown.
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

_log = logging.getLogger(__name__)


def prepare(connection: sqlite3.Connection) -> None:
    """Make the tables in an empty database, or bring an older one's to the present version.

    All steps are one transaction: a process that dies in the middle leaves the older version. A
    copy of that is kept beside the database, for who wants to go back to the older release. The
    connection is in autocommit mode; nobody else uses the database.

    Raises:
        FolderError: the database is another program's, or of a later version.
        sqlite3.Error: the file cannot be read or written, or is no database.
    """
    version = check_version(connection)
    if version == VERSION:
        return
    if version:
        _keep_copy(connection, version)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if version == 0:
            _run(connection, _TABLES)
        else:
            _log.warning(
                "the database is of version %d: bringing it to version %d", version, VERSION
            )
            _upgrade(connection, version)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _keep_copy(connection: sqlite3.Connection, version: int) -> None:
    file = Path(connection.execute("PRAGMA database_list").fetchone()[2])
    kept = file.with_name(f"{file.name}.version-{version}")
    # It gets its name when it is complete: an upgrade that was killed may have left a part.
    part = kept.with_name(f"{kept.name}.part")
    part.unlink(missing_ok=True)
    try:
        copy_database(connection, part)
        part.replace(kept)
    finally:
        part.unlink(missing_ok=True)
    _log.warning(
        "the database is of version %d, this program's is %d; before anything is changed, a copy "
        "was kept as %s",
        version,
        VERSION,
        kept,
    )


def copy_database(connection: sqlite3.Connection, file: Path) -> None:
    """Write all that a connection sees into one new file, which its owner alone may read.

    Raises:
        sqlite3.Error: the database cannot be read, or the copy not be written.
    """
    file.touch(mode=0o600)
    with closing(sqlite3.connect(file)) as copy:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")


def check_version(connection: sqlite3.Connection) -> int:
    """Return the version of a database's tables; 0 where there are none. Nothing is changed.

    Raises:
        FolderError: the database is another program's, or of a later version.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if application != _APPLICATION and tables:
        # The first version set neither number.
        if application or version or not {"source", "passage_index", "conversation"} <= tables:
            raise FolderError("the file is a database of another program. Nothing was changed.")
        return 1
    if version > VERSION:
        raise FolderError(
            f"the database is of version {version}, and this program knows versions up to "
            f"{VERSION}: a later release of knowledge-bot made it. Install that release, or "
            "restore a backup of before. Nothing was changed."
        )
    return version


def _upgrade(connection: sqlite3.Connection, version: int) -> None:
    """Give older tables what the present ones have, and what is in them a present form.

    Passages are analysed again. Titles stay as they were analysed: the documents' own were not
    kept.
    """
    with closing(sqlite3.connect(":memory:")) as present:
        present.executescript(_TABLES)
        if version == 1:
            (source, *_) = present.execute(f"{_SCHEMA} WHERE name = 'source'").fetchone()
            _run(connection, _FROM_1.format(newer=source.replace("source", "newer", 1)))
        there = {name: sql for sql, name, _ in connection.execute(_SCHEMA)}
        for sql, name, kind in present.execute(
            f"{_SCHEMA} WHERE sql IS NOT NULL ORDER BY type DESC"
        ):
            if kind == "table" and name in there:
                _add_columns(connection, name, present)
            elif there.get(name) != sql:
                connection.execute(f"DROP INDEX IF EXISTS {name}")
                connection.execute(sql)
    if version == 1:
        _run(connection, _FILLED_FROM_1)
    if version < 3:
        since = "replaced_at" if version == 2 else "NULL"
        _run(connection, _FILLED_FROM_2.format(since=since))
    if version == 2:
        connection.execute("ALTER TABLE source DROP COLUMN replaced_at")
    for number, text, blocks in connection.execute("SELECT id, text, blocks FROM passage"):
        read = dumped(read_text(text)) if version < 4 else blocks
        body, vectors = indexed(loaded(read))
        connection.execute(
            "UPDATE passage SET blocks = ?, vectors = ? WHERE id = ?", (read, vectors, number)
        )
        connection.execute("UPDATE passage_index SET body = ? WHERE rowid = ?", (body, number))


def _add_columns(connection: sqlite3.Connection, table: str, present: sqlite3.Connection) -> None:
    there = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    for _, name, kind, is_needed, default, _ in present.execute(f"PRAGMA table_info({table})"):
        if name not in there:
            more = f"NOT NULL DEFAULT {default}" if is_needed else ""
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind} {more}")


_SCHEMA: Final = "SELECT sql, name, type FROM sqlite_master"

# A column that is unique, and numbers that are not given twice, cannot be added to a table.
_FROM_1: Final = """
    {newer};
    INSERT INTO newer (id, public_id, name, kind, status, reason, attempts, created_at)
        SELECT id, public_id, name, kind, status, reason, attempts, created_at FROM source;
    DROP TABLE source;
    ALTER TABLE newer RENAME TO source
"""

# The addresses of pages that are done were not kept. Of the others, the work on them has it.
_FILLED_FROM_1: Final = """
    INSERT INTO passage_count SELECT count(*), 0 FROM passage;
    INSERT INTO page (source, checked_at) SELECT source, created_at FROM job
        JOIN source ON source.id = job.source
        WHERE kind = 'webpage' AND json_array_length(material, '$.headers') = 0;
    UPDATE source SET url =
        (SELECT json_extract(material, '$.url') FROM job WHERE job.source = source.id)
"""

_FILLED_FROM_2: Final = """
    UPDATE source SET revision = 'rev_' || lower(hex(randomblob(12))),
        place = coalesce(replaces, id);
    UPDATE source SET ready_at = coalesce({since}, created_at) WHERE status = 'ready'
"""


def _run(connection: sqlite3.Connection, script: str) -> None:
    # Not executescript, which would commit first. No statement or comment has a semicolon inside.
    for statement in script.split(";"):
        connection.execute(statement)
