"""Compares items with the ledger and decides what to do with each, before anything is sent."""

import os
import re
import stat
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from knowledge_bot.ingest._items import EMPTY, File, Item, Skipped, Text, WebPage
from knowledge_bot.ingest._report import Outcome
from knowledge_bot.ingest._store import Row, State, Store, item_id

OnUnknown = Literal["hold", "resend"]
"""What to do with an item whose outcome is unknown: report it, or send it again."""

# A file that changed this recently, in seconds, may change again within one tick of its file
# system's clock and keep its time; git calls such a file racily clean.
_SETTLED = 2.0

# How many rows are read ahead, and how many are kept whose items did not come.
_READ_AHEAD = 1500
_MOST_READ_AHEAD = 4000

_UNVERSIONED = "it has no version, so no later change will be seen"

# How many windows of jobs may be on their way to the ledger.
_WINDOWS = 4

# Versions read from pages begin with the name of the reader.
_READER = re.compile(r"(trafilatura|plain|sha256):[0-9a-f]{32}")
_SEPARATOR = " | "


@dataclass(slots=True)
class Job:
    """An item that may be sent.

    Attributes:
        item: the item.
        id: its id in the ledger.
        key: its key.
        name: the source's name.
        collections: where it goes.
        version: changes when the content does, and needs no reading; None if there is none.
        fingerprint: of a file, at the time it was planned.
        digest: the hash of its content.
        before: its row in the ledger; None if it is new.
        written_by: the run that had written that row; 0 without one.
        same_as: another key that has the same content in these collections; empty without one.
    """

    item: Item
    id: bytes
    key: str
    name: str
    collections: tuple[str, ...]
    version: str | None
    fingerprint: str | None = None
    digest: bytes = b""
    before: Row | None = None
    written_by: int = 0
    same_as: str = ""

    @property
    def place(self) -> str:
        """The page's address, the file's path, or the text's name."""
        item = self.item
        return item.path if isinstance(item, File) else getattr(item, "url", item.name)

    @property
    def is_opened(self) -> bool:
        """Whether it is a file with an `open` function."""
        return isinstance(self.item, File) and self.item.open is not None

    @property
    def is_page(self) -> bool:
        """Whether it is a web page, whose version is a part of its digest."""
        return isinstance(self.item, WebPage)

    def claim(self, run: int, scope: int, origin: int | None) -> Row:
        """Return the row that claims the item for a run."""
        before, kind = self.before, type(self.item).__name__.lower()
        if self.is_opened:
            kind = "object"
        return Row(
            id=self.id,
            scope=scope,
            origin=origin or (before.origin if before else None),
            key=self.key,
            name=None if self.name == self.key else self.name,
            kind=kind,
            location=None if kind == "text" or self.place == self.key else self.place,
            state=State.CLAIMED,
            digest=before.digest if before else None,
            pending=self.digest,
            version=self.item.version if self.is_page else before.version if before else None,
            source_id=before.source_id if before else None,
            source_name=(before.source_name or before.name or before.key) if before else None,
            run=run,
            revision=before.revision + 1 if before else 1,
            attempts=before.attempts + 1 if before else 1,
            error=None,
            updated_at=int(time.time()),
            gone_at=None,
        )


@dataclass(slots=True)
class Planned:
    """The plan for some items.

    Attributes:
        jobs: what to send.
        outcomes: what not to send, and why.
        rows: rows to correct, though nothing is sent.
        unchanged: how many items the service already has.
        in_progress: items that another worker is sending.
        unversioned: how many are pages without a version, whose changes are not seen.
        partial: why there may be more items than were seen; empty if there are none.
    """

    jobs: list[Job] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    unchanged: int = 0
    in_progress: list[Item] = field(default_factory=list)
    unversioned: int = 0
    partial: str = ""


