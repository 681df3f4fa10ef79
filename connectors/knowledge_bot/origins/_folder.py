"""Files of a folder."""

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from operator import attrgetter
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from knowledge_bot.errors import ConfigurationError
from knowledge_bot.ingest._listings import (
    ListedFile,
    Listing,
    Skipped,
    version_of_file,
    version_of_stat,
)
from knowledge_bot.origins._origin import (
    Memory,
    NoMemory,
    Origin,
    check_flag,
    is_template,
    patterns_of,
    with_patterns,
)
from knowledge_bot.origins._patterns import HIDDEN, globbing, is_hidden, matching

if TYPE_CHECKING:
    from knowledge_bot.ingest._items import File

# How many files a listing has at most.
_LISTED = 500

IGNORE_FILE = ".kbotignore"
"""The file in a folder that says what to leave out, written like a `.gitignore`."""

# What tells the data folder of a service, which holds keys: the lock is there before the first key.
_OF_A_SERVICE = frozenset(("in-use.sqlite3", "knowledge.sqlite3"))
_DATA_FOLDER = "the data folder of a service, which holds its keys, is never sent"

_NOT_MOUNTED = "it was another file system before, and is not now: is it mounted?"

# What says that a link leads nowhere; any other error says nothing of what is there.
_NOTHING = (errno.ENOENT, errno.ENOTDIR)
# What says of a path that a person gave that it can be no folder.
_NO_FOLDER = (*_NOTHING, errno.ELOOP, errno.ENAMETOOLONG)

# The most bytes of a note, which says which folders are mounted.
_LONGEST_NOTE = 4096


@dataclass(frozen=True, repr=False)
class Folder(Origin):
    """The files below a folder.

    They come in the order of their paths. A file is named by its path below the folder, which is
    its key. Links to folders are not followed; a link to a file is, if the file is below the folder
    and does not come itself. What a `.kbotignore` in the folder names is left out, and the data
    folder of an embedded service always. What is hidden, leaves the folder, is not a file, has a
    path that is not UTF-8, is a service's data folder, or is a folder that cannot be read, or was
    another file system in the last run and is not now, is a `Skipped`.

    Attributes:
        path: where to look.
        name: stays the same wherever the folder is mounted, such as `handbook`; by default the
            path, with the patterns of `include`.
        include: which files, one pattern or several. A pattern without a slash matches the name,
            as in `*.md`; one with a slash the path below the folder, where `**/` is any number of
            folders.
        exclude: what to leave out, written like a `.gitignore`: `*.tmp`, `drafts/`. A `Path` is
            that one file, wherever it is: a ledger, or what the process itself writes.
        hidden: whether to take names that begin with a dot, or with `~$` as Office's lock files.
        marker: the name of a file that must be in the folder, such as `.kbot-origin`. Without it
            the folder is not the one that is meant, such as a disk that is not mounted: then
            nothing is taken, and nothing is gone.

    Raises:
        ConfigurationError: an argument cannot be used; from `items` and `listings`, that there is
            no such folder.
    """

    path: str | os.PathLike[str]
    _: KW_ONLY
    include: str | Iterable[str] = "*"
    exclude: str | Iterable[str | Path] = ()
    hidden: bool = False
    marker: str | None = None

    template_fields: ClassVar[tuple[str, ...]] = ("path", "name", "include", "exclude", "marker")

    def _check(self) -> None:
        if not isinstance(self.path, str | os.PathLike) and not is_template(self.path):
            raise ConfigurationError.expected("path", "a path", self.path)
        self._set(
            path=os.fspath(self.path) if isinstance(self.path, os.PathLike) else self.path,
            include=patterns_of("include", self.include),
            exclude=patterns_of("exclude", self.exclude, Path),
        )
        check_flag("hidden", self.hidden)
        if not (self.marker is None or is_template(self.marker) or _is_name(self.marker)):
            raise ConfigurationError.of(
                "marker", f"expected the name of a file, not {self.marker!r}"
            )
        _matching_any(self.include)
        matching(each for each in self.exclude if isinstance(each, str))

    def _default_name(self) -> str:
        patterns = () if self.include == ("*",) else map(str, self.include)
        return with_patterns(os.path.abspath(str(self.path)), patterns)  # noqa: PTH100 - no IO

    def items(self, memory: Memory | None = None) -> "Iterator[File | Skipped]":
        """Yield a `File` for each file, and a `Skipped` for what is left out."""
        from knowledge_bot.ingest._items import File

        for listing in self.listings(memory):
            for item in map(listing.item, range(len(listing.keys))):
                if isinstance(item, Skipped):
                    yield item
                else:
                    yield File(path=item.path, name=item.name, key=item.key)

    def listings(self, memory: Memory | None = None) -> Iterator[Listing]:
        """Yield the same as listings, a few hundred files each.

        To make an item of each file would take longer than everything else about an unchanged one.
        """
        walk = self._walk()
        self._set(_last=walk)
        yield from walk.listings(memory or NoMemory())

    def gone_reason(self, key: str) -> str:
        """Return why the file with a key did not come."""
        return self._latest.gone_reason(key)

    def doubts(self, key: str) -> bool:
        """Return whether a missing file may be on a disk that is not mounted.

        A folder that held it is still there, but empty, or was another file system before.
        """
        return self._latest.doubts(key)

    @property
    def _latest(self) -> "_Walk":
        return getattr(self, "_last", None) or self._walk()

    def _walk(self) -> "_Walk":
        root = os.path.realpath(self.path)
        try:
            is_folder = S_ISDIR(os.stat(root).st_mode)  # noqa: PTH116 - a text, as elsewhere here
        except OSError as error:
            is_folder = error.errno not in _NO_FOLDER  # what it is, nobody knows
        if not is_folder:
            raise ConfigurationError.of("path", f"{str(self.path)!r} is not a folder")
        ignored, problem = _ignored_lines(Path(root))
        ignores = matching(_as_patterns(self.exclude, Path(root)), lines=ignored)
        matches = _matching_any(self.include)
        return _Walk(root, matches, ignores, self.hidden, marker=self.marker, problem=problem)


