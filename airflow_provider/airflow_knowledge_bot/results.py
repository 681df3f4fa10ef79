"""What an ingesting task tells: in its log, its ledger, its XCom, and the error that fails it.

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.memory import counters, is_cleared
from airflow_knowledge_bot.tasks import brief
from knowledge_bot.adapters import storable
from knowledge_bot.ingest import IncompleteIngestionError, LedgerError, Report, State, Stop

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_knowledge_bot.operators.ingest import KnowledgeBotIngestOperator
    from knowledge_bot.ingest import Ledger, Outcome

NAMED = 20
"""How many items of a kind are named: nobody reads more, and XCom is for small values."""

_KINDS = ("replaced", "moved", "removed", "failed", "unknown")
"""The outcomes whose items are named."""

_INTERVAL = 10.0  # seconds between two progress lines

# How many failures its error quotes.
_QUOTED = 5

Route = tuple[str, tuple[str, ...], str | None]
"""Where items go and come from: the service, the collections and the origin."""

CHANGES = ("created", "replaced", "moved", "removed")
"""The counts of sources that a run changed."""

# Counts of events, which add up over tries. The other counts are states: the newest one holds.
_SENT = ("created", "replaced", "moved")
_EVENTS = (*_SENT, "removed", "superseded")

# Seconds after which a run that has noted nothing has died; it notes its counts every ten.
_SILENCE = 300.0

_log = logging.getLogger(__name__)


class ProgressLog:
    """Writes the progress of a run to the task's log, and its counts to the ledger.

    Attributes:
        report: the newest one; None before there is any.
        named: the first items that were replaced, moved or removed, that the service could not
            read, or that are of unknown outcome.
    """

    def __init__(self, log: Any, counts: "RunCounts") -> None:
        self._log, self._counts = log, counts
        self.report: Report | None = None
        self._failed = 0
        self._skipped: set[tuple[str, str | None, str]] = set()
        self._last = time.monotonic()
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
            name, error = brief(outcome.name), brief(outcome.error)
            self._log.warning("%s: %s: %s", outcome.kind, name, error)

    def end(
        self,
        report: "Report",
        named: Mapping[str, Sequence[Mapping[str, Any]]],
        tolerated: Mapping[str, int],
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
                self._log.info("%s: %s (source %s)", what, brief(item["name"]), source)
            self._log_more(logging.INFO, getattr(report, what) - NAMED, what)
        if report.superseded or report.gone:
            self._log.info(
                "The service still answers from what is superseded or gone. prune=True removes it "
                "where the service announces `sync`; elsewhere, remove the sources there.",
            )
        if report.incomplete and report.stopped is None:
            why = brief(report.incomplete)
            self._log.warning(
                "Nothing was marked as gone, because not all items were seen: %s", why
            )
        if report.elsewhere:
            self._log.warning(
                "elsewhere: other runs are still sending %d items; the next run checks them.",
                report.elsewhere,
            )
        for kind, count in tolerated.items():
            by = "by its parameters fail_on and max_refused"
            self._log.warning("%s %d: does not fail the task, %s.", kind, count, by)
        self._log.info("%s", storable(str(report)))

    def _log_skipped(self, outcome: "Outcome") -> None:
        """Log an item once, even where the task goes through all items a second time."""
        item = (outcome.name, outcome.key, outcome.error)
        if len(self._skipped) < NAMED and item not in self._skipped:
            self._skipped.add(item)
            self._log.info("skipped: %s: %s", brief(item[0]), brief(item[2]))

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
        said = f"{done:,}{of_all} items, {rate:.0f}/s: {counts or 'none yet'}"
        self._log.info("%s", said)
        if report.paused:
            self._log.warning("Waiting: %s", brief(report.paused))
        self._counts.keep(report)


class RunCounts:
    """The counts of one run of a task over all its tries, beside those of the task's other runs.

    A run's entry in the note has the `state` (`running`, `failed` or `done`), the `counts`, when it
    `began` and when that was written (`at`), Airflow's `counters` of the try that wrote it, and of
    a run that is done, how many changes of failed runs it announced (`missed`).

    Args:
        context: the task's context.
        ledger: the task's ledger; without one nothing is kept from one try to the next.
        route: where the items go and come from.

    Attributes:
        began: when the run's first try began, in Unix seconds.
        is_sure: whether it is known what earlier tries did.
    """

    def __init__(self, context: "Context", ledger: "Ledger | None", route: Route) -> None:
        task: Any = context.get("ti")
        self._run: str = getattr(task, "run_id", "")  # empty: called outside of a run
        ids = (getattr(task, name, "") for name in ("dag_id", "task_id", "map_index"))
        self._name = "/".join(("airflow", *map(str, ids)))
        self._counters = counters(context)
        self._ledger, self.route = ledger, route
        self.is_sure = ledger is not None or getattr(task, "try_number", 1) <= 1
        self.began = time.time()
        found: dict[str, Any] = {}

        def begin(note: dict[str, Any]) -> None:
            found.update(note.get(self._run, {}))
            if found.get("state") == "done" and is_cleared(found["counters"], self._counters):
                found.clear()  # a person cleared what had succeeded
            note[self._run] = self._entry("running", found.get("counts", {}))

        self._note(begin)
        self.began = found.get("began", self.began)
        self._earlier: dict[str, int] = found.get("counts", {})
        self._missed: int = found.get("missed", 0)
        if found.get("state") == "running":
            self._earlier["created"] = self._created_by_killed(found, Report())

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
                if other["state"] == "running":
                    other["counts"]["created"] = self._created_by_killed(other, total)
                if other["state"] != "done":
                    missed += sum(other["counts"].get(name, 0) for name in CHANGES)
                del note[run]
            entry["missed"] = missed

        self._note(finish)
        return missed

    def _created_by_killed(self, run: Mapping[str, Any], later: "Report") -> int:
        """Return how many sources a killed try created: those that it noted, or the ledger knows.

        Without those that were created, or moved, after it.
        """
        noted: dict[str, int] = run["counts"]
        known = -later.created - later.moved - noted.get("moved", 0)
        try:
            for entry in self._ledger.entries(State.CREATED) if self._ledger is not None else ():
                of_route = (entry.service, entry.collections, entry.origin) == self.route
                known += of_route and entry.updated_at.timestamp() >= int(run["began"])
        except LedgerError:  # if it lasts, the run itself reports it
            known = 0
        return max(known, noted.get("created", 0))

    def _entry(self, state: str, counts: Mapping[str, int]) -> dict[str, Any]:
        counted = {name: count for name, count in counts.items() if count}
        times = {"began": self.began, "at": time.time(), "counters": self._counters}
        return {"state": state, "counts": counted, **times}

    def _note(self, change: Callable[[dict[str, Any]], object]) -> None:
        if not self._run or self._ledger is None:
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


def summary(
    report: "Report",
    outcomes: Mapping[str, Iterable["Outcome"]],
    ledger: "Ledger | None",
    tries: "RunCounts",
) -> dict[str, Any]:
    """Return the report as a small plain dict, which names the first items of some kinds.

    The report is that of all tries, the outcomes are the first ones of the last try.
    """
    # Those that fail the task go first.
    failures = sorted(report.failures, key=lambda outcome: not outcome.failed)[:NAMED]
    return {
        **report.counts,
        "duration": round(report.duration, 3),
        "stopped": None if report.stopped is None else report.stopped.value,
        "failures": [
            {"kind": one.kind, "name": one.name, "error": one.error[:500]} for one in failures
        ],
        "named": _named(report, outcomes, ledger, tries),
    }


def _named(
    report: "Report",
    outcomes: Mapping[str, Iterable["Outcome"]],
    ledger: "Ledger | None",
    tries: "RunCounts",
) -> dict[str, list[dict[str, Any]]]:
    service, _, origin = tries.route
    named: dict[str, list[dict[str, Any]]] = {"superseded": [], "gone": []}
    for kind, ones in outcomes.items():
        field = "key" if kind == "unknown" else "source_id"
        named[kind] = [{"name": one.name, field: getattr(one, field)} for one in ones]
    if ledger is None:
        return named
    try:
        if report.superseded:
            replaced = (
                {"name": one.name, "source_id": one.source_id, "replaced_by": one.replaced_by}
                for one in ledger.superseded(service=service)
                if one.superseded_at.timestamp() >= int(tries.began)
            )
            named["superseded"] = list(islice(replaced, NAMED))
        if report.gone:
            gone = (
                {"name": one.name, "source_id": one.source_id}
                for one in ledger.gone(service=service)
                if one.origin == origin
            )
            named["gone"] = list(islice(gone, NAMED))
    except LedgerError:  # the counts are reported without the names
        pass
    return named


def failing(report: "Report", task: "KnowledgeBotIngestOperator") -> dict[str, int]:
    """Return the counts that fail the task, by their names."""
    counts: dict[str, int] = {
        kind: int(bool(report.incomplete)) if kind == "incomplete" else getattr(report, kind)
        for kind in task.fail_on
        if getattr(report, kind)
    }
    most = task.max_refused
    allowed = most * report.items if isinstance(most, float) else most
    if counts.get("refused", 0) <= allowed:
        counts.pop("refused", None)
    return counts


def failure_of(
    report: "Report",
    task: "KnowledgeBotIngestOperator",
    *,
    collections: Sequence[str],
    unknown: Sequence["Outcome"] = (),
    invalid_passes: bool = False,
) -> Exception | None:
    """Return the error that fails the task; None where nothing does.

    The report is that of all tries. `invalid_passes` says that an item which could not be read may
    be readable at the next try, such as an object that changed since it was listed.

    Returns:
        `AirflowFailException` where a retry cannot help, with what a person must do;
        `IncompleteIngestionError` where the next try may succeed.
    """
    counts = failing(report, task)
    stopped = None if report.stopped is Stop.LIMIT else report.stopped  # which is no failure
    if not counts and stopped is None:
        return None
    resends = "unknown" in counts and task.on_unknown == "resend"
    lines = storable(_lines(report, counts, collections))
    if "unknown" in counts and not resends:
        lines[1:1] = storable(_how_to_settle(report.unknown, unknown, task.ledger_conn_id))
    may_pass = (
        not counts.keys().isdisjoint(("undelivered", "unready"))
        or ("invalid" in counts and invalid_passes)
        or resends
    )
    if not (may_pass if stopped is None else stopped.may_pass):
        return AirflowFailException("\n".join(lines))
    next_try = (
        "on_unknown='resend': the next try sends what is missing, and what is unknown again, so "
        "that may be there twice."
        if resends
        else "The next try sends what is missing, and nothing twice."
    )
    return _IncompleteError(report, collections, [*lines, next_try])


# What a person, or the next run, does about each kind of failure, and about each end.
_NEXT = {
    "refused": "The next run tries what was refused again: correct it, or leave it out.",
    "invalid": "Invalid items cannot be read or sent as they are: correct or remove them.",
    "undelivered": "The next run sends what the service did not get, or put off.",
    "failed": "The service cannot read what failed: correct or remove these items.",
    "withheld": (
        "So much is gone at once that nothing of it was removed: check the place, or run once with "
        "a higher gone_limit."
    ),
    "unready": "The service has not read all that was sent within wait_ready.",
    "incomplete": "A part of the place could not be read, so that nothing is taken for gone.",
    Stop.PAYMENT: "Clear the task once the service's quota allows more.",
    Stop.REFUSED: (
        "A refusal of everything has one cause, which a retry does not remove: correct it, then "
        "clear the task."
    ),
}


def _lines(
    report: "Report",
    counts: Mapping[str, int],
    collections: Sequence[str],
) -> list[str]:
    lines = [f"Not everything got into {', '.join(collections)}: {str(report).rstrip('.')}."]
    ends = {*counts, report.stopped}
    if report.stopped is not None:
        ends.discard("incomplete")  # not all was seen, because the run ended
    lines += [text for kind, text in _NEXT.items() if kind in ends]
    errors = [one.error for one in report.failures if one.kind == "refused" and "refused" in counts]
    errors += [report.stop_reason] if report.stopped is Stop.REFUSED else []
    if any(one in error for error in errors for one in collections):
        lines.append("The refusal is about the task's parameter 'collections'.")
    shown = [failure for failure in report.failures if failure.kind in counts][:_QUOTED]
    return lines + [f"{one.kind}: {brief(one.name)}: {brief(one.error)}" for one in shown]


def _how_to_settle(
    count: int, unknown: Sequence["Outcome"], ledger_conn_id: str | None
) -> list[str]:
    """Return what a person does about items of unknown outcome, and name them."""
    shown = unknown[:NAMED]
    more = count - len(shown)
    return [
        f"The service may or may not have the {count} unknown items: look for them there.",
        (
            "Then settle them with KnowledgeBotResolveOperator and the ledger connection "
            f"{ledger_conn_id!r}: the DAG examples/settle_unknown.py has a form for it, see "
            "docs/airflow/settle.md."
        ),
        "Or run the task with on_unknown='resend', if a duplicate is better than a gap.",
        *(f"unknown: {brief(one.name)} (key {brief(str(one.key))})" for one in shown),
        *([f"… and {more} more that are unknown."] if more > 0 else []),
    ]


class _IncompleteError(IncompleteIngestionError):
    """An `IncompleteIngestionError` with one fact a line, for a task's log."""

    def __init__(self, report: "Report", collections: Sequence[str], lines: Sequence[str]) -> None:
        super().__init__(report, collections, "The next try gives the same items again")
        self._lines = lines

    def __str__(self) -> str:
        return "\n".join(self._lines)
