"""Fetches web pages again, and replaces the text of those that changed."""

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection
from typing import Final, Self

from knowledge_bot_service.config.storage import StorageError
from knowledge_bot_service.readers.extract import ExtractionError
from knowledge_bot_service.readers.passages import IndexEntry
from knowledge_bot_service.readers.reading import Part, Reader, ReaderClosedError, ReaderDiedError
from knowledge_bot_service.store.database import Database, DatabaseClosedError, now
from knowledge_bot_service.store.entries import delete_entries, insert_entries
from knowledge_bot_web.errors import FetchError
from knowledge_bot_web.fetching import FetchPolicy, Validators, WebResponse, fetch

_log = logging.getLogger(__name__)

# How often it is looked which page is due, in parts of the time between two looks at a page, and in
# seconds.
_PARTS: Final = 20
_LONGEST_PAUSE: Final = 60.0

# Passages that are deleted by one statement.
_BATCH: Final = 1000

# How long stopping waits for a page that is being read, in seconds.
_STOP_PATIENCE: Final = 2.0

# Each page's time varies by up to a tenth, so that pages that were added together are not all
# fetched together again.
_DUE: Final = """
SELECT source.id AS id, public_id, name, url, etag, last_modified
FROM page JOIN source ON source.id = page.source
WHERE status = 'ready' AND kind = 'webpage' AND url IS NOT NULL
  AND checked_at + ? * (0.9 + 0.2 * (source.id * 61803 % 100000) / 100000.0) <= ?
ORDER BY checked_at LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class _Due:
    id: int
    public_id: str
    name: str
    url: str
    known: Validators


class Refetcher:
    """A thread that looks at web pages again, one after another. It is a context manager.

    The old text stays until the new one is there, and when the page cannot be read any more; the
    source's reason says so then. Only pages without request headers are looked at: such headers
    are secrets, and are forgotten with the first reading.

    Looks are so many seconds apart; None: there are none. `count` is called with `changed`,
    `unchanged` or `failed` for each.
    """

    def __init__(
        self,
        database: Database,
        seconds: float | None,
        *,
        policy: FetchPolicy,
        folder: Path,
        count: Callable[[str], None],
    ) -> None:
        self._database = database
        self._seconds = seconds
        self._policy = policy
        self._folder = folder
        self._count = count
        self._reader = Reader()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refetch", daemon=True)

    def __enter__(self) -> Self:
        if self._seconds is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._reader.close()
        if self._thread.is_alive():
            self._thread.join(_STOP_PATIENCE)

    def _run(self) -> None:
        assert self._seconds is not None  # noqa: S101 - there is no thread without
        pause = min(self._seconds / _PARTS, _LONGEST_PAUSE)
        while not self._stopping.wait(pause):
            try:
                while not self._stopping.is_set() and (due := self._next(self._seconds)):
                    self._count(self._look(due))
                self._reader.rest()
            except (DatabaseClosedError, ReaderClosedError):
                return
            except StorageError:  # logged by the database; pages are fetched when there is room
                continue
            except Exception:  # noqa: BLE001 - whatever a page sets off, the next one is looked at
                _log.exception("a page could not be fetched again; it is tried later")

    def _next(self, seconds: float) -> _Due | None:
        row = self._database.reader().execute(_DUE, (seconds * 1000, now())).fetchone()
        if row is None:
            return None
        known = Validators(row["etag"], row["last_modified"])
        return _Due(row["id"], row["public_id"], row["name"], row["url"], known)

    def _look(self, due: _Due) -> str:
        try:
            page = fetch(due.url, (), self._policy, known=due.known)
            if page.status == 304:
                self._store(due, due.known, None)
                return "unchanged"
            last, entries = self._read(due, page)
        except (FetchError, ExtractionError, ReaderDiedError) as error:
            _log.warning("page %s could not be read again: %s", due.public_id, error)
            day = datetime.now(UTC).date()
            self._store(due, due.known, f"not brought up to date on {day}: {error}")
            return "failed"
        rows = self._database.reader().execute(
            "SELECT text FROM passage WHERE source = ? ORDER BY id", (due.id,)
        )
        if [row["text"] for row in rows] == [entry.text for entry in entries]:
            self._store(due, Validators.of(page), None)
            return "unchanged"
        self._replace(due, Validators.of(page), last, entries)
        _log.info("page %s has a new text: %d passages", due.public_id, len(entries))
        return "changed"

    def _read(self, due: _Due, page: WebResponse) -> tuple[Part, list[IndexEntry]]:
        parts = list(self._reader.read_page(due.name, page, self._folder))
        return parts[-1], [entry for part in parts for entry in part.entries]

    def _store(self, due: _Due, known: Validators, reason: str | None) -> None:
        self._database.write(lambda connection: _looked(connection, due, known, reason)).result()

    def _replace(self, due: _Due, known: Validators, last: Part, entries: list[IndexEntry]) -> None:
        def replace(connection: Connection) -> None:
            # Not for a source that was deleted or replaced in the meantime.
            if not _looked(connection, due, known, None):
                return
            rows = connection.execute(
                "SELECT collection FROM source_collection WHERE source = ?", (due.id,)
            )
            collections = [row["collection"] for row in rows]
            while delete_entries(connection, due.id, _BATCH):
                continue
            insert_entries(connection, due.id, collections, entries)
            connection.execute(
                "UPDATE source SET title = ?, warnings = ?, ready_at = ? WHERE id = ?",
                (last.title, json.dumps(last.warnings), now(), due.id),
            )

        # One transaction: a question sees the old text or the new one. A page has 5 MB at most.
        self._database.write(replace, background=len(entries)).result()


def _looked(connection: Connection, due: _Due, known: Validators, reason: str | None) -> bool:
    """Record that a page was fetched; False if it belongs to another source by now."""
    found = connection.execute(
        "UPDATE source SET reason = ? WHERE id = ? AND url = ? AND status = 'ready' RETURNING id",
        (reason, due.id, due.url),
    ).fetchone()
    connection.execute(
        "UPDATE page SET checked_at = ?, etag = ?, last_modified = ? WHERE source = ?",
        (now(), known.etag, known.last_modified, due.id),
    )
    return found is not None
