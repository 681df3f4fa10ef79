"""Files of a folder."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import TYPE_CHECKING, Any

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._listings import (
    ListedFile,
    Listing,
    Skipped,
    version_of_file,
    version_of_stat,
)

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import File
    from knowledge_bot.ingest.sources._found import Memory

# How many files a listing has at most.
_LISTED = 500

HIDDEN = (".", "~$")
"""What names begin with that are left out: hidden files, and the locks of Office's programs."""

IGNORE_FILE = ".kbotignore"
"""The file in a folder that says what to leave out, written like a `.gitignore`."""

# What tells the data folder of a service, which holds keys: the lock is there before the first key.
_OF_A_SERVICE = frozenset(("in-use.sqlite3", "knowledge.sqlite3"))
_DATA_FOLDER = "the data folder of a service, which holds its keys, is never sent"


def from_folder(
    folder: str | os.PathLike[str],
    patterns: str | Iterable[str] = "*",
    *,
    exclude: str | Iterable[str | Path] = (),
    hidden: bool = False,
    origin: str | None = None,
    marker: str | None = None,
) -> "Folder":
    """Find the files below a folder.

    They come in the order of their paths. A file is named by its path below the folder; its key is
    that and the folder's origin. Links to folders are not followed; a link to a file is, if the
    file is below the folder and does not come itself. What a `.kbotignore` in the folder names is
    left out, and the data folder of an embedded service always.

    Args:
        folder: where to look.
        patterns: which files, one pattern or several. A pattern without a slash matches the name,
            as in `*.md`; one with a slash the path below the folder, where `**/` is any number of
            folders.
        exclude: what to leave out, written like a `.gitignore`: `*.tmp`, `drafts/`. A `Path` is
            that one file, wherever it is: a ledger, or what the process itself writes.
        hidden: whether to take names that begin with a dot, or with `~$` as Office's lock files.
        origin: a name for the folder that stays the same wherever it is mounted, such as
            `handbook`; by default the folder's resolved path.
        marker: the name of a file that must be in the folder, such as `.kbot-origin`. Without it
            the folder is not the one that is meant, such as a disk that is not mounted: then
            nothing is taken, and nothing is gone.

    Returns:
        An iterable of a `File` for each file, and a `Skipped` for what is hidden, leaves the
        folder, is not a file, has a path that is not UTF-8, is a service's data folder, or is a
        folder that cannot be read, or was another file system in the last run and is not now.

    Raises:
        ConfigurationError: there is no such folder, or a pattern is not valid.
    """
    if not isinstance(folder, str | os.PathLike):
        raise ConfigurationError.expected("folder", "a path", folder)
    root = Path(folder).resolve()
    if not os.path.isdir(root):  # noqa: PTH112 - before Python 3.14 a Path raises here
        raise ConfigurationError.of("folder", f"{os.fspath(folder)!r} is not a folder")
    several, matches = ["*"], None
    if patterns != "*":
        from knowledge_bot.ingest.sources._found import patterns_of

        several = patterns_of("patterns", patterns)
    try:
        if several != ["*"]:
            matches = re.compile("|".join(f"(?:{expression(each)})" for each in several)).fullmatch
    except re.error as error:
        raise ConfigurationError.of(
            "patterns", f"{', '.join(several)} cannot be used: {error.msg}"
        ) from None
    name = str(root)
    if matches is not None:  # the same folder with other patterns is another origin
        name = f"{name} [{' '.join(sorted(several))}]"
    left_out = _ignored_lines(root)
    if exclude:
        from knowledge_bot.ingest.sources._found import patterns_of

        left_out += patterns_of("exclude", _as_patterns(exclude, root))
    excluding = matching(left_out)
    if not isinstance(marker, str | None):
        raise ConfigurationError.expected("marker", "the name of a file", marker)
    if marker is not None and (not marker or "/" in marker):
        raise ConfigurationError.of("marker", f"expected the name of a file, not {marker!r}")
    found = Folder(str(root), str(root), name, matches, excluding, hidden, marker)
    return found if origin is None else found.named(origin)


def _as_patterns(exclude: Any, root: Path) -> Any:
    """Return what is given, with each `Path` as the pattern of the file it is below the folder."""
    if isinstance(exclude, str) or not isinstance(exclude, Iterable):
        return exclude
    found = []
    for one in exclude:
        if not isinstance(one, Path):
            found.append(one)
        elif (file := one.resolve()).is_relative_to(root):
            path = file.relative_to(root).as_posix()
            found.append("/" + re.sub(r"([\\*?\[\] ])", r"\\\1", path))
    return found


