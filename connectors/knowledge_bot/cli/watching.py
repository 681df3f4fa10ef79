"""`kbot ingest folder --watch`: again, whenever something below the folder changes."""

from collections.abc import Callable
from typing import Any

from knowledge_bot._signals import stop_on_signals
from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.run import ReportedRuns, exit_of
from knowledge_bot.cli.terminal import write_stderr
from knowledge_bot.ingest import Report, watch_folder


def watch_and_ingest(runs: ReportedRuns, folder: str, find: Callable[[], Any]) -> None:
    """Ingest what is found below the folder, now and after each change, until a signal.

    Raises:
        Failed: always, since nothing but a signal or an error ends it; the exit code is that of the
            last run, or `Exit.INTERRUPTED`.
    """
    code = Exit.DONE

    def run(items: Any) -> Report:
        nonlocal code
        report = runs.run(items)
        if runs.stop.is_set() or (report.stopped and not report.stopped.may_pass):
            runs.end(report)
        code = exit_of(report)
        if code is not Exit.DONE:
            write_stderr(f"Error: {runs.conclusion(report)}")
        runs.say(f"Watching {folder}; Ctrl-C ends it.")
        return report

    def away() -> None:
        runs.say(f"{folder} is not there: waiting until it is back; Ctrl-C ends it.")

    with stop_on_signals(runs.stop.set):
        watch_folder(folder, find, run, stop=runs.stop, on_away=away)
    message = "Interrupted while nothing was under way."
    raise Failed(message, Exit.INTERRUPTED if code is Exit.DONE else code)
