"""What came of a run."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Literal

from knowledge_bot.errors import Delivery, KnowledgeBotError

logger: logging.Logger = logging.getLogger("knowledge_bot.ingest")

Kind = Literal[
    "created",
    "refused",
    "unknown",
    "undelivered",
    "invalid",
    "skipped",
    "same_content",
    "unversioned",
]
"""What became of an item, or what is to be said of it; the report has a count of the same name."""

_FAILED: tuple[Kind, ...] = ("refused", "unknown", "undelivered", "invalid")

# Bounds the memory of a run in which everything fails, and keeps room for what matters more.
_FAILURES_KEPT = 1000
_KEPT_OF = {"same_content": 20, "unversioned": 20}
_FAILURES_TOLD = 5


class Stop(StrEnum):
    """Why a run ended before its items did."""

    AUTHENTICATION = "authentication"
    """The service does not accept the API key (401, 403)."""
    PAYMENT = "payment"
    """The service asks for payment, for example since a quota is used up (402)."""
    REFUSED = "refused"
    """The service refused many items in a row, all for the same reason."""
    UNAVAILABLE = "unavailable"
    """The service failed or could not be reached many times in a row."""
    LEDGER = "ledger"
    """The ledger could not be written, for example since the disk is full."""
    LIMIT = "limit"
    """As many items were sent as `limit` allows."""
    REQUESTED = "requested"
    """The caller asked for it, or a signal did: what was in flight was finished."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one item.

    Attributes:
        kind: which count it belongs to.
        name: the item's name.
        key: what the ledger knows it by; None where it could not be read that far.
        error: what happened, as a sentence; empty for what was created.
        source_id: the source that was created; None otherwise, and in a dry run.
    """

    kind: Kind
    name: str
    key: str | None
    error: str = ""
    source_id: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the item was not ingested, and should have been."""
        return self.kind in _FAILED


@dataclass(frozen=True, slots=True)
class Report:
    """The counts of a run; while it goes on, of the run so far.

    Every item is counted once, as one of `created`, `unchanged`, `refused`, `unknown`,
    `undelivered`, `invalid`, `skipped` and `elsewhere`. The other counts are about some of these,
    or about items that did not come.

    Attributes:
        created: sources that were created. In a dry run: that would be created.
        unchanged: items that the service has already.
        superseded: sources of an older content that were replaced by a new one in this run. The
            service offers no deletion: `Ledger.superseded` names what a person may remove.
        gone: items that the service has and that the run's origin no longer yields, also since
            earlier runs; see `Ledger.gone`. 0 where the origin was not enumerated to its end.
        gone_withheld: items that would be gone as well, if that were not more than `gone_limit`.
        unversioned: pages of which nothing tells whether they changed, so that no later change is
            seen; those of them that are new are named in a warning.
        same_content: created items with a content that the collections have under another key.
        refused: items that the service refused; the next run tries them again.
        unknown: items that the service may or may not have; see `Ledger.unknown`.
        undelivered: items that did not reach the service; the next run tries them again.
        invalid: items that cannot be read or sent as they are.
        skipped: things that are left out on purpose, such as hidden and empty files.
        elsewhere: items that another worker is sending at this moment.
        duration: seconds since the run began.
        failures: the first 1,000 items that are refused, unknown, undelivered, invalid or skipped,
            and some that are unversioned or of the same content as another one.
        stopped: why the run ended early; None where it came to the end of its items.
        stop_reason: the same as a sentence.
        dry_run: whether nothing was sent.
        total: how many items there are, where that is known.
        current: the name of the item that was begun last.
        paused: why nothing is sent at this moment; empty while something is.
        gone_unknown: why nobody can tell what is gone from the run's origin, such as an item that
            cannot be read; empty where it is known, or there is no origin.
    """

    created: int = 0
    unchanged: int = 0
    superseded: int = 0
    gone: int = 0
    gone_withheld: int = 0
    unversioned: int = 0
    same_content: int = 0
    refused: int = 0
    unknown: int = 0
    undelivered: int = 0
    invalid: int = 0
    skipped: int = 0
    elsewhere: int = 0
    duration: float = 0.0
    failures: tuple[Outcome, ...] = ()
    stopped: Stop | None = None
    stop_reason: str = ""
    dry_run: bool = False
    total: int | None = None
    current: str = ""
    paused: str = ""
    gone_unknown: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """The counts alone, `created` to `elsewhere`, by their names."""
        names = [field.name for field in fields(self)]
        return {name: getattr(self, name) for name in names[: names.index("duration")]}

    @property
    def failed(self) -> int:
        """How many items were not ingested."""
        return self.refused + self.unknown + self.undelivered + self.invalid

    @property
    def ok(self) -> bool:
        """Whether every item was ingested, now or earlier, or is being sent by another worker."""
        return self.failed == 0 and self.stopped in (None, Stop.LIMIT)

    @property
    def items(self) -> int:
        """How many items the run has dealt with, `skipped` not counted."""
        return self.created + self.unchanged + self.failed + self.elsewhere

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        words = {"elsewhere": "being sent elsewhere", "gone_withheld": "gone, but withheld"}
        words["created"] = "would create" if self.dry_run else "created"
        told = ", ".join(
            f"{words.get(name, name.replace('_', ' '))} {count}"
            for name, count in self.counts.items()
            if count
        )
        end = f"; stopped: {self.stop_reason}" if self.stopped else ""
        return f"{told or 'nothing to do'} in {self.duration:.1f} s{end}"


