"""The service keeps the book of an origin itself: the extension `sync` (docs/extensions.md).

A run compares what the origin has with what the service has, and sends the difference. It holds
nothing that it cannot lose. A put is unique by key and idempotent by digest, so it may be repeated
whatever became of it; one with the digest that the run saw never covers a newer text.
"""

import asyncio
import functools
import hashlib
import itertools
import sys
import time
import zlib
from array import array
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from knowledge_bot._extensions import new_key
from knowledge_bot._sync import (
    BUCKETS,
    LONGEST_NAME,
    SUM_MODULUS,
    SyncMissing,
    SyncTouch,
    bucket_of,
    mark_of,
)
from knowledge_bot.errors import APIError, KnowledgeBotError, UnexpectedResponseError
from knowledge_bot.ingest._engine import Keeper
from knowledge_bot.ingest._feeding import WINDOW
from knowledge_bot.ingest._jobs import KEPT, Examiner, Job, MovedItems, Planned
from knowledge_bot.ingest._listings import ListedFile, Listing, Skipped, name_to_send
from knowledge_bot.ingest._pressure import Decision
from knowledge_bot.ingest._report import (
    Kind,
    Outcome,
    Stop,
    StopError,
    logger,
    shortened,
    would_move,
)

if TYPE_CHECKING:
    from knowledge_bot.ingest._engine import Run
    from knowledge_bot.models import SyncEntry, SyncPut, SyncSums

    WithMarks = list[tuple[SyncEntry, int]]

# What a version on the wire ends with: see `_Wire`.
_TAG = " #"
_LONGEST_VERSION = 2000  # bytes, and then the tag

# Above so many entries they are listed bucket by bucket, for the memory's sake.
_MOST_AT_ONCE = 100_000
_OF_A_GROUP = 16  # buckets that are held at once then

# How often a bucket is listed again whose entries do not have its sum: another run may write them.
_TRIES = 3

# Seconds between two looks at what is not ready yet: the first ones, and the longest.
_LOOKS, _LONGEST_LOOK = (0.1, 0.2, 0.5, 1.0), 2.0

_OUTCOMES: dict[str, Kind] = {"created": "created", "replaced": "replaced"}


class _Wire:
    """How items are identified to the service.

    The version on the wire ends with a tag of what else makes a source: the way it is read, its
    name and its collections. So a change of these is seen as well. An item without a version has
    its digest as one.
    """

    def __init__(self, collections: tuple[str, ...]) -> None:
        self._collections = collections
        # Of a file that is named by its key, as in a folder.
        self.of_listed: str = self._tag("file", "", collections)

    @staticmethod
    @functools.lru_cache(maxsize=1024)  # of one item it is asked for several times
    def _tag(way: str, name: str, collections: tuple[str, ...]) -> str:
        what = "\0".join([name, *sorted(collections)])
        return f"{_TAG}{_short(way)}{_short(what)}"

    def version(self, job: Job) -> str:
        """Return an item's version as it is sent."""
        way, name = job.way, "" if job.name == job.key else job.name
        if way == f"file{PurePath(job.key).suffix.lower()}":
            way = "file"
        tag = self._tag(way, name, job.collections)
        version = job.version if job.version is not None else self.digest(job)
        if len(version.encode("utf-8", "surrogatepass")) > _LONGEST_VERSION:
            version = hashlib.sha256(version.encode("utf-8", "surrogatepass")).hexdigest()
        return version + tag

    @staticmethod
    def digest(job: Job) -> str:
        """Return an item's digest as it is sent."""
        if job.kind != "webpage":
            return f"sha256:{job.digest.hex()}"
        entry, plain = job.before, f"page:{job.digest.hex()}"
        # A page that failed under this digest may have been away just for a moment.
        is_again = entry is not None and entry.status == "failed" and entry.digest == plain
        return f"again:{job.digest.hex()}" if is_again else plain

    @staticmethod
    def digest_of(entry: "SyncEntry") -> bytes:
        """Return the digest of an entry; empty where it is none of ours."""
        try:
            return bytes.fromhex(entry.digest.partition(":")[2])
        except ValueError:
            return b""

    @staticmethod
    def version_of(entry: "SyncEntry") -> str | None:
        """Return the version that the item of an entry had; None if it had none."""
        version = (entry.version or "").rpartition(_TAG)[0]
        return None if version == entry.digest else version or None

    def is_read_alike(self, job: Job, entry: "SyncEntry") -> bool:
        """Return whether the service read an entry's content as it would read an item's."""
        start = -len(self.of_listed) + len(_TAG)
        return (entry.version or "")[start:][:4] == self.version(job)[start:][:4]


