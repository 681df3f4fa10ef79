"""What a task's log says while an ingestion runs: one fact a line, and never too many lines."""

import contextvars
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from airflow_knowledge_bot._compat import answers_threads

if TYPE_CHECKING:
    from airflow_knowledge_bot.tries import Tries
    from knowledge_bot.ingest import Ledger, Outcome, Report

TOLD = 20
"""How many items of a kind are named: nobody reads more, and XCom is for small values."""

_SECONDS = 10.0
_CHARACTERS = 300


class Log(Protocol):
    """What of a task's logger is used: Airflow's are not all Python's."""

    def log(self, level: int, event: str, *args: Any) -> Any:
        """Write a line."""


class Telling:
    """Tells of a run in a task's log, and in its state store, every ten seconds.

    Args:
        log: the task's.
        tries: writes the counts down.

    Attributes:
        unknown: the first items of unknown outcome.
    """

    def __init__(self, log: Log, tries: "Tries") -> None:
        self._log, self._tries = log, tries
        self._report: Report | None = None
        self._failed = 0
        self._skipped: set[tuple[str, str | None, str]] = set()
        self._began = self._last = time.monotonic()
        self._before = 0
        self._end = threading.Event()
        self._answers_threads = answers_threads()
        self._turn = threading.Lock()
        self._due: Report | None = None
        self.unknown: list[Outcome] = []

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """Tell how far the run is while the block runs, also where the run itself stands still."""
        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(self._work,), name="telling", daemon=True)
        thread.start()
        engine = logging.getLogger("knowledge_bot.ingest")
        level = engine.level
        # It tells of each failure, of which there may be a million; here the first ones are told.
        if engine.getEffectiveLevel() == logging.INFO:
            engine.setLevel(logging.WARNING)
        try:
            yield
        finally:
            engine.setLevel(level)
            self._end.set()
            thread.join()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Leave Airflow to the block, where it answers one thread at a time, as in `dag.test()`.

        In the block a function of the author's may ask for connections, variables or the state
        store. What is to be noted meanwhile is noted before the next block.
        """
        if self._answers_threads:
            yield
            return
        with self._turn:
            self._note_due()
            yield

    def on_progress(self, report: "Report") -> None:
        """Take the report so far."""
        self._report = report

    def on_outcome(self, outcome: "Outcome") -> None:
        """Tell of an item that failed or was left out; of the first ones, each."""
        if outcome.kind == "skipped":
            self._tell_skipped(outcome)
        if not outcome.failed:
            return
        self._failed += 1
        if self._failed <= TOLD:
            self._log.log(
                logging.WARNING, "%s: %s: %s", outcome.kind, outcome.name, brief(outcome.error)
            )
        if outcome.kind == "unknown" and len(self.unknown) < TOLD:
            self.unknown.append(outcome)

    def end(
        self,
        report: "Report",
        named: Mapping[str, Sequence[Mapping[str, Any]]],
        tolerated: Mapping[str, int],
        ledger: "Ledger",
    ) -> None:
        """Tell what a person is to look at, and last the counts.

        Args:
            report: what came of all tries.
            named: the first items of some counts, by the counts' names.
            tolerated: the counts of failures that fail nothing.
            ledger: where a person notes what was removed.
        """
        self._more(logging.WARNING, self._failed - TOLD, "failures")
        self._more(logging.INFO, report.skipped - len(self._skipped), "skipped")
        for what, level in (("superseded", logging.INFO), ("gone", logging.INFO)):
            for item in named[what]:
                self._log.log(level, "%s: %s (source %s)", what, item["name"], item["source_id"])
            self._more(level, getattr(report, what) - TOLD, what)
        if report.superseded or report.gone:
            self._log.log(
                logging.INFO,
                "The service still answers from what is superseded or gone. It offers no deletion: "
                "remove the sources there, and tell `kbot ledger forget`. %s",
                shell_needs(ledger),
            )
        if report.gone_unknown and report.stopped is None:
            self._log.log(
                logging.WARNING,
                "What is gone was not looked for, since not all was seen: %s",
                brief(report.gone_unknown),
            )
        if report.unversioned:
            self._log.log(
                logging.WARNING,
                "unversioned: nothing tells whether %d pages change, so no later change of them "
                "is sent. source_options={'compare': 'content'} reads them to compare them.",
                report.unversioned,
            )
        if report.elsewhere:
            self._log.log(
                logging.WARNING,
                "elsewhere: %d items are still being sent by other runs; the next run looks at "
                "them.",
                report.elsewhere,
            )
        for kind, count in tolerated.items():
            self._log.log(
                logging.WARNING,
                "%s %d: no failure of the task, by its parameters fail_on and max_refused.",
                kind,
                count,
            )
        self._log.log(logging.INFO, "%s", report)

    def _tell_skipped(self, outcome: "Outcome") -> None:
        """Tell an item once, also where the task looks at all items a second time."""
        item = (outcome.name, outcome.key, outcome.error)
        if len(self._skipped) < TOLD and item not in self._skipped:
            self._skipped.add(item)
            self._log.log(logging.INFO, "skipped: %s: %s", brief(item[0]), brief(item[2]))

    def _more(self, level: int, count: int, what: str) -> None:
        if count > 0:
            self._log.log(level, "… and %d more %s.", count, what)

    def _work(self) -> None:
        while not self._end.wait(_SECONDS):
            if self._report is not None:
                self._tell(self._report)

    def _tell(self, report: "Report") -> None:
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
        self._due = report
        if self._turn.acquire(blocking=False):
            try:
                self._note_due()
            finally:
                self._turn.release()

    def _note_due(self) -> None:
        report, self._due = self._due, None
        if report is not None:
            self._tries.note(report)


def shell_needs(ledger: "Ledger") -> str:
    """Return what a person needs for `kbot ledger`, which this provider does not install."""
    address = str(ledger)
    extra = "cli,postgresql" if "://" in address else "cli"
    password = ", with its password" if "://" in address else ""
    return (
        f"`kbot` needs `pip install 'knowledge-bot[{extra}]'` and, in its environment, "
        f"KNOWLEDGE_BOT_LEDGER={address}{password}."
    )


def brief(text: str) -> str:
    """Return a text on one line that a person reads to its end."""
    line = " ".join(text.split())
    return line if len(line) <= _CHARACTERS else f"{line[: _CHARACTERS - 1]}…"
