"""The result of an ingestion: for XCom, and as the error that says what a person must do."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.failures import key_at_fault
from airflow_knowledge_bot.progress import NAMED, shell_needs
from airflow_knowledge_bot.tasks import brief
from knowledge_bot.ingest import IncompleteIngestionError, LedgerError, Stop

if TYPE_CHECKING:
    from airflow_knowledge_bot.progress import RunCounts
    from knowledge_bot.ingest import Ledger, Outcome, Report

_CHARACTERS = 500
_QUOTED = 5


def summary(
    report: "Report",
    outcomes: Mapping[str, Iterable["Outcome"]],
    ledger: "Ledger",
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
            {"kind": one.kind, "name": one.name, "error": one.error[:_CHARACTERS]}
            for one in failures
        ],
        "named": _named(report, outcomes, ledger, tries),
    }


def _named(
    report: "Report",
    outcomes: Mapping[str, Iterable["Outcome"]],
    ledger: "Ledger",
    tries: "RunCounts",
) -> dict[str, list[dict[str, Any]]]:
    service, _, origin = tries.route
    named: dict[str, list[dict[str, Any]]] = {"superseded": [], "gone": []}
    for kind, ones in outcomes.items():
        field = "key" if kind == "unknown" else "source_id"
        named[kind] = [{"name": one.name, field: getattr(one, field)} for one in ones]
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


class IngestingTask(Protocol):
    """The parameters of a task that say which counts fail it, and that its error quotes."""

    fail_on: Collection[Any]
    max_refused: int | float
    on_unknown: Any
    ledger_conn_id: str
    knowledge_bot_conn_id: str


def failing(report: "Report", task: IngestingTask) -> dict[str, int]:
    """Return the counts that fail the task, by their names."""
    counts: dict[str, int] = {
        kind: getattr(report, kind) for kind in task.fail_on if getattr(report, kind)
    }
    most = task.max_refused
    allowed = most * report.items if isinstance(most, float) else most
    if counts.get("refused", 0) <= allowed:
        counts.pop("refused", None)
    return counts


def failure_of(
    report: "Report",
    task: IngestingTask,
    *,
    collections: Sequence[str],
    ledger: "Ledger",
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
    lines = _lines(report, counts, task, collections)
    if "unknown" in counts and not resends:
        lines[1:1] = _how_to_settle(report.unknown, unknown, task.ledger_conn_id, ledger)
    may_pass = (
        not counts.keys().isdisjoint(("undelivered", "unremoved"))
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
    "unremoved": "The next run tries again to remove what is gone or superseded.",
    Stop.PAYMENT: "Clear the task once the service's quota allows more.",
    Stop.REFUSED: (
        "So many refusals alike have one cause, which a retry does not remove: correct it, then "
        "clear the task."
    ),
}


def _lines(
    report: "Report",
    counts: Mapping[str, int],
    task: IngestingTask,
    collections: Sequence[str],
) -> list[str]:
    lines = [f"Not everything got into {', '.join(collections)}: {str(report).rstrip('.')}."]
    lines += [text for kind, text in _NEXT.items() if kind in counts or kind is report.stopped]
    errors = [one.error for one in report.failures if one.kind == "refused"]
    if "refused" in counts and any(one in error for error in errors for one in collections):
        lines.append("The refusal is about the task's parameter 'collections'.")
    if report.stopped is Stop.AUTHENTICATION:
        lines.append(key_at_fault(task.knowledge_bot_conn_id))
    shown = [failure for failure in report.failures if failure.kind in counts][:_QUOTED]
    return lines + [f"{one.kind}: {one.name}: {brief(one.error)}" for one in shown]


def _how_to_settle(
    count: int, unknown: Sequence["Outcome"], ledger_conn_id: str, ledger: "Ledger"
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
        "Or from a shell, with `kbot ledger unknown` and `kbot ledger resolve`.",
        shell_needs(ledger),
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
