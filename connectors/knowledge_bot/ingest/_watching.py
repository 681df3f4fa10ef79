"""Runs that follow a folder: one now, and another whenever something below it changes."""

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._report import Report

if TYPE_CHECKING:
    from knowledge_bot.origins import Folder

# Seconds between two looks at every file; a pause is also so many times as long as a look. What is
# being written is sent once two looks find the same, or after the longest wait for that.
_LOOK = 1.0
_SHARE = 20
_LONGEST_WAIT = 30.0

# Seconds until another run when the last one left something that may go better by itself, and
# between looks at what the service holds.
_AGAIN = 10.0

Find = Callable[[], "Folder"]
"""Returns the folder, such as `partial(Folder, folder)`."""


def watch_folder(
    folder: str | os.PathLike[str],
    find: Find,
    run: Callable[[Any], Report],
    *,
    stop: threading.Event,
    on_away: Callable[[], object] | None = None,
    differs: Callable[[], bool] = lambda: False,
) -> None:
    """Run now, and again after each change below a folder, until it is told to end.

    All files are looked at every second, or as seldom as that takes a twentieth of the time: on any
    file system, whoever changes them. A change of something that `find` does not yield, such as the
    ledger, leads to no run. While the folder is away it is waited for; another one in its place is
    ingested as soon as it is there. What a run leaves for the next one, such as a source that is
    not ready yet or what is removed when it is missed twice, leads to another run without a change,
    ten seconds later.

        stop = threading.Event()
        find = partial(Folder, "handbook")
        watch_folder("handbook", find, partial(ingest, client, collections="col_1"), stop=stop)

    Args:
        folder: what is watched, with all that is below it.
        find: returns the folder; called before each run and for each look.
        run: ingests it.
        stop: ends it when set, once `run` returns; a run ends early by an event of its own.
        on_away: called whenever a run finds no folder.
        differs: asked every ten seconds whether the service does not hold any more what the last
            run left there; then there is another run.

    Returns:
        When `stop` is set, or after a run that stopped for what only a person can change.

    Raises:
        ConfigurationError: what `find` raised while the folder was there.
    """
    gone = 0
    files: dict[str, str] | None
    while not stop.is_set():
        again, files = False, None  # it is away
        try:
            files = _files(find())
            report = run(find())
        except ConfigurationError:
            if os.path.isdir(folder):  # noqa: PTH112 - it never raises
                raise
            if on_away is not None:
                on_away()
        else:
            if report.stopped is not None and not report.stopped.may_pass:
                return
            # What is gone and stays as it was is there to stay.
            left = report.unready + report.undelivered > 0 or report.gone not in (0, gone)
            again, gone = left or report.stopped is not None, report.gone
        if not _changed(files, find, stop, again=(lambda: True) if again else differs):
            return


def _changed(
    files: dict[str, str] | None, find: Find, stop: threading.Event, *, again: Callable[[], bool]
) -> bool:
    """Wait until there are other files than before; False when it is to end.

    Of a folder that is away they are None. `again` is asked every ten seconds whether there is to
    be a run without a change.
    """
    seen, pause = files, _LOOK
    asked = changed = time.monotonic()
    while not stop.wait(pause):
        began = time.monotonic()
        try:
            now = _files(find())
        except ConfigurationError:
            if files is not None:
                return True
            continue
        pause = max(_LOOK, _SHARE * (time.monotonic() - began))
        if seen == files:
            changed = began
        if now != files and (now == seen or began - changed > _LONGEST_WAIT):
            return True
        seen = now
        if time.monotonic() - asked > _AGAIN:
            if again():
                return True
            asked = time.monotonic()
    return False


def _files(folder: "Folder") -> dict[str, str]:
    """Return what stands for the content of each file, by its key."""
    return {
        key: version
        for listing in folder.listings()
        for key, version in zip(listing.keys, listing.versions, strict=True)
        if key
    }
