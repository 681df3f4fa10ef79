"""What a task's log says while an ingestion runs: one fact a line, in a bounded number of lines."""

import contextvars
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from airflow_knowledge_bot.tasks import brief

if TYPE_CHECKING:
    from airflow_knowledge_bot.history import History
    from knowledge_bot.ingest import Ledger, Outcome, Report

NAMED = 20
"""How many items of a kind are named: nobody reads more, and XCom is for small values."""

_KINDS = ("replaced", "moved", "removed", "failed", "unknown")
"""The outcomes whose items are named."""

_INTERVAL = 10.0  # seconds between two progress lines


class Log(Protocol):
    """The part of a task's logger that is used: Airflow's are not all Python's."""

    def log(self, level: int, event: str, *args: Any) -> Any:
        """Write a line."""


class ProgressLog:
    """Writes the progress of a run to the task's log, and its counts to the ledger.

    Attributes:
        report: the newest one; None before there is any.
        named: the first items that were replaced, moved or removed, that the service could not
            read, or that are of unknown outcome.
    """

    def __init__(self, log: Log, history: "History") -> None:
        self._log, self._history = log, history
        self.report: Report | None = None
        self._failed = 0
        self._skipped: set[tuple[str, str | None, str]] = set()
        self._began = self._last = time.monotonic()
        self._before = 0
        self._end = threading.Event()
        self.named: dict[str, list[Outcome]] = {kind: [] for kind in _KINDS}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Log the progress while the block runs, even where the run itself is stuck."""
        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(self._work,), name="progress", daemon=True)
        thread.start()
        engine = logging.getLogger("knowledge_bot.ingest")
        level = engine.level
        # It logs each failure, and there may be a million; here only the first ones are logged.
        if engine.getEffectiveLevel() == logging.INFO:
            engine.setLevel(logging.WARNING)
        try:
            yield
        finally:
            engine.setLevel(level)
            self._end.set()
            thread.join()

    def on_progress(self, report: "Report") -> None:
        """Take the report as it is so far."""
        self.report = report

    def on_outcome(self, outcome: "Outcome") -> None:
        """Keep the name of an item, and log one that failed or was skipped; the first 20 each."""
        if len(named := self.named.get(outcome.kind, [])) < NAMED:
            named.append(outcome)
        if outcome.kind == "skipped":
            self._log_skipped(outcome)
        if not outcome.failed:
            return
        self._failed += 1
        if self._failed <= NAMED:
            self._log.log(
                logging.WARNING, "%s: %s: %s", outcome.kind, outcome.name, brief(outcome.error)
            )

    def end(
        self,
        report: "Report",
        named: Mapping[str, Sequence[Mapping[str, Any]]],
        tolerated: Mapping[str, int],
        ledger: "Ledger",
    ) -> None:
        """Log what needs a person's attention, and then the counts.

        Both are over all tries; `named` are the first items of some counts, and `tolerated` counts
        of failures that do not fail the task.
        """
        self._log_more(logging.WARNING, self._failed - NAMED, "failures")
        self._log_more(logging.INFO, report.skipped - len(self._skipped), "skipped")
        for what in ("replaced", "moved", "removed", "superseded", "gone"):
            for item in named[what]:
                source = item["source_id"]
                self._log.log(logging.INFO, "%s: %s (source %s)", what, item["name"], source)
            self._log_more(logging.INFO, getattr(report, what) - NAMED, what)
        if report.superseded or report.gone:
            self._log.log(
                logging.INFO,
                "The service still answers from what is superseded or gone. prune=True removes it "
                "where the service announces `sources`. Elsewhere, remove the sources there, then "
                "run `kbot ledger forget`. %s",
                shell_needs(ledger),
            )
        if report.gone_unknown and report.stopped is None:
            self._log.log(
                logging.WARNING,
                "Nothing was marked as gone, because not all items were seen: %s",
                brief(report.gone_unknown),
            )
        if report.unversioned:
            self._log.log(
                logging.WARNING,
                "unversioned: %d pages give no sign of a change, so a later change of them is not "
                "sent. source_options={'compare': 'content'} reads and compares them.",
                report.unversioned,
            )
        if report.elsewhere:
            self._log.log(
                logging.WARNING,
                "elsewhere: other runs are still sending %d items; the next run checks them.",
                report.elsewhere,
            )
        for kind, count in tolerated.items():
            self._log.log(
                logging.WARNING,
                "%s %d: does not fail the task, by its parameters fail_on and max_refused.",
                kind,
                count,
            )
        self._log.log(logging.INFO, "%s", report)

    def _log_skipped(self, outcome: "Outcome") -> None:
        """Log an item once, even where the task goes through all items a second time."""
        item = (outcome.name, outcome.key, outcome.error)
        if len(self._skipped) < NAMED and item not in self._skipped:
            self._skipped.add(item)
            self._log.log(logging.INFO, "skipped: %s: %s", brief(item[0]), brief(item[2]))

    def _log_more(self, level: int, count: int, what: str) -> None:
        if count > 0:
            self._log.log(level, "… and %d more %s.", count, what)

    def _work(self) -> None:
        while not self._end.wait(_INTERVAL):
            if self.report is not None:
                self._log_progress(self.report)

    def _log_progress(self, report: "Report") -> None:
        now, done = time.monotonic(), report.items + report.skipped
        rate = (done - self._before) / (now - self._last)
        self._last, self._before = now, done
        of_all = "" if report.total is None else f" of {report.total:,}"
        counts = ", ".join(
            f"{name.replace('_', ' ')} {count:,}" for name, count in report.counts.items() if count
        )
        self._log.log(
            logging.INFO, "%s", f"{done:,}{of_all} items, {rate:.0f}/s: {counts or 'none yet'}"
        )
        if report.paused:
            self._log.log(logging.WARNING, "Waiting: %s", brief(report.paused))
        self._history.keep(report)


def shell_needs(ledger: "Ledger") -> str:
    """Return how to get `kbot ledger`, which this provider does not install, to this ledger."""
    address = str(ledger)
    extra = "cli,postgresql" if "://" in address else "cli"
    password = ", with its password" if "://" in address else ""
    return (
        f"`kbot` needs `pip install 'knowledge-bot[{extra}]'` and, in its environment, "
        f"KNOWLEDGE_BOT_LEDGER={address}{password}."
    )
