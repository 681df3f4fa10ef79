"""Compares items with the ledger and decides what to do with each, before anything is sent."""

import contextlib
import hashlib
import os
import re
import stat
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import repeat
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from knowledge_bot._extensions import end_of_life, new_key
from knowledge_bot.ingest._listings import (
    ListedFile,
    Listing,
    Skipped,
    version_of_file,
    version_of_stat,
)
from knowledge_bot.ingest._report import Kind, Outcome
from knowledge_bot.ingest._store import (
    NO_ROW,
    Row,
    State,
    Store,
    item_ids,
)

if TYPE_CHECKING:  # pydantic is slow to load, and a night without changes makes no item
    from knowledge_bot.ingest._items import Item

DIGEST_SIZE = 16

OnUnknown = Literal["hold", "resend"]
"""What to do with an item whose outcome is unknown: report it, or send it again."""

# A file that changed this recently, in seconds, may change again within one tick of its file
# system's clock and keep its time; git calls such a file racily clean.
_SETTLED = 2.0

# How many rows are read ahead, and how many are kept whose items did not come.
_READ_AHEAD = 2000
_MOST_READ_AHEAD = 8000

# Bytes of a file that is read once, and of all that are kept in one window until they are sent.
_SMALL = 512 * 1024
_KEPT = 8_000_000

# Stands for a row that was not read ahead; no row has this number.
_NOT_AHEAD: tuple[str, int, str | None, bytes] = ("", 0, None, b"")

# Reasons why an item did not come though it is, or may be, still there.
_THERE = ("excluded", "unread")
_UNVERSIONED = "it has no version, so no later change will be seen"

# How many contents of an origin are compared to find what was moved, and how many new items wait
# until all are seen.
_MOST_CONTENTS = 1_000_000
_MOST_WAITING = 20_000

# How many windows of jobs may be on their way to the ledger.
_WINDOWS = 4

_EMPTY = hashlib.sha256().digest()[:DIGEST_SIZE]

# What SQLite's log (`-wal`) and its index (`-shm`, in the machine's byte order) begin with.
_BESIDE_A_DATABASE = (
    b"\x37\x7f\x06\x82",
    b"\x37\x7f\x06\x83",
    (3007000).to_bytes(4, sys.byteorder),
)

# Versions read from pages begin with the name of the reader.
_READER = re.compile(r"(trafilatura|plain|sha256):[0-9a-f]{32}")
_SEPARATOR = " | "
# A time as RSS writes it. What reads it takes much else for a time, too.
_OF_A_FEED = re.compile(r"\w{3}, \d\d? \w{3} \d{4} \d\d:\d\d:\d\d (GMT|[+-]\d{4})")