def _outcome_of(entry: "SyncEntry", kind: Kind, error: str = "") -> Outcome:
    """Return what became of an entry, whose item is not at hand."""
    return Outcome(kind, entry.key[:500], entry.key, error, entry.source_id)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:4]


class _Marked(NamedTuple):
    """A listing without its versions: of some places the buckets and the marks."""

    listing: Listing
    places: Sequence[int]
    buckets: bytes
    marks: "array[int]"


class _Listed:
    """The files that an origin listed, as sums, and what makes their items again.

    A million of them take some ten bytes each, and their keys.

    Attributes:
        sums: of all buckets.
        count: how many files there are.
    """

    def __init__(self) -> None:
        self._several: list[_Marked] = []
        self.sums = [0] * BUCKETS
        self.count = 0

    def __bool__(self) -> bool:
        return bool(self._several)

    def add(self, listing: Listing, tag: str) -> "list[ListedFile | Skipped]":
        """Add a listing; return the items of those files that have no version, or no key."""
        keys, versions, item = listing
        places, odd = range(len(keys)), list[ListedFile | Skipped]()
        several: Sequence[int] = places
        if "" in versions or not _is_text("".join(keys)):
            several = [place for place in places if versions[place] and _is_text(keys[place])]
            odd = [item(place) for place in sorted(set(places).difference(several))]
            keys, versions = [keys[n] for n in several], [versions[n] for n in several]
        crc32, sha256, sums = zlib.crc32, hashlib.sha256, self.sums
        buckets = bytes([crc32(key.encode()) & 255 for key in keys])
        whole = [f"{key}\0{version}{tag}" for key, version in zip(keys, versions, strict=True)]
        marks = array("Q", b"".join([sha256(each.encode()).digest() for each in whole]))[::4]
        if sys.byteorder == "little":
            marks.byteswap()
        for bucket, mark in zip(buckets, marks, strict=True):
            sums[bucket] += mark
        self.count += len(keys)
        self._several.append(_Marked(listing._replace(versions=[]), several, buckets, marks))
        return odd

    def of(self, wanted: Iterable[int]) -> dict[int, dict[str, tuple[int, int]]]:
        """Return mark and place of the files in some buckets, by bucket and key."""
        found: dict[int, dict[str, tuple[int, int]]] = {bucket: {} for bucket in wanted}
        for number, (listing, places, buckets, marks) in enumerate(self._several):
            for place, bucket, mark in zip(places, buckets, marks, strict=True):
                if bucket in found:
                    found[bucket][listing.keys[place]] = mark, number << 20 | place
        return found

    def item(self, place: int) -> "ListedFile | Skipped":
        return self._several[place >> 20].listing.item(place & 0xFFFFF)


