"""The work on accepted sources: read what they are made from, cut it, index it, make them ready."""

import contextlib
import itertools
import logging
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from knowledge_bot.models import Header
from knowledge_bot_service.database import Database, DatabaseClosedError
from knowledge_bot_service.documents.markdown import read_markdown
from knowledge_bot_service.documents.text import tidy
from knowledge_bot_service.extract import Document, ExtractionError, extract
from knowledge_bot_service.fetch import FetchError, FetchPolicy, fetch
from knowledge_bot_service.passages import passages
from knowledge_bot_service.search import (
    IndexEntry,
    delete_entries,
    index_entries,
    insert_entries,
)
from knowledge_bot_service.storage import StorageError, storage_error
from knowledge_bot_service.store import Job, Kind, Store, finish_ready
from knowledge_bot_service.uploads import read_headers

T = TypeVar("T")

_log = logging.getLogger(__name__)

# Passages in one transaction, of which a client waits for one at most. Measured with a text of
# 50 MB: 100 keep the 99th percentile of accepting a source at 105 ms; 500 made it 1,100 ms.
_BATCH: Final = 100

_HEADING: Final = re.compile(r"^#{1,6} \S", re.MULTILINE)

# How long stopping waits for what is being worked on, in seconds; it is taken up at the next start.
_STOP_PATIENCE: Final = 2.0

# How long a worker waits when the database takes nothing, in seconds.
_PAUSE: Final = 1.0


class Workers:
    """Threads that process pending sources, oldest first.

    Args:
        database: where passages are written.
        store: where sources are claimed and finished.
        folder: where uploads and long texts are, and a fetched page while it is read.
        policy: what may be fetched.
        count: how many sources are worked on at the same time.
        on_done: called, in a worker's thread, with a source's public id when it is ready or failed.
    """

    def __init__(
        self,
        database: Database,
        store: Store,
        *,
        folder: Path,
        policy: FetchPolicy,
        count: int,
        on_done: Callable[[str], None],
    ) -> None:
        self._database = database
        self._store = store
        self._folder = folder
        self._policy = policy
        self._on_done = on_done
        self._work = threading.Semaphore(0)
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"worker-{number}", daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def notify(self, count: int = 1) -> None:
        """Say that `count` more sources are pending."""
        if count:
            self._work.release(count)

    def stop(self) -> None:
        """Let the threads end. What they cannot finish soon becomes pending again, unharmed."""
        self._stopping.set()
        self._work.release(len(self._threads))
        deadline = time.monotonic() + _STOP_PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        # On a full disk nothing can be written; the next start does it.
        with contextlib.suppress(StorageError):
            self._store.release_claims()

    def _run(self) -> None:
        while True:
            self._work.acquire()
            if self._stopping.is_set():
                return
            try:
                if job := self._when_stored(self._store.claim):
                    self._when_stored(partial(self._process, job))
            except (_StoppingError, DatabaseClosedError):
                return
            except Exception:  # noqa: BLE001 - whatever it is, the thread must live on
                _log.exception(
                    "a worker could not claim a source, or record what became of one: what is "
                    "pending is tried again in %g s, what is processing at the next start",
                    _PAUSE,
                )
                self._stopping.wait(_PAUSE)
                self.notify()

    def _when_stored(self, work: Callable[[], T]) -> T:
        """Do what stores something, again and again while the disk is full."""
        while True:
            try:
                return work()
            except Exception as error:
                if storage_error(error) is None:
                    raise
            if self._stopping.wait(_PAUSE):
                raise _StoppingError

    def _process(self, job: Job) -> None:
        try:
            self._index(job, self._read(job))
        except (FetchError, ExtractionError) as error:
            self._store.fail(job.source, str(error))
        except (_StoppingError, DatabaseClosedError):
            return
        except Exception as error:
            # Whatever a document sets off, the next one is processed.
            if storage_error(error) is not None:
                raise
            _log.exception("source %s: processing broke off", job.public_id)
            if self._store.requeue(job.source) == "pending":
                self.notify()
                return
        # The row is final, so that a file which stays behind here is removed at the next start.
        if job.material.file is not None:
            (self._folder / job.material.file).unlink(missing_ok=True)
        self._on_done(job.public_id)

    def _read(self, job: Job) -> Document:
        material = job.material
        match job.kind:
            case Kind.WEBPAGE:
                return self._read_page(job)
            case Kind.FILE:
                return extract(
                    self._folder / _present(material.file),
                    filename=material.filename or "",
                    content_type=material.content_type,
                )
            case Kind.TEXT if material.file is not None:
                return _read_text((self._folder / material.file).read_text(encoding="utf-8"))
            case Kind.TEXT:
                return _read_text(_present(material.content))

    def _read_page(self, job: Job) -> Document:
        headers = [Header(name=name, value=value) for name, value in job.material.headers]
        if job.material.file is not None:
            headers += read_headers(self._folder / job.material.file)
        page = fetch(_present(job.material.url), headers, self._policy)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            path = Path(folder, "page")
            path.write_bytes(page.body)
            return extract(
                path,
                filename=unquote(urlsplit(page.url).path.rpartition("/")[2]),
                content_type=page.content_type,
            )

    def _index(self, job: Job, document: Document) -> None:
        title = f"{job.name}\n{document.title}" if document.title else job.name
        batches = _batched(index_entries(passages(document.text), title))
        batch = next(batches, None)
        if batch is None:
            raise ExtractionError("there is no text in it")
        # An earlier attempt may have left passages.
        while self._write(lambda c: delete_entries(c, job.source, _BATCH)) == _BATCH:
            continue
        while batch is not None:
            following = next(batches, None)
            self._write_batch(job, batch, last=following is None)
            batch = following

    def _write_batch(self, job: Job, batch: list[IndexEntry], *, last: bool) -> None:
        def insert(connection: Connection) -> int:
            insert_entries(connection, job.source, job.collections, batch)
            if last:
                finish_ready(connection, job.source)
            return len(batch)

        self._write(insert)

    def _write(self, operation: Callable[[Connection], int]) -> int:
        if self._stopping.is_set():
            raise _StoppingError
        return self._database.write(operation, background=True).result()


class _StoppingError(Exception):
    """The service stops; the source stays claimed, and is pending at the next start."""


def _read_text(content: str) -> Document:
    # A text with headings was written as Markdown. In any other, marks may be meant as they stand.
    content = tidy(content)
    return read_markdown(content) if _HEADING.search(content) else Document(content)


def _present(value: str | None) -> str:
    if value is None:
        raise ExtractionError("the service no longer has what it is made from")
    return value


def _batched(entries: Iterator[IndexEntry]) -> Iterator[list[IndexEntry]]:
    while batch := list(itertools.islice(entries, _BATCH)):
        yield batch
