"""The report of a run, and its counters."""

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
    "replaced",
    "moved",
    "unchanged",
    "removed",
    "refused",
    "undelivered",
    "invalid",
    "skipped",
    "failed",
    "still_failed",
    "unready",
    "withheld",
    "unknown",
    "elsewhere",
    "superseded",
    "gone",
    "unversioned",
]
"""What became of an item; the report has a count of the same name."""

_MISSING: tuple[Kind, ...] = ("refused", "unknown", "undelivered", "invalid")
_FAILED: tuple[Kind, ...] = (*_MISSING, "failed")
_NOT_OK: tuple[Kind, ...] = (*_FAILED, "withheld", "unready")

DONE: tuple[Kind, ...] = ("created", "replaced", "moved", "removed")
"""What went well."""

WOULD = {
    "created": "would create",
    "replaced": "would replace",
    "moved": "would move",
    "removed": "would remove",
}
"""The names that these have for people where nothing was sent."""

# Limits the memory of a run in which everything fails.
FAILURES_KEPT = 1000
_FAILURES_SHOWN = 5
_NAME_SHOWN = 200


class Stop(StrEnum):
    """Why a run ended early."""

    AUTHENTICATION = "authentication"
    """The service does not accept the API key (401, 403)."""
    PAYMENT = "payment"
    """The service asks for payment, such as when a quota is used up (402)."""
    REFUSED = "refused"
    """The service refused many items in a row, all for the same reason; or all of them at once."""
    UNAVAILABLE = "unavailable"
    """The service failed, put items off or could not be reached many times in a row, or something
    else answers at its address."""
    UNSUPPORTED = "unsupported"
    """The service does not do what it announces."""
    OVERLAP = "overlap"
    """Another origin, or sources of none, hold already what this origin was about to send; or it is
    in other collections."""
    LEDGER = "ledger"
    """The ledger could not be written, such as when the disk is full."""
    LIMIT = "limit"
    """As many items were sent as `limit` allows."""
    REQUESTED = "requested"
    """The caller or a signal asked for it; requests in flight were finished."""

    @property
    def may_pass(self) -> bool:
        """Whether the next run may go on without anybody changing anything."""
        return self in (Stop.UNAVAILABLE, Stop.LEDGER, Stop.LIMIT, Stop.REQUESTED)


_STOPS: dict[Stop, str] = {
    Stop.AUTHENTICATION: "the service does not accept the API key",
    Stop.PAYMENT: "the service asks for payment",
    Stop.REFUSED: "the service refuses the items",
    Stop.UNAVAILABLE: "the service is not available",
    Stop.UNSUPPORTED: "the service does not do what it announces",
    Stop.OVERLAP: "another run may feed the same",
    Stop.LEDGER: "the ledger cannot be used",
    Stop.LIMIT: "the limit of items was reached",
    Stop.REQUESTED: "the caller asked it to end",
}


