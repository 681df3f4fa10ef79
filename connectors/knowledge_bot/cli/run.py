"""What `kbot ingest` prints of a run: progress, failures, summary, exit code."""

import logging
import os
import shlex
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from knowledge_bot._extensions import keeps_book_for_others
from knowledge_bot.cli.exits import Exit, Failed, StdoutError, falling_back_to_stderr
from knowledge_bot.cli.output import write_line, write_row, write_table
from knowledge_bot.cli.progress import IngestionProgress
from knowledge_bot.cli.terminal import one_line, write_stderr
from knowledge_bot.ingest import Ingestion, LedgerError, Outcome, Report, Stop
from knowledge_bot.ingest._report import DONE, WOULD, stop_reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from knowledge_bot import Client

# How many failures are listed for people; --json lists all.
_SHOWN = 20

_SECONDS_BETWEEN_EVENTS = 1.0

_LATER = " It goes with the next complete run; what is left out by now, with `--prune excluded`."

# The counts that are shown where they are 0, too.
_ALWAYS = ("created", "unchanged")


class ReportedRuns:
    """Ingests the same items once, or again and again with --watch, and reports each run.

    Args:
        client: sends the requests.
        options: how to ingest.
        as_json: report everything as lines of JSON on stdout.
        quiet: write only errors to stderr.
        ledger_address: what `--ledger` has to name for the commands that are advised; None for the
            usual ledger.

    Attributes:
        stop: when this is set, a run ends early.
    """

    def __init__(
        self,
        client: "Client",
        options: Ingestion,
        *,
        as_json: bool,
        quiet: bool,
        ledger_address: str | None = None,
    ) -> None:
        self._client, self._options = client, options
        named = ledger_address and ledger_address != os.environ.get("KNOWLEDGE_BOT_LEDGER")
        # A database's address may hold a password.
        shown = "URL" if "://" in (ledger_address or "") else shlex.quote(ledger_address or "")
        self._ledger = f" --ledger {shown}" if named else ""
        self._as_json, self._quiet = as_json, quiet
        self._shown_before: set[Outcome] = set()
        self.stop = threading.Event()
        # Its warnings are shown here; without a handler Python would write them to stderr.
        logging.getLogger("knowledge_bot").addHandler(logging.NullHandler())

    def run(self, items: Any) -> Report:
        """Ingest, and show progress, failures and a summary.

        Raises:
            Failed: it was interrupted at once, the items cannot be read to their end, or the
                summary cannot be written to stdout.
            KnowledgeBotError: the run could not begin.
        """
        output = _Output(self._as_json, self._quiet, self._options.dry_run, self.stop)
        options = replace(
            self._options,
            on_progress=output.on_progress,
            on_outcome=output.on_outcome,
            stop=self.stop,
        )
        ledger, is_new = self._options.ledger, False
        with suppress(LedgerError):  # the run waits for one that is away, if it needs one
            # A ledger whose name has a typo is empty, too, and sends everything again.
            is_new = ledger is not None and not self._options.dry_run and not ledger.exists()
        try:
            report = options.run(self._client, items)
        except KeyboardInterrupt:
            raise Failed(
                "Interrupted at once. What was under way may have been created: see "
                f"{self._command('unknown')}.",
                Exit.UNKNOWN,
            ) from None
        except OSError as error:
            reason = ". ".join([f"The run ended early: {error}", *getattr(error, "__notes__", [])])
            raise Failed(f"{reason}.", Exit.SOME_FAILED) from None
        finally:
            output.end()
        self._summarize(report, output.lost, is_new=is_new)
        return report

    def say(self, text: str) -> None:
        """Write a note to stderr, unless it is to be quiet."""
        if not self._quiet:
            write_stderr(text)

    def end(self, report: Report) -> None:
        """End the command as the last report says.

        Raises:
            Failed: something is not done or not known; the exit code says which.
        """
        code = exit_of(report)
        if code is not Exit.DONE:
            raise Failed(self.conclusion(report), code)

    def conclusion(self, report: Report) -> str:
        """Say why the exit code is what it is, and what to do."""
        sentences = []
        if report.stopped is Stop.REQUESTED:
            sentences.append(
                "Interrupted: what was under way was finished, the next run does the rest"
            )
        elif report.stopped not in (None, Stop.LIMIT):
            sentences.append(f"Stopped before the end: {report.stop_reason.rstrip('.')}")
        if report.incomplete and not report.stopped:
            sentences.append(f"Not all was seen: {report.incomplete.rstrip('. ')}")
        unknown, resolve = self._command("unknown"), self._command("resolve KEY --created ID")
        counted = {
            "not created; the next run tries again": report.refused + report.undelivered,
            "could not be read, or cannot be sent as they are; correct them, or leave them out": (
                report.invalid
            ),
            "could not be read by the service; correct them, or leave them out": report.failed,
            f"vanished at once, more than the share of {self._options.gone_limit:g} that may, and "
            "are still answered from; if this is their place and they are really gone, run it "
            "again with --gone-limit 1": report.withheld,
            "not read by the service in time; a later run looks again": report.unready,
            "may or may not have been created; the next run settles them where the service "
            f"announces `idempotency`. Elsewhere they are not sent again: {unknown} lists them; "
            f"look for each in the service, then {resolve} or `--not-created`": report.unknown,
        }
        sentences += [f"{count} {text}" for text, count in counted.items() if count]
        return ". ".join(sentences) + "."

    def _show_what_stays(self, report: Report) -> None:
        """Say what is still answered from, although its origin does not hold it any more."""
        if report.superseded:
            command = self._command("superseded")
            self.say(f"{command} lists the sources that newer ones replaced.")
        if report.gone and self._service_keeps_it:
            later = _LATER if self._options.prune else ""
            self.say(f"Gone, but still in the service: {report.gone}.{later}")
        elif report.gone:
            command = self._command("gone")
            self.say(f"{command} lists what is gone, but still in the service.")

    @property
    def _service_keeps_it(self) -> bool:
        return "sync" in self._client._announced  # noqa: SLF001 - the core's own

    def _command(self, rest: str) -> str:
        return f"`kbot ledger {rest}{self._ledger}`"

    def _summarize(
        self, report: Report, lost: OSError | StdoutError | None, *, is_new: bool
    ) -> None:
        code = exit_of(report)
        # The run was interrupted because stdout was lost, or by a terminal that was closed.
        if lost is not None and code is Exit.INTERRUPTED:
            code = Exit.DONE
        counts = _named_counts(report)
        told = ", ".join(f"{name} {count}" for name, count in counts.items())
        with falling_back_to_stderr(f"Items: {told}.", code):
            if lost is not None:
                raise lost
            if self._as_json:
                write_line({"event": "summary", **_plain(report)})
            else:
                write_table(("outcome", "items"), list(counts.items()))
        if not self._as_json:
            self._show_failures(report)
            self._show_what_to_look_at(report, is_new=is_new)

    def _show_failures(self, report: Report) -> None:
        new = [one for one in report.failures if one not in self._shown_before]
        hidden = len(report.failures) - len(new)
        harmful = [one for one in new if one.failed]
        harmless = [] if self._quiet else [one for one in new if not one.failed]
        self._shown_before.update(harmless)  # shown once, however often they are met
        listed = [*harmful, *harmless][:_SHOWN]
        by_error: dict[tuple[str, str], list[str]] = {}
        for one in listed:
            by_error.setdefault((one.kind, one.error), []).append(one.name)
        for (kind, error), names in by_error.items():
            shown = "".join(f"\n  {one_line(name)}" for name in names)
            write_stderr(f"{kind.replace('_', ' ')}: {error}{shown}")
        count = report.missing + report.failed + (0 if self._quiet else report.skipped)
        if (left := count - hidden - len(listed)) > 0:
            write_stderr(f"… and {left} more; --json lists all.")

    def _show_what_to_look_at(self, report: Report, *, is_new: bool) -> None:
        if not report.dry_run:
            self._show_what_stays(report)
        if report.stopped is Stop.LIMIT:
            self.say(f"{_sentence(report.stop_reason)} The next run goes on.")
        if report.items == 0 and not report.removed and report.stopped is None:
            self.say("Nothing to send was found.")
        if report.items == 0 and report.stopped is Stop.UNAVAILABLE:
            return  # nothing was compared
        if self._service_keeps_it:
            book = "what the service has"
        else:
            book = f"{'a new ledger, ' if is_new else ''}{self._options.ledger}"
            if keeps_book_for_others(self._client._announced):  # noqa: SLF001 - as above
                book += ", since this API key may not replace and delete; use one that may"
        note = "nothing was sent; compared with" if report.dry_run else "compared with"
        self.say(f"({report.duration:.1f} s; {note} {book})")


