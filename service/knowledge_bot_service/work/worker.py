"""The work on accepted sources: have them read, write what was read, make them ready."""

import contextlib
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from pathlib import Path
from sqlite3 import Connection
from typing import Final

from knowledge_bot_service.config.refusals import StorageError, storage_error
from knowledge_bot_service.readers.extract import ExtractionError
from knowledge_bot_service.readers.reading import (
    DocumentReader,
    Part,
    ReaderClosedError,
    ReaderDiedError,
    ReadingLimits,
    ReadingRequest,
    TooSlowError,
)
from knowledge_bot_service.store.database import DatabaseClosedError, ServiceDatabase
from knowledge_bot_service.store.entries import delete_entries, insert_entries
from knowledge_bot_service.store.material import read_headers
from knowledge_bot_service.store.sources import (
    Kind,
    ReadingJob,
    claim,
    collections_of,
    find_job,
    finish,
    is_wanted,
    release_claims,
    requeue,
)
from knowledge_bot_web.errors import FetchError
from knowledge_bot_web.fetching import FetchPolicy, fetch

_log = logging.getLogger(__name__)

SMALL: Final = 256 * 1024
"""A text or file up to this size, in bytes or characters, is read before what is longer."""

# What a small source may take. One that takes longer is read again among the long ones.
_SMALL_LIMITS: Final = ReadingLimits(seconds=3.0, seconds_in_all=3.0)

# Sources whose length has so few bits are taken together, so many at a time, and share the disk's
# time.
_SHORT: Final = 13
_TOGETHER: Final = 16

# Parts of a source that are written while the next one is read.
_AHEAD: Final = 4

# Passages of an earlier attempt that are deleted in one transaction.
_BATCH: Final = 100

# How long a reading process is kept without work, in seconds: some 20 MB against the fifth of a
# second that a new one takes.
_IDLE: Final = 10.0

# How long stopping waits for what is being worked on, in seconds; it is taken up at the next start.
_STOP_PATIENCE: Final = 2.0

# How long a worker waits when the database takes nothing, in seconds.
_PAUSE: Final = 1.0


