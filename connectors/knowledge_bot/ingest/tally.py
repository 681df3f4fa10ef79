"""What a run has counted so far."""

import logging
import time
from collections import Counter

from knowledge_bot.ingest.planning import Planned
from knowledge_bot.ingest.report import Failure, Report, Stop

logger: logging.Logger = logging.getLogger("knowledge_bot.ingest")

# Bounds the memory of a run in which everything fails.
_FAILURES_TOLD = 1000


class Tally:
    """The counts of a run, and why it stopped. Used in the event loop's thread alone.

    Args:
        dry_run: whether nothing is sent.

    Attributes:
        stopped: why the run ends early, and the same as a sentence; None while it does not.
    """

    def __init__(self, *, dry_run: bool) -> None:
        self._dry_run = dry_run
        self._counts: Counter[str] = Counter()
        self._failures: list[Failure] = []
        self._began = time.monotonic()
        self.stopped: tuple[Stop, str] | None = None

    def created(self, superseded: int) -> None:
        """Count a source that was created, and how many it replaced."""
        self._counts["created"] += 1
        self._counts["superseded"] += superseded

    def failed(self, failure: Failure) -> None:
        """Count an item that was not ingested, and keep its name."""
        self._counts[failure.kind] += 1
        if len(self._failures) < _FAILURES_TOLD:
            self._failures.append(failure)
        logger.info("%s: %s: %s", failure.kind, failure.name, failure.error)

    def unrecorded(self, name: str, key: str, source_id: str | None) -> None:
        """Count an outcome that the ledger could not take; it will call it unknown."""
        told = "what came of it"
        if source_id is not None:
            self._counts["created"] -= 1
            told = f"that it was created as {source_id}"
        self.failed(Failure("unknown", name, key, f"the ledger could not record {told}"))

    def planned(self, planned: Planned) -> None:
        """Count what needs no sending; in a dry run, what would be sent as well."""
        self._counts["unchanged"] += planned.unchanged
        self._counts["elsewhere"] += planned.elsewhere
        for failure in planned.failures:
            self.failed(failure)
        if self._dry_run:
            for job in planned.jobs:
                self.created(int(job.claim.source_id is not None))

    def report(self) -> Report:
        """Return the counts as they are now."""
        stop, reason = self.stopped or (None, "")
        return Report(
            **self._counts,
            duration=time.monotonic() - self._began,
            failures=tuple(self._failures),
            stopped=stop,
            stop_reason=reason,
            dry_run=self._dry_run,
        )