class Counters:
    """What a run has counted so far, and why it stopped. Used in the event loop's thread alone.

    Args:
        dry_run: whether nothing is sent.
        on_outcome: called for each item that is created or fails.
    """

    def __init__(self, *, dry_run: bool, on_outcome: Callable[[Outcome], object] | None) -> None:
        self._dry_run, self._on_outcome = dry_run, on_outcome
        self._failures: list[Outcome] = []
        self._began = time.monotonic()
        self.counts: Counter[str] = Counter()
        self.stopped: tuple[Stop, str] | None = None
        self.gone_unknown: str = ""

    def add(self, outcome: Outcome) -> None:
        """Count an item; keep it where it failed."""
        self.counts[outcome.kind] += 1
        if outcome.kind != "created":
            most = _KEPT_OF.get(outcome.kind, _FAILURES_KEPT)
            if len(self._failures) < _FAILURES_KEPT and self.counts[outcome.kind] <= most:
                self._failures.append(outcome)
            logger.info("%s: %s: %s", outcome.kind, outcome.name, outcome.error)
        if self._on_outcome is not None:
            self._on_outcome(outcome)

    def report(self, **at_present: Any) -> Report:
        """Return the counts as they are now."""
        stop, reason = self.stopped or (None, "")
        counts: dict[str, Any] = dict(self.counts)
        return Report(
            **counts,
            duration=time.monotonic() - self._began,
            failures=tuple(self._failures),
            stopped=stop,
            stop_reason=reason,
            dry_run=self._dry_run,
            gone_unknown=self.gone_unknown,
            **at_present,
        )


class IncompleteIngestionError(KnowledgeBotError):
    """Some items did not get into the collections; all others did.

    `ingest` returns its report and raises nothing for single items; who has no use for a report
    raises this from it.

    Args:
        report: what came of the run.
        collections: where the items should be.
        again: how the caller gives the same items again, as a sentence.

    Attributes:
        report: the counts, and what became of each item that is not there.
    """

    def __init__(self, report: Report, collections: Iterable[str], again: str) -> None:
        failures = [one for one in report.failures if one.failed]
        told = "; ".join(
            f"{one.name}: {one.kind}, {one.error}".rstrip(". ") for one in failures[:_FAILURES_TOLD]
        )
        super().__init__(
            f"Not everything got into {', '.join(collections)}: {report}. {told}",
            delivery=Delivery.UNKNOWN if report.unknown else Delivery.REFUSED,
            outcome=f"{again}: what is there is not sent again. An unknown outcome is settled with "
            "`kbot ledger resolve`, or by on_unknown='resend'",
        )
        self.report = report