def stop_reason(stop: Stop, detail: str = "") -> str:
    """Return why a run ended as a sentence, and as much more as is known, such as the error."""
    return f"{_STOPS[stop]}: {detail}" if detail else _STOPS[stop]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one item.

    Attributes:
        kind: the count it belongs to.
        name: the item's name.
        key: the item's key; None if it could not be read.
        error: what happened, as a sentence; empty where all went well.
        source_id: the source that was created, replaced, moved or removed, or is meant by a
            failure; None otherwise, and in a dry run.
    """

    kind: Kind
    name: str
    key: str | None
    error: str = ""
    source_id: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the service does not have the item as it should."""
        return self.kind in _FAILED


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """The counts of a run, so far or at its end.

    Every item is counted once, as one of `created`, `replaced`, `moved`, `unchanged`, `refused`,
    `unknown`, `undelivered`, `invalid`, `skipped` and `elsewhere`. The other counts are about
    sources, or about items that are no longer there.

    Attributes:
        created: sources that were created; in a dry run, this and the others are what would be.
        replaced: sources that took the new content of their item in place, with the same id, where
            the service can do that.
        moved: items that were found under another key, with the same content. Nothing was sent of
            them; the source is the same, under the new name where the service can rename.
        unchanged: items that the service already has.
        removed: sources of items that are gone, which the service removed.
        refused: items that the service refused; the next run tries them again.
        undelivered: items that did not reach the service, or that it put off to the end; the next
            run tries them again.
        invalid: items that cannot be read or sent as they are, or that are empty by now while the
            service still has their old text.
        skipped: things left out on purpose, such as hidden and empty files.
        failed: sources that the service could not read, and that nobody was told of before.
        still_failed: the same, of which an earlier run told.
        unready: sources that the service did not answer from yet when `wait_ready` was over.
        withheld: items that are gone, but are more than `gone_limit` allows: they are still
            answered from, until they are back or a run is given a higher limit.
        unknown: items that the service may or may not have; see `Ledger.unknown`.
        elsewhere: items that another run is sending with the same ledger.
        superseded: older sources that newer ones took the place of in this run, where the service
            cannot replace; see `Ledger.superseded`.
        gone: items that the service has and the origin has not, whether since this run or an
            earlier one: those that wait for another run to miss them, that `prune` leaves alone, or
            that the service cannot remove; see `Ledger.gone`.
        unversioned: pages with nothing to compare, so that no later change of them is seen; give a
            list of pages `compare="content"`.
        duration: seconds since the run began.
        failures: the first 1,000 items that are refused, unknown, undelivered, invalid, skipped or
            failed.
        stopped: why the run ended early; None if it came to the end of its items.
        stop_reason: the same as a sentence.
        dry_run: whether nothing was sent.
        total: how many items there are, if that is known.
        current: the name of the item that was begun last.
        paused: why nothing is being sent; empty while something is.
        incomplete: why not all of the origin was seen, such as a folder that cannot be read, so
            that it is not known what is gone; empty if all was.
        unsupported: what was wanted and this service cannot do: `prune`, `wait_ready`.
    """

    created: int = 0
    replaced: int = 0
    moved: int = 0
    unchanged: int = 0
    removed: int = 0
    refused: int = 0
    undelivered: int = 0
    invalid: int = 0
    skipped: int = 0
    failed: int = 0
    still_failed: int = 0
    unready: int = 0
    withheld: int = 0
    unknown: int = 0
    elsewhere: int = 0
    superseded: int = 0
    gone: int = 0
    unversioned: int = 0
    duration: float = 0.0
    failures: tuple[Outcome, ...] = ()
    stopped: Stop | None = None
    stop_reason: str = ""
    dry_run: bool = False
    total: int | None = None
    current: str = ""
    paused: str = ""
    incomplete: str = ""
    unsupported: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """The counts alone, `created` to `unversioned`, by their names."""
        names = [field.name for field in fields(self)]
        return {name: getattr(self, name) for name in names[: names.index("duration")]}

    @property
    def missing(self) -> int:
        """How many items did not get into the collections as they are now."""
        return sum(getattr(self, kind) for kind in _MISSING)

    @property
    def sent(self) -> int:
        """How many items the service took in this run: `created` and `replaced`."""
        return self.created + self.replaced

    @property
    def ok(self) -> bool:
        """Whether all is known to be there as it should, or another worker is sending the rest.

        The origin was read to its end, or to the limit; all its items are accepted, and readable as
        far as the service tells; and nothing that it has no more is withheld. What an earlier run
        told of, it is no reason to be red again.
        """
        troubled = sum(getattr(self, kind) for kind in _NOT_OK)
        return troubled == 0 and not self.incomplete and self.stopped in (None, Stop.LIMIT)

    @property
    def items(self) -> int:
        """How many items the run has handled, `skipped` not counted."""
        return self.sent + self.moved + self.unchanged + self.missing + self.elsewhere

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        words = {"elsewhere": "in progress elsewhere", "withheld": "gone, but withheld"}
        words |= WOULD if self.dry_run else {}
        counts = ", ".join(
            f"{words.get(name, name.replace('_', ' '))} {count}"
            for name, count in self.counts.items()
            if count
        )
        end = f"; not all was seen: {self.incomplete.rstrip('. ')}" if self.incomplete else ""
        end = f"; stopped: {self.stop_reason.rstrip('. ')}" if self.stopped else end
        return f"{counts or 'nothing to do'} in {self.duration:.1f} s{end}"

    def __repr__(self) -> str:
        return f"<Report: {self}>"


class Counters:
    """What became of a run's items so far, and why it stopped. Used in the event loop's thread."""

    def __init__(self, *, dry_run: bool, on_outcome: Callable[[Outcome], object] | None) -> None:
        self._dry_run, self._on_outcome = dry_run, on_outcome
        self.failures: list[Outcome] = []
        self._began = time.monotonic()
        self.counts: Counter[Kind] = Counter()
        self.stopped: tuple[Stop, str] | None = None  # and a detail, such as the error
        self.incomplete: str = ""
        self.unsupported: tuple[str, ...] = ()
        self.current: str = ""

    @property
    def ended(self) -> bool:
        """Whether the run ended early, and not by its limit."""
        return self.stopped is not None and self.stopped[0] is not Stop.LIMIT

    def add(self, outcome: Outcome) -> None:
        """Count an item, and keep it if it failed."""
        self.counts[outcome.kind] += 1
        if outcome.kind not in DONE:
            if len(self.failures) < FAILURES_KEPT:
                self.failures.append(outcome)
            logger.info("%s: %s: %s", outcome.kind, outcome.name, outcome.error)
        if self._on_outcome is not None:
            self._on_outcome(outcome)

    def cannot(self, what: str, instead: str) -> None:
        """Record something that was wanted and that the service cannot do, and say so once."""
        if what not in self.unsupported:
            self.unsupported = (*self.unsupported, what)
            logger.warning("%s", instead)

    def withhold(self, count: int, origin: str, limit: float, instead_of: str) -> None:
        """Count what vanished beyond the limit, and warn of it."""
        self.counts["withheld"] += count
        if count:
            logger.warning(
                "%d items that %s no longer yields are not %s: they are more than the share of %g "
                "that gone_limit allows. Check that it is complete",
                count,
                origin,
                instead_of,
                limit,
            )

    def report(self, **at_present: Any) -> Report:
        """Return the counts as they are now."""
        counts: Any = self.counts
        return Report(
            **counts,
            duration=time.monotonic() - self._began,
            failures=tuple(self.failures),
            stopped=None if self.stopped is None else self.stopped[0],
            stop_reason="" if self.stopped is None else stop_reason(*self.stopped),
            dry_run=self._dry_run,
            current=self.current,
            incomplete=self.incomplete,
            unsupported=self.unsupported,
            **at_present,
        )


