"""Runs that follow a folder: one now, and another whenever something below it changes."""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from knowledge_bot._extras import require
from knowledge_bot.errors import ConfigurationError, KnowledgeBotError
from knowledge_bot.ingest._items import File
from knowledge_bot.ingest._listings import version_of_file
from knowledge_bot.ingest._report import Report

# Seconds without a change before a run begins, so that no half of a file is sent while it is being
# written; and the longest wait for that.
_QUIET = 0.5
_LONGEST_WAIT = 30.0

# Seconds between two looks at every file, for what nobody announced; and where it is known that
# what another machine changes is not announced.
_LOOK, _POLL = 300.0, 2.0
_SHARE = 10  # pauses are so many times as long as looks

# The mounts, and the file systems that announce each change. Others may be on another machine.
_MOUNTS = "/proc/self/mountinfo"
_ANNOUNCING = re.compile(
    r"bcachefs|btrfs|erofs|exfat|ext[234]|f2fs|hfsplus|iso9660|jfs|msdos|ntfs3|ramfs|reiserfs"
    r"|squashfs|tmpfs|ubifs|vfat|xfs|zfs"
)

# Seconds until another run when the last one left something that may go better by itself, and
# between looks at what the service holds.
_AGAIN = 10.0

Find = Callable[[], Any]
"""Returns the items below the folder as they are now, such as `partial(Folder, folder)`."""


def watch_folder(
    folder: str | os.PathLike[str],
    find: Find,
    run: Callable[[Any], Report],
    *,
    stop: threading.Event,
    on_away: Callable[[], object] | None = None,
    on_polled: Callable[[str], object] | None = None,
    differs: Callable[[], bool] = lambda: False,
) -> None:
    """Run now, and again after each change below a folder, until it is told to end.

    A change of something that `find` does not yield, such as the ledger, leads to no run. While the
    folder is away it is waited for; another one in its place is ingested as soon as it is there.
    What a run leaves for the next one, such as a source that is not ready yet or what is removed
    when it is missed twice, leads to another run without a change, ten seconds later. Every five
    minutes all files are looked at; where a file system may be on another machine, as with NFS, SMB
    or FUSE, that does not announce its changes, every two seconds.

        stop = threading.Event()
        find = partial(Folder, "handbook")
        watch_folder("handbook", find, partial(ingest, client, collections="col_1"), stop=stop)

    Args:
        folder: what is watched, with all that is below it.
        find: finds the items; called before each run and after each change.
        run: ingests what `find` found.
        stop: ends it when set, once `run` returns; a run ends early by an event of its own.
        on_away: called whenever a run finds no folder.
        on_polled: called with the kind of the file system where changes are not announced.
        differs: asked every ten seconds whether the service does not hold any more what the last
            run left there; then there is another run.

    Returns:
        When `stop` is set, or after a run that stopped for what only a person can change.

    Raises:
        KnowledgeBotError: the folder cannot be watched, for example since no watches are left.
        ConfigurationError: what `find` raised while the folder was there.
        ModuleNotFoundError: the extra `cli` is not installed.
    """
    require("Watching a folder", "cli", "watchfiles")
    name, gone, told = os.fspath(folder), 0, ""
    changes = _changes(name, stop)
    next(changes, None)  # what changes from here on is noted, also while a run is under way
    while not stop.is_set():
        files: dict[str, str] = {}
        again = False
        try:
            files = _files(find())
            report = run(find())
        except ConfigurationError:
            if _place(name) is not None:
                raise
            if on_away is not None:
                on_away()
        else:
            if report.stopped is not None and not report.stopped.may_pass:
                return
            # What is gone and stays as it was is there to stay.
            left = report.unready + report.undelivered > 0 or report.gone not in (0, gone)
            again, gone = left or report.stopped is not None, report.gone
        if (kind := _unannounced(name)) and kind != told and on_polled is not None:
            on_polled(kind)
        told, every = kind, _POLL if kind else _LOOK
        asked = (lambda: True) if again else differs
        if not _changed(changes, name, files, find, every=every, again=asked):
            return


def _changed(
    changes: Iterator[set[str]],
    folder: str,
    files: dict[str, str],
    find: Find,
    *,
    every: float,
    again: Callable[[], bool],
) -> bool:
    """Wait until something has changed that a run would see; False when it is to end.

    `every` is the pause between two looks, in seconds, or ten times what one takes, if that is
    longer. `again` is asked every ten seconds whether there is to be a run without a change.
    """
    changed: set[str] = set()
    looked = asked = first = time.monotonic()
    for found in changes:
        if found:
            first = first if changed else time.monotonic()
            changed |= found
            if folder not in found and time.monotonic() - first < _LONGEST_WAIT:
                continue
        if changed or time.monotonic() - looked > every:
            looked = time.monotonic()
            try:
                now = _files(find())
            except ConfigurationError:  # it is away; when it is back, that is a change
                continue
            if now != files or changed & {folder, *now}:
                return True
            changed.clear()
            every = max(every, _SHARE * (time.monotonic() - looked))
        if time.monotonic() - asked > _AGAIN:
            if again():
                return True
            asked = time.monotonic()
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
                raise KnowledgeBotError(f"{folder} cannot be watched: {error}") from None


def _place(folder: str) -> tuple[Path, int, int] | None:
    """Return where a folder is, and what is there; None for nothing."""
    try:
        path = Path(folder).resolve(strict=True)
        found = path.stat()
    except (OSError, RuntimeError):  # before Python 3.13 a circle of links is the latter
        return None
    return (path, found.st_dev, found.st_ino) if path.is_dir() else None


def _unannounced(name: str) -> str:
    """Return the kind of a file system here or below that announces no changes; empty for none."""
    try:
        mounts = Path(_MOUNTS).read_text(errors="surrogateescape").splitlines()
        folder = Path(name).resolve()
        device = folder.stat().st_dev
    except OSError:  # not on Linux
        return ""
    own = f"{os.major(device)}:{os.minor(device)}"
    for each in mounts:
        mount, _, what = each.partition(" - ")
        _, _, number, _, place, *_ = mount.split(" ")
        kind = what.partition(" ")[0]
        if not _ANNOUNCING.fullmatch(kind) and (
            number == own or _unescaped(place).is_relative_to(folder)
        ):
            return kind
    return ""


def _unescaped(place: str) -> Path:
    return Path(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), place))


def _files(found: Any) -> dict[str, str]:
    items = found.items() if hasattr(found, "items") else found
    paths = [item.path for item in items if isinstance(item, File)]
    return {path: version_of_file(path) for path in paths}
