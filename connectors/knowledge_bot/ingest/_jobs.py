"""Items on their way: what is found out about each before anything is sent."""

import hashlib
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

from knowledge_bot.ingest._listings import (
    ListedFile,
    Skipped,
    name_to_send,
    version_of_file,
    version_of_stat,
)
from knowledge_bot.ingest._report import Kind, Outcome, logger

if TYPE_CHECKING:  # pydantic is slow to load, and a night without changes makes no item
    from knowledge_bot.ingest._items import Item

# A file that changed this recently, in seconds, may change again within one tick of its file
# system's clock and keep its time; git calls such a file racily clean.
_SETTLED = 2.0

# Bytes of a file that is read once, and of all that are kept in one window until they are sent.
_SMALL = 512 * 1024
KEPT = 8_000_000
_START = 16  # of a file, by which a database is known

_EMPTY = hashlib.sha256().digest()

# So many files may be removed by somebody while a run lasts; of more, their disk went away.
_FEW = 5


@dataclass(slots=True)
class Job:
    """An item that may be sent.

    Attributes:
        item: the item.
        key: what identifies it within its origin.
        name: the source's name.
        place: the page's address, the file's path, or the text's name.
        kind: `webpage`, `text`, `file`, or `object` for a file with an `open` function.
        collections: where it goes.
        version: changes when the content does, and needs no reading; None if there is none.
        stat: what `version_of_stat` returned of a file whose content is read when it is sent.
        content: of a small file, as it was hashed.
        digest: the hash of its content.
        before: what the book has of it; None if it is new.
        moved: what the book has of the same content under a key that is no longer there; None if
            the item is sent.
        claim: what its keeper notes while it is sent.
        in_doubt: whether an attempt of it may have been acted on, and none is known to have been.
        tries: how many times it was sent in this run.
        failure: what became of the last try, if it is to be sent again.
    """

    item: "Item | ListedFile"
    key: str
    name: str
    place: str
    kind: str
    collections: tuple[str, ...]
    version: str | None = None
    stat: str | None = None
    content: bytes | None = None
    digest: bytes = b""
    before: Any = None
    moved: Any = None
    claim: Any = None
    in_doubt: bool = False
    tries: int = 0
    failure: Outcome | None = None

    @classmethod
    def of(cls, item: object, collections: tuple[str, ...]) -> "Job | None":
        """Return an item as a job; None for what is no item.

        Args:
            item: anything that an origin yields.
            collections: where items go that name no collections.
        """
        if isinstance(item, ListedFile):
            return cls(item, item.key, item.name, item.path, "file", collections)
        from knowledge_bot.ingest import _items

        if not isinstance(item, _items.Item):
            return None
        name, place, kind = item.name, item.name, "text"
        if isinstance(item, _items.File):
            place, kind = item.path, "file" if item.open is None else "object"
            name = name or place.rpartition(os.sep)[2]
        elif isinstance(item, _items.WebPage):
            place, kind = item.url, "webpage"
        there = item.collections or collections
        return cls(item, item.identity, name, place, kind, there, version=item.version)

    @property
    def way(self) -> str:
        """How a service reads it: what failed as a `.pdf` may be fine as a `.txt`."""
        return reading_of(self.kind, self.place)

    def sent_as(self) -> tuple[str, dict[str, Any]]:
        """Return as what it is sent, `text`, `webpage` or `file`, and the client's arguments."""
        item: Any = self.item
        fields: dict[str, Any] = {
            "name": name_to_send(self.name),
            "collections": self.collections,
        }
        if self.kind == "text":
            return "text", {**fields, "content": item.content}
        if self.kind == "webpage":
            from knowledge_bot.models import Header

            headers = [Header(name=name, value=of.get_secret_value()) for name, of in item.headers]
            return "webpage", {**fields, "url": item.url, "headers": headers}
        name = self.place.rpartition("/" if self.kind == "object" else os.sep)[2] or self.name
        content = self.content if self.content is not None else item.open or self.place
        return "file", {**fields, "file": content, "filename": name}

    def outcome(self, kind: Kind, error: str = "", source_id: str | None = None) -> Outcome:
        """Return what became of the item."""
        return Outcome(kind, self.name[:500], self.key, error, source_id)

    def came_twice(self, *, same: bool) -> Outcome:
        """Return what becomes of an item whose key came before, with the same content or not."""
        if same:
            return self.outcome("skipped", "it comes twice in this run")
        return self.outcome(
            "invalid",
            "another item of this run has the same key and another content; give each item a key "
            "of its own",
        )

    def asks_as(self, digest: bytes) -> bool:
        """Return whether a page has the address and headers of a digest; any other item has."""
        item: Any = self.item
        return self.kind != "webpage" or item.content_digest()[:8] == digest[:8]

    def is_same(self, digest: bytes, version: str | None) -> bool:
        """Return whether its content is that of a digest, which was sent with a version.

        Of a page the first half of the digest says what is asked for, the second one what that
        says. It is no change if nobody knows that now, or if nobody has known it yet.
        """
        own = self.digest[: len(digest)]
        if own == digest or self.kind != "webpage":
            return own == digest
        unsaid = not any(own[8:]) or (version is None and not any(digest[8:]))
        return unsaid and own[:8] == digest[:8]


