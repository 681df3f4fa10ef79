"""What is to be done with each item: compared with the ledger, before anything is sent."""

import hashlib
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Literal, cast, get_args

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest.files import Fingerprint
from knowledge_bot.ingest.items import File, Item, Skipped, Text
from knowledge_bot.ingest.ledger.entries import State
from knowledge_bot.ingest.ledger.lookups import Lookups
from knowledge_bot.ingest.ledger.rows import Row, Touch
from knowledge_bot.ingest.report import Failure

OnUnknown = Literal["hold", "resend"]
"""What becomes of an item whose outcome is unknown: left alone and reported, or sent again."""


@dataclass(frozen=True, slots=True)
class Job:
    """An item that is to be sent.

    Attributes:
        item: the item.
        collections: where it goes.
        claim: the row that claims it.
        before: the row that the decision was made on.
        fingerprint: of a file, before it was read.
    """

    item: Item
    collections: tuple[str, ...]
    claim: Row
    before: Row | None
    fingerprint: str | None


@dataclass(slots=True)
class Planned:
    """What became of some items."""

    jobs: list[Job] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    touched: list[Touch] = field(default_factory=list)
    unchanged: int = 0
    elsewhere: int = 0


class Verdict(Enum):
    """What is to be done with an item."""

    SEND = auto()
    UNCHANGED = auto()
    HELD = auto()
    ELSEWHERE = auto()
    REPEATED = auto()


