"""The error of a run that left items out, for callers that want one instead of a report."""

from collections.abc import Iterable

from knowledge_bot.errors import Delivery, KnowledgeBotError
from knowledge_bot.ingest.report import Report

_TOLD_FAILURES = 5


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
        told = "; ".join(
            f"{failure.name}: {failure.kind}, {failure.error}".rstrip(". ")
            for failure in report.failures[:_TOLD_FAILURES]
        )
        super().__init__(
            f"Not everything got into {', '.join(collections)}: {report}. {told}",
            delivery=Delivery.UNKNOWN if report.unknown else Delivery.REFUSED,
            outcome=f"{again}: what is there is not sent again. An unknown outcome is settled with "
            "`kbot ledger resolve`, or by on_unknown='resend'",
        )
        self.report = report