@dataclass(frozen=True)
class Folder:
    """The files below a folder; `from_folder` makes it.

    Attributes:
        root: the folder's resolved path.
        prefix: what the keys of its files begin with.
        origin: the folder's name in the ledger.
    """

    root: str
    prefix: str
    origin: str
    _matches: Callable[[str], object] | None
    _ignores: Callable[[str], bool] | None
    _hidden: bool
    _marker: str | None = None
    _memory: "Memory | None" = None

    def named(self, origin: str) -> "Folder":
        """Return the same folder under a name that stays the same wherever it is mounted."""
        return replace(self, prefix=origin, origin=origin)

    def remembering(self, memory: "Memory") -> "Folder":
        """Return the same folder, its mounted folders compared with what a memory holds of them."""
        return replace(self, _memory=memory)

    def gone_reason(self, key: str) -> str:
        """Return why the file with a key did not come."""
        path = self._path(key)
        there = os.path.lexists(path) and not os.path.isdir(path)  # noqa: PTH112 - as above
        return "excluded" if there and not self._is_of_a_service(path) else "missing"

    def doubts(self, key: str) -> bool:
        """Return whether a missing file may be on a disk that is not mounted.

        A folder that held it is still there, but empty.
        """
        folder = os.path.dirname(self._path(key))  # noqa: PTH120 - a text, as elsewhere here
        while not os.path.isdir(folder) and len(folder) > len(self.root):  # noqa: PTH112 - as above
            folder = os.path.dirname(folder)  # noqa: PTH120 - as above
        return len(folder) > len(self.root) and _is_empty(folder)

    def _is_of_a_service(self, path: str) -> bool:
        """Return whether a file is in a service's data folder."""
        while len(path) > len(self.root):
            path = path.rpartition("/")[0]
            if any(os.path.lexists(f"{path}/{name}") for name in _OF_A_SERVICE):
                return True
        return False

    def _path(self, key: str) -> str:
        return f"{self.root}/{key.removeprefix(f'{self.prefix}/')}"

    def __iter__(self) -> Iterator["File | Skipped"]:
        from knowledge_bot.ingest._items import File

        for listing in self.listings():
            for item in map(listing.item, range(len(listing.keys))):
                if isinstance(item, Skipped):
                    yield item
                else:
                    yield File(path=item.path, name=item.name, key=item.key)

    def listings(self) -> Iterator[Listing]:
        """Yield the same as listings, a few hundred files each.

        To make an item of each file would take longer than everything else about an unchanged one.
        """
        if self._marker is None or os.path.isfile(f"{self.root}/{self._marker}"):  # noqa: PTH113 - as above
            yield from self._walked()
        else:
            reason = f"{self._marker} is not in it, so it is another folder, or not mounted"
            lacking = Skipped(_shown(self.root), reason, invalid=True, partial=True)
            yield self._listing([lacking], [""])

    def _walked(self) -> Iterator[Listing]:  # noqa: C901, PLR0912 - one branch for each kind of entry
        found: list[str | ListedFile | Skipped] = []
        versions: list[str] = []
        devices: dict[str, int] = {}  # by folder

        def add(each: str | ListedFile | Skipped, version: str = "") -> None:
            found.append(each)
            versions.append(version)

        def listed(below: str) -> tuple[str, Iterator[os.DirEntry[str]]]:
            path = f"{self.root}/{below}" if below else self.root
            try:
                with os.scandir(path) as entries:
                    devices[below] = os.stat(path).st_dev  # noqa: PTH116 - a `Path` costs more
                    ordered = sorted(entries, key=attrgetter("name"))
                if _OF_A_SERVICE.isdisjoint(map(attrgetter("name"), ordered)):
                    return below, iter(ordered)
                add(_skipped(below or self.root, _DATA_FOLDER))
            except OSError as error:
                reason = f"the folder cannot be read: {error.strerror}"
                add(Skipped(_shown(below or self.root), reason, invalid=True, partial=True))
            return below, iter(())

        takes = self._takes
        # One loop for all folders, since nested ones would pass each file up level by level.
        waiting = [listed("")]
        while waiting:
            below, entries = waiting[-1]
            for entry in entries:
                if len(found) >= _LISTED:
                    yield self._listing(found, versions)
                    found, versions = [], []
                name = entry.name
                relative = below + name
                if name.startswith(HIDDEN) and not self._hidden:
                    if name != IGNORE_FILE and relative != self._marker:
                        add(_skipped(relative, "it is hidden"))
                elif entry.is_dir(follow_symlinks=False):
                    if self._ignores is None or not self._ignores(f"{relative}/"):
                        waiting.append(listed(f"{relative}/"))
                        break
                elif (takes is None or takes(relative)) and relative != self._marker:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:  # it was removed a moment ago
                        continue
                    if S_ISREG(status.st_mode):
                        found.append(relative)
                        versions.append(version_of_stat(status))
                    elif S_ISLNK(status.st_mode):
                        linked = self._linked(entry.path, relative)
                        add(linked, version_of_file(entry.path))
                    else:
                        add(_skipped(relative, "it is not a regular file"))
            else:
                waiting.pop()
        for skipped in self._no_longer_mounted(devices):
            add(skipped)
        yield self._listing(found, versions)

    def _no_longer_mounted(self, devices: dict[str, int]) -> list[Skipped]:
        """Return the folders that were mounted before and are not, and remember those that are.

        One that is empty is remembered until it is mounted again or removed.
        """
        if self._memory is None:
            return []
        above = os.stat(f"{self.root}/..").st_dev  # noqa: PTH116 - as above
        mounted = {
            below or "."
            for below, device in devices.items()
            if device != (devices[_above(below)] if below else above)
        }
        about = f"the file systems in {self.prefix}"
        known = os.fsdecode(self._memory.recall(about) or b"")
        before = set(filter(None, known.split("\0")))
        lost = {below for below in before - mounted if below == "." or below in devices}
        empty = {below for below in lost if _is_empty(f"{self.root}/{below}")}
        if (now := mounted | empty) != before:
            self._memory.remember(about, os.fsencode("\0".join(sorted(now))))
        reason = "it was another file system before, and is not now: is it mounted?"
        names = [_shown(self.root if below == "." else below) for below in sorted(lost)]
        return [Skipped(name, reason, invalid=True, partial=True) for name in names]

    def _listing(self, found: list[str | ListedFile | Skipped], versions: list[str]) -> Listing:
        prefix = f"{self.prefix}/"
        keys = [prefix + each if type(each) is str else getattr(each, "key", "") for each in found]

        def item(place: int) -> ListedFile | Skipped:
            each = found[place]
            # The path is resolved: the root is, and no link led here.
            return self._file(f"{self.root}/{each}", each, each) if isinstance(each, str) else each

        return Listing(keys, versions, item)

    @property
    def _takes(self) -> Callable[[str], bool] | None:
        """Whether a file is taken; None if all are."""
        matches, ignores = self._matches, self._ignores
        if matches is None and ignores is None:
            return None
        return lambda relative: (
            (matches is None or bool(matches(relative)))
            and not (ignores is not None and ignores(relative))
        )

    def _linked(self, path: str, relative: str) -> ListedFile | Skipped:
        target = Path(os.path.realpath(path))
        if not target.is_relative_to(self.root):
            return _skipped(relative, f"it is a link out of the folder, to {_shown(str(target))}")
        if os.path.isdir(target):  # noqa: PTH112 - before Python 3.14 a Path raises here
            return _skipped(relative, f"it is a link to a folder, {_shown(str(target))}")
        if not os.path.exists(target):  # noqa: PTH110 - as above
            return _skipped(relative, f"it is a link to nothing, {_shown(str(target))}")
        if self._is_of_a_service(str(target)):
            return _skipped(relative, _DATA_FOLDER)
        below = str(target)[len(self.root) + 1 :]
        if self._is_walked(below):  # under its own name, which stays when the link goes
            return _skipped(relative, f"it is a link to {_shown(below)}, which comes itself")
        return self._file(str(target), below, relative)

    def _is_walked(self, below: str) -> bool:
        """Return whether a file below the root comes without a link."""
        takes, ignores = self._takes, self._ignores
        folders = [below[: end + 1] for end, letter in enumerate(below) if letter == "/"]
        return not (
            (takes is not None and not takes(below))
            or (ignores is not None and any(map(ignores, folders)))
            or (not self._hidden and any(name.startswith(HIDDEN) for name in below.split("/")))
            or below == self._marker
        )

    def _file(self, path: str, below: str, name: str) -> ListedFile | Skipped:
        try:
            path.encode()
        except UnicodeEncodeError:  # on Linux a name is bytes
            reason = f"its path is not UTF-8 text, {_shown(path)}; rename it"
            return Skipped(_shown(name), reason, invalid=True)
        return ListedFile(path, name, f"{self.prefix}/{below}")


