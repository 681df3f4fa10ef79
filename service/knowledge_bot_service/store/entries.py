"""The passages of sources and their rows in the index: written, removed, merged."""

import sqlite3
from collections.abc import Iterable, Sequence

from knowledge_bot_service.readers.passages import IndexEntry


def insert_entries(
    connection: sqlite3.Connection,
    source: int,
    collections: Sequence[int],
    entries: Iterable[IndexEntry],
) -> None:
    """Write passages of a source and their index rows, in the caller's transaction."""
    scope = _scope(collections)
    added = 0
    for added, entry in enumerate(entries, start=1):  # noqa: B007 - counted, and used below
        passage = connection.execute(
            "INSERT INTO passage (source, text, blocks, vectors) VALUES (?, ?, ?, ?)",
            (source, entry.text, entry.blocks, entry.vectors),
        ).lastrowid
        connection.execute(
            "INSERT INTO passage_index (rowid, scope, title, body) VALUES (?, ?, ?, ?)",
            (passage, scope, entry.title, entry.body),
        )
    connection.execute("UPDATE passage_count SET added = added + ?", (added,))


def delete_entries(connection: sqlite3.Connection, source: int, limit: int) -> int:
    """Delete up to `limit` passages of a source, in the caller's transaction; returns how many."""
    rows = connection.execute(
        "DELETE FROM passage WHERE id IN (SELECT id FROM passage WHERE source = ? LIMIT ?)"
        " RETURNING id",
        (source, limit),
    ).fetchall()
    connection.executemany(
        "DELETE FROM passage_index WHERE rowid = ?", [(row["id"],) for row in rows]
    )
    connection.execute("UPDATE passage_count SET removed = removed + ?", (len(rows),))
    return len(rows)


def move_entries(connection: sqlite3.Connection, source: int, collections: Iterable[int]) -> None:
    """Let the passages of a source be found in other collections, in the caller's transaction."""
    moved = connection.execute(
        "UPDATE passage_index SET scope = ?"
        " WHERE rowid IN (SELECT id FROM passage WHERE source = ?)",
        (_scope(collections), source),
    ).rowcount
    # What is remembered of collections is of so many passages added and removed.
    connection.execute(
        "UPDATE passage_count SET added = added + :moved, removed = removed + :moved",
        {"moved": moved},
    )


def merge_index(connection: sqlite3.Connection, pages: int, *, begin: bool) -> bool:
    """Merge a part of the index, in the caller's transaction; returns whether there is more to do.

    The index only notes that an entry is deleted: its words go with the part that held them, when
    that is merged with the later ones.

    `pages` of the database, or fewer, are merged. With `begin` all parts are to be merged from now
    on; otherwise what was begun goes on.
    """
    before = connection.total_changes
    connection.execute(
        "INSERT INTO passage_index (passage_index, rank) VALUES ('merge', ?)",
        (-pages if begin else pages,),
    )
    # A change of one row is the note that nothing was left to do.
    return connection.total_changes - before > 1


def _scope(collections: Iterable[int]) -> str:
    return " ".join(map(scope_token, collections))


def scope_token(collection: int) -> str:
    """What the index has of a passage whose source is in a collection."""
    # Letters and digits alone stay one token; public ids have underscores and mixed case.
    return f"collection{collection}"
