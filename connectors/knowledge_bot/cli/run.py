"""One ingestion in front of a person or a program: progress, failures, summary, exit code."""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import click

from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.output import write_line, write_table
from knowledge_bot.cli.terminal import printable
from knowledge_bot.ingest import Ledger, Report, Stop, ingest

if TYPE_CHECKING:
    from rich.progress import Progress

    from knowledge_bot import Client

# How many failures people are told of; a program is told of all that the report keeps (1,000).
_TOLD = 20

_SECONDS_BETWEEN_EVENTS = 1.0


def ingest_and_report(
    client: "Client",
    items: Iterable[object],
    *,
    collections: tuple[str, ...],
    ledger: Ledger,
    concurrency: int,
    on_unknown: Literal["hold", "resend"],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Ingest the items; say on the way and at the end what came of them.

    Raises:
        Failed: something is not done or not known; the exit code says which.
        KnowledgeBotError: the run could not begin.
    """
    with _json_progress() if as_json else _progress() as on_progress:
        try:
            report = ingest(
                client,
                items,
                collections=collections,
                ledger=ledger,
                concurrency=concurrency,
                on_unknown=on_unknown,
                on_progress=on_progress,
                dry_run=dry_run,
            )
        except KeyboardInterrupt:
            raise Failed(
                "Interrupted at once. What was under way may have been created: see `kbot ledger "
                "unknown`.",
                Exit.UNKNOWN,
            ) from None
    if as_json:
        write_line({"event": "summary", **_plain(report)})
    else:
        _tell(report, ledger)
    code = _exit_of(report)
    if code is not Exit.DONE:
        raise Failed(_conclusion(report), code)


def _exit_of(report: Report) -> Exit:
    if report.unknown:
        return Exit.UNKNOWN
    if report.stopped in (Stop.AUTHENTICATION, Stop.PAYMENT):
        return Exit.ACCOUNT
    if report.stopped is Stop.UNAVAILABLE:
        return Exit.SOME_FAILED if report.created + report.unchanged else Exit.FAILED
    if report.failed or report.stopped is Stop.LEDGER:
        return Exit.SOME_FAILED
    return Exit.INTERRUPTED if report.stopped else Exit.DONE


def _conclusion(report: Report) -> str:
    """Say why the exit code is what it is, and what to do."""
    sentences = []
    if report.stopped is Stop.REQUESTED:
        sentences.append("Interrupted: what was under way was finished, the next run does the rest")
    elif report.stopped:
        sentences.append(f"Stopped before the end: {report.stop_reason.rstrip('.')}")
    if again := report.refused + report.undelivered:
        sentences.append(f"{again} not created; the next run tries again")
    if report.invalid:
        sentences.append(f"{report.invalid} cannot be sent as they are")
    if report.unknown:
        sentences.append(
            f"{report.unknown} may or may not have been created and will not be sent again: "
            "`kbot ledger unknown` lists them; look for each in the service, then `kbot ledger "
            "resolve KEY --created ID` or `--not-created`"
        )
    return ". ".join(sentences) + "."


def _tell(report: Report, ledger: Ledger) -> None:
    counts = report.counts
    if report.dry_run:
        counts = {"would create" if name == "created" else name: n for name, n in counts.items()}
    always = ("created", "would create", "unchanged")
    write_table(
        ("outcome", "items"), [(name, n) for name, n in counts.items() if n or name in always]
    )
    by_error: dict[tuple[str, str], list[str]] = {}
    told = sorted(report.failures, key=lambda one: one.kind == "skipped")[:_TOLD]
    for failure in told:
        by_error.setdefault((failure.kind, failure.error), []).append(failure.name)
    for (kind, error), names in by_error.items():
        click.echo(printable(f"{kind}: {error}\n  " + "\n  ".join(names)), err=True)
    if left := report.failed + report.skipped - len(told):
        click.echo(f"… and {left} more; --json tells more of them.", err=True)
    if report.superseded and not report.dry_run:
        click.echo("`kbot ledger superseded` names the sources that were replaced.", err=True)
    kept = printable(ledger.database().told)
    click.echo(f"({report.duration:.1f} s; what was sent is remembered in {kept})", err=True)


@contextmanager
def _json_progress() -> Iterator[Callable[[Report], None]]:
    told, due = 0, time.monotonic() + _SECONDS_BETWEEN_EVENTS

    def on_progress(report: Report) -> None:
        nonlocal told, due
        for failure in report.failures[told:]:
            write_line(
                {
                    "event": "failure",
                    "kind": failure.kind,
                    "name": failure.name,
                    "key": failure.key,
                    "error": failure.error,
                }
            )
        told = len(report.failures)
        if time.monotonic() >= due:
            due = time.monotonic() + _SECONDS_BETWEEN_EVENTS
            write_line({"event": "progress", **report.counts})

    with _stop_told(lambda message: click.echo(message, err=True)):
        yield on_progress


@contextmanager
def _progress() -> Iterator[Callable[[Report], None] | None]:
    if not sys.stderr.isatty():
        with _stop_told(lambda message: click.echo(message, err=True)):
            yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("comparing")

        def show(report: Report) -> None:
            counts = report.counts.items()
            told = ", ".join(f"{name} {n}" for name, n in counts if n)
            bar.update(task, description=told or "comparing")

        with _stop_told(lambda message: _print_above(bar, message)):
            yield show


def _print_above(bar: "Progress", message: str) -> None:
    bar.console.print(message, markup=False, highlight=False)


@contextmanager
def _stop_told(tell: Callable[[str], object]) -> Iterator[None]:
    """Tell at once when the run begins to stop, for example after Ctrl-C: the engine logs it."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002 - logging's
            tell("Stopping: what is under way is finished first.")

    logger, handler = logging.getLogger("knowledge_bot.ingest"), Handler(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _plain(report: Report) -> dict[str, Any]:
    found = report.as_dict()
    del found["failures"]  # each was an event of its own
    return {**found, "ok": report.ok}