class IncompleteIngestionError(KnowledgeBotError):
    """Not everything is in the collections as it should be.

    `ingest` does not raise for single items but returns a report. A caller that cannot use a report
    raises this error with it.

    Args:
        report: the report of the run; or the whole text of such an error, as task queues rebuild an
            error that crossed as JSON: its counts are then 0.
        collections: where the items should be.
        again: how the user repeats the run, as a sentence.

    Attributes:
        report: the counts, and the outcome of each item that is missing.
    """

    def __init__(
        self,
        report: Report | str,
        collections: Iterable[str] = (),
        again: str = "Run it again",
    ) -> None:
        if isinstance(report, str):
            super().__init__(report)
            self.report = Report()
            return
        place = ", ".join(collections) or "the collections"
        super().__init__(
            f"Not everything got into {place}: {report}. {_reasons(report)}",
            delivery=Delivery.UNKNOWN if report.unknown else Delivery.REFUSED,
            may_pass=(
                report.stopped.may_pass
                if report.stopped is not None
                else report.undelivered + report.unready > 0
            ),
            outcome=_what_to_do(report, again),
        )
        self.report = report


def _reasons(report: Report) -> str:
    """Return the first failures as sentences, those with the same reason in one."""
    failures = [one for one in report.failures if one.failed]
    alike: dict[tuple[str, str], list[str]] = {}
    for one in failures[:_FAILURES_SHOWN]:
        alike.setdefault((one.kind, one.error.rstrip(". ")), []).append(shortened(one.name))
    reasons = [f"{', '.join(names)}: {kind}, {error}" for (kind, error), names in alike.items()]
    left = report.missing + report.failed - min(len(failures), _FAILURES_SHOWN)
    return ". ".join([*reasons, f"And {left} more"] if left > 0 and reasons else reasons)


def _what_to_do(report: Report, again: str) -> str:
    """Return what helps with these failures, as sentences."""
    advice = []
    if report.invalid:
        advice.append("What is invalid is not sent until it is corrected where it comes from")
    if report.unknown:
        advice.append(
            "The next run settles unknown items itself where the service announces `idempotency`; "
            "elsewhere look for each in the service, and settle it in the ledger, or set "
            "on_unknown='resend'"
        )
    if report.failed:
        advice.append("What failed cannot be read by the service until it is corrected or removed")
    if report.withheld:
        advice.append(
            "What is withheld stays until it is back, or a run is given a higher gone_limit"
        )
    if report.refused + report.undelivered + report.elsewhere or report.stopped is not None:
        advice.append(f"{again}: what was created is not sent again")
    return ". ".join(advice)


def shortened(text: str) -> str:
    """Return a name or key for a message: on one line, of 200 characters at most."""
    line = text if text.isprintable() else repr(text)[1:-1]
    return line if len(line) <= _NAME_SHOWN else f"{line[: _NAME_SHOWN - 1]}…"


class StopError(Exception):
    """A keeper cannot go on, and so the run ends. `str` says why, as a detail of its stop.

    The advice is for whoever gave the options: it has what they are called there in braces.
    """

    def __init__(self, stop: Stop, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self.stop, self.advice = stop, advice


def would_move(origin: str, there: Iterable[str], collections: Iterable[str]) -> StopError | None:
    """Return why a run must not take an origin's sources out of the collections that they are in.

    Two runs that feed one place into a collection each, under one name, would move them to and fro.
    """
    left = sorted(set(there).difference(collections))
    if not left:
        return None
    wanted = ", ".join(sorted(collections))
    return StopError(
        Stop.OVERLAP,
        f"what {origin!r} holds is in {', '.join(left)}, and would be in {wanted} instead. "
        "Nothing was sent",
        f". If {wanted} is a slip, correct it. If another run feeds it there, give this one a name "
        "of its own ({option_origin}); or say that it is to be moved: {option_anyway}",
    )