@dataclass(slots=True)
class Job:
    """An item that may be sent.

    Attributes:
        item: the item.
        id: its id in the ledger.
        key: its key.
        name: the source's name.
        place: the page's address, the file's path, or the text's name.
        kind: `webpage`, `text`, `file`, or `object` for a file with an `open` function.
        collections: where it goes.
        scope: the number of the service with these collections in the ledger.
        version: changes when the content does, and needs no reading; None if there is none.
        stat: what `version_of_stat` returned of a file whose content is read when it is sent.
        content: of a small file, as it was hashed.
        digest: the hash of its content.
        before: its row in the ledger; None if it is new.
        moved: the row of the same content under a key that is no longer there; None if it is sent.
        target: the source that it replaces in place; None if a new one is created.
        revision: of that source, which is the one to be replaced; None: whichever it is.
        idempotency_key: that its request carries; None: it has none.
        in_doubt: whether an attempt with this key, or on this revision, may have been acted on.
        claim: its row while it is sent.
        tries: how many times it was sent in this run.
        failure: what became of the last try, if it is to be sent again.
    """

    item: "Item | ListedFile"
    id: bytes
    key: str
    name: str
    place: str
    kind: str
    collections: tuple[str, ...]
    scope: int = 0
    version: str | None = None
    stat: str | None = None
    content: bytes | None = None
    digest: bytes = b""
    before: Row | None = None
    moved: Row | None = None
    target: str | None = None
    revision: str | None = None
    idempotency_key: str | None = None
    in_doubt: bool = False
    claim: Row = NO_ROW
    tries: int = 0
    failure: Outcome | None = None

    @property
    def location(self) -> str | None:
        """Where it is, as a row says it; None if that is its key."""
        return None if self.kind == "text" or self.place == self.key else self.place

    def choose(self, extensions: Mapping[str, Mapping[str, Any]], *, resend: bool) -> bool:
        """Decide how the item is sent to a service that announces so much; False if it is not.

        What may have been sent before is sent again with the same key or on the same revision, if
        the service still knows that; else only if unknown items are resent.
        """
        before, now = self.before, time.time()
        manages = bool(extensions.get("sources", {}).get("manage"))
        keyed = "idempotency" in extensions
        self.target = self.revision = self.idempotency_key = None
        self.in_doubt = False
        if before is not None and before.state == State.UNKNOWN:
            key = before.idempotency_key or ""
            if key.startswith('"') and manages:
                self.target, self.revision = before.source_id, key.strip('"') or None
                self.in_doubt = True
                return True
            if key and not key.startswith('"') and keyed and now < end_of_life(key, extensions):
                self.idempotency_key, self.in_doubt = key, True
                return True
            if not resend:
                return False
        if before is not None and before.source_id is not None and manages:
            self.target, self.revision = before.source_id, before.source_revision
        elif keyed:
            self.idempotency_key = new_key()
        return True

    def outcome(self, kind: Kind, error: str = "", source_id: str | None = None) -> Outcome:
        """Return what became of the item."""
        return Outcome(kind, self.name[:500], self.key, error, source_id)

    def claimed(self, run: int, origin: int | None) -> Row:
        """Return the row of the item while a run sends it."""
        before = self.before or NO_ROW
        replacing = f'"{self.revision or ""}"'
        return before.claimed(
            id=self.id,
            run=run,
            scope=self.scope,
            origin=origin or before.origin,
            key=self.key,
            name=None if self.name == self.key else self.name,
            kind=self.kind,
            location=self.location,
            pending=self.digest,
            version=self.version if self.kind == "webpage" else before.version,
            idempotency_key=self.idempotency_key if self.target is None else replacing,
        )

    def is_read_like(self, row: Row) -> bool:
        """Return whether a service reads this content as it read that of a row.

        A file's suffix says how: what failed as a `.pdf` may be fine as a `.txt`.
        """
        if self.kind == "text":
            return row.kind == "text"
        places = PurePath(row.location or row.key), PurePath(self.place)
        return row.kind == self.kind and len({each.suffix.lower() for each in places}) == 1

    def moved_row(self, row: Row, run: int, *, renamed: bool) -> Row:
        """Return the row of an item with another key, as this one."""
        return row._replace(
            id=self.id,
            key=self.key,
            name=None if self.name == self.key else self.name,
            location=self.location,
            version=self.version,
            source_name=None if renamed else row.source_called,
            run=run,
            generation=row.generation + 1,
            updated_at=int(time.time()),
            gone_at=None,
            gone_reason=None,
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
        unversioned: how many are old pages without a version, whose changes are not seen.
        room: how many more bytes of files may be kept until they are sent.
    """

    jobs: list[Job] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    unchanged: int = 0
    in_progress: "list[Item | ListedFile]" = field(default_factory=list)
    unversioned: int = 0
    room: int = _KEPT


class Planner:
    """Compares items with the ledger. It blocks; threads take turns.

    Args:
        store: the ledger; without one, everything is sent.
        service: the base URL, normalised.
        collections: where items go that name no collections.
        on_unknown: what to do with items whose outcome is unknown.
        source: where the items come from. It may say why an item is gone (`gone_reason`).
        shares: whether to leave other runs that feed the same collections their share.

    Attributes:
        shares: the same; False once they turned out not to take it.
        left: what is left to them, by the windows in which it came.
        partial: why there may be more items than were seen; empty if there are none.
        seen: for each row number, whether the row was seen.
        met: how many rows of the origin were seen.
        waiting: new items with a content that the origin had under another key. Whether they were
            moved is not known before its end.
    """

    def __init__(
        self,
        store: Store | None,
        service: str,
        collections: tuple[str, ...],
        on_unknown: OnUnknown,
        source: object,
        *,
        shares: bool = False,
    ) -> None:
        self._store, self._on_unknown, self._source = store, on_unknown, source
        self._collections, self.shares = collections, shares
        self.left: deque[list[Job]] = deque()
        self.partial: str = ""
        self._ids = cache(lambda several: item_ids(service, several))
        self._turn = threading.Lock()
        self.seen = bytearray(store.highest + 1 if store else 1)
        self.met: int = 0
        # Rows of the origin by key, in the order they were read.
        self._ahead: dict[str, tuple[str, int, str | None, bytes]] = {}
        self._last_number, self._more_ahead = 0, store is not None and store.knows_origin
        self._recent: deque[dict[bytes, bytes]] = deque(maxlen=_WINDOWS)
        self.waiting: list[Job] = []
        self._contents: set[bytes] | None = None  # of the origin, once a new item comes
        self._left_out: dict[str, str] = {}  # why, by the key

    def plan(self, items: Sequence[object], *, again: bool = False) -> Planned:
        """Decide what to do with some items.

        Args:
            items: the items, and listings of files.
            again: whether they were planned before in this run; then none is left to others.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        with self._turn:
            return self._plan(items, again=again)

    def _plan(self, items: Sequence[object], *, again: bool) -> Planned:
        planned, jobs, now = Planned(), list[Job](), time.time()
        self._recent.append({})
        for each in items:
            several = self._differing(each, planned) if isinstance(each, Listing) else (each,)
            jobs += [job for item in several if (job := self._job(item, planned)) is not None]
        for job in self._look_up(jobs, planned, share=self.shares and not again):
            comes_twice = job.before is not None and not self._mark_seen(job.before.number)
            if self._is_usable(job, planned, now):
                if not again and self._may_be_moved(job):
                    self._keep(job, planned)
                else:
                    self._decide(job, planned, comes_twice=comes_twice and not again)
        new = [
            job.outcome("unversioned", _UNVERSIONED)
            for job in planned.jobs
            if job.before is None and job.kind == "webpage" and job.version is None
        ]
        if not again:
            planned.outcomes += new
        planned.unversioned = 0 if again else planned.unversioned - len(new)
        return planned

    def plan_left(self) -> Planned:
        """Decide what to do with the first window of what was left to other runs.

        Most items are created by now, which one narrow statement tells.
        """
        with self._turn:
            jobs, left = self.left.popleft(), []
            there = self._store.contents([job.id for job in jobs]) if self._store else {}
            for job in jobs:
                number, version, digest = there.get(job.id, (0, None, None))
                if digest is not None and self._is_same(job.item, job.kind, version, digest):
                    self._mark_seen(number)
                else:
                    left.append(job.item)
            planned = self._plan(left, again=True)
            planned.unchanged += len(jobs) - len(left)
            self.shares = self.shares and len(planned.jobs) < len(jobs)  # else nobody takes them
            return planned

    # Moved and gone -------------------------------------------------------------------------------

    def _may_be_moved(self, job: Job) -> bool:
        """Return whether a new item has a content that its origin has, or had, elsewhere."""
        store = self._store
        if job.before or job.kind == "webpage" or store is None or not store.knows_origin:
            return False
        if self._contents is None:
            self._contents = store.digests(_MOST_CONTENTS)
        return job.digest in self._contents

    def _keep(self, job: Job, planned: Planned) -> None:
        """Let an item wait for the end of its origin; if too many do, all of them are new."""
        if job.content is not None:  # it is read again
            job.content, job.stat = None, version_of_file(job.place)
        self.waiting.append(job)
        if len(self.waiting) > _MOST_WAITING:
            self._contents, waiting, self.waiting = set(), self.waiting, []
            for each in waiting:
                self._append(each, planned)

    def plan_waiting(self, *, complete: bool) -> Planned:
        """Decide about the items that wait, at the end.

        An item was moved if its content is known under one key that did not come, and came under
        no other new one, and is read as it was there.

        Args:
            complete: whether all items of the origin were seen.
        """
        with self._turn:
            planned, waiting, self.waiting = Planned(), self.waiting, []
            alike = Counter(job.digest for job in waiting)
            found: dict[bytes | None, list[Row]] = {}
            for row in self._store.with_contents(list(alike)) if self._store and complete else ():
                if not self.seen[row.number] and self.gone_reason(row.key) not in _THERE:
                    found.setdefault(row.digest, []).append(row)
            for job in waiting:
                rows = found.get(job.digest, [])
                if len(rows) == alike[job.digest] == 1 and job.is_read_like(rows[0]):
                    job.moved = rows[0]
                    self.seen[job.moved.number] = 1
                self._append(job, planned)
            return planned

    def gone_reason(self, key: str) -> str:
        """Return why an item with this key did not come: `missing`, or what `Skipped.gone` has."""
        known = getattr(self._source, "gone_reason", None)
        return self._left_out.get(key) or ("missing" if known is None else str(known(key)))

    # Listed files ---------------------------------------------------------------------------------

    def _differing(self, listing: Listing, planned: Planned) -> list[ListedFile | Skipped]:
        """Return the files of a listing that may have changed, as items."""
        keys, versions, item = listing
        if self._more_ahead and len(self._ahead) < len(keys):
            self._read_ahead()
        rows = list(map(self._ahead.pop, keys, repeat(_NOT_AHEAD)))
        places = [
            place
            for place, (row, version) in enumerate(zip(rows, versions, strict=True))
            if row[2] != version
        ]
        for place in places:
            rows[place] = _NOT_AHEAD
        seen = self.seen
        for _, number, _, _ in rows:
            seen[number] = 1
        self.met += len(keys) - len(places)
        planned.unchanged += len(keys) - len(places)
        return [item(place) for place in places]

    def _read_ahead(self) -> None:
        """Read the rows that the next items probably have: those that followed last time.

        In most runs nearly all items are unchanged and come in the same order as before. To ask for
        each row would take longer than everything else about them.
        """
        assert self._store is not None  # noqa: S101 - only a ledger has more of them
        rows, ahead = self._store.created(self._last_number, _READ_AHEAD), self._ahead
        self._more_ahead = len(rows) == _READ_AHEAD
        if rows:
            self._last_number = rows[-1][1]
            ahead.update({row[0]: row for row in rows})
        while len(ahead) > _MOST_READ_AHEAD:  # their items did not come
            del ahead[next(iter(ahead))]

    # Items ----------------------------------------------------------------------------------------

    def _job(self, item: Any, planned: Planned) -> Job | None:
        """Return an item as a job; None if that is all there is to do about it."""
        if isinstance(item, Skipped):
            kind: Literal["invalid", "skipped"] = "invalid" if item.invalid else "skipped"
            planned.outcomes.append(Outcome(kind, item.name[:500], None, item.reason))
            if item.gone:
                self._left_out[item.name] = item.gone
            if item.partial:
                self.partial = self.partial or f"{item.name[:500]}: {item.reason}"
            return None
        if isinstance(item, ListedFile):  # which was compared already
            collections, what = self._collections, "file"
            identifier = self._ids(collections)(item.key)
            return Job(item, identifier, item.key, item.name, item.path, what, collections)
        from knowledge_bot.ingest import _items

        if not isinstance(item, _items.Item):
            reason = f"expected a WebPage, Text or File, not {type(item).__name__}"
            planned.outcomes.append(Outcome("invalid", repr(item)[:500], None, reason))
            self.partial = self.partial or reason
            return None
        key, place, name, what = item.key or item.identity, item.name, item.name, "text"
        if isinstance(item, _items.File):
            place, what = item.path, "file" if item.open is None else "object"
            name = name or place.rpartition(os.sep)[2]
        elif isinstance(item, _items.WebPage):
            place, what = item.url, "webpage"
            planned.unversioned += item.version is None
        if self._is_as_expected(item, key, what):
            planned.unchanged += 1
            return None
        collections = item.collections or self._collections
        return Job(item, self._ids(collections)(key), key, name, place, what, collections)

    def _is_as_expected(self, item: "Item", key: str, kind: str) -> bool:
        """Return whether an item is as the row says that was read ahead for it."""
        if item.collections is not None:
            return False
        if self._more_ahead and not self._ahead:
            self._read_ahead()
        row = self._ahead.pop(key, None)
        same = row is not None and self._is_same(item, kind, row[2], row[3])
        if row is not None and same:
            self.seen[row[1]] = 1
            self.met += 1
        return same

    @staticmethod
    def _is_same(item: Any, kind: str, version: str | None, digest: bytes) -> bool:
        """Return whether an item has a version or a content, without reading a file."""
        if kind == "webpage":  # its version is a part of its digest
            return bool(item.content_digest()[:DIGEST_SIZE] == digest)
        given = item.version
        if given is None and kind == "text":
            return bool(item.content_digest()[:DIGEST_SIZE] == digest)
        if given is None and kind == "file":
            given = version_of_file(item.path)
        return given is not None and given == version

    def _look_up(self, jobs: list[Job], planned: Planned, *, share: bool) -> list[Job]:
        """Complete jobs with what the ledger holds; return those that this run has to do with."""
        store = self._store
        if store is None or not jobs:
            return jobs
        found, mine, left = store.find([job.id for job in jobs], share=share), [], []
        for job in jobs:
            if job.id not in found:
                left.append(job)
                continue
            job.before, job.scope = found[job.id], store.scope(job.collections)
            if job.before and job.before.state == State.CLAIMED and job.before.run != store.run:
                planned.in_progress.append(job.item)
                self._mark_seen(job.before.number)
            else:
                mine.append(job)
        if left:
            self.left.append(left)
        return mine

    def _mark_seen(self, number: int) -> bool:
        """Record that a row was seen; False if it was seen before."""
        if number >= len(self.seen):  # it was made during this run
            return True
        new = not self.seen[number]
        self.seen[number] = 1
        return new

    def _is_usable(self, job: Job, planned: Planned, now: float) -> bool:
        """Return whether an item can be sent; if not, say why."""
        try:
            self._examine(job, planned, now)
        except _UnusableItemError as error:
            kind, reason = error.kind, str(error)
            if job.before is not None and job.before.digest is not None:
                kind = "invalid"  # somebody has to look at it, or bots answer from it for ever
                reason += "; the service still has what was sent of it before"
            planned.outcomes.append(job.outcome(kind, reason))
        except Exception as error:
            if not isinstance(error, OSError | ValueError) and job.kind != "object":
                raise
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            reason = f"{job.place} cannot be read: {reason.lower()}"
            planned.outcomes.append(job.outcome("invalid", reason))
        else:
            return True
        return False

    def _examine(self, job: Job, planned: Planned, now: float) -> None:
        """Check an item, and hash its content where the ledger needs that."""
        item: Any = job.item
        if "\0" in job.key or "\0" in job.name:
            raise _UnusableItemError("invalid", "its name or key holds a NUL character")
        if job.kind == "text" and not item.content.strip():
            raise _UnusableItemError("skipped", "it has no content")
        job.version = item.version
        if job.kind == "file":
            self._read(job, planned, now)
        elif self._store is not None and not self._knows(job):
            job.digest = item.content_digest()[:DIGEST_SIZE]
        if job.kind == "object" and job.digest == _EMPTY:
            raise _UnusableItemError("skipped", f"{job.place} is empty")

    def _knows(self, job: Job) -> bool:
        """Return whether the ledger knows an item's digest by its version."""
        before = job.before
        if job.kind == "webpage" or before is None or before.version is None:
            return False
        if before.version == job.version:
            job.digest = before.digest or b""
        return bool(job.digest)

    def _read(self, job: Job, planned: Planned, now: float) -> None:
        """Read and hash a file, once: what is read of a small one is also what is sent."""
        status = os.stat(job.place)  # noqa: PTH116 - a `Path` costs more than the call
        if not stat.S_ISREG(status.st_mode):
            what = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise _UnusableItemError("invalid", f"{job.place} is {what}")
        if status.st_size == 0:
            raise _UnusableItemError("skipped", f"{job.place} is empty")
        if self._store is not None and self._store.is_ledger_file(job.place):
            raise _UnusableItemError("skipped", "it is the ledger of this run")
        found = version_of_stat(status)
        settled = now - status.st_mtime > _SETTLED and now - status.st_ctime > _SETTLED
        if job.version is None and settled:
            job.version = found
        if self._knows(job):
            job.stat = found
            return
        with open(job.place, "rb", buffering=0) as stream:  # noqa: PTH123 - as above
            if status.st_size > _SMALL:
                _refuse_ledger(stream.read(_SMALL), job.place)
                stream.seek(0)
                job.digest = hashlib.file_digest(stream, "sha256").digest()[:DIGEST_SIZE]
                job.stat = found
                return
            content = stream.readall()
            _refuse_ledger(content, job.place)
            same = version_of_stat(os.fstat(stream.fileno())) == found
        job.digest = hashlib.sha256(content).digest()[:DIGEST_SIZE]
        if len(content) <= planned.room and content:
            planned.room -= len(content)
            job.content = content
            if not same and job.item.version is None:
                job.version = None  # it was written to meanwhile
        else:
            job.stat = found

    def _decide(self, job: Job, planned: Planned, *, comes_twice: bool) -> None:
        row, store = job.before, self._store
        if row is None or store is None:
            self._append(job, planned)
            return
        if comes_twice or row.run == store.run:
            same = job.digest in (row.digest, row.pending, *self._first_contents(job))
            reason = "it comes twice in this run"
            if not same:
                reason = (
                    "another item of this run has the same key and another content; "
                    "give each item a key of its own"
                )
            planned.outcomes.append(job.outcome("skipped" if same else "invalid", reason))
        elif row.state == State.UNKNOWN and self._on_unknown == "hold" and not row.idempotency_key:
            reason = f"held back: {row.error}"
            planned.outcomes.append(job.outcome("unknown", reason))
        elif row.state != State.UNKNOWN and (same_row := _if_unchanged(job, row)) is not None:
            planned.unchanged += 1
            self._note_content(job)
            origin = store.origin or row.origin
            right = same_row._replace(
                state=State.CREATED,
                pending=None,
                error=row.error if row.state == State.CREATED else None,
                origin=origin,
                location=job.location,
                gone_at=None,
                gone_reason=None,
            )
            if right != row:
                planned.rows.append(right._replace(generation=row.generation + 1))
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


def _refuse_ledger(head: bytes, path: str) -> None:
    """Leave out a ledger of another run, which is no document and changes with each of its runs.

    Args:
        head: the file's first bytes, enough of them for SQLite to name its tables.
        path: the file. What its first run writes is at first only in the log beside it.
    """
    if head.startswith(b"SQLite format 3\0"):
        log = b""
        with contextlib.suppress(OSError), open(f"{path}-wal", "rb") as beside:  # noqa: PTH123 - as above
            log = beside.read(_SMALL)
        if b"kbot_items" in head or b"kbot_items" in log:
            raise _UnusableItemError("skipped", "it is the ledger of another run")
    if head.startswith(_BESIDE_A_DATABASE):
        raise _UnusableItemError("skipped", "it belongs to a SQLite file that is in use")


def _if_unchanged(job: Job, row: Row) -> Row | None:
    """Return an item's row with the version to keep, or None if the item changed.

    A page counts as unchanged if its version is missing or comes from another reader than before;
    both versions are then kept.
    """
    if job.kind != "webpage":
        return row._replace(version=job.version) if row.digest == job.digest else None
    page: Any = job.item
    if row.digest == job.digest:
        return row
    known = row.version.split(_SEPARATOR) if row.version else []
    kept = (
        page.model_copy(update={"version": version, "digest": None}) for version in (*known, None)
    )
    if row.digest not in (each.content_digest() for each in kept):
        return None  # its address, its headers or its version changed
    if page.version is None or _instant(page.version) in map(_instant, known):
        return row
    if any(_same_reader(page.version, version) for version in known):
        return None
    return row._replace(version=_SEPARATOR.join([*known, page.version]), digest=job.digest)


def _instant(version: str) -> datetime | str:
    """Return the time that a version is, as a sitemap or a feed writes it; else the version."""
    from email.utils import parsedate_to_datetime

    read = parsedate_to_datetime if _OF_A_FEED.fullmatch(version) else datetime.fromisoformat
    with contextlib.suppress(ValueError):
        instant = read(version)
        return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return version


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