def _is_name(marker: object) -> bool:
    return isinstance(marker, str) and bool(marker) and "/" not in marker


def _matching_any(include: Iterable[str]) -> Callable[[str], object] | None:
    several = [each for each in include if not is_template(each)]
    return None if several == ["*"] else globbing(several, "include")


def _as_patterns(exclude: Iterable[str | Path], root: Path) -> Iterator[str]:
    """Yield what is given, with each `Path` as the pattern of the file it is below the folder."""
    for one in exclude:
        if not isinstance(one, Path):
            yield one
        elif (file := one.resolve()).is_relative_to(root):
            path = file.relative_to(root).as_posix()
            yield "/" + re.sub(r"([\\*?\[\] ])", r"\\\1", path)


class _Found(NamedTuple):
    """What is found, in order.

    Attributes:
        several: paths of files below the root, and what is more, or less, than a plain file.
        versions: of each; empty for what has none.
        folder: the folder that comes next; empty without one.
    """

    several: "list[str | ListedFile | Skipped]"
    versions: list[str]
    folder: str = ""

    def add(self, each: "str | ListedFile | Skipped", version: str = "") -> None:
        self.several.append(each)
        self.versions.append(version)


@contextmanager
def _opened(path: str) -> Iterator[str | int]:
    """Open a folder: what is in it is found sooner from there than by a whole path for each."""
    if os.scandir not in os.supports_fd:
        yield path
        return
    place = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield place
    finally:
        os.close(place)