class Planner:
    """Compares items with the ledger. It blocks, and is used by one thread at a time.

    Args:
        service: the base URL.
        collections: where items go that name none.
        on_unknown: what becomes of items whose outcome is unknown.
        lookups: what the ledger knows; without one, everything is sent.
        owner: the id of this run.
    """

    def __init__(
        self,
        service: str,
        collections: Sequence[str],
        on_unknown: OnUnknown,
        lookups: Lookups | None,
        owner: str,
    ) -> None:
        self._service, self._collections = service, tuple(collections)
        self._on_unknown, self._owner = on_unknown, owner
        self._lookups = lookups

    def plan(self, items: Sequence[object]) -> Planned:
        """Decide about some items.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        planned = Planned()
        candidates = []
        for item in items:
            try:
                if isinstance(item, Skipped):
                    raise _UnfitError(item.name, None, item.reason, skipped=not item.invalid)
                candidates.append(_Candidate.of(item, self._service, self._collections))
            except _UnfitError as unfit:
                planned.failures.append(unfit.failure)
        rows: dict[str, Row] = {}
        if self._lookups is not None:
            candidates = self._without_unchanged_files(candidates, self._lookups, planned)
            rows = self._lookups.rows([candidate.id for candidate in candidates])
        for candidate in candidates:
            try:
                self._decide(candidate, rows.get(candidate.id), planned)
            except _UnfitError as unfit:
                planned.failures.append(unfit.failure)
        return planned

    def _without_unchanged_files(
        self, candidates: "list[_Candidate]", lookups: Lookups, planned: Planned
    ) -> "list[_Candidate]":
        """Return the candidates but for files that are unchanged by their size and times.

        On most runs these are nearly all there are, and their whole rows would take as long to read
        as everything else about them.
        """
        signatures = lookups.signatures([each.id for each in candidates if each.fingerprint])
        left = [
            candidate
            for candidate in candidates
            if candidate.fingerprint is None
            or signatures.get(candidate.id) != candidate.fingerprint.text
        ]
        planned.unchanged += len(candidates) - len(left)
        return left

    def _decide(self, candidate: "_Candidate", row: Row | None, planned: Planned) -> None:
        digest = candidate.digest() if self._lookups is not None else ""
        verdict = _verdict(row, digest, self._owner, self._on_unknown)
        if verdict is Verdict.UNCHANGED and row is not None:
            planned.unchanged += 1
            if row.signature != candidate.signature or row.state != State.CREATED:
                planned.touched.append(Touch(row.id, row.version, candidate.signature))
        elif verdict is Verdict.ELSEWHERE:
            planned.elsewhere += 1
        elif verdict is Verdict.HELD and row is not None:
            planned.failures.append(
                Failure("unknown", candidate.name, candidate.key, f"held back: {row.error}")
            )
        elif verdict is Verdict.REPEATED and row is not None:
            same = row.digest == digest
            raise _UnfitError(
                candidate.name,
                candidate.key,
                "it comes twice in this run"
                if same
                else "another item of this run has the same key and another content; give each "
                "item a key of its own",
                skipped=same,
            )
        else:
            planned.jobs.append(candidate.job(row, digest, self._owner))


def _verdict(row: Row | None, digest: str, owner: str, on_unknown: OnUnknown) -> Verdict:
    if row is None:
        return Verdict.SEND
    if row.owner == owner:
        return Verdict.UNCHANGED if row.source_digest == digest else Verdict.REPEATED
    if row.state == State.CLAIMED:
        return Verdict.ELSEWHERE
    if row.state == State.UNKNOWN:
        return Verdict.SEND if on_unknown == "resend" else Verdict.HELD
    return Verdict.UNCHANGED if row.source_digest == digest else Verdict.SEND


class _UnfitError(Exception):
    """Ends the planning of an item that cannot be sent."""

    def __init__(self, name: str, key: str | None, reason: str, *, skipped: bool = False) -> None:
        self.failure = Failure("skipped" if skipped else "invalid", name[:500], key, reason)


@dataclass(slots=True)
class _Candidate:
    """An item with what the ledger is asked about it."""

    item: Item
    id: str
    service: str
    collections: tuple[str, ...]
    key: str
    name: str
    fingerprint: Fingerprint | None

    @classmethod
    def of(cls, item: object, service: str, collections: tuple[str, ...]) -> "_Candidate":
        if not isinstance(item, Item):
            raise _UnfitError(
                repr(item), None, f"expected a WebPage, Text or File, not {type(item).__name__}"
            )
        target = item.collections or collections
        fingerprint = None
        if isinstance(item, File):
            name, fingerprint = item.name or item.path.rpartition(os.sep)[2], _fingerprint(item)
        else:
            name = item.name
        if isinstance(item, Text) and not item.content.strip():
            raise _UnfitError(name, item.identity, "it has no content")
        key = item.identity
        joined = ",".join(sorted(target))
        text = f"{service}\0{joined}\0{key}".encode("utf-8", "surrogatepass")
        identifier = hashlib.blake2b(text, digest_size=16).hexdigest()
        return cls(item, identifier, service, target, key, name, fingerprint)

    @property
    def signature(self) -> str | None:
        """What the ledger keeps to recognise a file by."""
        found = self.fingerprint
        return found.text if found is not None and found.settled else None

    def digest(self) -> str:
        if not isinstance(self.item, File):
            return self.item.digest()
        try:
            with Path(self.item.path).open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise _unreadable(self.item, error) from error

    def job(self, before: Row | None, digest: str, owner: str) -> Job:
        claim = Row(
            id=self.id,
            service=self.service,
            collections=",".join(sorted(self.collections)),
            key=self.key,
            name=self.name,
            kind=type(self.item).__name__.lower(),
            state=State.CLAIMED.value,
            digest=digest,
            source_id=before.source_id if before else None,
            source_name=before.source_name if before else None,
            source_digest=before.source_digest if before else None,
            signature=self.signature,
            owner=owner,
            version=before.version + 1 if before else 1,
            attempts=before.attempts + 1 if before else 1,
            error="",
            updated_at=time.time(),
        )
        fingerprint = self.fingerprint.text if self.fingerprint else None
        return Job(self.item, self.collections, claim, before, fingerprint)


def _fingerprint(item: File) -> Fingerprint:
    try:
        status = os.stat(item.path)  # noqa: PTH116 - a `Path` costs more than the call
    except (OSError, ValueError) as error:
        raise _unreadable(item, error) from error
    if not stat.S_ISREG(status.st_mode):
        what = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise _UnfitError(item.name or item.path, item.key, f"{item.path} is {what}")
    if status.st_size == 0:
        raise _UnfitError(item.name or item.path, item.key, f"{item.path} is empty")
    return Fingerprint.of(status)


def _unreadable(item: File, error: Exception) -> _UnfitError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _UnfitError(
        item.name or item.path, item.key, f"{item.path} cannot be read: {reason.lower()}"
    )


def checked_on_unknown(on_unknown: str) -> OnUnknown:
    """Return the policy, checked.

    Raises:
        ConfigurationError: it is neither `hold` nor `resend`.
    """
    if on_unknown not in get_args(OnUnknown):
        raise ConfigurationError(f"on_unknown: expected 'hold' or 'resend', not {on_unknown!r}")
    return cast("OnUnknown", on_unknown)