class Workers:
    """Threads that process pending sources, each with a reading process of its own.

    One thread takes the small ones, the shortest first, so that a short text is not kept waiting by
    what is long or was there in masses before it. The others take the rest in its order.

    `count` pages and long sources are worked on at the same time. `on_done` is called, in a
    worker's thread, with a source's public id when it is ready or failed, or turns out to take
    long.
    """

    def __init__(
        self,
        database: ServiceDatabase,
        *,
        folder: Path,
        policy: FetchPolicy,
        count: int,
        on_done: Callable[[str], None],
    ) -> None:
        self._database = database
        self._folder = folder
        self._policy = policy
        self._on_done = on_done
        self._stopping = threading.Event()
        self._small = _Lane(_SMALL_LIMITS, together=_TOGETHER)
        self._long = _Lane(ReadingLimits(), together=1)
        self._readers = [DocumentReader() for _ in range(count + 1)]
        self._threads = [
            threading.Thread(
                target=self._run, args=(lane, reader), name=f"worker-{number}", daemon=True
            )
            for number, reader in enumerate(self._readers)
            for lane in [self._long if number else self._small]
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def add(self, public_id: str, size: int | None) -> None:
        """Say that a source is pending.

        The size is that of its text or file, in characters or bytes; None when nobody knows.
        """
        if size is not None and size <= SMALL:
            # By its order of magnitude: of those that are much alike, the older one is first.
            self._small.add(public_id, size.bit_length())
        else:
            self._long.add(public_id, 0)

    def stop(self) -> None:
        """Let the threads end. What they cannot finish soon becomes pending again, unharmed."""
        self._stopping.set()
        for reader in self._readers:
            reader.close()
        self._small.close(1)
        self._long.close(len(self._threads) - 1)
        deadline = time.monotonic() + _STOP_PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        # On a full disk nothing can be written; the next start does it.
        with contextlib.suppress(StorageError):
            self._database.run(release_claims)

    def _run(self, lane: "_Lane", reader: DocumentReader) -> None:
        while not self._stopping.is_set():
            public_ids = lane.take(_IDLE if reader.is_running else None)
            if not public_ids:
                reader.rest()
                continue
            unsettled = dict.fromkeys(public_ids)
            try:
                jobs = self._jobs(public_ids, lane)
                for job in self._process(jobs, lane, reader):
                    del unsettled[job.public_id]
            except DatabaseClosedError:
                break
            except Exception as error:  # noqa: BLE001 - whatever it is, the thread must live on
                # The database itself logs a full disk.
                if storage_error(error) is None:
                    _log.exception(
                        "a worker could not claim sources, or record what became of them; they are "
                        "tried again in %g s",
                        _PAUSE,
                    )
                self._stopping.wait(_PAUSE)
                for public_id in unsettled:
                    lane.add(public_id, 0)
        reader.rest()

    def _jobs(self, public_ids: list[str], lane: "_Lane") -> list[ReadingJob]:
        """What is to be done for sources that wait; those that are ready or gone are over."""
        if lane is self._small:
            found = [find_job(self._database.reader(), public_id) for public_id in public_ids]
        else:
            found = [self._database.run(claim, public_id) for public_id in public_ids]
        jobs = [job for job in found if job is not None]
        for public_id in set(public_ids) - {job.public_id for job in jobs}:
            self._on_done(public_id)
        return jobs

    def _process(
        self, jobs: list[ReadingJob], lane: "_Lane", reader: DocumentReader
    ) -> Iterator[ReadingJob]:
        """Read the sources one after another; the passages of one are written meanwhile.

        Yields each when it is recorded what became of it.
        """
        read = []
        for job in jobs:
            try:
                written = self._index(job, reader, lane.limits)
            except Exception as error:  # noqa: BLE001 - it is this source's, and the next is read
                written = Future()
                written.set_exception(error)
            read.append((job, written))
        for job, written in read:
            self._settle(job, lane, written)
            yield job

    def _settle(self, job: ReadingJob, lane: "_Lane", written: Future[None]) -> None:
        try:
            written.result()
        except (ReaderClosedError, DatabaseClosedError):
            # It stays claimed, and is pending at the next start.
            return
        except TooSlowError as error:
            if lane is self._small:
                self._wait_longer(job)
            else:
                self._fail(job, error)
        except (FetchError, ExtractionError) as error:
            self._fail(job, error)
        except _UnwantedError:
            self._done(job)
        except ReaderDiedError as error:
            _log.warning("%s: %s", job, error)
            self._try_again(job, str(error))
        except Exception as error:
            # Whatever a document sets off, the next one is processed.
            if storage_error(error) is not None:
                raise
            _log.exception("%s: processing broke off", job)
            self._try_again(job, "processing it broke off each time")
        else:
            self._done(job)

    def _try_again(self, job: ReadingJob, cause: str) -> None:
        if self._database.run(requeue, job.source, cause) == "pending":
            self._wait_longer(job)
        else:
            self._done(job)

    def _wait_longer(self, job: ReadingJob) -> None:
        """Put it among the long ones, for which there is more time: the machine may be busy."""
        self._on_done(job.public_id)
        self._long.add(job.public_id, 0)

    def _fail(self, job: ReadingJob, error: Exception) -> None:
        reason = str(error)
        if isinstance(error, FetchError) and error.may_pass:
            reason += "; send it again later"
        self._database.run(finish, job.source, "failed", reason)
        _log.warning("%s failed: %s", job, reason)
        self._done(job)

    def _done(self, job: ReadingJob) -> None:
        # The row is final, so that a file which stays behind here is removed at the next start.
        if job.material.file is not None:
            (self._folder / job.material.file).unlink(missing_ok=True)
        self._on_done(job.public_id)

    def _index(
        self, job: ReadingJob, reader: DocumentReader, limits: ReadingLimits
    ) -> Future[None]:
        """Have a source read, and write it. The future is done when its last part is written."""
        # An earlier attempt has left passages.
        while job.begun and self._delete_some(job) == _BATCH:
            continue
        writing: list[Future[None]] = []
        with contextlib.closing(self._parts(job, reader, limits)) as parts:
            for part in parts:
                # The last part makes the source ready: nothing before it may be missing.
                while writing and (part.is_last or len(writing) == _AHEAD):
                    writing.pop(0).result()
                writing.append(self._write(job, part))
        return writing[-1]

    def _delete_some(self, job: ReadingJob) -> int:
        return self._database.write(
            lambda connection: delete_entries(connection, job.source, _BATCH), background=_BATCH
        ).result()

    def _write(self, job: ReadingJob, part: Part) -> Future[None]:
        def insert(connection: Connection) -> None:
            if not is_wanted(connection, job.source):
                raise _UnwantedError
            # As they are now: the source may have been moved while it was read.
            collections = collections_of(connection, job.source)
            insert_entries(connection, job.source, collections, part.entries)
            if part.is_last:
                finish(connection, job.source, "ready", title=part.title, warnings=part.warnings)

        return self._database.write(insert, background=len(part.entries))

    def _parts(
        self, job: ReadingJob, reader: DocumentReader, limits: ReadingLimits
    ) -> Generator[Part]:
        material = job.material
        path = None if material.file is None else self._folder / material.file
        if job.kind is Kind.WEBPAGE:
            kept = () if path is None else read_headers(path)
            headers = [(one.name, one.value) for one in kept]
            page = fetch(material.url or "", headers, self._policy)
            yield from reader.read_page(job.name, page, self._folder, limits)
            return
        if job.kind is Kind.FILE:
            request = ReadingRequest(
                job.name,
                path=str(path),
                filename=material.filename or "",
                content_type=material.content_type,
            )
        elif path is not None:
            request = ReadingRequest(job.name, path=str(path), is_text=True)
        else:
            request = ReadingRequest(job.name, text=material.content or "")
        yield from reader.read(request, limits)


class _UnwantedError(Exception):
    """The source was deleted or replaced meanwhile."""


class _Lane:
    """Pending sources that wait for the same threads: those of the lowest rank first, in order."""

    def __init__(self, limits: ReadingLimits, *, together: int) -> None:
        self.limits = limits
        self._together = together
        self._waiting: queue.PriorityQueue[tuple[int, int, str]] = queue.PriorityQueue()
        self._count = itertools.count()

    def add(self, public_id: str, rank: int) -> None:
        self._waiting.put((rank, next(self._count), public_id))

    def close(self, threads: int) -> None:
        """Let so many threads have nothing more to take."""
        for _ in range(threads):
            self._waiting.put((-1, 0, ""))

    def take(self, patience: float | None) -> list[str]:
        """Wait for a source, `patience` seconds at most; return it, and short ones behind it."""
        taken = []
        with contextlib.suppress(queue.Empty):
            rank, _, public_id = self._waiting.get(timeout=patience)
            taken.append(public_id)
            while rank <= _SHORT and len(taken) < self._together:
                rank, _, public_id = self._waiting.get_nowait()
                taken.append(public_id)
        return [public_id for public_id in taken if public_id]