class _Walk:
    """One look at a folder: what is below it, and what is not."""

    def __init__(
        self,
        root: str,
        matches: Callable[[str], object] | None,
        ignores: Callable[[str], bool] | None,
        hidden: bool,
        *,
        marker: str | None,
        problem: str,
    ) -> None:
        self.root, self._matches, self._ignores = root, matches, ignores
        self._hidden, self._marker, self._problem = hidden, marker, problem
        self._lost: list[str] = []  # what was another file system before, and is not empty

    def gone_reason(self, key: str) -> str:
        path = f"{self.root}/{key}"
        there = os.path.lexists(path) and not os.path.isdir(path)  # noqa: PTH112 - as above
        return "excluded" if there and not self._is_of_a_service(path) else "missing"

    def doubts(self, key: str) -> bool:
        if any(key.startswith(below) for below in self._lost):
            return True
        folder = os.path.dirname(f"{self.root}/{key}")  # noqa: PTH120 - a text, as elsewhere here
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

    def listings(self, memory: Memory) -> Iterator[Listing]:
        if self._problem:
            yield self._listing([_unseen(self.root, self._problem)], [""])
        elif self._marker is None or os.path.isfile(f"{self.root}/{self._marker}"):  # noqa: PTH113 - as above
            yield from self._walked(memory)
        else:
            reason = (
                f"{self._marker} is not in it, so it is another folder, or not mounted; make that "
                "file once, where the folder is right"
            )
            yield self._listing([_unseen(self.root, reason)], [""])

    def _walked(self, memory: Memory) -> Iterator[Listing]:
        whole, devices = _Found([], []), dict[str, int]()
        # One loop for all folders, since nested ones would pass each file up level by level.
        waiting = [iter(self._looked_into("", devices))]
        while waiting:
            if (part := next(waiting[-1], None)) is None:
                waiting.pop()
                continue
            whole.several.extend(part.several)
            whole.versions.extend(part.versions)
            while len(whole.several) > _LISTED:
                yield self._listing(whole.several[:_LISTED], whole.versions[:_LISTED])
                del whole.several[:_LISTED], whole.versions[:_LISTED]
            if part.folder:
                waiting.append(iter(self._looked_into(part.folder, devices)))
        for skipped in self._no_longer_mounted(devices, memory):
            whole.add(skipped)
        yield self._listing(whole.several, whole.versions)

    def _looked_into(self, below: str, devices: dict[str, int]) -> "list[_Found]":
        """Return what is in a folder: up to each folder in it, and after the last one."""
        path = f"{self.root}/{below}" if below else self.root
        try:
            with _opened(path) as place, os.scandir(place) as entries:
                devices[below] = os.stat(place).st_dev  # noqa: PTH116 - a `Path` costs more
                ordered = sorted(entries, key=attrgetter("name"))
                if _OF_A_SERVICE.isdisjoint(map(attrgetter("name"), ordered)):
                    return self._looked_at(ordered, below)
                return [_Found([_skipped(below or self.root, _DATA_FOLDER)], [""])]
        except OSError as error:
            reason = f"the folder cannot be read: {error.strerror}"
            return [_Found([_unseen(below or self.root, reason)], [""])]

    def _looked_at(  # noqa: C901 - one branch for each kind of entry
        self, entries: "list[os.DirEntry[str]]", below: str
    ) -> "list[_Found]":
        found, parts = _Found([], []), list[_Found]()
        takes, ignores, marker, hidden = self._takes, self._ignores, self._marker, self._hidden
        for entry in entries:
            name = entry.name
            relative = below + name
            if name.startswith(HIDDEN) and not hidden:
                if name != IGNORE_FILE and relative != marker:
                    found.add(_skipped(relative, "it is hidden"))
                continue
            try:
                if entry.is_dir(follow_symlinks=False):  # some file systems are asked for it
                    if ignores is None or not ignores(f"{relative}/"):
                        parts.append(found._replace(folder=f"{relative}/"))
                        found = _Found([], [])
                    continue
                if (takes is not None and not takes(relative)) or relative == marker:
                    continue
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # it was removed a moment ago
                continue
            except OSError as error:
                found.add(_unseen(relative, f"it cannot be looked at: {error.strerror}"))
                continue
            if S_ISREG(status.st_mode):  # most are: no call that can be saved
                found.several.append(relative)
                found.versions.append(version_of_stat(status))
            elif S_ISLNK(status.st_mode):
                link = f"{self.root}/{relative}"
                found.add(self._linked(link, relative), version_of_file(link))
            else:
                found.add(_skipped(relative, "it is not a regular file"))
        return [*parts, found]

    def _no_longer_mounted(self, devices: dict[str, int], memory: Memory) -> list[Skipped]:
        """Return the folders that were mounted before and are not, and note those that are.

        Where one is empty, its files may come back, and nothing is noted.
        """
        above = Path(self.root).parent.stat().st_dev
        mounted = {
            below or "."
            for below, device in devices.items()
            if device != (devices[_above(below)] if below else above)
        }
        before = set(_names(memory.note))
        lost = sorted(each for each in before - mounted if each == "." or each in devices)
        empty = {each for each in lost if _is_empty(f"{self.root}/{each}")}
        self._lost = ["" if each == "." else each for each in lost if each not in empty]
        if not empty:
            memory.note = _note_of(mounted)
        places = {each: self.root if each == "." else each for each in lost}
        return [_unseen(places[each], _NOT_MOUNTED, partial=each in empty) for each in lost]

    def _listing(self, found: list[str | ListedFile | Skipped], versions: list[str]) -> Listing:
        keys = [each if type(each) is str else getattr(each, "key", "") for each in found]

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
        target = os.path.realpath(path)
        below = target[len(self.root) + 1 :]
        try:
            mode = os.stat(target).st_mode  # noqa: PTH116 - a text, as elsewhere here
        except OSError as error:
            if error.errno not in _NOTHING:
                return _unseen(relative, f"the link cannot be followed: {error.strerror}")
            mode = 0
        if not Path(target).is_relative_to(self.root):
            reason = f"it is a link out of the folder, to {_shown(target)}"
        elif S_ISDIR(mode) or not mode:
            reason = f"it is a link to {'a folder' if mode else 'nothing'}, {_shown(target)}"
        elif self._is_of_a_service(target):
            reason = _DATA_FOLDER
        elif self._is_walked(below):  # under its own name, which stays when the link goes
            reason = f"it is a link to {_shown(below)}, which comes itself"
        else:
            return self._file(target, below, relative)
        return _skipped(relative, reason)

    def _is_walked(self, below: str) -> bool:
        """Return whether a file below the root comes without a link."""
        takes, ignores = self._takes, self._ignores
        folders = [below[: end + 1] for end, letter in enumerate(below) if letter == "/"]
        return not (
            (takes is not None and not takes(below))
            or (ignores is not None and any(map(ignores, folders)))
            or (not self._hidden and is_hidden(below))
            or below == self._marker
        )

    def _file(self, path: str, below: str, name: str) -> ListedFile | Skipped:
        try:
            path.encode()
        except UnicodeEncodeError:  # on Linux a name is bytes
            reason = f"its path is not UTF-8 text, {_shown(path)}; rename it"
            return Skipped(_shown(name), reason, invalid=True)
        return ListedFile(path, name, below)