def reading_of(kind: str, place: str) -> str:
    """Return how a service reads what is of a kind, and at a place."""
    return kind if kind in ("text", "webpage") else f"file{PurePath(place).suffix.lower()}"


@dataclass(slots=True)
class Planned:
    """The plan for some items.

    Attributes:
        jobs: what to send.
        outcomes: what not to send, and why.
        unchanged: how many items are there as they should be.
        elsewhere: items that another run is sending.
    """

    jobs: list[Job] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    unchanged: int = 0
    elsewhere: "list[Item | ListedFile]" = field(default_factory=list)


class Examiner:
    """Reads items in threads, before they are compared.

    Args:
        collections: where items go that name no collections.
        is_own: says of a file's path whether it belongs to the run's own ledger.

    Attributes:
        partial: why there may be more items than were seen; empty if there are none.
        left_out: why an item did not come, by its key.
        came: the digests of the items that came one by one, by their keys.
        unversioned: how many pages have nothing by which a change can be seen.
    """

    def __init__(
        self, collections: tuple[str, ...], *, is_own: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._collections, self._is_own = collections, is_own
        self.partial: str = ""
        self.left_out: dict[str, str] = {}
        self.came: dict[str, bytes] = {}
        self.unversioned: int = 0
        self._vanished = 0

    def jobs(self, items: Iterable[object], planned: Planned) -> list[Job]:
        """Return items as jobs, and add to a plan what is left out."""
        jobs: list[Job] = []
        for item in items:
            if isinstance(item, Skipped):
                self._leave_out(item, planned)
            elif (job := Job.of(item, self._collections)) is not None:
                jobs.append(job)
            else:
                reason = f"expected a WebPage, Text or File, not {type(item).__name__}"
                planned.outcomes.append(Outcome("invalid", repr(item)[:500], None, reason))
                self.partial = self.partial or reason
        return jobs

    def _leave_out(self, item: Skipped, planned: Planned) -> None:
        kind: Literal["invalid", "skipped"] = "invalid" if item.invalid else "skipped"
        planned.outcomes.append(Outcome(kind, item.name[:500], None, item.reason))
        if item.gone:
            self.left_out[item.name] = item.gone
        if item.partial:
            self.partial = self.partial or f"{item.name[:500]}: {item.reason}"

    def usable(
        self,
        jobs: Sequence[Job],
        planned: Planned,
        known: Callable[[Job], bytes | None] = lambda _: None,
    ) -> list[Job]:
        """Examine jobs; return those that can be sent, and add to a plan why the others cannot.

        Args:
            jobs: what to examine.
            planned: the plan.
            known: returns the digest that the book has for exactly this version, if any.
        """
        usable, room, now = list[Job](), KEPT, time.time()
        for job in jobs:
            try:
                self._examine(job, known, room, now)
            except _UnusableItemError as error:
                kind, reason = error.kind, str(error)
                if job.before is not None:
                    kind = "invalid"  # somebody has to look at it, or bots answer from it for ever
                    reason += "; the service still has what was sent of it before"
                planned.outcomes.append(job.outcome(kind, reason))
            except Exception as error:
                if isinstance(error, FileNotFoundError) and isinstance(job.item, ListedFile):
                    planned.outcomes.append(self._vanish(job))
                    continue
                if not isinstance(error, OSError | ValueError) and job.kind != "object":
                    raise
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                reason = f"{job.place} cannot be read: {reason.lower()}"
                planned.outcomes.append(job.outcome("invalid", reason))
            else:
                usable.append(job)
                room -= len(job.content or b"")
                continue
            self.came.setdefault(job.key, b"")
        return usable

    def distinct(self, jobs: Sequence[Job], planned: Planned) -> list[Job]:
        """Return the jobs whose keys came first, and add to a plan what becomes of the others."""
        first = list[Job]()
        for job in jobs:
            if (before := self.came.get(job.key)) is not None:
                planned.outcomes.append(job.came_twice(same=before == job.digest[:16]))
            else:
                self.came[job.key] = job.digest[:16]
                first.append(job)
        return first

    def _vanish(self, job: Job) -> Outcome:
        """Return what becomes of a file that was listed a moment ago, and is not there any more."""
        self._vanished += 1
        if self._vanished > _FEW:
            reason = f"{self._vanished} files vanished while it was read: is it still mounted?"
            self.partial = self.partial or reason
        return job.outcome("skipped", "it was removed while the run lasted")

    def _examine(
        self, job: Job, known: Callable[[Job], bytes | None], room: int, now: float
    ) -> None:
        """Check an item, and hash its content where that is not known."""
        item: Any = job.item
        if "\0" in job.key or "\0" in job.name:
            raise _UnusableItemError("invalid", "its name or key holds a NUL character")
        if job.kind == "text" and not item.content.strip():
            raise _UnusableItemError("skipped", "it has no content")
        if job.kind == "file":
            self._read(job, known, room, now)
        else:
            job.digest = known(job) or item.content_digest()
            if not job.asks_as(job.digest):
                job.digest = item.content_digest()
        if job.kind == "object" and job.digest == _EMPTY:
            raise _UnusableItemError("skipped", f"{job.place} is empty")
        if job.kind == "webpage" and not any(job.digest[8:]):
            self.unversioned += 1
            logger.info("unversioned: %s: nothing shows when it changes", job.name)

    def _read(self, job: Job, known: Callable[[Job], bytes | None], room: int, now: float) -> None:
        """Read and hash a file, once: what is read of a small one is also what is sent."""
        status = os.stat(job.place)  # noqa: PTH116 - a `Path` costs more than the call
        if not stat.S_ISREG(status.st_mode):
            what = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise _UnusableItemError("invalid", f"{job.place} is {what}")
        if status.st_size == 0:
            raise _UnusableItemError("skipped", f"{job.place} is empty")
        if self._is_own(job.place):
            raise _UnusableItemError("skipped", "it is the ledger of this run")
        found, given = version_of_stat(status), job.version is not None
        settled = now - status.st_mtime > _SETTLED and now - status.st_ctime > _SETTLED
        if not given and settled:
            job.version = found
        if (digest := known(job)) is not None:
            job.digest, job.stat = digest, found
            return
        with open(job.place, "rb", buffering=0) as stream:  # noqa: PTH123 - as above
            if status.st_size > _SMALL:
                _refuse_database(stream.read(_START), job.place)
                stream.seek(0)
                job.digest, job.stat = hashlib.file_digest(stream, "sha256").digest(), found
                return
            content = stream.readall()
            _refuse_database(content, job.place)
            same = version_of_stat(os.fstat(stream.fileno())) == found
        if not content.strip():
            raise _UnusableItemError("skipped", f"{job.place} is empty")
        job.digest = hashlib.sha256(content).digest()
        if not 0 < len(content) <= room:
            job.stat = found
            return
        job.content = content
        if not same and not given:
            job.version = None  # it was written to meanwhile


class MovedItems:
    """New items with a content that the origin had under another key: perhaps they were moved.

    Whether they were is not known before the origin's end.
    """

    def __init__(self) -> None:
        self._waiting: list[Job] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def contents(self) -> list[bytes]:
        """The digests of what waits."""
        return [job.digest for job in self._waiting]

    def take(self, jobs: Sequence[Job], contents: "Callable[[bytes], object]") -> list[Job]:
        """Keep those of some jobs that may have been moved; return the others.

        Args:
            jobs: what could be sent.
            contents: returns whether the origin had a content.
        """
        others: list[Job] = []
        for job in jobs:
            new = job.before is None and job.kind != "webpage" and contents(job.digest)
            (self._waiting if new else others).append(_without_content(job) if new else job)
        return others

    def found(self, missing: Callable[[Job], list[Any]]) -> list[Job]:
        """Return what waited; what was moved has the old place in `moved`.

        An item was moved if its content is known under one key that did not come, and came under
        no other new one, and is read as it was there.

        Args:
            missing: returns what the book has of an item's content under keys that did not come.
        """
        waiting, self._waiting = self._waiting, []
        alike = Counter(job.digest for job in waiting)
        for job in waiting:
            places = missing(job)
            if len(places) == alike[job.digest] == 1:
                job.moved = places[0]
        return waiting


def _without_content(job: Job) -> Job:
    """Let a file be read again, since it waited."""
    if job.content is not None:
        job.content, job.stat = None, version_of_file(job.place)
    return job


def _refuse_database(head: bytes, path: str) -> None:
    if head.startswith(b"SQLite format 3\0"):
        raise _UnusableItemError("skipped", f"{path} is a database, and no document")


class _UnusableItemError(Exception):
    """An item that cannot or should not be sent."""

    def __init__(self, kind: Literal["invalid", "skipped"], reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