class _Output:
    """Writes, in a thread of its own, what the engine reports.

    A reader that pauses (`| less`) or a terminal that is stopped (Ctrl-S) would block the engine,
    whose requests would time out.

    Attributes:
        lost: why stdout cannot be written; None while it can.
    """

    def __init__(self, as_json: bool, quiet: bool, dry_run: bool, stop: threading.Event) -> None:
        self._as_json, self._quiet, self._dry_run, self._stop = as_json, quiet, dry_run, stop
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # Not between lines that go to the same terminal.
        alone = not (as_json or dry_run) or not sys.stdout.isatty()
        shown = sys.stderr.isatty() and alone and not quiet
        self._progress = IngestionProgress() if shown else None
        self._due = time.monotonic() + _SECONDS_BETWEEN_EVENTS
        self._stopping = self._paused = False
        self.lost: BrokenPipeError | StdoutError | None = None
        self._thread = threading.Thread(target=self._work, name="output", daemon=True)
        self._thread.start()

    def on_progress(self, report: Report) -> None:
        """Show how far the run is."""
        if self._jobs.empty():
            self._jobs.put(lambda: self._show(report))

    def on_outcome(self, outcome: Outcome) -> None:
        """Write what became of an item."""
        if self._as_json or (self._dry_run and outcome.kind in DONE):
            self._jobs.put(lambda: self._write(outcome))

    def end(self) -> None:
        """Wait until everything is written."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except (BrokenPipeError, StdoutError) as error:
                self.lost = self.lost or error
                self._stop.set()
        if self._progress is not None:
            self._progress.close()

    def _show(self, report: Report) -> None:
        if report.stopped not in (None, Stop.LIMIT) and not self._stopping:
            self._stopping = True
            if not self._quiet:
                if self._progress is not None:
                    self._progress.close()
                why = ""
                if report.stopped not in (None, Stop.REQUESTED):
                    why = f"{stop_reason(report.stopped)}; "  # the end says more
                write_stderr(f"Stopping: {why}what is under way is finished first.")
        if self._progress is not None:
            self._progress.show(report)
        elif report.paused and not self._paused and not self._quiet:
            write_stderr(f"Waiting: {report.paused}.")
        self._paused = bool(report.paused)
        if self._as_json and time.monotonic() >= self._due and self.lost is None:
            self._due = time.monotonic() + _SECONDS_BETWEEN_EVENTS
            now = {"total": report.total, "current": report.current, "paused": report.paused}
            write_line({"event": "progress", **report.counts, **now})

    def _write(self, outcome: Outcome) -> None:
        if self.lost is not None:
            return
        known = {"name": outcome.name, "key": outcome.key}
        if outcome.kind not in DONE:
            kind = {"event": "failure", "kind": outcome.kind}
            write_line({**kind, **known, "error": outcome.error})
        elif not self._as_json:
            what = {
                "replaced": " (to be replaced)",
                "moved": " (moved)",
                "removed": " (to be removed)",
            }
            write_row(outcome.name + what.get(outcome.kind, ""))
        elif self._dry_run:
            write_line({"event": WOULD[outcome.kind].replace(" ", "_"), **known})


def exit_of(report: Report) -> Exit:
    """Return the exit code of a run: `DONE` exactly where the report is ok."""
    if report.ok:
        return Exit.DONE
    if report.unknown:
        return Exit.UNKNOWN
    if report.stopped in (Stop.AUTHENTICATION, Stop.PAYMENT):
        return Exit.ACCOUNT
    if report.stopped is Stop.UNAVAILABLE and not report.sent + report.unchanged:
        return Exit.FAILED
    # Items that were not delivered because the run was interrupted did not fail.
    if report.stopped is Stop.REQUESTED and replace(report, stopped=None, undelivered=0).ok:
        return Exit.INTERRUPTED
    return Exit.SOME_FAILED


def _named_counts(report: Report) -> dict[str, int]:
    """Return the counts that are worth showing, by their names for people."""
    counts = {name: n for name, n in report.counts.items() if n or name in _ALWAYS}
    said = WOULD if report.dry_run else {}
    return {said.get(name, name).replace("_", " "): n for name, n in counts.items()}


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _plain(report: Report) -> dict[str, Any]:
    found = report.as_dict()
    for name in ("failures", "current", "paused"):  # events of their own, and of the past
        del found[name]
    return {**found, "ok": report.ok}