class Planner:
    """Compares items with the ledger. It blocks, and only one thread may use it at a time.

    Args:
        store: the ledger; without one, everything is sent.
        service: the base URL, normalised.
        collections: where items go that name no collections.
        on_unknown: what to do with items whose outcome is unknown.

    Attributes:
        seen: a bit for each row that was seen, by its number.
        shares: whether other runs seem to have the same items.
        unversioned: how many pages without a version were seen.
    """

    def __init__(
        self,
        store: Store | None,
        service: str,
        collections: tuple[str, ...],
        on_unknown: OnUnknown,
    ) -> None:
        self._store, self._on_unknown = store, on_unknown
        self._service, self._collections = service, collections
        self._scopes: dict[tuple[str, ...], int] = {}
        self.shares: bool = True
        self.unversioned: int = 0
        self.seen = bytearray(store.highest // 8 + 1 if store else 0)
        # Rows of the origin by key, in the order they were read, and how many more to read.
        self._ahead: dict[str, tuple[int, str | None, bytes]] = {}
        self._last_number, self._top_up = 0, _READ_AHEAD
        self._recent: deque[dict[bytes, bytes]] = deque(maxlen=_WINDOWS)

    def plan(self, items: Sequence[object], *, again: bool = False) -> Planned:
        """Decide what to do with some items.

        Args:
            items: the items.
            again: whether they were planned before in this run.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        planned, self._now = Planned(), time.time()
        self._recent.append({})
        self._read_ahead()
        jobs = [job for item in items if (job := self._job(item, planned)) is not None]
        rows = self._store.find([job.id for job in jobs]) if self._store and jobs else {}
        for job in jobs:
            job.before = before = rows.get(job.id)
            comes_twice = False
            if before is not None:
                job.written_by = before.run
                comes_twice = not self._mark_seen(before.number) and not again
                if before.version is not None and before.version == job.version:
                    job.digest = before.digest or b""  # the content need not be read
            if self._is_usable(job, planned):
                self._decide(job, planned, comes_twice=comes_twice)
        if planned.unversioned and not again:
            self.unversioned += planned.unversioned
            planned.outcomes += [
                Outcome("unversioned", job.name[:500], job.key, _UNVERSIONED)
                for job in planned.jobs
                if job.before is None and job.is_page and job.item.version is None
            ]
        return planned

    def _read_ahead(self) -> None:
        """Read the rows that the next items probably have: those that followed last time.

        In most runs nearly all items are unchanged and come in the same order as before. To ask for
        each row would take longer than everything else about them.
        """
        if self._store is None or self._store.origin is None or not self._top_up:
            return
        for row in self._store.created(self._last_number, self._top_up):
            number, key, version, digest = row
            self._ahead[key] = number, version, digest
            self._last_number = number
        self._top_up = 0
        while len(self._ahead) > _MOST_READ_AHEAD:  # their items did not come
            del self._ahead[next(iter(self._ahead))]

    def share_out(self, planned: Planned) -> list[object]:
        """Leave other runs their share, if several feed the same collections at once.

        Returns:
            The items left to others, to be planned again once this run's share is sent: by then
            they are created, or another run is slow.
        """
        if self._store is None or self._store.reading or not planned.jobs:
            return []
        mine = planned.jobs
        left: list[object] = []
        rank, runs = self._store.rank() if self.shares else (0, 1)
        if runs > 1:
            mine = planned.jobs[rank::runs] or planned.jobs[:1]
            taken = {id(job) for job in mine}
            left = [job.item for job in planned.jobs if id(job) not in taken]
            # From both ends, in case a run began before it knew of the other.
            mine = mine[::-1] if rank % 2 else mine
        planned.jobs = mine
        self._note_same_contents(mine, self._store)
        return left

    def _job(self, item: object, planned: Planned) -> Job | None:
        """Return an item as a job, before the ledger is asked about it."""
        if isinstance(item, Skipped):
            kind: Literal["invalid", "skipped"] = "invalid" if item.invalid else "skipped"
            planned.outcomes.append(Outcome(kind, item.name[:500], None, item.reason))
            if item.partial:
                planned.partial = f"{item.name[:500]}: {item.reason}"
            return None
        if not isinstance(item, Item):
            reason = f"expected a WebPage, Text or File, not {type(item).__name__}"
            planned.outcomes.append(Outcome("invalid", repr(item)[:500], None, reason))
            planned.partial = reason
            return None
        key, version, fingerprint = item.key or item.identity, item.version, None
        if isinstance(item, File):
            if version is None and item.open is None:
                fingerprint, settled = fingerprint_of(item.path, self._now)
                version = fingerprint if settled else None
        elif isinstance(item, WebPage):
            planned.unversioned += version is None
            version = None  # it is part of the digest: nothing else of a page can be compared
        if item.collections is None and (expected := self._ahead.pop(key, None)) is not None:
            self._top_up += 1
            number, known_version, digest = expected
            same = version is not None and version == known_version
            if version is None and not isinstance(item, File):
                same = item.digest() == digest
            if same:
                planned.unchanged += 1
                self._mark_seen(number)
                return None
        collections = item.collections or self._collections
        name = item.name or (item.path.rpartition(os.sep)[2] if isinstance(item, File) else "")
        identifier = item_id(self._service, collections, key)
        return Job(item, identifier, key, name, collections, version, fingerprint)

    def claim(self, job: Job) -> Row:
        """Return the row that claims an item for this run."""
        store = self._store
        if store is None:
            return job.claim(0, 0, None)
        return job.claim(store.run, self._scope(job.collections), store.origin)

    def _scope(self, collections: tuple[str, ...]) -> int:
        if self._store is not None and collections not in self._scopes:
            self._scopes[collections] = self._store.scope(self._service, collections)
        return self._scopes.get(collections, 0)

    def _mark_seen(self, number: int) -> bool:
        """Record that a row was seen; False if it was seen before."""
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self.seen):
            return True
        new = not self.seen[place] & bit
        self.seen[place] |= bit
        return new

    def _is_usable(self, job: Job, planned: Planned) -> bool:
        """Return whether an item can be sent, and read its content."""
        try:
            if "\0" in job.key or "\0" in job.name:
                raise _UnusableItemError("invalid", "its name or key holds a NUL character")
            if self._is_the_ledger(job):
                raise _UnusableItemError("skipped", "it is the ledger of this run")
            _check_content(job.item)
            if self._store is not None and not job.digest:
                job.digest = job.item.digest()
            if job.is_opened and job.digest == EMPTY:
                raise _UnusableItemError("skipped", f"{job.place} is empty")
        except _UnusableItemError as error:
            reason = str(error)
            if job.before is not None and job.before.digest is not None:
                reason += "; the service still has what was sent of it before"
            planned.outcomes.append(Outcome(error.kind, job.name[:500], job.key, reason))
        except Exception as error:
            if not isinstance(error, OSError | ValueError) and not job.is_opened:
                raise
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            reason = f"{job.place} cannot be read: {reason.lower()}"
            planned.outcomes.append(Outcome("invalid", job.name[:500], job.key, reason))
        else:
            return True
        return False

    def _is_the_ledger(self, job: Job) -> bool:
        store, item = self._store, job.item
        is_on_disk = isinstance(item, File) and item.open is None
        return store is not None and is_on_disk and store.is_ledger_file(job.place)

    def _decide(self, job: Job, planned: Planned, *, comes_twice: bool) -> None:
        row, store = job.before, self._store
        twice = comes_twice or (row is not None and store is not None and row.run == store.run)
        if row is None or store is None:
            self._append(job, planned)
        elif row.state == State.CLAIMED and row.run != store.run:
            planned.in_progress.append(job.item)
        elif twice and job.digest not in (row.digest, row.pending, *self._first_contents(job)):
            reason = (
                "another item of this run has the same key and another content; "
                "give each item a key of its own"
            )
            planned.outcomes.append(Outcome("invalid", job.name[:500], job.key, reason))
        elif twice:
            planned.outcomes.append(
                Outcome("skipped", job.name[:500], job.key, "it comes twice in this run")
            )
        elif row.state == State.UNKNOWN and self._on_unknown == "hold":
            reason = f"held back: {row.error}"
            planned.outcomes.append(Outcome("unknown", job.name[:500], job.key, reason))
        elif row.state != State.UNKNOWN and (same := _if_unchanged(job, row)) is not None:
            planned.unchanged += 1
            self._note_content(job)
            right = same._replace(
                state=State.CREATED,
                pending=None,
                error=None,
                origin=store.origin or row.origin,
                gone_at=None,
            )
            if right != row:
                planned.rows.append(right._replace(revision=row.revision + 1))
        else:
            self._append(job, planned)

    def _append(self, job: Job, planned: Planned) -> None:
        planned.jobs.append(job)
        self._note_content(job)

    def _note_content(self, job: Job) -> None:
        """Remember the first content of a key until the ledger has it."""
        if not self._first_contents(job):
            self._recent[-1][job.id] = job.digest

    def _first_contents(self, job: Job) -> list[bytes]:
        return [window[job.id] for window in self._recent if job.id in window]

    def _note_same_contents(self, jobs: Sequence[Job], store: Store) -> None:
        new = [job for job in jobs if not isinstance(job.item, WebPage)]
        for collections in {job.collections for job in new}:
            group = [job for job in new if job.collections == collections]
            there = store.contents(self._scope(collections), [job.digest for job in group])
            for job in group:
                other = there.setdefault(job.digest, job.key)
                job.same_as = other if other != job.key else ""


def _if_unchanged(job: Job, row: Row) -> Row | None:
    """Return an item's row with the version to keep, or None if the item changed.

    A page without a version in this run, or with a version of another kind than before, did not
    change as far as anybody knows: a version of a new kind is kept beside the known ones of the
    same content.
    """
    page = job.item
    if not isinstance(page, WebPage):
        return row._replace(version=job.version) if row.digest == job.digest else None
    if row.digest == job.digest:
        return row
    known = row.version.split(_SEPARATOR) if row.version else []
    if row.digest not in [_digest_as(page, version) for version in (*known, None)]:
        return None  # its address, its headers or its version changed
    if page.version is None or page.version in known:
        return row
    if any(_same_reader(page.version, version) for version in known):
        return None
    return row._replace(version=_SEPARATOR.join([*known, page.version]), digest=job.digest)


def _digest_as(page: WebPage, version: str | None) -> bytes:
    return page.model_copy(update={"version": version}).digest()


def _same_reader(one: str, other: str) -> bool:
    """Return whether two versions can be compared: equal if and only if the content is.

    A version may be read from the page by one of several readers, which find different texts, or
    given by somebody else. A page and a document (`sha256`) are different contents.
    """
    readers = [found[1] if (found := _READER.fullmatch(each)) else "" for each in (one, other)]
    return readers[0] == readers[1] or ("sha256" in readers and "" not in readers)


class _UnusableItemError(Exception):
    """An item that cannot or should not be sent."""

    def __init__(self, kind: Literal["invalid", "skipped"], reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def fingerprint_of(path: str, now: float) -> tuple[str | None, bool]:
    """Return a file's fingerprint, and whether a change is sure to change it.

    It is made of size, times and inode, without reading the content; None if the file is gone. A
    change so soon after the last one that the file may keep its time may not show in it.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - a `Path` costs more than the call
    except (OSError, ValueError):
        return None, False
    settled = now - found.st_mtime > _SETTLED and now - found.st_ctime > _SETTLED
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}", settled


def _check_content(item: Item) -> None:
    if isinstance(item, Text) and not item.content.strip():
        raise _UnusableItemError("skipped", "it has no content")
    if isinstance(item, File) and item.open is None:
        _check_file(item.path)


def _check_file(path: str) -> None:
    found = os.stat(path)  # noqa: PTH116 - as above
    if not stat.S_ISREG(found.st_mode):
        what = "a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file"
        raise _UnusableItemError("invalid", f"{path} is {what}")
    if found.st_size == 0:
        raise _UnusableItemError("skipped", f"{path} is empty")
