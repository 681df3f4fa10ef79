"""What a task says of its ingestion: to XCom, and to the person who must do something."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_knowledge_bot._compat import AirflowFailException
from airflow_knowledge_bot.failures import key_at_fault
from knowledge_bot.ingest import IncompleteIngestionError, Stop

if TYPE_CHECKING:
    from knowledge_bot.ingest import Report

# XCom is for small values, and a person reads no more than this.
_FAILURES = 20
_CHARACTERS = 500
_QUOTED = 5

_AGAIN = "The next try gives the same items again"

_PASSING = (Stop.UNAVAILABLE, Stop.LEDGER, Stop.REQUESTED)
_LASTING = (Stop.AUTHENTICATION, Stop.PAYMENT, Stop.REFUSED)


def summary(report: "Report") -> dict[str, Any]:
    """Return the report as a small plain dict."""
    # Those that fail the task go first.
    told = sorted(report.failures, key=lambda outcome: not outcome.failed)[:_FAILURES]
    return {
        **report.counts,
        "duration": round(report.duration, 3),
        "stopped": None if report.stopped is None else report.stopped.value,
        "failures": [
            {"kind": one.kind, "name": one.name, "error": one.error[:_CHARACTERS]} for one in told
        ],
    }


def failure_of(
    report: "Report",
    *,
    on_unknown: str,
    conn_id: str,
    collections: Sequence[str],
    from_a_store: bool = False,
) -> Exception | None:
    """Return what fails the task where items are not in the service; None where all are.

    Args:
        report: what came of the run.
        on_unknown: `resend` leaves unknown outcomes to the next try.
        conn_id: the connection, named where the key is at fault.
        collections: the task's, named where the service refused one.
        from_a_store: whether what could not be read may be readable at the next try, as an object
            that changed since it was listed.

    Returns:
        `AirflowFailException` where trying again mends nothing, with what a person must do;
        `IncompleteIngestionError` where the next try may do better.
    """
    if report.ok and not report.elsewhere:
        return None
    passing = report.stopped not in _LASTING and (
        report.undelivered > 0
        # Its worker may have died a moment ago, and its lease on the item still runs.
        or report.elsewhere > 0
        or report.stopped in _PASSING
        or (report.invalid > 0 and from_a_store)
        or (report.unknown > 0 and on_unknown == "resend")
    )
    if passing:
        return IncompleteIngestionError(report, collections, _AGAIN)
    return AirflowFailException(" ".join(_sentences(report, on_unknown, conn_id, collections)))


def _sentences(
    report: "Report", on_unknown: str, conn_id: str, collections: Sequence[str]
) -> list[str]:
    told = [f"Not everything is in the service: {report}."]
    if report.unknown and on_unknown == "hold":
        told.append(
            f"The service may or may not have the {report.unknown} unknown items: look there, list "
            "them with `kbot ledger unknown` and settle each with `kbot ledger resolve`, or run "
            "the task with on_unknown='resend' if two of the same are better than none."
        )
    if report.refused:
        told.append("What was refused is tried again by the next run: mend it, or leave it out.")
        errors = [failure.error for failure in report.failures if failure.kind == "refused"]
        if any(collection in error for error in errors for collection in collections):
            told.append("It is about the task's parameter 'collections'.")
    if report.invalid:
        told.append("What is invalid cannot be read or sent as it is: mend it, or leave it out.")
    if report.elsewhere:
        told.append("What another worker is sending is looked at by the next run.")
    if report.undelivered:
        told.append("What did not reach the service is sent by the next run.")
    if report.stopped is Stop.AUTHENTICATION:
        told.append(key_at_fault(conn_id))
    if report.stopped is Stop.PAYMENT:
        told.append("Clear the task once the service's quota allows more.")
    if report.stopped is Stop.REFUSED:
        told.append(
            "So many refusals alike have one reason, which trying again does not mend: mend it, "
            "then clear the task."
        )
    shown = [failure for failure in report.failures if failure.failed][:_QUOTED]
    told += [f"{failure.kind}: {failure.name}: {failure.error}" for failure in shown]
    return told