def _is_empty(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return True  # nothing that can be seen


def _above(below: str) -> str:
    return below[: below.rstrip("/").rfind("/") + 1]


def _ignored_lines(root: Path) -> list[str]:
    try:
        return (root / IGNORE_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{root / IGNORE_FILE} cannot be read: {error}") from None


def matching(patterns: list[str], option: str = "exclude") -> Callable[[str], bool] | None:
    """Return a function that says whether a path matches a pattern; None without patterns.

    Args:
        patterns: written like those of a `.gitignore`.
        option: the option's name, for the error.

    Raises:
        ConfigurationError: a pattern is not valid.
    """
    if not patterns:
        return None
    from pathspec import GitIgnoreSpec

    try:
        spec: Any = GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise ConfigurationError.of(option, str(error)) from None
    return lambda relative: bool(spec.match_file(relative))


def _skipped(relative: str, reason: str) -> Skipped:
    return Skipped(_shown(relative), reason)


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def expression(pattern: str) -> str:
    """Return a glob pattern as a regular expression for the path below the root.

    A pattern without a slash matches the name, at any depth.
    """
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\])", pattern.lstrip("/"))
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    expression = "".join(
        wild.get(part) or (_set(part) if part.startswith("[") else re.escape(part))
        for part in parts
    )
    return expression if "/" in pattern else f"(?:.*/)?{expression}"


def _set(part: str) -> str:
    if not part.endswith("]"):
        return re.escape(part)
    negated = part.startswith("[!")
    inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", part[2 if negated else 1 : -1])
    return f"[{'^/' if negated else ''}{inner}]"
