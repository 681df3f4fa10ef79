"""`kbot ingest folder --watch`: again, whenever something below the folder changes."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from knowledge_bot import ConfigurationError
from knowledge_bot._signals import stop_on_signals
from knowledge_bot.cli.exits import Exit, Failed
from knowledge_bot.cli.run import Session, exit_of
from knowledge_bot.cli.terminal import write_stderr
from knowledge_bot.ingest import File, Stop

# Seconds without a change before a run begins, so that no half of a file is sent while it is being
# written; and the longest wait for that.
_QUIET = 0.5
_LONGEST_WAIT = 30.0

# Seconds until another run when the last one left something that may go better by itself.
_AGAIN = 10.0

# After these, another run may go better.
_PASSING = (None, Stop.LIMIT, Stop.UNAVAILABLE)

Find = Callable[[], Iterable[object]]


def watch_and_ingest(session: Session, folder: str, find: Find) -> None:
    """Ingest what is found below the folder, now and after each change, until a signal.

    A change of something that is not ingested, such as the ledger, leads to no run. While the
    folder is away it is waited for; another one in its place is ingested as soon as it is there.
    What a run leaves for the next one, such as a source that is not ready yet or what is removed
    when it is missed twice, leads to another run without a change.

    Raises:
        Failed: always, since nothing but a signal or an error ends it; the exit code is that of the
            last run, or `Exit.INTERRUPTED`.
    """
    with stop_on_signals(session.stop.set):
        changes = _changes(folder, session.stop)
        next(changes, None)  # what changes from here on is noted, also while a run is under way
        code, left = Exit.DONE, False
        while True:
            files: set[str] = set()
            try:
                files = _files(find())
                report = session.run(find())
            except ConfigurationError:
                if _place(folder) is not None:
                    raise
                left = False
                session.say(f"{folder} is not there: waiting until it is back; Ctrl-C ends it.")
            else:
                if session.stop.is_set() or report.stopped not in _PASSING:
                    session.end(report)
                code = exit_of(report)
                if code is not Exit.DONE:
                    write_stderr(f"Error: {session.conclusion(report)}")
                left = session.leaves_something(report)
                session.say(f"Watching {folder}; Ctrl-C ends it.")
            if not _changed(changes, folder, files, find, again=left):
                message = "Interrupted while nothing was under way."
                raise Failed(message, Exit.INTERRUPTED if code is Exit.DONE else code)


def _changed(
    changes: Iterator[set[str]], folder: str, files: set[str], find: Find, *, again: bool
) -> bool:
    """Wait until something has changed that a run would see; False when it is to end.

    With `again` it waits for ten seconds at most.
    """
    changed: set[str] = set()
    began = first = time.monotonic()
    for found in changes:
        if found:
            first = first if changed else time.monotonic()
            changed |= found
            if folder not in found and time.monotonic() - first < _LONGEST_WAIT:
                continue
        if changed:
            try:
                now = _files(find())
            except ConfigurationError:  # it is away; when it is back, that is a change
                continue
            if now != files or changed & {folder, *now}:
                return True
            changed.clear()
        if again and time.monotonic() - began > _AGAIN:
            return True
    return False


def _changes(folder: str, stop: threading.Event) -> Iterator[set[str]]:
    """Yield the paths that changed, and an empty set when nothing did for a while.

    Where it is not known what changed, that is the folder alone: first of all, once it is back,
    after another was put in its place, as when a disk is mounted or a link leads elsewhere, and
    after a name that is not UTF-8.
    """
    from watchfiles import watch

    while not stop.is_set():
        place = _place(folder)
        if place is None:
            stop.wait(_QUIET)
            continue
        unseen = True  # what changed before it is watched
        try:
            for found in watch(
                place[0],
                watch_filter=None,
                rust_timeout=int(_QUIET * 1000),
                yield_on_timeout=True,
                stop_event=stop,
                ignore_permission_denied=True,
            ):
                # Told now and not before: what a run does not see any more is noted from here on.
                yield {path for _, path in found} | ({folder} if unseen else set())
                unseen = False
                if _place(folder) != place:
                    break
        except (OSError, RuntimeError) as error:
            # Anything else is, for example, that no inotify watches are left.
            if _place(folder) == place and not str(error).startswith("Unable to decode path"):
                raise Failed(f"{folder} cannot be watched: {error}.") from None


def _place(folder: str) -> tuple[Path, int, int] | None:
    """Return where a folder is, and what is there; None for nothing."""
    try:
        path = Path(folder).resolve(strict=True)
        found = path.stat()
    except OSError:
        return None
    return (path, found.st_dev, found.st_ino) if path.is_dir() else None


def _files(items: Iterable[object]) -> set[str]:
    return {item.path for item in items if isinstance(item, File)}
