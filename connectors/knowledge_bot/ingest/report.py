"""What came of a run."""

from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Literal

Kind = Literal["refused", "unknown", "undelivered", "invalid", "skipped"]
"""Which count a failure belongs to."""


class Stop(StrEnum):
    """Why a run ended before its items did."""

    AUTHENTICATION = "authentication"
    """The service does not accept the API key (401, 403)."""
    PAYMENT = "payment"
    """The service asks for payment, for example since a quota is used up (402)."""
    UNAVAILABLE = "unavailable"
    """The service failed or could not be reached many times in a row."""
    LEDGER = "ledger"
    """The ledger could not be written, for example since the disk is full."""
    REQUESTED = "requested"
    """The caller asked for it, or a signal did: what was in flight was finished."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that was not ingested.

    Attributes:
        kind: which count it belongs to.
        name: the item's name.
        key: what the ledger knows it by; None where it could not be read that far.
        error: what happened, as a sentence.
    """

    kind: Kind
    name: str
    key: str | None
    error: str


@dataclass(frozen=True, slots=True)
class Report:
    """The counts of a run; while it goes on, of the run so far.

    Every item is counted once, except that a superseding one is also counted as created.

    Attributes:
        created: sources that were created. In a dry run: that would be created.
        unchanged: items that the service has already.
        superseded: sources of an older content that were replaced by a new one in this run. The
            service offers no deletion: `Ledger.superseded` names what a person may remove.
        refused: items that the service refused; the next run tries them again.
        unknown: items that the service may or may not have; see `Ledger.unknown`.
        undelivered: items that did not reach the service; the next run tries them again.
        invalid: items that cannot be read or sent as they are.
        skipped: things that are left out on purpose, such as hidden files.
        elsewhere: items that another worker is sending at this moment.
        duration: seconds since the run began.
        failures: the first 1,000 items that are refused, unknown, undelivered, invalid or skipped.
        stopped: why the run ended early; None where it came to the end of its items.
        stop_reason: the same as a sentence.
        dry_run: whether nothing was sent.
    """

    created: int = 0
    unchanged: int = 0
    superseded: int = 0
    refused: int = 0
    unknown: int = 0
    undelivered: int = 0
    invalid: int = 0
    skipped: int = 0
    elsewhere: int = 0
    duration: float = 0.0
    failures: tuple[Failure, ...] = ()
    stopped: Stop | None = None
    stop_reason: str = ""
    dry_run: bool = False

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
        return self.failed == 0 and self.stopped is None

    @property
    def items(self) -> int:
        """How many items the run has dealt with, `skipped` not counted."""
        return self.created + self.unchanged + self.failed + self.elsewhere

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        told = ", ".join(f"{self._words(name)} {n}" for name, n in self.counts.items() if n)
        end = f"; stopped: {self.stop_reason}" if self.stopped else ""
        return f"{told or 'nothing to do'} in {self.duration:.1f} s{end}"

    def _words(self, name: str) -> str:
        if name == "created" and self.dry_run:
            return "would create"
        return "being sent elsewhere" if name == "elsewhere" else name