def _is_empty(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return True  # nothing that can be seen


def _above(below: str) -> str:
    return below[: below.rstrip("/").rfind("/") + 1]


def _ignored_lines(root: Path) -> tuple[list[str], str]:
    """Return the lines that say what is left out, and why they are not known, if they are not."""
    file = root / IGNORE_FILE
    try:
        return re.split(r"\r?\n", file.read_text(encoding="utf-8-sig")), ""
    except FileNotFoundError:
        return [], ""
    except OSError as error:
        return (
            [],
            f"{file} cannot be read, so that it is not known what to leave out: {error.strerror}",
        )
    except ValueError as error:
        raise ConfigurationError(f"{file} cannot be read: {error}") from None


def _names(note: str | None) -> list[str]:
    return json.loads(note) if note else []


def _note_of(mounted: set[str]) -> str | None:
    """Return what is noted of the folders that are mounted, as many as fit."""
    names = sorted(each for each in mounted if _shown(each) == each)
    while len(note := json.dumps(names, ensure_ascii=False).encode()) > _LONGEST_NOTE:
        names.pop()
    return note.decode() if names else None


def _unseen(place: str, reason: str, *, partial: bool = True) -> Skipped:
    return Skipped(_shown(place), reason, invalid=True, partial=partial)


def _skipped(relative: str, reason: str) -> Skipped:
    return Skipped(_shown(relative), reason)


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
