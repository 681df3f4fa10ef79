"""`kbot ingest folder --watch`: again, whenever something below the folder changes."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from knowledge_bot._signals import stop_on_signals
from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.run import Session, conclusion, exit_of
from knowledge_bot.cli.terminal import write_stderr
from knowledge_bot.ingest import File, Stop

# Seconds without a change before a run begins, so that no half of a file is sent while it is being
# written; and the longest wait for that.
_QUIET = 0.5
_LONGEST_WAIT = 30.0

# After these, another run may go better.
_PASSING = (None, Stop.LIMIT, Stop.UNAVAILABLE)


def watch_and_ingest(session: Session, folder: str, find: Callable[[], Iterable[object]]) -> None:
    """Ingest what is found below the folder, now and after each change, until a signal.

    A change of something that is not ingested, such as the ledger, leads to no run.

    Args:
        session: runs.
        folder: what to watch.
        find: finds the items of a run.

    Raises:
        Failed: always, since nothing but a signal or an error ends it; the exit code is that of the
            last run, or `Exit.INTERRUPTED`.
    """
    with stop_on_signals(session.stop.set):
        changes = _changes(folder, session.stop)
        next(changes, None)  # what changes from here on is noted, also while a run is under way
        while True:
            files = _files(find())
            report = session.run(find())
            if session.stop.is_set() or report.stopped not in _PASSING:
                session.end(report)
            elif exit_of(report) is not Exit.DONE:
                write_stderr(f"Error: {conclusion(report)}")
            session.say(f"Watching {folder}; Ctrl-C ends it.")
            if not _changed(changes, files, find):
                code = exit_of(report)
                message = "Interrupted while nothing was under way."
                raise Failed(message, Exit.INTERRUPTED if code is Exit.DONE else code)


def _changed(
    changes: Iterator[set[str]], files: set[str], find: Callable[[], Iterable[object]]
) -> bool:
    """Wait until something has changed that a run would see; False when it is to end."""
    changed: set[str] = set()
    first = 0.0
    for found in changes:
        if found:
            first = first if changed else time.monotonic()
            changed |= found
            if time.monotonic() - first < _LONGEST_WAIT:
                continue
        if changed:
            now = _files(find())
            if now != files or changed & now:
                return True
            changed.clear()
    return False


def _changes(folder: str, stop: threading.Event) -> Iterator[set[str]]:
    """Yield the paths that changed, and an empty set when nothing did for a while."""
    from watchfiles import watch

    try:
        for found in watch(
            Path(folder).resolve(),
            watch_filter=None,
            rust_timeout=int(_QUIET * 1000),
            yield_on_timeout=True,
            stop_event=stop,
            ignore_permission_denied=True,
        ):
            yield {path for _, path in found}
    except (OSError, RuntimeError) as error:  # for example no inotify watches are left
        raise Failed(f"{folder} cannot be watched: {error}.") from None


def _files(items: Iterable[object]) -> set[str]:
    return {item.path for item in items if isinstance(item, File)}
