"""How an ingesting task goes: what its log says, and what its ledger knows of all tries and runs.

The log has one fact a line, in a bounded number of lines.

An item that an earlier try created is unchanged to the next one, and Airflow emits no event for a
task that failed. So each run notes its counts under the task's name, in the ledger: a later try
adds to them, and the next run that succeeds announces what failed ones changed. XCom cannot serve:
it is cleared when a try begins, and Airflow finds another run's by dates that not all runs have.
"""

import contextvars
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from airflow_knowledge_bot.tasks import brief
from knowledge_bot.ingest import LedgerError, State

if TYPE_CHECKING:
    from airflow.sdk import Context

    from knowledge_bot.ingest import Ledger, Outcome, Report

NAMED = 20
"""How many items of a kind are named: nobody reads more, and XCom is for small values."""

_KINDS = ("replaced", "moved", "removed", "failed", "unknown")
"""The outcomes whose items are named."""

_INTERVAL = 10.0  # seconds between two progress lines


Route = tuple[str, tuple[str, ...], str | None]
"""Where items go and come from: the service, the collections and the origin."""

CHANGES = ("created", "replaced", "moved", "removed")
"""The counts of sources that a run changed."""

# Counts of events, which add up over tries. The other counts are states: the newest one holds.
_SENT = ("created", "replaced", "moved")
_EVENTS = (*_SENT, "removed", "superseded", "same_content")

# Seconds after which a run that has noted nothing has died; it notes its counts every ten.
_SILENCE = 300.0

_log = logging.getLogger(__name__)


class TaskLog(Protocol):
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

    def __init__(self, log: TaskLog, counts: "RunCounts") -> None:
        self._log, self._counts = log, counts
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
        self._counts.keep(report)


def shell_needs(ledger: "Ledger") -> str:
    """Return how to get `kbot ledger`, which this provider does not install, to this ledger."""
    address = str(ledger)
    extra = "cli,postgresql" if "://" in address else "cli"
    password = ", with its password" if "://" in address else ""
    return (
        f"`kbot` needs `pip install 'knowledge-bot[{extra}]'` and, in its environment, "
        f"KNOWLEDGE_BOT_LEDGER={address}{password}."
    )


class RunCounts:
    """The counts of one run of a task over all its tries, beside those of the task's other runs.

    A run's entry in the note has the `state` (`running`, `failed` or `done`), the `counts`, when it
    `began` and when that was written (`at`), the `start` of the try that wrote it (clearing a task
    raises it), and of a run that is done, how many changes of failed runs it announced (`missed`).

    Args:
        context: the task's context.
        ledger: the task's ledger.
        route: where the items go and come from.

    Attributes:
        began: when the run's first try began, in Unix seconds.
        is_sure: whether the ledger could be read and written so far.
    """

    def __init__(self, context: "Context", ledger: "Ledger", route: Route) -> None:
        task: Any = context.get("ti")
        self._run: str = getattr(task, "run_id", "")  # empty: called outside of a run
        ids = (getattr(task, name, "") for name in ("dag_id", "task_id", "map_index"))
        self._name = "/".join(("airflow", *map(str, ids)))
        self._start = getattr(task, "max_tries", 0)
        self._ledger, self.route = ledger, route
        self.is_sure, self.began = True, time.time()
        found: dict[str, Any] = {}

        def begin(note: dict[str, Any]) -> None:
            found.update(note.get(self._run, {}))
            if found.get("state") == "done" and found["start"] != self._start:
                found.clear()  # a person cleared what had succeeded
            note[self._run] = self._entry("running", found.get("counts", {}))

        self._note(begin)
        self.began = found.get("began", self.began)
        self._earlier: dict[str, int] = found.get("counts", {})
        self._missed: int = found.get("missed", 0)
        if found.get("state") == "running":
            self._earlier.update(self._sent_by_killed(self._earlier, self.began, {}))

    def total(self, report: "Report") -> "Report":
        """Return a report of this try with the counts of all tries."""
        return added(self._earlier, report)

    def keep(self, report: "Report") -> None:
        """Note the counts of this try so far."""
        entry = self._entry("running", self.total(report).counts)
        self._note(lambda note: note.update({self._run: entry}))

    def end(self, total: "Report", *, succeeded: bool) -> int:
        """Note the counts of all tries.

        Returns:
            How many changes of earlier runs are still to be announced, if this one succeeded.
        """
        entry = self._entry("done" if succeeded else "failed", total.counts)
        missed = self._missed

        def finish(note: dict[str, Any]) -> None:
            nonlocal missed
            missed = self._missed
            note[self._run] = entry
            for run, other in list(note.items()) if succeeded else ():
                is_live = other["state"] == "running" and other["at"] > time.time() - _SILENCE
                if run == self._run or is_live:
                    continue
                missed += self._changed_by(other, total) if other["state"] != "done" else 0
                del note[run]
            entry["missed"] = missed

        self._note(finish)
        return missed

    def _changed_by(self, other: Mapping[str, Any], total: "Report") -> int:
        """Return how many sources a run changed that failed, or was killed."""
        counts = dict(other["counts"])
        if other["state"] == "running":
            later = {"created": total.created + total.moved, "replaced": total.replaced}
            counts.update(self._sent_by_killed(counts, other["began"], later))
        return sum(counts.get(name, 0) for name in CHANGES)

    def _sent_by_killed(
        self, counts: Mapping[str, int], since: float, later: Mapping[str, int]
    ) -> Counter[str]:
        """Return how many sources a killed try created, replaced and moved.

        That is what it noted, or what the ledger knows. Which items were replaced in place is not
        written there: they were sent before, and superseded nothing.

        Args:
            counts: what it noted.
            since: when it began, in Unix seconds.
            later: what was created, or moved, and what was replaced after it.
        """
        noted, found = Counter({name: counts.get(name, 0) for name in _SENT}), Counter[str]()
        try:
            newer = {one.replaced_by for one in self._ledger.superseded(service=self.route[0])}
            for entry in self._ledger.entries(State.CREATED):
                of_route = (entry.service, entry.collections, entry.origin) == self.route
                if of_route and entry.updated_at.timestamp() >= int(since):
                    replaced = entry.attempts > 1 and entry.source_id not in newer
                    found["replaced" if replaced else "created"] += 1
        except LedgerError:  # if it lasts, the run itself reports it
            return noted
        found["created"] -= noted["moved"]
        found.subtract(later)
        return noted | found

    def _entry(self, state: str, counts: Mapping[str, int]) -> dict[str, Any]:
        counted = {name: count for name, count in counts.items() if count}
        times = {"began": self.began, "at": time.time(), "start": self._start}
        return {"state": state, "counts": counted, **times}

    def _note(self, change: Callable[[dict[str, Any]], object]) -> None:
        if not self._run:
            return
        try:
            self._ledger.note(self._name, change)
        except LedgerError as error:
            self.is_sure = False
            _log.warning("The counts of the task's tries are not kept: %s", error)


def added(earlier: Mapping[str, int], report: "Report") -> "Report":
    """Return a report that includes the counts of earlier tries over the same items."""
    counts = {name: earlier.get(name, 0) + getattr(report, name) for name in _EVENTS}
    sent = sum(earlier.get(name, 0) for name in _SENT)
    counts["unchanged"] = max(report.unchanged - sent, 0)
    return replace(report, **counts)