def _is_text(key: str) -> bool:
    """Return whether a key is Unicode text: a file's name may hold half a surrogate pair."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Book:
    """What the service holds of the origin, as far as the run asked, and as it has changed it."""

    def __init__(self, found: "SyncSums") -> None:
        self.found = found
        self.sums, self.count = list(found.sums), found.count
        self.entries: dict[str, SyncEntry] = {}  # those that were asked for, by key

    def change(self, key: str, before: "SyncEntry | None", version: str | None) -> None:
        """Note that the entry of a key has another version now, or is gone."""
        bucket, mark = bucket_of(key), 0 if version is None else mark_of(key, version)
        mark -= 0 if before is None else mark_of(before.key, before.version)
        self.count += (version is not None) - (before is not None)
        self.sums[bucket] = (self.sums[bucket] + mark) % SUM_MODULUS

    def differing(self, sums: Sequence[int]) -> list[int]:
        """Return the buckets whose sums are not these."""
        return [bucket for bucket in range(BUCKETS) if self.sums[bucket] != sums[bucket]]


class ServiceKeeper(Keeper):
    """Keeps the book in the service."""

    repeatable = replaces = True

    def __init__(self, run: "Run") -> None:
        self._ask, self._place, self._options = run.sender.ask, run.place, run.options
        self._counters = run.counters
        self._whole = run.options.complete and run.place.whole
        self._wire = _Wire(run.options.collections)
        self._examiner = Examiner(run.options.collections)
        self._book: _Book
        self._listed, self._moved = _Listed(), MovedItems()
        self._odd: list[Job] = []  # listed without a version
        self._touched: list[Job] = []  # to be touched
        self._missing: dict[str, SyncEntry] = {}
        self._by_content: dict[bytes, list[SyncEntry]] | None = None
        self._put: dict[str, tuple[str, Kind, bytes, SyncTouch | None]] = {}  # by this run
        self._had_failed: dict[str, str] = {}  # names of what it put again, by key
        self._overtaken: dict[str, tuple[bytes, Outcome]] = {}
        self._rest: AsyncIterator[Planned] | None = None
        self._checks_overlap = True
        self._checks_collections = not run.options.anyway and "sources" in run.sender.extensions

    async def _asked(self, method: str, *arguments: Any, **fields: Any) -> Any:
        """Ask the service about the origin."""
        try:
            return await self._ask(method, self._place.name, *arguments, **fields)
        except APIError as error:
            if error.status_code in (404, 405, 501):
                raise StopError(Stop.UNSUPPORTED, str(error)) from error
            raise

    # The memory of the origin ---------------------------------------------------------------------

    def recall(self, key: str) -> str | None:
        """Return the version of the item that was last sent under a key."""
        entry = self._book.entries.get(key)
        return None if entry is None else self._wire.version_of(entry)

    def entries(self) -> Iterable[tuple[str, str | None]]:
        """Return key and version of each item of the origin."""
        return [(key, self._wire.version_of(one)) for key, one in self._book.entries.items()]

    # Comparing ------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Ask what the service has of the origin."""
        self._book = _Book(await self._asked("compare_origin"))
        self.note = self._book.found.note
        self._checks_overlap = not (self._book.found.known or self._options.anyway)
        wanted = self._whole or self._options.dry_run or self._place.remembers
        if self._book.found.count and wanted and not self._place.listed:
            entries = await self._asked("list_entries")
            self._book.entries = {entry.key: entry for entry in entries}

    async def plan(self, items: Sequence[object]) -> Planned:
        """Compare items with the book; files of a listing wait until all are known."""
        planned = Planned()
        jobs = await asyncio.to_thread(self._jobs, items, planned)
        if self._checks_overlap and jobs:
            await self._check_overlap(jobs[:WINDOW])
        await self._decide(jobs, planned)
        self._tell_partial()
        return planned

    def _jobs(self, items: Sequence[object], planned: Planned) -> list[Job]:
        """Return what can be compared at once."""
        singles: list[object] = []
        for each in items:
            if not isinstance(each, Listing):
                singles.append(each)
            elif self._book.found.count:
                odd = self._listed.add(each, self._wire.of_listed)
                self._odd += self._examiner.jobs(odd, planned)
            else:
                singles += map(each.item, range(len(each.keys)))
        jobs = self._examiner.jobs(singles, planned)
        for job in jobs:
            job.before = self._book.entries.get(job.key)
        return self._examiner.usable(jobs, planned, self._known)

    def _known(self, job: Job) -> bytes | None:
        """Return the digest of an item whose version is the entry's."""
        if (
            job.before is None
            or job.version is None
            or job.before.version != self._wire.version(job)
        ):
            return None
        return self._wire.digest_of(job.before)

    async def _check_overlap(self, jobs: Sequence[Job]) -> None:
        """End the run where another origin holds what this one is about to send.

        Raises:
            StopError: it does.
        """
        self._checks_overlap = False
        names = {name_to_send(job.name) for job in jobs}
        other, count = await self._holder_of(names)
        # A person gives a file's own name; of an address that is none.
        named = (name_to_send(job.name) for job in jobs if job.kind != "webpage")
        by_hand = {name.rpartition("/")[2] for name in named} - {""}
        renamed = not by_hand <= names and count * 2 <= len(names)
        if renamed:
            other, count = await self._holder_of(by_hand, of_nobody=True)
        if count * 2 <= len(names):
            return
        here = self._place.name
        if other is None:
            held = "sources that somebody added by hand have"
            taken = "" if renamed else ": what is the same is taken over"
            ways = f". Delete those; or feed this once as {here!r} with {{option_anyway}}{taken}"
        else:
            held = f"the origin {other!r} has"
            ways = (
                ". If these are other documents of the same names, say so once: {option_anyway}. "
                f"If they are the same, call this origin {other!r} ({{option_origin}}), or that "
                f"one {here!r} ({{option_rename_origin}})"
            )
        raise StopError(
            Stop.OVERLAP,
            f"{held} {count} of the first {len(names)} names of {here!r}, which the service does "
            f"not know yet, so they would be there twice. Nothing was sent",
            ways,
        )

    async def _holder_of(
        self, names: Iterable[str], *, of_nobody: bool = False
    ) -> tuple[str | None, int]:
        """Return the origin that holds most of some names, or None, and how many it holds."""
        found = await self._asked("overlapping_origins", sorted(names), self._options.collections)
        return next((each for each in found if each[0] is None or not of_nobody), (None, 0))

    async def _decide(self, jobs: Sequence[Job], planned: Planned) -> None:
        """Decide what to do with items that were examined."""
        different: list[Job] = []
        if not self._place.listed:
            jobs = self._examiner.distinct(jobs, planned)
        for job in jobs:
            entry = job.before
            failed_page = job.kind == "webpage" and entry is not None and entry.status == "failed"
            if entry is None or failed_page or not self._is_same(job, entry):
                different.append(job)
            elif self._wire.version(job) == entry.version:
                planned.unchanged += 1
            elif job.kind == "webpage" and job.version is None:
                planned.unchanged += 1  # it keeps what was known of it
            else:
                self._touched.append(job)
                await self._check_collections(job, entry)
        held = (one.content or getattr(one.item, "content", "") for one in self._touched)
        if len(self._touched) >= WINDOW or sum(map(len, held)) > KEPT:
            different += await self._touch()
        if not (self._whole or self._options.dry_run):  # a part: nothing of it is listed
            known = [job for job in different if job.before is not None]
            self._touched += [job for job in different if job.before is None]
            different = known + await self._touch()
        planned.jobs += self._moved.take(different, self._had)

    async def _check_collections(self, job: Job, entry: "SyncEntry") -> None:
        """End the run where it would take what the origin holds out of its collections.

        Raises:
            StopError: it would.
        """
        if not self._checks_collections or job.collections != self._options.collections:
            return
        if self._wire.version_of(entry) != job.version:  # its content was touched
            return
        self._checks_collections = False
        source = await self._ask("get_source", entry.source_id)
        there = (collection.id for collection in source.collections)
        if (error := would_move(self._place.name, there, job.collections)) is not None:
            raise error

    def _is_same(self, job: Job, entry: "SyncEntry") -> bool:
        same = job.is_same(self._wire.digest_of(entry), self._wire.version_of(entry))
        return same and self._wire.is_read_alike(job, entry)

    def _had(self, digest: bytes) -> bool:
        """Return whether the origin had, or has, a content under some key."""
        return digest in self._contents

    @property
    def _contents(self) -> "dict[bytes, list[SyncEntry]]":
        """What is known to be missing, or may be, by its content."""
        entries = self._missing if self._listed else self._book.entries
        if self._by_content is None:
            self._by_content = defaultdict(list)
            for entry in entries.values():
                self._by_content[self._wire.digest_of(entry)].append(entry)
        return self._by_content

    def _tell_partial(self) -> None:
        self._counters.incomplete = self._counters.incomplete or self._examiner.partial

    async def more(self, incomplete: str) -> Planned | None:
        """Return a window of what is left once all items came."""
        if self._rest is None:
            self._rest = self._remaining(incomplete)
        planned = await anext(self._rest, None)
        self._tell_partial()
        return planned

    async def _remaining(self, incomplete: str) -> AsyncIterator[Planned]:
        if self._listed:
            async for planned in self._compared():
                yield planned
        elif self._whole:
            entries, came = self._book.entries, self._examiner.came
            self._missing = {key: one for key, one in entries.items() if key not in came}
        missing = self._missing.items()
        self._missing = {key: one for key, one in missing if self._gone_reason(key) != "unread"}
        if self._moved:
            moved = self._moved.found(self._places_of if not incomplete else lambda _: [])
            for job in moved:
                if job.moved is not None:
                    del self._missing[job.moved.key]
            planned = Planned(jobs=[job for job in moved if job.moved is None])
            if self._options.dry_run:
                planned.jobs = moved
            else:
                self._touched += [job for job in moved if job.moved is not None]
            yield planned
        yield Planned(jobs=await self._touch())

    def _places_of(self, job: Job) -> "list[SyncEntry]":
        """Return the missing entries that an item may have been."""
        suffix = PurePath(job.key).suffix.lower()
        return [
            entry
            for entry in self._contents.get(job.digest, ())
            if entry.key in self._missing
            and PurePath(entry.key).suffix.lower() == suffix
            and self._wire.is_read_alike(job, entry)
            and self._gone_reason(entry.key) != "excluded"
        ]

    def _gone_reason(self, key: str) -> str:
        return self._examiner.left_out.get(key) or self._place.gone_reason(key)

    # Listed files ---------------------------------------------------------------------------------

    async def _compared(self) -> AsyncIterator[Planned]:
        """Compare all listed files with the book, and yield plans for those that differ."""
        sums = [each % SUM_MODULUS for each in self._listed.sums]
        differing = self._book.differing(sums)
        unchanged = self._listed.count  # less what stands in a bucket that differs
        odd = {job.key: job for job in self._odd}
        different: list[tuple[int, SyncEntry | None]] = []
        size = BUCKETS if self._book.found.count < _MOST_AT_ONCE else _OF_A_GROUP
        for start in range(0, len(differing), size):
            group = differing[start : start + size]
            several = await asyncio.to_thread(self._listed.of, group)
            async for bucket, entries in self._buckets(group):
                listed = several[bucket]
                unchanged -= len(listed)
                for entry, own in entries:
                    mark, place = listed.pop(entry.key, (None, -1))
                    if entry.key in odd:
                        odd[entry.key].before = entry
                    elif mark is None:
                        self._missing[entry.key] = entry
                    elif mark == own:
                        unchanged += 1
                    else:
                        different.append((place, entry))
                different += [(place, None) for _, place in listed.values()]
        yield Planned(unchanged=unchanged)
        different.sort(key=lambda one: one[0])
        for start in range(0, len(different), WINDOW):
            yield await self._planned(different[start : start + WINDOW])
        yield await self._planned([], self._odd)

    async def _planned(
        self, places: "Sequence[tuple[int, SyncEntry | None]]", odd: Sequence[Job] = ()
    ) -> Planned:
        """Return the plan for some listed files, by their places, and for some `odd` ones."""
        planned, jobs = Planned(), list(odd)

        def examined() -> list[Job]:
            for place, entry in places:
                for job in self._examiner.jobs([self._listed.item(place)], planned):
                    job.before = entry
                    jobs.append(job)
            return self._examiner.usable(jobs, planned, self._known)

        await self._decide(await asyncio.to_thread(examined), planned)
        return planned

    async def _buckets(self, wanted: Sequence[int]) -> "AsyncIterator[tuple[int, WithMarks]]":
        """Yield the entries of buckets, each with its mark.

        Raises:
            StopError: the service has other sums than its entries.
        """
        by_bucket: dict[int, list[SyncEntry]] | None = None
        if self._book.found.count < _MOST_AT_ONCE * len(wanted) / BUCKETS:
            by_bucket = defaultdict(list)
            for entry in await self._asked("list_entries"):
                by_bucket[bucket_of(entry.key)].append(entry)
        for bucket in wanted:
            entries = None if by_bucket is None else by_bucket.get(bucket, [])
            yield bucket, await self._checked(bucket, entries)

    async def _checked(self, bucket: int, entries: "list[SyncEntry] | None") -> "WithMarks":
        """Return the entries of a bucket once they have its sum, as another run may write them."""
        for _ in range(_TRIES):
            if entries is None:
                entries = await self._asked("list_entries", bucket=bucket)
            marked = [(entry, mark_of(entry.key, entry.version)) for entry in entries]
            found = sum(mark for _, mark in marked) % SUM_MODULUS
            if found == self._book.sums[bucket]:
                return marked
            now = await self._asked("compare_origin")
            self._book.sums[bucket] = now.sums[bucket]
            if found == now.sums[bucket]:
                return marked
            entries = None
        raise StopError(
            Stop.UNSUPPORTED,
            f"the sum of bucket {bucket} of {self._place.name!r} is not that of its entries. "
            "Nothing was sent or removed that depends on it",
        )

    async def _touch(self) -> list[Job]:
        """Give entries of the same content new versions; return those that have to be sent."""
        jobs, self._touched = self._touched, []
        if not jobs or self._options.dry_run:
            self._counters.counts["unchanged"] += len(jobs)
            return []
        # One key that the service cannot have would end the call; it is refused when it is sent.
        possible = [self._touch_of(job) for job in jobs if len(job.key) <= LONGEST_NAME]
        outcomes = await self._asked("touch_entries", possible) if possible else {}
        again = []
        for job in jobs:
            if outcomes.get(job.key) != "touched":
                job.moved = None
                again.append(job)
                continue
            if job.moved is not None:
                self._book.change(job.moved.key, job.moved, None)
                self._book.change(job.key, None, self._wire.version(job))
                self._counters.add(job.outcome("moved", source_id=job.moved.source_id))
            else:
                self._book.change(job.key, job.before, self._wire.version(job))
                self._counters.counts["unchanged"] += 1
        return again

    def _touch_of(self, job: Job) -> SyncTouch:
        entry = job.moved or job.before
        return SyncTouch(
            key=job.key,
            digest=self._wire.digest(job) if entry is None else entry.digest,
            version=self._wire.version(job),
            name=name_to_send(job.name),
            collections=job.collections,
            moved_from=None if job.moved is None else job.moved.key,
        )

    # Sending --------------------------------------------------------------------------------------

    def request(self, job: Job) -> tuple[str, dict[str, Any]]:
        """Return how an item is put."""
        kind, fields = job.sent_as()
        if self._whole:
            fields["expected"] = None if job.before is None else job.before.digest
        digest, version = self._wire.digest(job), self._wire.version(job)
        identity = {"origin": self._place.name, "key": job.key, "digest": digest}
        return f"put_{kind}_source", {**fields, **identity, "version": version}

    async def sent(self, job: Job, answer: "SyncPut") -> None:
        """Count what became of a put."""
        kind = _OUTCOMES.get(answer.outcome, "unchanged")  # or it was adopted
        self._book.change(job.key, job.before, self._wire.version(job))
        touch = None if self._whole else self._touch_of(job)
        self._put[job.key] = job.name, kind, job.digest, touch
        if job.before is not None and job.before.status == "failed":
            self._had_failed[job.key] = job.name
        if kind == "unchanged":
            self._counters.counts[kind] += 1
        else:
            self._counters.add(job.outcome(kind, source_id=answer.source.id))

    async def judged(self, job: Job, error: KnowledgeBotError) -> Decision | None:
        """Decide about the answers that only a put has."""
        if isinstance(error, UnexpectedResponseError) and not error.may_pass:
            return Decision("undelivered", stop=(Stop.UNSUPPORTED, str(error)))
        if not isinstance(error, APIError):
            return None
        if error.code == "entry_moved_on":
            reason = "another run was faster with another content; the next one compares again"
            self._overtaken[job.key] = job.digest, job.outcome("undelivered", reason)
            return Decision(None)
        if error.code == "digest_mismatch":
            return await self._read_again(job)
        if error.status_code in (404, 405, 501) and error.code != "unknown_collection":
            return Decision("undelivered", stop=(Stop.UNSUPPORTED, str(error)))
        return None

    async def _read_again(self, job: Job) -> Decision:
        """Read an item again that changed since it was read, once."""
        if job.tries > 1:
            return Decision("undelivered")  # the next run reads it again
        planned = Planned()
        job.version, job.content = job.item.version, None
        usable = await asyncio.to_thread(self._examiner.usable, [job], planned)
        for outcome in planned.outcomes:
            self._counters.add(outcome)
        return Decision("undelivered", retry_in=0.0) if usable else Decision(None)

    def failed(self, job: Job, kind: Kind | None, error: str, *, again: bool) -> None:
        """Count an item that was not sent."""
        if kind is not None and not again:
            self._counters.add(job.outcome(kind, error))

    # The end --------------------------------------------------------------------------------------

    async def finish(self, incomplete: str) -> None:
        """Remove what is gone, tell what cannot be read, and look whether all is there."""
        self._counters.counts["unversioned"] = self._examiner.unversioned
        if self._counters.ended:
            return
        missing = self._gone() if self._whole and not incomplete else []
        if self._options.dry_run:
            self._would_remove(missing)
            return
        found = await self._until_ready()
        told = await self._failures(found)
        await self._verify(found)
        is_known = self._book.found.known or self._put  # what was mistyped stays unknown
        if self._whole and is_known and not (incomplete or self._counters.incomplete):
            await self._complete(missing, told)

    def _would_remove(self, missing: "Sequence[tuple[SyncEntry, str]]") -> None:
        """Tell what a run would remove, or that it would withhold it."""
        limit = self._options.gone_limit
        if len(missing) > limit * self._book.found.count:
            self._counters.withhold(len(missing), self._place.name, limit, "removed")
            missing = ()
        for one, _ in missing:
            self._counters.add(_outcome_of(one, "removed"))

    def _gone(self) -> "list[tuple[SyncEntry, str]]":
        """Return what is missing and may be removed, with the reasons; count what stays."""
        prune = self._options.prune
        found = [(one, self._gone_reason(key)) for key, one in self._missing.items()]
        kept = () if prune == "excluded" else ("excluded",)
        wanted = [each for each in found if prune and each[1] not in kept]
        self._counters.counts["gone"] += len(found) - len(wanted)
        return wanted

    async def _until_ready(self) -> "SyncSums":
        """Wait until the service has read all that it has of the origin, as long as is wanted."""
        deadline, found = time.monotonic() + self._options.wait_ready, self._book.found
        if self._put or self._options.wait_ready:
            found = await self._asked("compare_origin")
        for pause in itertools.chain(_LOOKS, itertools.repeat(_LONGEST_LOOK)):
            left = deadline - time.monotonic()
            if not found.pending or left <= 0 or self._counters.stopped is not None:
                break
            await asyncio.sleep(min(pause, left))
            found = await self._asked("compare_origin")
        if self._options.wait_ready:
            self._counters.counts["unready"] += found.pending
        return found

    async def _failures(self, found: "SyncSums") -> list[tuple[str, str]]:
        """Count what the service could not read; return what is told now, key and reason."""
        self._counters.counts["still_failed"] += found.failed - found.untold
        if not found.untold and not self._had_failed:
            return []
        told = []
        for one in await self._asked("list_entries", status=["failed", "pending", "processing"]):
            self._had_failed.pop(one.key, None)
            if one.status != "failed" or one.told or one.key in self._missing:
                continue
            reason = one.reason or "it gives no reason"
            told.append((one.key, one.reason or ""))
            self._counters.add(_outcome_of(one, "failed", reason))
        for name in self._had_failed.values():
            logger.info("The service can read %s now", shortened(name))
        return told

    async def _complete(
        self, missing: "Sequence[tuple[SyncEntry, str]]", told: Sequence[tuple[str, str]]
    ) -> None:
        """Tell the service that the origin was seen to its end, and what it has no more."""
        doubts = self._place.doubts
        gone = [
            SyncMissing(one.key, one.digest, reason, sure=not doubts(one.key))
            for one, reason in missing
        ]
        limit, note = self._options.gone_limit, self.note
        done = await self._asked(
            "complete_origin", new_key(), missing=gone, limit=limit, note=note, told=told
        )
        counts = self._counters.counts
        for key in done.keys:
            if (one := self._missing.get(key)) is not None:
                self._counters.add(_outcome_of(one, "removed"))
                counts["still_failed"] -= one.status == "failed" and one.told
        counts["removed"] += max(0, done.removed - len(done.keys))
        counts["gone"] += done.waiting
        self._counters.withhold(done.withheld, self._place.name, limit, "removed")

    async def _verify(self, found: "SyncSums") -> None:
        """Look whether what this run put is there, and what others put in its place."""
        if not self._put and not self._overtaken:
            return
        there: dict[str, bytes] = {}
        buckets = {*map(bucket_of, self._overtaken)} | await self._doubtful(found)
        for bucket in sorted(buckets):
            entries = await self._asked("list_entries", bucket=bucket)
            there.update((entry.key, self._wire.digest_of(entry)) for entry in entries)
        for key, (name, kind, digest, _) in self._put.items() if buckets else ():
            if there.get(key) != digest and bucket_of(key) in buckets:
                self._counters.counts[kind] -= 1
                reason = "the service accepted it, and does not have it any more"
                self._counters.add(Outcome("undelivered", name[:500], key, reason))
        for key, (digest, outcome) in self._overtaken.items():
            if there.get(key) == digest:
                self._counters.counts["unchanged"] += 1
            else:
                self._counters.add(outcome)

    async def _doubtful(self, found: "SyncSums") -> set[int]:
        """Return the buckets in which something may be missing that this run put."""
        if not self._whole:  # of a part nobody knows the sums
            touches = [touch for *_, touch in self._put.values() if touch is not None]
            outcomes = await self._asked("touch_entries", touches) if touches else {}
            return {bucket_of(key) for key, outcome in outcomes.items() if outcome != "touched"}
        differing = set(self._book.differing(found.sums))
        # What is missing here, another run may have removed meanwhile.
        if (lost := self._book.count - found.count - len(self._missing)) > 0:
            reason = f"{lost} sources that were there are not any more: was the service restored?"
            self._counters.incomplete = self._counters.incomplete or reason
        return differing & set(map(bucket_of, self._put))

    async def close(self) -> None:
        """Count what other runs were faster with, where nobody looked at it any more."""
        for _, outcome in self._overtaken.values() if self._counters.ended else ():
            self._counters.add(outcome)
